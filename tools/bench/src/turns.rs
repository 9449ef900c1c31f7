//! Who is timed when: all in turn, round after round, so that what disturbs the machine
//! disturbs all alike.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::peers::PeerError;

/// Long against the resolution of a clock, short against a time slice of the kernel.
const TURN: Duration = Duration::from_millis(1);

/// Runs itself so many times and returns the microseconds that a run took.
pub type Contender<'a> = Box<dyn FnMut(u32) -> Result<f64, PeerError> + 'a>;

/// What a contender took, in one unit of time.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figure {
    /// In its best round, which nothing disturbed.
    pub minimum: f64,
    /// In the median round.
    pub median: f64,
}

impl Figure {
    fn of(mut turns: Vec<f64>) -> Self {
        turns.sort_by(f64::total_cmp);
        Self {
            minimum: turns[0],
            median: turns[turns.len() / 2],
        }
    }
}

/// A contender of this process.
pub fn contender<'a, T>(mut run: impl FnMut() -> T + 'a) -> Contender<'a> {
    Box::new(move |runs| {
        let start = Instant::now();
        (0..runs).for_each(|_| drop(black_box(run())));
        Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(runs))
    })
}

/// Times all contenders in turn, `rounds` > 0 times; microseconds of each.
pub fn take_turns(
    mut contenders: Vec<Contender<'_>>,
    rounds: u32,
) -> Result<Vec<Figure>, PeerError> {
    let mut runs = Vec::new();
    for contender in &mut contenders {
        // The first run finds cold caches.
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
    Ok(turns.into_iter().map(Figure::of).collect())
}
