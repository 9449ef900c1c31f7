//! Saves the settings of a board and restores them.

use std::path::Path;
use std::sync::Arc;

use thiserror::Error;

use crate::board::Board;
use crate::cpu::CoreSet;
use crate::files::{Files, KnobError};
use crate::saved::Saved;
use crate::target::Target;
use crate::transition::{OnFailure, Transition};

/// Why a saved state is not restored.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RestoreError {
    /// A saved path is not a knob of this board. Nothing was written.
    #[error("{} is not a knob of this board; nothing was written", path.display())]
    UnknownKnob { path: Arc<Path> },
    /// The switches of the cores cannot be read.
    #[error("{0}")]
    Unreadable(KnobError),
    /// Some knobs failed twice; all others are restored.
    #[error("{count} failures, the first one: {first}")]
    Incomplete { count: u32, first: KnobError },
}

impl Board {
    /// Reads all knobs that a change of the mode may write, and the averaging of the power sensors
    /// if it can be set. The clocks of clusters without an online core cannot be read and are left
    /// out.
    pub fn save(&self, files: &impl Files) -> Result<Saved, KnobError> {
        let online = self.knobs.cpus.online(files)?;
        let mut saved = Vec::new();
        for knob in self.knobs.readable(online) {
            saved.push((knob.0.clone(), knob.read(files)?));
        }
        for averaging in self.chips.save(files) {
            saved.push(averaging?);
        }
        Ok(Saved(saved))
    }

    /// The files that a change of the mode may write.
    pub fn knob_paths(&self) -> impl Iterator<Item = &Path> {
        self.knobs.readable(CoreSet::MAX).map(|knob| &*knob.0)
    }

    /// Writes saved values back in the order of a change of the mode, the averaging last. A knob
    /// that fails does not keep the others from it. The clocks of clusters that had no online core
    /// when the state was saved are opened to both ends of the table.
    pub fn restore(&mut self, files: &mut impl Files, saved: &Saved) -> Result<(), RestoreError> {
        let Self {
            knobs,
            chips,
            journal,
            ..
        } = self;
        let known = |path: &Arc<Path>| {
            let mut knobs = knobs.readable(CoreSet::MAX);
            knobs.any(|knob| knob.0 == *path) || chips.names().any(|name| name == path)
        };
        if let Some((path, _)) = saved.0.iter().find(|(path, _)| !known(path)) {
            return Err(RestoreError::UnknownKnob { path: path.clone() });
        }
        let target = Target::Saved(saved);
        let transition = Transition::new(files, knobs, journal, target, OnFailure::GoOn);
        let restored = transition.run();
        let averaged = chips.restore(files, saved);
        let mut failures = restored.map_err(RestoreError::Unreadable)?;
        failures.join(averaged);
        match failures.first {
            None => Ok(()),
            Some(first) => Err(RestoreError::Incomplete {
                count: failures.count,
                first,
            }),
        }
    }
}
