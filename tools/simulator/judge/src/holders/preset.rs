//! For each limit, the nvpmodel mode with the highest power budget that is within it.

use wattgate_board_tables::Board;

use super::each_limit::at_each_limit;
use crate::course::Course;
use crate::recorded::RecordedTree;

/// The nvpmodel mode with the highest power budget within a limit. Where none is within the limit,
/// the one with the lowest.
pub fn mode(board: &Board, limit_mw: u32) -> Option<u32> {
    let modes = board.modes.iter();
    let named: Vec<(f64, u32)> = modes.filter_map(|it| Some((it.budget_w?, it.id))).collect();
    let within = named
        .iter()
        .filter(|(watts, _)| 1e3 * watts <= f64::from(limit_mw));
    let best = within.max_by(|a, b| a.0.total_cmp(&b.0));
    let least = named.iter().min_by(|a, b| a.0.total_cmp(&b.0));
    best.or(least).map(|(_, id)| *id)
}

/// Runs nvpmodel at each limit but the first, for which the board has booted. A mode whose change
/// needs a reboot is skipped. Returns the number of mode changes.
pub fn hold(course: &Course, board: &Board, files: &mut RecordedTree) -> u32 {
    let (mut changes, mut is_booted) = (0, false);
    at_each_limit(course, files, |files, limit| {
        if std::mem::replace(&mut is_booted, true)
            && let Some(id) = mode(board, limit)
            && files.control(&format!("nvpmodel {id}")).is_ok()
        {
            changes += 1;
        }
    });
    changes
}
