//! One daemon per board: a `flock` that Linux releases when the process ends.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use thiserror::Error;

/// Runtime directory, relative to the board's root.
const DIRECTORY: &str = "run/wattgated";

/// The directory of the lock and the socket, for the board below `root`.
pub fn directory(root: &Path) -> PathBuf {
    root.join(DIRECTORY)
}

/// The folder of the socket that is root's alone. It is not below the other one, which containers mount.
const ROOT_DIRECTORY: &str = "run/wattgated-root";

/// The directory of the socket that is root's alone, for the board below `root`.
pub fn root_directory(root: &Path) -> PathBuf {
    root.join(ROOT_DIRECTORY)
}

/// Why the lock was not taken.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another daemon, or `once`, controls the board.
    #[error(
        "{}: process {holder} already controls the board; end it first (the daemon: `systemctl stop wattgated`)",
        path.display()
    )]
    Held { path: PathBuf, holder: String },
    /// The file cannot be created or locked.
    #[error("{}: the lock of the board cannot be taken: {source}{}", path.display(), advice(source))]
    Io { path: PathBuf, source: io::Error },
}

/// What to do about a folder that is missing.
fn advice(why: &io::Error) -> &'static str {
    match why.kind() {
        io::ErrorKind::NotFound => {
            "; expected the root of a board's files, which is / on the board itself"
        }
        _ => "",
    }
}

/// The exclusive right to control a board; dropping it releases the lock.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of the board below `root`; the error names the process that holds it.
    pub fn take(root: &Path) -> Result<Self, LockError> {
        // A root that was mistyped is not made.
        fs::metadata(root).map_err(|source| LockError::Io {
            path: root.to_owned(),
            source,
        })?;
        let directory = directory(root);
        let path = directory.join("lock");
        let at = |source| LockError::Io {
            path: path.clone(),
            source,
        };
        fs::create_dir_all(&directory).map_err(at)?;
        // The file is never removed: two processes could then each lock a file of this name.
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        // Who may open the file may also lock it.
        let mut file = options.mode(0o600).open(&path).map_err(at)?;
        let private = fs::Permissions::from_mode(0o600);
        file.set_permissions(private).map_err(at)?;
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
    fn a_second_lock_is_refused_until_the_first_is_released() {
        let root = tempfile::tempdir().expect("a directory");
        let first = Lock::take(root.path()).expect("free");
        let error = Lock::take(root.path()).expect_err("held").to_string();
        let path = root.path().join("run/wattgated/lock");
        let id = std::process::id();
        assert_eq!(
            error,
            format!(
                "{}: process {id} already controls the board; end it first (the daemon: `systemctl stop wattgated`)",
                path.display()
            )
        );
        drop(first);
        Lock::take(root.path()).expect("free again");
    }
}
