//! The nvpmodel mode without caps.

use wattgate_board_tables::Board;

use crate::course::Course;
use crate::recorded::RecordedTree;

/// The nvpmodel mode of a board that has no power budget.
pub fn mode(board: &Board) -> Option<u32> {
    let mut modes = board.modes.iter();
    modes.find(|mode| mode.budget_w.is_none()).map(|it| it.id)
}

/// Lets time pass in the mode of the boot. Returns the number of mode changes, zero.
pub fn hold(course: &Course, files: &mut RecordedTree) -> u32 {
    files.until(course.length);
    0
}
