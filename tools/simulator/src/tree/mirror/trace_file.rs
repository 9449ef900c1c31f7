//! The file of the true power, which grows as time passes.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::disk::{MirrorError, at};
use crate::machine::trace::{HEADER, Segment};

/// A file that takes the true power, in whole lines.
#[derive(Debug)]
pub struct TraceFile {
    path: PathBuf,
    file: File,
    /// The last segment, which the next one may continue.
    last: Option<Segment>,
}

impl TraceFile {
    /// Creates the file, or empties it.
    pub fn create(path: &Path) -> Result<Self, MirrorError> {
        let mut file = File::create(path).map_err(at(path))?;
        writeln!(file, "{HEADER}").map_err(at(path))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            last: None,
        })
    }

    /// Appends segments, all but the last one.
    pub fn append(&mut self, segments: Vec<Segment>) -> Result<(), MirrorError> {
        let mut lines = String::new();
        for segment in segments {
            if let Some(last) = self.last.replace(segment)
                && !last.has_power_of(&segment)
            {
                // Writing to a string cannot fail.
                let _ = writeln!(lines, "{last}");
            }
        }
        self.write(&lines)
    }

    /// Appends the last segment.
    pub fn end(&mut self) -> Result<(), MirrorError> {
        let last = self.last.take();
        self.write(&last.map_or(String::new(), |last| format!("{last}\n")))
    }

    fn write(&mut self, lines: &str) -> Result<(), MirrorError> {
        let written = self.file.write_all(lines.as_bytes());
        written.map_err(at(&self.path))
    }
}
