//! Interleaved timing: every round times all contenders in turn, so that disturbances of the
//! machine affect all alike.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::peers::PeerError;

/// Duration of a turn: long compared with the clock's resolution, short compared with the
/// kernel's time slice.
const TURN: Duration = Duration::from_millis(1);

/// A timed function: runs the given number of times and returns the microseconds per run.
pub type Contender<'a> = Box<dyn FnMut(u32) -> Result<f64, PeerError> + 'a>;

/// The time of a run over all rounds, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figure {
    /// Time in the best round, the least disturbed one.
    pub minimum: f64,
    /// Time in the median round.
    pub median: f64,
}

impl Figure {
    fn from_turns(mut turns: Vec<f64>) -> Self {
        turns.sort_by(f64::total_cmp);
        Self {
            minimum: turns[0],
            median: turns[turns.len() / 2],
        }
    }
}

/// Creates a contender from a function in this process.
pub fn contender<'a, T>(mut run: impl FnMut() -> T + 'a) -> Contender<'a> {
    Box::new(move |runs| {
        let start = Instant::now();
        (0..runs).for_each(|_| drop(black_box(run())));
        Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(runs))
    })
}

/// Times all contenders in turn for `rounds` > 0 rounds; the results have the same order.
pub fn take_turns(
    mut contenders: Vec<Contender<'_>>,
    rounds: u32,
) -> Result<Vec<Figure>, PeerError> {
    let mut runs = Vec::new();
    for contender in &mut contenders {
        // Warm the caches.
        contender(1)?;
        let microseconds = contender(1)?.max(0.01);
        runs.push((TURN.as_micros() as f64 / microseconds).max(1.0) as u32);
    }
    let mut turns = vec![Vec::new(); contenders.len()];
    for _ in 0..rounds {
        for ((contender, runs), turns) in contenders.iter_mut().zip(&runs).zip(&mut turns) {
            turns.push(contender(*runs)?);
        }
    }
    Ok(turns.into_iter().map(Figure::from_turns).collect())
}
