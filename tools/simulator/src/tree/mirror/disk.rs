//! Creates, replaces, links and updates files in a directory on a disk.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Name in the root of a file that is about to be renamed into place.
const NEW: &str = ".new";

/// Maximum length of one read of a file, in bytes. The rest of a longer file of commands is read
/// next time.
const MAX_READ: usize = 1 << 20;

/// Why a tree cannot be created or updated on the disk.
#[derive(Debug, Error)]
pub enum MirrorError {
    #[error(
        "{}: not empty, expected an empty directory or a path that does not exist; name another with --root",
        root.display()
    )]
    NotEmpty { root: PathBuf },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("inotify: {0}")]
    Inotify(#[from] rustix::io::Errno),
}

/// Fills a directory that is empty or does not exist. If `fill` fails, the directory is left as it was.
/// `fill` gets an absolute path: links have to lead into the tree from every working directory.
pub fn fill<T>(
    root: &Path,
    fill: impl FnOnce(&Path) -> Result<T, MirrorError>,
) -> Result<T, MirrorError> {
    let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let (there, occupied) = match fs::read_dir(root) {
        Ok(mut entries) => (true, entries.next().is_some()),
        Err(error) if missing(&error) => (false, false),
        Err(error) => return Err(at(root)(error)),
    };
    if occupied {
        let root = root.to_owned();
        return Err(MirrorError::NotEmpty { root });
    }
    let created = fs::create_dir_all(root).and_then(|()| fs::canonicalize(root));
    let filled = created.map_err(at(root)).and_then(|root| fill(&root));
    if filled.is_err() {
        // The first error is reported; an error of the clean-up adds nothing.
        let _ = fs::remove_dir_all(root);
        let _ = there.then(|| fs::create_dir(root));
    }
    filled
}

/// The directory of a tree.
#[derive(Debug)]
pub struct Root(pub PathBuf);

impl Root {
    /// Where a path of the tree is on the disk.
    pub fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// Puts a new file in place of whatever is there; returns it open.
    pub fn make(&self, on_disk: &Path, text: &str, writable: bool) -> Result<File, MirrorError> {
        let new = self.0.join(NEW);
        let make = || {
            let mode = if writable { 0o644 } else { 0o444 };
            let mut options = File::options();
            let options = options.read(true).write(true).create_new(true).mode(mode);
            let mut file = options.open(&new)?;
            file.write_all(text.as_bytes())?;
            fs::rename(&new, on_disk)?;
            Ok(file)
        };
        make().map_err(at(on_disk))
    }

    /// Puts a link in place of whatever is there.
    pub fn link(&self, on_disk: &Path, target: &Path) -> Result<(), MirrorError> {
        let new = self.0.join(NEW);
        let make = || {
            symlink(target, &new)?;
            fs::rename(&new, on_disk)
        };
        make().map_err(at(on_disk))
    }
}

/// Wraps an error of a path.
pub fn at(path: &Path) -> impl Fn(io::Error) -> MirrorError {
    let path = path.to_owned();
    move |source| MirrorError::Io {
        path: path.clone(),
        source,
    }
}

/// The text of a file from an offset to its end.
pub fn read(file: &File, from: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = file.read_at(&mut piece, from + bytes.len() as u64)?;
        bytes.extend_from_slice(&piece[..read]);
        if read == 0 || bytes.len() > MAX_READ {
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}

/// Changes the text of a file from one of `length` bytes so that every reader finds the old
/// or the new one, followed by newlines at most.
pub fn replace(file: &File, length: usize, text: &str) -> io::Result<()> {
    let longer = text.len().saturating_sub(length);
    file.write_all_at("\n".repeat(longer).as_bytes(), length as u64)?;
    let padding = length.saturating_sub(text.len());
    let padded = text.to_owned() + &"\n".repeat(padding);
    file.write_all_at(padded.as_bytes(), 0)?;
    if padding > 0 {
        file.set_len(text.len() as u64)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_text_is_exact() {
        let file = tempfile::tempfile().expect("a file");
        let mut length = 0;
        for text in ["1000\n", "96\n", "115200\n", "-8\n", "\n"] {
            replace(&file, length, text).expect("written");
            length = text.len();
            assert_eq!(read(&file, 0).expect("readable"), text);
        }
    }
}
