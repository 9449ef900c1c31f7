//! What measurements and control read of a board alike.

use wattgate_board::{Board, Files};
use wattgate_runtime::Kilohertz;
use wattgate_runtime::estimator::{Chip, Estimator, MOST_CHIPS};

/// An estimator for the chips of a board's power sensor.
pub fn estimator(board: &Board, files: &impl Files) -> Estimator {
    let constants = board.time_constants(files);
    let steps = board.sensor_steps();
    let chips: [Chip; MOST_CHIPS] = std::array::from_fn(|chip| Chip {
        time_constant: constants[chip],
        step: steps[chip],
    });
    Estimator::new(chips)
}

/// Events of OC3 in a window that do not count. One lasts a millisecond, and windows last four seconds and more, so
/// these take at most one per cent of the time. A busy AGX Orin has some without any excess
/// (`jetson-platform.md`, section 6.4).
const MOST_BRIEF: u64 = 40;

/// Over-current events since the boot.
#[derive(Clone, Copy, Debug)]
pub struct OverCurrent {
    /// Of OC1 and OC2, which last.
    lasting: u64,
    /// Of OC3.
    brief: u64,
}

impl OverCurrent {
    pub fn read(board: &Board, files: &impl Files) -> Self {
        let events = board.over_current_events(files);
        let [under_voltage, mean, peak] =
            events.map(|events| events.unwrap_or(0).max(0).unsigned_abs());
        Self {
            lasting: under_voltage + mean,
            brief: peak,
        }
    }

    /// The events that may have slowed a window which began with these.
    pub fn since(self, before: Self) -> u64 {
        let lasting = self.lasting.saturating_sub(before.lasting);
        match self.brief.saturating_sub(before.brief) {
            few if few <= MOST_BRIEF => lasting,
            many => lasting + many,
        }
    }
}

/// A GPU that works has a load of at least this in permille.
const WORKING_GPU_LOAD: u16 = 300;

/// The clock of a GPU that works: an idle one may be off. `None` if the board does not show it.
pub fn busy_gpu_clock(board: &Board, files: &impl Files) -> Option<Kilohertz> {
    let load = board.gpu_load(files)?;
    board.gpu_clock(files).filter(|_| load >= WORKING_GPU_LOAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_brief_events_slow_nothing() {
        let at = |lasting, brief| OverCurrent { lasting, brief };
        assert_eq!(at(5, 140).since(at(5, 100)), 0);
        assert_eq!(at(5, 141).since(at(5, 100)), 41);
        assert_eq!(at(6, 101).since(at(5, 100)), 1);
    }
}
