//! Background work of an idle board: a short burst on some cores every few seconds, or none.
//!
//! Derived from the idle AGX Orins in `PROVENANCE.md`: about every 5.5 s the CPU's rail draws
//! some 2 W more for 0.3 s, and that of the memory 0.4 W. The mean is that of
//! [`Activity::IDLE`]. The idle Orin NX and Orin Nano there have no such bursts. Assumed: boards that were
//! not recorded do as the AGX Orin, and the clocks stay low.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use wattgate_board_tables::Board;

use crate::power::Activity;
use crate::sampling::MOST_CHIPS;

/// Length of a burst of work.
const BURST: Duration = Duration::from_millis(300);

/// Mean interval between the starts of two bursts.
const INTERVAL: Duration = Duration::from_millis(5500);

/// Relative spread of the intervals.
const JITTER: f64 = 0.1;

/// The boards without bursts, by the start of their names.
const CALM: [&str; 2] = ["orin-nx", "orin-nano"];

/// The boards whose bursts show while a workload waits, too, by the start of their names: no other wait was recorded.
const SEEN_AT_WAITS: &str = "orin-agx";

/// The background work of a board.
#[derive(Clone, Debug)]
pub struct Background {
    random: ChaCha8Rng,
    /// Whether the work comes in bursts.
    is_bursty: bool,
    /// Whether it shows while a workload waits.
    pub shows_at_waits: bool,
    /// Start of the next or the current burst.
    from: Duration,
}

impl Background {
    /// The background work of a board that has idled for long.
    pub fn new(board: &Board, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        // The board and its chips use the streams before.
        random.set_stream(1 + MOST_CHIPS as u64);
        let from = INTERVAL.mul_f64(random.random_range(0.0..1.0));
        Self {
            random,
            shows_at_waits: board.name.starts_with(SEEN_AT_WAITS),
            is_bursty: !CALM.iter().any(|calm| board.name.starts_with(calm)),
            from,
        }
    }

    /// Advances the time.
    pub fn pass(&mut self, now: Duration) {
        if now >= self.from + BURST {
            let factor = self.random.random_range(1.0 - JITTER..1.0 + JITTER);
            self.from += INTERVAL.mul_f64(factor);
        }
    }

    /// The activity now of an idle board, with this many cores online.
    pub fn activity(&self, now: Duration, cores: f64) -> Activity {
        let against_mean = match now >= self.from {
            _ if !self.is_bursty => 1.0,
            true => INTERVAL.div_duration_f64(BURST),
            false => 0.0,
        };
        Activity {
            cores: (Activity::IDLE.cores * against_mean).min(cores),
            bytes: Activity::IDLE.bytes * against_mean,
            ..Activity::IDLE
        }
    }
}
