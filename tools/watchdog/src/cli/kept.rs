//! What `run` keeps on the disk for a crash: the prior state. At the end it restores that state and removes
//! the file, unless the config's `on_stop` says otherwise.

use std::path::Path;

use wattgate_board::{Board, Files, Saved};
use wattgate_runtime::{Milliseconds, PowerMode};

use super::{Failure, below};
use crate::config::OnStop;
use crate::control::Priority;
use crate::deadline::InTime;
use crate::log::log;
use crate::prior::{Origin, Prior};
use crate::setup::Setup;

/// The prior state with its file, and the mode of fewest cores and lowest clocks.
pub struct Kept {
    prior: Prior,
    least: PowerMode,
}

impl Kept {
    /// Saves the state before the first change of the mode, so that it is there after a crash at any
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
        let least = setup.safe();
        Ok(Self { prior, least })
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

    /// Removes the file of a start that changed nothing on the board. A file that an earlier
    /// process left stays.
    pub fn withdraw(self) -> Result<(), Failure> {
        if *self.prior.origin() != Origin::Left {
            self.prior.remove()?;
        }
        Ok(())
    }

    /// Leaves on the board what `on_stop` says. Only with [`OnStop::Restore`] the file is removed.
    pub fn end(
        self,
        on_stop: OnStop,
        board: &mut Board,
        files: &mut impl Files,
    ) -> Result<(), Failure> {
        match on_stop {
            OnStop::Restore => {
                self.prior.restore(board, files)?;
                log(Priority::Info, "restored the prior state");
            }
            OnStop::Keep => {
                leave(self.prior);
                log(Priority::Info, "kept the mode");
            }
            OnStop::Least => {
                let mode = self.least;
                board.apply(files, &mode)?;
                leave(self.prior);
                log(
                    Priority::Info,
                    format_args!("set the mode of fewest cores and lowest clocks: {mode}"),
                );
                for knob in board.disobedient() {
                    log(Priority::Warning, format_args!("does not obey: {knob}"));
                }
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
