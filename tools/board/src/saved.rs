//! A saved state of a board: values of knobs, and their text form, so that the state can be
//! restored after a restart too.
//!
//! The text has one line `path value` for each knob, like the store of jetson_clocks
//! (`jetson-platform.md`, section 8.1). Its last line is `end`, so that a truncated text is
//! refused. The path of a power sensor changes from boot to boot; its chip is named
//! `ina3221/RAIL/samples` after the chip's first rail.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

use crate::files::Knob;

const END_LINE: &str = "end";

/// Values of knobs by their paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved(pub(crate) Vec<(Arc<Path>, i64)>);

/// Why a text is not a saved state.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SavedError {
    /// The last line is not `end`: the text may be truncated.
    #[error("the last line is not `{END_LINE}`")]
    NoEnd,
    /// A line is not a path and a value, separated by a space.
    #[error("line {line}: expected a path and a value")]
    NoPair { line: usize },
    /// A value is not a whole number.
    #[error("line {line}: `{word}` is not a whole number")]
    NotANumber { line: usize, word: String },
    /// A path occurs twice.
    #[error("line {line}: duplicate path {}", path.display())]
    Twice { line: usize, path: PathBuf },
}

impl Saved {
    /// The saved value of a knob.
    pub(crate) fn value(&self, knob: &Knob) -> Option<i64> {
        self.named(&knob.0)
    }

    /// The value that was saved under a name.
    pub(crate) fn named(&self, name: &Path) -> Option<i64> {
        let has_name = |(path, _): &&(Arc<Path>, i64)| **path == *name;
        self.0.iter().find(has_name).map(|(_, value)| *value)
    }
}

impl fmt::Display for Saved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (path, value) in &self.0 {
            writeln!(f, "{} {value}", path.display())?;
        }
        writeln!(f, "{END_LINE}")
    }
}

impl FromStr for Saved {
    type Err = SavedError;

    fn from_str(text: &str) -> Result<Self, SavedError> {
        let body = text.strip_suffix(&format!("{END_LINE}\n"));
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
