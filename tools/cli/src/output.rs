//! Atomic replacement of output files.

use std::fs::{self, Permissions};
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

/// An output file that is replaced by [`AtomicFile::commit`]; until then the old file stays.
#[derive(Debug)]
pub struct AtomicFile {
    /// The path that the user gave, for messages.
    path: PathBuf,
    /// The path with symbolic links resolved.
    target: PathBuf,
}

impl AtomicFile {
    /// Checks that the file can be written, so that a long run fails early.
    pub fn create(path: &Path) -> Result<Self, OutputError> {
        let file = Self {
            path: path.to_owned(),
            target: fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
        };
        let replaceable = match fs::metadata(&file.target) {
            Ok(existing) if existing.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            Ok(existing) if !existing.is_file() => Err(io::Error::other("not a regular file")),
            _ => Ok(()),
        };
        // The temporary file is removed at once, so an interrupted run leaves none.
        let tested = replaceable.and_then(|()| file.temporary()).map(drop);
        tested.map_err(|source| file.error(source))?;
        Ok(file)
    }

    /// Writes a temporary file beside the target, syncs it and renames it.
    pub fn commit(self, contents: &[u8]) -> Result<(), OutputError> {
        let write = || {
            let mut temporary = self.temporary()?;
            temporary.write_all(contents)?;
            temporary.as_file().sync_all()?;
            temporary.persist(&self.target)?;
            Ok(())
        };
        write().map_err(|source| self.error(source))
    }

    fn temporary(&self) -> io::Result<NamedTempFile> {
        let folder = match self.target.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        // 0666 less the umask, as for any new file.
        tempfile::Builder::new()
            .prefix(".wattgate-")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)
    }

    fn error(&self, source: io::Error) -> OutputError {
        OutputError {
            path: self.path.clone(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_behind_a_link_is_replaced_and_the_link_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
        fs::write(&file, "before").expect("written");
        std::os::unix::fs::symlink(&file, &link).expect("linked");
        let output = AtomicFile::create(&link).expect("replaceable");
        assert_eq!(fs::read(&file).expect("read"), b"before");
        output.commit(b"after").expect("written");
        assert_eq!(fs::read(&file).expect("read"), b"after");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2);
    }

    #[test]
    fn a_device_is_not_replaced() {
        let error = AtomicFile::create(Path::new("/dev/null")).expect_err("refused");
        assert_eq!(
            error.to_string(),
            "/dev/null: cannot write: not a regular file"
        );
    }
}
