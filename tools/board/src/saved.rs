//! What a board was set to before, as a small text, so that it can be brought back after a
//! restart as well.
//!
//! One `path value` line for each knob, like the store of jetson_clocks (`jetson-platform.md`,
//! section 8.1), and `end` in the last line: a text of which a part is lost is refused. The
//! path of a power sensor changes from boot to boot, so that its chip has the name
//! `ina3221/RAIL/samples` after its first rail.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

use crate::cpu::CoreSet;
use crate::discover::{Board, Knobs};
use crate::files::{Files, Knob, KnobError};
use crate::transition::{OnFailure, Target, Transition};

const END: &str = "end";

/// Values of knobs by their paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved(Vec<(Arc<Path>, i64)>);

/// Why a text is no saved state.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SavedError {
    /// The last line is not `end`, so that something may be lost.
    #[error("the last line is not `{END}`")]
    NoEnd,
    /// A line is no path and a value with a space between.
    #[error("line {line}: no path and value")]
    NoPair { line: usize },
    /// A value is no whole number.
    #[error("line {line}: `{word}` is no whole number")]
    NotANumber { line: usize, word: String },
    /// A path stands there a second time.
    #[error("line {line}: {} once more", path.display())]
    Twice { line: usize, path: PathBuf },
}

/// Why a board is not as it was.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RestoreError {
    /// A path is none of this board's knobs. Nothing was written.
    #[error("{} is no knob of this board; nothing was written", path.display())]
    UnknownKnob { path: Arc<Path> },
    /// It cannot be read which cores are online.
    #[error("{0}")]
    Unreadable(KnobError),
    /// Some knobs failed twice; all others are as they were.
    #[error("{count} failures, the first one: {first}")]
    Incomplete { count: u32, first: KnobError },
}

impl Saved {
    pub(crate) fn value(&self, knob: &Knob) -> Option<i64> {
        self.named(&knob.0)
    }

    pub(crate) fn named(&self, name: &Path) -> Option<i64> {
        let of = |(path, _): &&(Arc<Path>, i64)| **path == *name;
        self.0.iter().find(of).map(|(_, value)| *value)
    }
}

impl fmt::Display for Saved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (path, value) in &self.0 {
            writeln!(f, "{} {value}", path.display())?;
        }
        writeln!(f, "{END}")
    }
}

impl FromStr for Saved {
    type Err = SavedError;

    fn from_str(text: &str) -> Result<Self, SavedError> {
        let body = text.strip_suffix(&format!("{END}\n"));
        let body = body.ok_or(SavedError::NoEnd)?;
        let mut saved: Vec<(Arc<Path>, i64)> = Vec::new();
        for (text, line) in body.lines().zip(1..) {
            // A path may have spaces.
            let (path, word) = text.rsplit_once(' ').ok_or(SavedError::NoPair { line })?;
            let value = word.parse().map_err(|_| SavedError::NotANumber {
                line,
                word: word.to_owned(),
            })?;
            let path = Path::new(path);
            if saved.iter().any(|(earlier, _)| **earlier == *path) {
                let path = path.to_owned();
                return Err(SavedError::Twice { line, path });
            }
            saved.push((path.into(), value));
        }
        Ok(Self(saved))
    }
}

impl Board {
    /// The values of all knobs that could ever be written, and the averaging of the power
    /// sensors where it can be set. The clocks of clusters without an online core cannot be read
    /// and are left out.
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

    /// Writes saved values back in the order of a change of the mode, the averaging last. A knob that fails does
    /// not keep the others from it. The clocks of clusters that were without an online core
    /// are opened to both ends of the table.
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

impl Knobs {
    /// All knobs that can be read while these cores are online.
    fn readable(&self, online: CoreSet) -> impl Iterator<Item = &Knob> {
        let cores = self.cpus.cores.iter();
        let cores = cores.filter_map(|core| core.online.as_ref());
        let policies = self.cpus.policies.iter();
        let policies = policies.filter(move |policy| policy.cores & online != 0);
        let gpu = self.gpu.iter().map(|gpu| &gpu.limits);
        let limits = policies.map(|policy| &policy.limits).chain(gpu);
        let memory = self.memory.iter().flat_map(|memory| {
            let cap = memory.cap.as_ref().map(|cap| &cap.knob);
            cap.into_iter().chain([&memory.lock, &memory.rate])
        });
        cores
            .chain(limits.flat_map(|limits| [&limits.min, &limits.max]))
            .chain(memory)
    }
}
