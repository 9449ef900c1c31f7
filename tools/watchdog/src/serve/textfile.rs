//! The metrics in a file, for the textfile collector of Prometheus' node exporter.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use thiserror::Error;
use wattgate_board::Files;
use wattgate_runtime::Milliseconds;

use super::metrics;
use crate::daemon::Daemon;

/// Between two files.
const INTERVAL: Milliseconds = Milliseconds(15_000);

/// The file cannot be written.
#[derive(Debug, Error)]
#[error("metrics: {}: {source}", path.display())]
pub struct TextfileError {
    path: PathBuf,
    source: io::Error,
}

/// Where the metrics are written.
#[derive(Debug)]
pub struct Textfile {
    path: PathBuf,
    written: Option<Milliseconds>,
    is_failing: bool,
}

impl Textfile {
    /// At a path; nothing is written yet.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            written: None,
            is_failing: false,
        }
    }

    /// Writes the file where it is due. It is there as a whole or not at all; that it is on the
    /// disk is not waited for. The first failure in a row is returned.
    pub fn turn<F: Files>(
        &mut self,
        daemon: &Daemon<F>,
        now: Milliseconds,
    ) -> Result<(), TextfileError> {
        if self.written.is_some_and(|last| now.since(last) < INTERVAL) {
            return Ok(());
        }
        self.written = Some(now);
        // The collector does not take files of this name.
        let new = self.path.with_extension("prom.new");
        let text = metrics::text(&daemon.report());
        let written = write(&new, &text).and_then(|()| fs::rename(&new, &self.path));
        let was_failing = std::mem::replace(&mut self.is_failing, written.is_err());
        written.or_else(|source| match was_failing {
            true => Ok(()),
            false => Err(TextfileError {
                path: self.path.clone(),
                source,
            }),
        })
    }

    /// Removes the file: what it says holds no longer.
    pub fn remove(self) {
        // It may not be there.
        let _ = fs::remove_file(&self.path);
    }
}

/// The collector is not root and reads the file, whatever the umask of the daemon is.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.set_permissions(Permissions::from_mode(0o644))?;
    file.write_all(text.as_bytes())
}
