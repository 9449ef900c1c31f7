//! Small files that outlive a crash of the daemon or of the board.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// The file is there as a whole, on the disk, or as it was before. Its directory is made.
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
