//! Metrics in a file for the node exporter's textfile collector.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use wattgate_board::Files;
use wattgate_runtime::Milliseconds;

use super::metrics;
use crate::daemon::Daemon;
use crate::replace::replace;

/// Interval between two writes.
const TEXTFILE_INTERVAL: Milliseconds = Milliseconds(15_000);

/// Permissions of the file. Everyone may read it, because the collector is not root.
const FILE_MODE: u32 = 0o644;

/// The file cannot be written.
#[derive(Debug, Error)]
#[error("metrics: {}: cannot be written: {source}; name a file in a folder that exists", path.display())]
pub struct TextfileError {
    path: PathBuf,
    source: io::Error,
}

/// The file of the metrics.
#[derive(Debug)]
pub struct Textfile {
    path: PathBuf,
    written: Option<Milliseconds>,
    is_failing: bool,
}

/// Fails if the folder of a file of metrics does not exist.
pub fn check(path: &Path) -> Result<(), TextfileError> {
    let folder = fs::metadata(path.parent().unwrap_or(path));
    let is_folder = folder.and_then(|folder| match folder.is_dir() {
        true => Ok(()),
        false => Err(io::ErrorKind::NotADirectory.into()),
    });
    is_folder.map_err(|source| TextfileError {
        path: path.to_owned(),
        source,
    })
}

impl Textfile {
    /// Creates the writer; writes nothing yet.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            written: None,
            is_failing: false,
        }
    }

    /// Replaces the file atomically if a write is due. Of consecutive failures only the first is
    /// returned.
    pub fn turn<F: Files>(
        &mut self,
        daemon: &Daemon<F>,
        now: Milliseconds,
    ) -> Result<(), TextfileError> {
        if self
            .written
            .is_some_and(|last| now.since(last) < TEXTFILE_INTERVAL)
        {
            return Ok(());
        }
        self.written = Some(now);
        // The collector ignores files that do not end in .prom.
        let new = self.path.with_extension("prom.new");
        let text = metrics::text(&daemon.report());
        let written = replace(&self.path, &new, FILE_MODE, text.as_bytes());
        let was_failing = std::mem::replace(&mut self.is_failing, written.is_err());
        written.or_else(|source| match was_failing {
            true => Ok(()),
            false => Err(TextfileError {
                path: self.path.clone(),
                source,
            }),
        })
    }

    /// Removes the file, because its values are stale after the daemon's end.
    pub fn remove(self) {
        // The file may not have been written yet.
        let _ = fs::remove_file(&self.path);
    }
}
