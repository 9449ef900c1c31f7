//! The safe mode (the mode with the least predicted power), in a file that survives a crash.
//! `once --safe` sets it when the config or the model can no longer be read.
//!
//! Format: one line per knob, then `end`, which shows that the file is complete.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use wattgate_cli::output::replace;
use wattgate_runtime::PowerMode;

/// The knobs in the order of [`PowerMode::knobs`].
const KNOBS: [&str; 4] = ["cores", "cpu_khz", "gpu_khz", "emc_khz"];

const END: &str = "end";

/// Why the safe mode was not saved or not read.
#[derive(Debug, Error)]
pub enum SafeModeError {
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// A line is wrong or missing.
    #[error("{}:{line}: expected {expected}, found `{found}`", path.display())]
    Defect {
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        expected: String,
        found: String,
    },
}

/// The file of the safe mode.
#[derive(Debug)]
pub struct SafeModeFile {
    path: PathBuf,
}

impl SafeModeFile {
    /// The file `safe` in a directory.
    pub fn at(directory: &Path) -> Self {
        Self {
            path: directory.join("safe"),
        }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Saves a mode. The file is on the disk when this returns.
    pub fn keep(&self, mode: &PowerMode) -> Result<(), SafeModeError> {
        let directory = self.path.parent();
        let there = directory.map_or(Ok(()), fs::create_dir_all);
        let written = there.and_then(|()| replace(&self.path, text(mode).as_bytes()));
        written.map_err(|source| self.io(source))
    }

    /// Reads the saved mode.
    pub fn read(&self) -> Result<PowerMode, SafeModeError> {
        let text = fs::read_to_string(&self.path).map_err(|source| self.io(source))?;
        parse(&text).map_err(|(line, expected)| SafeModeError::Defect {
            path: self.path.clone(),
            line,
            expected,
            found: text.lines().nth(line - 1).unwrap_or_default().to_owned(),
        })
    }

    /// Removes the file: after a clean stop no safe mode is needed.
    pub fn remove(self) {
        // The file may be absent: saving it may have failed.
        let _ = fs::remove_file(&self.path);
    }

    fn io(&self, source: io::Error) -> SafeModeError {
        let path = self.path.clone();
        SafeModeError::Io { path, source }
    }
}

fn text(mode: &PowerMode) -> String {
    let knobs = KNOBS.iter().zip(mode.knobs());
    let lines = knobs.map(|(name, value)| format!("{name} {value}\n"));
    lines.chain([format!("{END}\n")]).collect()
}

/// Parses the file; the error has the number of the first wrong line and what it should be.
fn parse(text: &str) -> Result<PowerMode, (usize, String)> {
    let mut lines = text.lines();
    let mut knobs = [0; KNOBS.len()];
    for ((knob, name), line) in knobs.iter_mut().zip(KNOBS).zip(1..) {
        let words = lines.next().and_then(|line| line.split_once(' '));
        let value = words.filter(|(found, _)| *found == name);
        let value = value.and_then(|(_, value)| value.parse().ok());
        *knob = value.ok_or_else(|| (line, format!("`{name}` and a whole number")))?;
    }
    match (lines.next(), lines.next()) {
        (Some(END), None) => Ok(PowerMode::from_knobs(knobs)),
        (Some(END), Some(_)) => Err((KNOBS.len() + 2, "no more lines".to_owned())),
        _ => Err((KNOBS.len() + 1, format!("`{END}`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODE: PowerMode = PowerMode::from_knobs([2, 729_600, 306_000, 665_600]);
    const TEXT: &str = "cores 2\ncpu_khz 729600\ngpu_khz 306000\nemc_khz 665600\nend\n";

    #[test]
    fn a_mode_stays_saved_until_it_is_removed() {
        let place = tempfile::tempdir().expect("a directory");
        let directory = place.path().join("of/the/daemon");
        let safe = SafeModeFile::at(&directory);
        for mode in [PowerMode::from_knobs([1; 4]), MODE] {
            safe.keep(&mode).expect("written");
            assert_eq!(safe.read().expect("kept"), mode);
        }
        assert_eq!(fs::read_to_string(safe.path()).expect("text"), TEXT);
        safe.remove();
        assert_eq!(fs::read_dir(directory).expect("there").count(), 0);
    }

    #[test]
    fn a_defective_file_is_refused_with_its_line() {
        let place = tempfile::tempdir().expect("a directory");
        let safe = SafeModeFile::at(place.path());
        let path = safe.path().display();
        for (text, error) in [
            ("", "1: expected `cores` and a whole number, found ``"),
            (
                "cores two\n",
                "1: expected `cores` and a whole number, found `cores two`",
            ),
            (
                "cores -2\n",
                "1: expected `cores` and a whole number, found `cores -2`",
            ),
            (
                "cores 2\ngpu_khz 306000\n",
                "2: expected `cpu_khz` and a whole number, found `gpu_khz 306000`",
            ),
            (
                "cores 2\ncpu_khz 4294967296\n",
                "2: expected `cpu_khz` and a whole number, found `cpu_khz 4294967296`",
            ),
            (
                TEXT.strip_suffix("00\nend\n").expect("a part"),
                "5: expected `end`, found ``",
            ),
            (
                &format!("{TEXT}cores 12\n"),
                "6: expected no more lines, found `cores 12`",
            ),
        ] {
            fs::write(safe.path(), text).expect("written");
            let found = safe.read().expect_err(text).to_string();
            assert_eq!(found, format!("{path}:{error}"));
        }
        fs::write(safe.path(), [0xff; 64]).expect("written");
        let found = safe.read().expect_err("no text").to_string();
        assert_eq!(found, format!("{path}: stream did not contain valid UTF-8"));
    }
}
