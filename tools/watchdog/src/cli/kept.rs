//! The settings from before the first start in this boot. `run` and `once` save them on the disk, and `wattgated
//! restore` restores them. `run` itself never does: with them the board may draw more than the limit.

use std::path::Path;

use wattgate_board::{Board, Saved};
use wattgate_runtime::Milliseconds;

use super::{Failure, below};
use crate::config::STATE_DIR;
use crate::control::Priority;
use crate::deadline::InTime;
use crate::log::log;
use crate::saved_state::{Origin, SavedState};

/// The saved state with its file.
pub struct Kept {
    saved_state: SavedState,
}

impl Kept {
    /// Saves the state before the first change of the mode. A file that cannot be written is logged: a board under
    /// control is safer than a board without.
    pub fn keep(board: &Board, root: &Path) -> Result<Self, Failure> {
        let directory = below(root, Path::new(STATE_DIR));
        let saved_state = SavedState::keep(board, &InTime::plain(), root, &directory)?;
        if let Origin::SavedAgain(why) = saved_state.origin() {
            let path = saved_state.path().display();
            log(
                Priority::Warning,
                format_args!("{path}: {why}; replaced by the present settings"),
            );
        }
        if let Some(error) = saved_state.unwritten() {
            log(
                Priority::Warning,
                format_args!(
                    "cannot save the settings from before the start: {error}; until they are, `wattgated restore` \
                     cannot restore them"
                ),
            );
        }
        Ok(Self { saved_state })
    }

    /// Adds the settings of knobs and sensors that were found since, before they are changed.
    pub fn complete(&mut self, board: &Board) {
        self.saved_state.complete(board, &InTime::plain());
    }

    /// The saved state.
    pub fn saved(&self) -> &Saved {
        self.saved_state.saved()
    }

    /// Writes the saved state once there is space on the disk again.
    pub fn retry(&mut self, now: Milliseconds) {
        if self.saved_state.retry(now) {
            let path = self.saved_state.path().display();
            log(
                Priority::Notice,
                format_args!("{path}: saved the settings from before the start"),
            );
        }
    }

    /// Removes the file of a start that changed nothing on the board. A file that an earlier
    /// process left stays.
    pub fn withdraw(self) -> Result<(), Failure> {
        if *self.saved_state.origin() != Origin::Left {
            self.saved_state.remove()?;
        }
        Ok(())
    }

    /// Leaves the file for `wattgated restore` and for the next start of this boot.
    pub fn leave(self) {
        if let Err(error) = self.saved_state.leave() {
            log(
                Priority::Warning,
                format_args!(
                    "cannot save the settings from before the start: {error}; they are lost"
                ),
            );
        }
    }
}
