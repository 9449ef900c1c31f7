//! CSV files: reads them line by line, and names what is wrong by its line.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a file cannot be used.
#[derive(Debug, Error)]
pub enum CsvError {
    /// The file cannot be read.
    #[error("{}: cannot read: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// A line is wrong.
    #[error("{}:{line}: {found}, expected {expected}", path.display())]
    Line {
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        found: String,
        expected: String,
    },
}

/// A defect in a line.
#[derive(Debug)]
pub struct Wrong {
    /// Counted from 1.
    pub line: usize,
    pub found: String,
    pub expected: String,
}

impl Wrong {
    pub fn new(line: usize, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self {
            line,
            found: found.into(),
            expected: expected.into(),
        }
    }
}

/// Reads and parses a file.
pub fn read<T>(path: &Path, parse: impl FnOnce(&[u8]) -> Result<T, Wrong>) -> Result<T, CsvError> {
    let bytes = fs::read(path).map_err(|source| CsvError::Io {
        path: path.to_owned(),
        source,
    })?;
    parse(&bytes).map_err(|wrong| CsvError::Line {
        path: path.to_owned(),
        line: wrong.line,
        found: wrong.found,
        expected: wrong.expected,
    })
}

/// The text of a file without a byte order mark: its first line, and the others with their
/// numbers.
pub fn lines(bytes: &[u8]) -> Result<(&str, impl Iterator<Item = (usize, &str)>), Wrong> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        Wrong::new(line, "invalid bytes", "UTF-8 text")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.lines();
    let header = lines.next().unwrap_or("");
    Ok((header, (2..).zip(lines)))
}

/// The cells of a line, which has to have a number of them.
pub fn cells(line: usize, text: &str, wanted: usize) -> Result<Vec<&str>, Wrong> {
    let cells: Vec<&str> = text.split(',').map(str::trim).collect();
    if cells.len() == wanted {
        return Ok(cells);
    }
    let found = match text.trim().is_empty() {
        true => "an empty line".to_owned(),
        false => format!("`{text}`"),
    };
    Err(Wrong::new(line, found, format!("{wanted} cells")))
}

/// The number in a cell of a column, 0 … `most`.
pub fn number(line: usize, column: &str, cell: &str, most: f64) -> Result<f64, Wrong> {
    let parsed = cell.parse().ok();
    let within = parsed.filter(|number: &f64| (0.0..=most).contains(number));
    within.ok_or_else(|| {
        let found = match cell {
            "" => format!("an empty cell in `{column}`"),
            cell => format!("`{cell}` in `{column}`"),
        };
        Wrong::new(line, found, format!("a number, 0 … {most}"))
    })
}
