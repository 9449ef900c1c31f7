//! Files of a board: short texts that are read and written whole.
//!
//! All access goes through [`Files`]: to a disk by [`Disk`], in tests to a simulated board.
//! Reading and writing on a disk do not allocate if paths are shorter than 384 bytes, so that a
//! control loop can run without allocation.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Cursor, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use thiserror::Error;

/// Access to a board's files.
pub trait Files {
    /// Reads the text of a file. Errors: `FileTooLarge` if it does not fit into the buffer,
    /// `InvalidData` if it is not UTF-8, and those of the system.
    fn read<'b>(&self, path: &Path, buffer: &'b mut [u8]) -> io::Result<&'b str>;

    /// Replaces the text of a file that exists, with one write.
    fn write(&mut self, path: &Path, text: &str) -> io::Result<()>;

    /// The names in a directory, in any order.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;

    /// Waits; a simulated board advances its time.
    fn wait(&mut self, time: Duration);
}

/// The file system of the board itself, or the tree of a simulated board on a disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

/// Maximum length of the value of a clock, a core or a sensor, in bytes.
const VALUE: usize = 32;

/// Reads a file. Returns the length of its text.
fn read_to_end(path: &Path, buffer: &mut [u8]) -> io::Result<usize> {
    let mut file = File::open(path)?;
    let mut length = 0;
    while let Some(rest) = buffer.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => return Ok(length),
            Ok(read) => {
                length += read;
                // A short text that ends a line is complete. Another read to find the end of
                // the file would cost as much as the first.
                if length <= VALUE && buffer[..length].ends_with(b"\n") {
                    return Ok(length);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::FileTooLarge.into())
}

impl Files for Disk {
    fn read<'b>(&self, path: &Path, buffer: &'b mut [u8]) -> io::Result<&'b str> {
        let length = read_to_end(path, buffer)?;
        text(&buffer[..length])
    }

    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        let mut file = File::options().write(true).truncate(true).open(path)?;
        match file.write(text.as_bytes())? {
            written if written == text.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let names = fs::read_dir(directory)?;
        names
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    }

    fn wait(&mut self, time: Duration) {
        thread::sleep(time);
    }
}

fn text(bytes: &[u8]) -> io::Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// An error of the system on read or write: an [`io::Error`] that can be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    kind: io::ErrorKind,
    errno: Option<i32>,
}

impl Refusal {
    /// The class of the error.
    pub fn kind(self) -> io::ErrorKind {
        self.kind
    }

    /// The system's errno, if the error comes from the system.
    pub fn errno(self) -> Option<i32> {
        self.errno
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self {
            kind: error.kind(),
            errno: error.raw_os_error(),
        }
    }
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        match refusal.errno {
            Some(errno) => Self::from_raw_os_error(errno),
            None => refusal.kind.into(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errno {
            Some(errno) => io::Error::from_raw_os_error(errno).fmt(f),
            None => self.kind.fmt(f),
        }
    }
}

/// Why a knob cannot be read or set. Values are in the unit of measure of the file.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum KnobError {
    /// The file cannot be read.
    #[error("{}: cannot be read: {why}", path.display())]
    Unreadable { path: Arc<Path>, why: Refusal },
    /// The file does not show a whole number.
    #[error("{}: shows no number", path.display())]
    NotANumber { path: Arc<Path> },
    /// The write fails.
    #[error("{}: writing {wanted} failed: {why}", path.display())]
    Refused {
        path: Arc<Path>,
        wanted: i64,
        why: Refusal,
    },
    /// The write succeeds but the file shows another value: the driver rounded or ignored the
    /// value, or another process wrote to the file.
    #[error("{}: shows {found}, expected {wanted}", path.display())]
    Differs {
        path: Arc<Path>,
        wanted: i64,
        found: i64,
    },
}

impl KnobError {
    /// Whether the file does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Unreadable { why, .. } if why.kind() == io::ErrorKind::NotFound)
    }
}

/// A file that holds one whole number.
#[derive(Clone, Debug)]
pub(crate) struct Knob(pub Arc<Path>);

impl Knob {
    pub fn read(&self, files: &impl Files) -> Result<i64, KnobError> {
        let path = || self.0.clone();
        // The longest number of 64 bits has 20 characters.
        let mut buffer = [0; 64];
        match files.read(&self.0, &mut buffer) {
            Ok(text) => number(text).ok_or_else(|| KnobError::NotANumber { path: path() }),
            Err(error) => Err(KnobError::Unreadable {
                path: path(),
                why: error.into(),
            }),
        }
    }

    pub fn write(&self, files: &mut impl Files, value: i64) -> Result<(), KnobError> {
        let mut buffer = Cursor::new([0; 24]);
        let written = writeln!(buffer, "{value}").and_then(|()| {
            let length = buffer.position() as usize;
            files.write(&self.0, text(&buffer.get_ref()[..length])?)
        });
        written.map_err(|error| KnobError::Refused {
            path: self.0.clone(),
            wanted: value,
            why: error.into(),
        })
    }
}

/// Parses a text that is one whole number. JetPack 4's driver of the INA3221 shows the unit of measure of limits, as `3600 ma`.
pub(crate) fn number(text: &str) -> Option<i64> {
    let text = text.trim();
    text.strip_suffix(" ma").unwrap_or(text).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorter_text_replaces_a_longer_one() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("knob");
        fs::write(&path, "1190400\n").expect("written");
        Disk.write(&path, "883200\n").expect("written");
        assert_eq!(Disk.read(&path, &mut [0; 64]).expect("read"), "883200\n");
    }

    #[test]
    fn a_text_that_is_too_long_or_not_utf8_is_an_error() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("knob");
        fs::write(&path, "12345678").expect("written");
        let error = Disk.read(&path, &mut [0; 8]).expect_err("one byte short");
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        fs::write(&path, [0xFF]).expect("written");
        let error = Disk.read(&path, &mut [0; 8]).expect_err("no UTF-8");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn writing_does_not_create_a_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("knob");
        assert!(Disk.write(&path, "1\n").is_err());
        assert!(!path.exists());
    }
}
