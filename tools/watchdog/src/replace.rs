//! Replaces a file atomically without a sync, which would block the control loop. After a power
//! loss the file may be empty.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Writes the contents to `new`, gives it the permissions `mode` whatever the umask, and renames it
/// to `path`. `new` is always created: a link or a file at that path is removed, not followed.
pub fn replace(path: &Path, new: &Path, mode: u32, contents: &[u8]) -> io::Result<()> {
    match fs::remove_file(new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = File::options();
    // O_EXCL, which does not follow a link either.
    let mut file = options.write(true).create_new(true).mode(mode).open(new)?;
    // The umask may have cleared bits of the mode.
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(contents)?;
    fs::rename(new, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_planted_link_is_removed_and_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let [path, new, victim] = ["file", "file.new", "victim"].map(|it| folder.path().join(it));
        fs::write(&victim, "before").expect("written");
        fs::set_permissions(&victim, Permissions::from_mode(0o600)).expect("set");
        for target in [&victim, &folder.path().join("absent")] {
            symlink(target, &new).expect("linked");
            replace(&path, &new, 0o644, b"after").expect("replaced");
            let metadata = fs::symlink_metadata(&path).expect("there");
            assert!(metadata.is_file() && metadata.permissions().mode() & 0o777 == 0o644);
            assert_eq!(fs::read(&path).expect("read"), b"after");
            fs::remove_file(&path).expect("removed");
        }
        assert_eq!(fs::read(&victim).expect("read"), b"before");
        let mode = fs::metadata(&victim).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn a_file_that_a_crash_left_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let [path, new] = ["file", "file.new"].map(|it| folder.path().join(it));
        fs::write(&new, "half of a longer text").expect("written");
        replace(&path, &new, 0o600, b"whole").expect("replaced");
        assert_eq!(fs::read(&path).expect("read"), b"whole");
        assert!(!new.exists());
    }
}
