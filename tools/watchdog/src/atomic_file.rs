//! Atomic replacement of small files that must survive a crash or a power loss.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Replaces a file atomically: writes a temporary file, syncs, renames, and syncs the directory.
/// After an error or a crash the file has either its old or its new contents. Creates the
/// directory if needed.
pub fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    let directory = path.parent();
    directory.map_or(Ok(()), fs::create_dir_all)?;
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(contents)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    directory.map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}
