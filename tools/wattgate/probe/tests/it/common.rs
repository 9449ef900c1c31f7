//! Probes of simulated boards on a disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use wattgate_probe::collect::collect;
use wattgate_probe::format::Probe;
use wattgate_probe::recorded::Recorded;
use wattgate_simulated_board::tree::mirror::Mirror;

use crate::board::booted;

/// A simulated board on a disk.
pub struct OnDisk {
    folder: TempDir,
    _mirror: Mirror,
}

impl OnDisk {
    pub fn new(board: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mirror = Mirror::create(&folder.path().join("board"), booted(board).tree);
        Self {
            folder,
            _mirror: mirror.expect("a board"),
        }
    }

    pub fn root(&self) -> PathBuf {
        self.folder.path().join("board")
    }

    /// Puts a file of a user below the root.
    pub fn plant(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("created");
        // What is there may be read-only.
        let _ = fs::remove_file(&path);
        fs::write(path, text).expect("written");
    }

    /// A probe whose sensors are read for a time.
    pub fn probe(&self, time: Duration) -> Probe {
        collect(&self.root(), time, |_| {}).expect("a root")
    }
}

/// A probe of a board that does not move.
pub fn probe(board: &str) -> Probe {
    OnDisk::new(board).probe(Duration::ZERO)
}

/// The probe in place of the board.
pub fn recorded(board: &str) -> Recorded {
    Recorded::new(probe(board))
}

pub fn root() -> &'static Path {
    Path::new("/")
}
