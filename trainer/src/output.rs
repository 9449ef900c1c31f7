//! Output files that are written whole or not at all.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use thiserror::Error;

/// Why an output file was not written.
#[derive(Debug, Error)]
#[error("{}: cannot write: {source}", path.display())]
pub struct OutputError {
    path: PathBuf,
    source: io::Error,
}

/// A file to come. Opening it tests at once that the folder can be written to, before
/// the work whose result it shall hold; until [`AtomicFile::commit`] a file that stood at
/// the path before stays as it was.
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    temporary: NamedTempFile,
}

impl AtomicFile {
    /// Prepares a file at `path`.
    pub fn create(path: &Path) -> Result<Self, OutputError> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let named = |source| OutputError {
            path: path.to_owned(),
            source,
        };
        if path.is_dir() {
            return Err(named(io::ErrorKind::IsADirectory.into()));
        }
        // As any newly created file: what the umask leaves of rw-rw-rw-.
        let temporary = tempfile::Builder::new()
            .prefix(".wattgate-")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)
            .map_err(named)?;
        Ok(Self {
            path: path.to_owned(),
            temporary,
        })
    }

    /// Writes the contents and moves the file into its place.
    pub fn commit(mut self, contents: &[u8]) -> Result<(), OutputError> {
        let written = self
            .temporary
            .write_all(contents)
            .and_then(|()| self.temporary.as_file().sync_all());
        let moved = written.and_then(|()| match self.temporary.persist(&self.path) {
            Ok(_) => Ok(()),
            Err(failed) => Err(failed.error),
        });
        moved.map_err(|source| OutputError {
            path: self.path,
            source,
        })
    }
}
