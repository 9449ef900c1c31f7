//! The prior state: all settings before the daemon's first write, in a file that survives a crash.
//!
//! A clean stop restores the prior state and removes the file. So a file that exists at the start
//! was left by a crash: it holds the true prior state, because the board still has the crashed
//! daemon's settings.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use wattgate_board::{Board, Files, KnobError, RestoreError, Saved, SavedError};
use wattgate_cli::output::replace;

/// Why the prior state was not saved or not restored.
#[derive(Debug, Error)]
pub enum PriorError {
    /// A knob cannot be read.
    #[error("the state of the board cannot be saved: {0}")]
    Board(#[from] KnobError),
    /// The file cannot be read, written or removed.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// At least one setting was not restored. The file stays.
    #[error("{}: some settings were not restored: {why}", path.display())]
    Restore { path: PathBuf, why: RestoreError },
}

/// The prior state and its file.
#[derive(Debug)]
pub struct Prior {
    path: PathBuf,
    saved: Saved,
    origin: Origin,
}

/// Where a prior state comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Saved from the board at this start.
    Saved,
    /// Read from the file that a crash left.
    LeftByCrash,
    /// Saved from the board at this start, because the file that a crash left is defective.
    SavedAgain(SavedError),
}

impl Prior {
    /// Reads the file that a crash left, or saves the board's settings. The file is on the disk
    /// when this returns.
    pub fn keep(board: &Board, files: &impl Files, directory: &Path) -> Result<Self, PriorError> {
        let path = directory.join("prior");
        let at = |source| PriorError::Io {
            path: path.clone(),
            source,
        };
        let origin = match fs::read_to_string(&path) {
            Ok(text) => match text.parse() {
                Ok(saved) => {
                    let origin = Origin::LeftByCrash;
                    return Ok(Self {
                        path,
                        saved,
                        origin,
                    });
                }
                Err(why) => Origin::SavedAgain(why),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Origin::Saved,
            // The file is not UTF-8.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Origin::SavedAgain(SavedError::NoEnd)
            }
            Err(error) => return Err(at(error)),
        };
        let saved = board.save(files)?;
        let directory = path.parent();
        directory.map_or(Ok(()), fs::create_dir_all).map_err(at)?;
        replace(&path, saved.to_string().as_bytes()).map_err(at)?;
        Ok(Self {
            path,
            saved,
            origin,
        })
    }

    /// Where the prior state comes from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Restores the board's settings and removes the file; after a failure the file stays.
    pub fn restore(self, board: &mut Board, files: &mut impl Files) -> Result<(), PriorError> {
        let path = self.path;
        if let Err(why) = board.restore(files, &self.saved) {
            return Err(PriorError::Restore { path, why });
        }
        fs::remove_file(&path).map_err(|source| PriorError::Io { path, source })
    }
}
