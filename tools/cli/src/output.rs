//! Atomic replacement of output files.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use thiserror::Error;

/// Why an output file was not written.
#[derive(Debug, Error)]
#[error("{}: cannot write: {source}{}", path.display(), advice(source))]
pub struct OutputError {
    path: PathBuf,
    source: io::Error,
}

/// What to do about an output file that cannot be written.
fn advice(why: &io::Error) -> &'static str {
    match why.kind() {
        io::ErrorKind::AlreadyExists => "; name a new file",
        io::ErrorKind::IsADirectory => "; name a file in it",
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => "; make its folder first",
        io::ErrorKind::PermissionDenied => "; name a folder that you may write to",
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::StorageFull => {
            "; name a file on another disk"
        }
        _ => "",
    }
}

impl From<OutputError> for io::Error {
    fn from(error: OutputError) -> Self {
        error.source
    }
}

/// An output file that is replaced by [`AtomicFile::commit`]; until then the old file stays.
#[derive(Debug)]
pub struct AtomicFile {
    /// The path that the user gave, for messages.
    path: PathBuf,
    /// The path with symbolic links resolved.
    target: PathBuf,
    /// Whether an existing file is refused.
    is_new: bool,
}

impl AtomicFile {
    /// Checks that the file can be written, so that a long run fails early.
    pub fn create(path: &Path) -> Result<Self, OutputError> {
        let file = Self {
            path: path.to_owned(),
            target: fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
            is_new: false,
        };
        let replaceable = match fs::metadata(&file.target) {
            Ok(existing) if existing.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            Ok(existing) if !existing.is_file() => Err(io::Error::other("not a regular file")),
            _ => Ok(()),
        };
        // The temporary file is removed at once, so an interrupted run leaves none.
        let tested = replaceable.and_then(|()| temporary(&file.target)).map(drop);
        tested.map_err(|source| file.error(source))?;
        Ok(file)
    }

    /// Checks that a new file can be written. One that exists is never replaced, even if it appears
    /// before [`Self::commit`].
    pub fn create_new(path: &Path) -> Result<Self, OutputError> {
        // A link that leads nowhere is in the way, too.
        let exists = fs::symlink_metadata(path).is_ok();
        let file = Self {
            is_new: true,
            ..Self::create(path)?
        };
        match exists {
            true => Err(file.error(already_exists())),
            false => Ok(file),
        }
    }

    /// Writes the file, as [`replace`] does.
    pub fn commit(self, contents: &[u8]) -> Result<(), OutputError> {
        self.stream(|out| out.write_all(contents))
    }

    /// Writes a file that is too large for memory, as [`replace`] does. `write` writes the contents.
    pub fn stream(
        self,
        write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
    ) -> Result<(), OutputError> {
        let written = written(&self.target, self.is_new, write);
        written.map_err(|source| self.error(source))
    }

    fn error(&self, source: io::Error) -> OutputError {
        OutputError {
            path: self.path.clone(),
            source,
        }
    }
}

fn already_exists() -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, "the file exists")
}

/// Replaces a file atomically: writes a temporary file beside it, syncs, renames, and syncs the
/// folder. After an error or a power loss the file has either its old or its new contents.
pub fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    written(path, false, |out| out.write_all(contents))
}

/// As [`replace`]; a new file fails if the path exists.
fn written(
    path: &Path,
    is_new: bool,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> io::Result<()> {
    let temporary = temporary(path)?;
    let mut contents = BufWriter::new(temporary.as_file());
    write(&mut contents)?;
    contents.flush()?;
    drop(contents);
    temporary.as_file().sync_all()?;
    match is_new {
        true => temporary.persist_noclobber(path)?,
        false => temporary.persist(path)?,
    };
    File::open(folder(path))?.sync_all()
}

fn temporary(path: &Path) -> io::Result<NamedTempFile> {
    // The dot makes a file in the place of the folder an error.
    fs::metadata(folder(path).join("."))?;
    // 0666 less the umask, as for any new file.
    let file = tempfile::Builder::new()
        .prefix(".wattgate-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder(path));
    // The library's message names the temporary file, which the user did not ask for.
    file.map_err(|why| why.kind().into())
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
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
    fn a_new_file_never_replaces_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let [first, second] = [(); 2].map(|()| AtomicFile::create_new(&path).expect("new"));
        first.commit(b"first").expect("written");
        let expected = format!(
            "{}: cannot write: the file exists; name a new file",
            path.display()
        );
        let error = AtomicFile::create_new(&path).expect_err("it exists");
        assert_eq!(error.to_string(), expected);
        assert!(second.commit(b"second").is_err());
        assert_eq!(fs::read(&path).expect("read"), b"first");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn a_missing_folder_is_named_as_the_user_gave_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("none/file");
        let error = AtomicFile::create(&path).expect_err("refused");
        let why = "cannot write: No such file or directory (os error 2); make its folder first";
        assert_eq!(error.to_string(), format!("{}: {why}", path.display()));
    }

    #[test]
    fn a_device_is_not_replaced() {
        let error = AtomicFile::create(Path::new("/dev/null")).expect_err("refused");
        assert_eq!(
            error.to_string(),
            "/dev/null: cannot write: not a regular file"
        );
    }

    #[test]
    fn a_stream_that_breaks_off_leaves_the_old_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        fs::write(&file, "before").expect("written");
        let broken = AtomicFile::create(&file)
            .expect("replaceable")
            .stream(|out| {
                out.write_all(b"half")?;
                Err(io::ErrorKind::StorageFull.into())
            });
        assert!(broken.is_err());
        assert_eq!(fs::read(&file).expect("read"), b"before");
        assert_eq!(fs::read_dir(folder.path()).expect("read").count(), 1);
        let output = AtomicFile::create(&file).expect("replaceable");
        output
            .stream(|out| out.write_all(b"after"))
            .expect("written");
        assert_eq!(fs::read(&file).expect("read"), b"after");
    }
}
