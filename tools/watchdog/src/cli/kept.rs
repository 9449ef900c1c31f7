//! What `run` keeps on the disk for a crash: the prior state and the safe mode. At the end it
//! restores the prior state and removes both files, unless the config's `on_stop` says otherwise.

use std::path::Path;

use wattgate_board::{Board, Files, Saved};
use wattgate_runtime::{Milliseconds, PowerMode};

use super::{Failure, below};
use crate::config::OnStop;
use crate::control::Priority;
use crate::deadline::InTime;
use crate::log::log;
use crate::prior::{Origin, Prior};
use crate::safe_mode::SafeModeFile;
use crate::setup::Setup;

/// The prior state and the safe mode, with their files.
pub struct Kept {
    prior: Prior,
    safe: SafeModeFile,
    safe_mode: PowerMode,
}

impl Kept {
    /// Saves both before the first change of the mode, so that they are there after a crash at any
    /// time. A file that cannot be written is logged: a board under control is safer than a board
    /// without.
    pub fn keep(setup: &Setup, root: &Path) -> Result<Self, Failure> {
        let directory = below(root, &setup.config.state_dir);
        let prior = Prior::keep(&setup.board, &InTime::plain(), root, &directory)?;
        log_origin(&prior);
        if let Some(error) = prior.unwritten() {
            log(
                Priority::Warning,
                format_args!(
                    "cannot save the prior state: {error}; a clean stop restores it from memory, \
                     but after a crash it is lost"
                ),
            );
        }
        let (safe, safe_mode) = (SafeModeFile::at(&directory), setup.safe());
        if let Err(error) = safe.keep(&safe_mode) {
            log(
                Priority::Warning,
                format_args!("cannot save the safe mode for use after a crash: {error}"),
            );
        }
        Ok(Self {
            prior,
            safe,
            safe_mode,
        })
    }

    /// The prior state.
    pub fn prior(&self) -> &Saved {
        self.prior.saved()
    }

    /// Writes the prior state once there is space on the disk again.
    pub fn retry(&mut self, now: Milliseconds) {
        if self.prior.retry(now) {
            let path = self.prior.path().display();
            log(
                Priority::Notice,
                format_args!("{path}: saved the prior state"),
            );
        }
    }

    /// Removes the files of a start that changed nothing on the board. Files that an earlier
    /// process left stay.
    pub fn withdraw(self) -> Result<(), Failure> {
        if *self.prior.origin() != Origin::Left {
            self.safe.remove();
            self.prior.remove()?;
        }
        Ok(())
    }

    /// Leaves on the board what `on_stop` says. Only with [`OnStop::Restore`] the files are removed.
    pub fn end(
        self,
        on_stop: OnStop,
        board: &mut Board,
        files: &mut impl Files,
    ) -> Result<(), Failure> {
        match on_stop {
            OnStop::Restore => {
                self.prior.restore(board, files)?;
                self.safe.remove();
                log(Priority::Info, "restored the prior state");
            }
            OnStop::Keep => {
                leave(self.prior);
                log(Priority::Info, "kept the mode");
            }
            OnStop::Least => {
                let mode = self.safe_mode;
                board.apply(files, &mode)?;
                leave(self.prior);
                log(
                    Priority::Info,
                    format_args!("set the mode of least power: {mode}"),
                );
            }
        }
        Ok(())
    }
}

fn leave(prior: Prior) {
    if let Err(error) = prior.leave() {
        log(
            Priority::Warning,
            format_args!("cannot save the prior state: {error}; it is lost"),
        );
    }
}

fn log_origin(prior: &Prior) {
    let path = prior.path().display();
    match prior.origin() {
        Origin::Saved => {}
        Origin::Left => log(
            Priority::Notice,
            format_args!(
                "{path}: has the prior state of an earlier start in this boot; a stop with \
                 on_stop = \"restore\" will restore it"
            ),
        ),
        Origin::SavedAgain(why) => log(
            Priority::Warning,
            format_args!("{path}: {why}; replaced by the present settings"),
        ),
    }
}
