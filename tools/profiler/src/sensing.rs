//! What measurements and control read of a board alike.

use wattgate_board::{Board, Files};
use wattgate_runtime::{Chip, Estimator, MOST_CHIPS};

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

/// The number of over-current events since the boot, of all kinds.
pub fn over_current_events(board: &Board, files: &impl Files) -> u64 {
    let events = board.over_current_events(files).into_iter().flatten();
    events.map(|events| events.max(0).unsigned_abs()).sum()
}
