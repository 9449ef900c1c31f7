//! One daemon for each board: a lock that ends with the process, whatever ends it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use thiserror::Error;

/// Of a board's running daemon, on the board.
const DIRECTORY: &str = "run/wattgated";

/// Where a board's running daemon has its files.
pub fn directory(root: &Path) -> PathBuf {
    root.join(DIRECTORY)
}

/// Why there is no lock.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another daemon, or `once`, controls the board.
    #[error("{}: the board is controlled by process {holder} already", path.display())]
    Held { path: PathBuf, holder: String },
    /// The file cannot be made or locked.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// The right to control a board, until it is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of the board below `root`, or says who has it.
    pub fn take(root: &Path) -> Result<Self, LockError> {
        let directory = directory(root);
        let path = directory.join("lock");
        let at = |source| LockError::Io {
            path: path.clone(),
            source,
        };
        fs::create_dir_all(&directory).map_err(at)?;
        // It is never removed: then two could hold one each.
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(at)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let holder = fs::read_to_string(&path).unwrap_or_default();
                let holder = holder.trim().to_owned();
                return Err(LockError::Held { path, holder });
            }
            Err(error) => return Err(at(error.into())),
        }
        let id = std::process::id();
        let written = file.set_len(0).and_then(|()| writeln!(file, "{id}"));
        written.map_err(at)?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_lock_is_refused_until_the_first_is_gone() {
        let root = tempfile::tempdir().expect("a directory");
        let first = Lock::take(root.path()).expect("free");
        let error = Lock::take(root.path()).expect_err("held").to_string();
        let path = root.path().join("run/wattgated/lock");
        let id = std::process::id();
        assert_eq!(
            error,
            format!(
                "{}: the board is controlled by process {id} already",
                path.display()
            )
        );
        drop(first);
        Lock::take(root.path()).expect("free again");
    }
}
