//! What the board shows of an actuator, beside what was requested of it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::files::{KnobError, Refusal};

/// What an actuator shows, beside what was requested of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub actuator: usize,
    pub wanted: i64,
    /// `None` if it cannot be read.
    pub shown: Option<i64>,
    /// Whether a cooling device explains a lower value.
    pub is_cooled: bool,
    /// Whether the memory's rate is not held, so that the value is its ceiling.
    pub is_released: bool,
}

impl Seen {
    /// An actuator that shows a value.
    pub fn new(actuator: usize, wanted: i64, shown: i64) -> Self {
        Self {
            actuator,
            wanted,
            shown: Some(shown),
            is_cooled: false,
            is_released: false,
        }
    }
}

/// A knob that does not obey, with values in the unit of measure of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disobedience {
    /// The knob.
    pub path: Arc<Path>,
    /// What was requested.
    pub wanted: i64,
    /// What the board shows; `None` if it cannot be read.
    pub is: Option<i64>,
    /// Why the write failed, if it did.
    pub why: Option<Refusal>,
}

impl Disobedience {
    /// Adds why a write failed, if it was one to the same folder: all files of an actuator are in one.
    pub(crate) fn because(self, refused: &[KnobError]) -> Self {
        let why = refused.iter().find_map(|error| match error {
            KnobError::Refused { path, why, .. } if path.parent() == self.path.parent() => {
                Some(*why)
            }
            _ => None,
        });
        Self { why, ..self }
    }
}

impl fmt::Display for Disobedience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: wanted {}, ", self.path.display(), self.wanted)?;
        match self.is {
            Some(is) => write!(f, "is {is}")?,
            None => write!(f, "cannot be read")?,
        }
        match self.why {
            Some(why) => write!(f, " (writing fails: {why})"),
            None => Ok(()),
        }
    }
}
