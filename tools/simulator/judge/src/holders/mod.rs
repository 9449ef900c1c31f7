//! How each holder works. A holder knows its [`Course`] and the board's files, not the truth.
//!
//! | holder | module |
//! |---|---|
//! | the daemon's control | [`wattgate`] |
//! | one step up or down after each poll of the sensor | [`stepper`] |
//! | the fastest mode by the prediction alone | [`open_loop`] |
//! | the fastest mode by the prediction, the guard band and the sensor's offset | [`once`] |
//! | nvpmodel's modes | [`preset`] |
//! | no cap | [`maxn`] |
//!
//! Only the stepper and the daemon's control read the sensor. The others set at most one mode for
//! each limit.

mod each_limit;
pub mod maxn;
pub mod once;
pub mod open_loop;
pub mod preset;
pub mod stepper;
pub mod wattgate;

use std::io;

use wattgate_board_tables::Board;

use crate::course::Course;
use crate::holder::{Holder, Incident};
use crate::recorded::RecordedTree;

/// The nvpmodel mode in which the board boots: the first preset, because masks need a reboot, or
/// else the mode without caps.
pub fn boot_mode(holder: Holder, board: &Board, limit_mw: u32) -> Option<u32> {
    match holder {
        Holder::Preset => preset::mode(board, limit_mw),
        _ => maxn::mode(board),
    }
}

/// Lets a peer of the daemon hold the limit to the end of a course. `incident` is what happens to
/// the stepper, and when, in s. Returns the number of mode changes.
pub fn hold_as_peer(
    peer: Holder,
    course: &Course,
    board: &Board,
    incident: Option<(u64, Incident)>,
    files: &mut RecordedTree,
) -> io::Result<u32> {
    match peer {
        Holder::Stepper => stepper::hold(course, incident, files),
        Holder::OpenLoop => open_loop::hold(course, files),
        Holder::Once => once::hold(course, files),
        Holder::Preset => Ok(preset::hold(course, board, files)),
        Holder::Maxn => Ok(maxn::hold(course, files)),
        Holder::Wattgate | Holder::WithoutModel | Holder::UnknownBoard | Holder::Wattgated => {
            let message = format!("{} is no peer of the daemon", peer.name());
            Err(io::Error::other(message))
        }
    }
}
