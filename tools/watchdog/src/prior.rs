//! What was set before the daemon wrote for the first time, in a file that outlives a crash.
//!
//! A file that is there already was left by a crash: it is the true prior state, and what the
//! board shows now is ours. A clean stop restores it and removes it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use wattgate_board::{Board, Files, KnobError, RestoreError, Saved, SavedError};

use crate::atomic_file;

/// Why the prior state is not kept, or not restored.
#[derive(Debug, Error)]
pub enum PriorError {
    /// A knob cannot be read.
    #[error("the state of the board cannot be saved: {0}")]
    Board(#[from] KnobError),
    /// The file.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// Not all is as it was. The file stays.
    #[error("{}: not all is restored: {why}", path.display())]
    Restore { path: PathBuf, why: RestoreError },
}

/// The prior state, and the file that has it.
#[derive(Debug)]
pub struct Prior {
    path: PathBuf,
    saved: Saved,
    origin: Origin,
}

/// Where a prior state comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was saved now.
    Saved,
    /// A crash has left it.
    LeftByCrash,
    /// What was left cannot be read; it was saved now in its place.
    SavedAgain(SavedError),
}

impl Prior {
    /// Takes what a crash has left, or saves what the board shows, on the disk before this
    /// returns.
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
            // No text at all.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Origin::SavedAgain(SavedError::NoEnd)
            }
            Err(error) => return Err(at(error)),
        };
        let saved = board.save(files)?;
        atomic_file::write(&path, saved.to_string().as_bytes()).map_err(at)?;
        Ok(Self {
            path,
            saved,
            origin,
        })
    }

    /// Where it comes from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The file that has it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Brings the board back and removes the file; where something fails, it stays.
    pub fn restore(self, board: &mut Board, files: &mut impl Files) -> Result<(), PriorError> {
        let path = self.path;
        if let Err(why) = board.restore(files, &self.saved) {
            return Err(PriorError::Restore { path, why });
        }
        fs::remove_file(&path).map_err(|source| PriorError::Io { path, source })
    }
}
