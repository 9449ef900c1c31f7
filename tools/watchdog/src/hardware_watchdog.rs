//! The hardware watchdog timer, such as `/dev/watchdog0`: a device that resets the board unless
//! it is fed in time.
//!
//! Opening the device arms the timer. Only the control loop feeds it, so a daemon that hangs, even
//! inside Linux, ends in a reset. Writing `V` before closing disarms the timer ("magic
//! close"); after a crash the timer keeps running. The timeout is the driver's: changing it takes
//! an ioctl, which needs `unsafe`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, OFlags, access};
use thiserror::Error;
use wattgate_runtime::Milliseconds;

/// Least time between two feeds.
const FEED_INTERVAL: Milliseconds = Milliseconds(1_000);

/// The device cannot be opened or written.
#[derive(Debug, Error)]
#[error("hardware_watchdog: {}: {source}{}", path.display(), advice(source))]
pub struct HardwareWatchdogError {
    path: PathBuf,
    source: io::Error,
}

fn advice(why: &io::Error) -> &'static str {
    match why.kind() {
        io::ErrorKind::ResourceBusy => {
            "; another program feeds it, such as systemd (RuntimeWatchdogSec): leave it to that one, and take the key out"
        }
        io::ErrorKind::NotFound => "; name a device of this board, or take the key out",
        io::ErrorKind::PermissionDenied => "; run wattgated as root",
        _ => "",
    }
}

/// An armed watchdog timer.
#[derive(Debug)]
pub struct HardwareWatchdog {
    path: PathBuf,
    device: File,
    written: Option<Milliseconds>,
    is_failing: bool,
}

impl HardwareWatchdog {
    /// Opens the device, which arms the timer.
    pub fn arm(path: &Path) -> Result<Self, HardwareWatchdogError> {
        let at = |source| HardwareWatchdogError {
            path: path.to_owned(),
            source,
        };
        // Without NONBLOCK, opening a pipe that has no reader would block.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let device = File::options().write(true).custom_flags(flags).open(path);
        Ok(Self {
            path: path.to_owned(),
            device: device.map_err(at)?,
            written: None,
            is_failing: false,
        })
    }

    /// Fails if the device is not there, may not be written, or has another owner, as sysfs below `root` shows. Opening
    /// it would arm the timer.
    pub fn check(path: &Path, root: &Path) -> Result<(), HardwareWatchdogError> {
        let at = |source| HardwareWatchdogError {
            path: path.to_owned(),
            source,
        };
        access(path, Access::WRITE_OK).map_err(|error| at(error.into()))?;
        let state = path.file_name().map(|name| {
            let shown = root.join("sys/class/watchdog").join(name);
            fs::read_to_string(shown.join("state")).unwrap_or_default()
        });
        match state.as_deref().map(str::trim) {
            Some("active") => Err(at(io::ErrorKind::ResourceBusy.into())),
            _ => Ok(()),
        }
    }

    /// The driver's timeout in seconds, if sysfs below `root` shows it.
    pub fn timeout_s(&self, root: &Path) -> Option<u32> {
        let name = self.path.file_name()?;
        let shown = root.join("sys/class/watchdog").join(name).join("timeout");
        fs::read_to_string(shown).ok()?.trim().parse().ok()
    }

    /// Feeds the timer, at most once a second. Of consecutive failures only the first is returned.
    pub fn feed(&mut self, now: Milliseconds) -> Result<(), HardwareWatchdogError> {
        if self
            .written
            .is_some_and(|last| now.since(last) < FEED_INTERVAL)
        {
            return Ok(());
        }
        self.written = Some(now);
        let written = self.device.write_all(b".");
        let was_failing = std::mem::replace(&mut self.is_failing, written.is_err());
        written.or_else(|source| match was_failing {
            true => Ok(()),
            false => Err(self.error(source)),
        })
    }

    /// Disarms the timer and closes the device.
    pub fn disarm(mut self) -> Result<(), HardwareWatchdogError> {
        let written = self.device.write_all(b"V");
        written.map_err(|source| self.error(source))
    }

    fn error(&self, source: io::Error) -> HardwareWatchdogError {
        HardwareWatchdogError {
            path: self.path.clone(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_arms_nothing() {
        let root = tempfile::tempdir().expect("a directory");
        let path = root.path().join("watchdog0");
        assert!(HardwareWatchdog::check(&path, root.path()).is_err());
        fs::write(&path, "").expect("made");
        assert!(HardwareWatchdog::check(&path, root.path()).is_ok());
        let shown = root.path().join("sys/class/watchdog/watchdog0");
        fs::create_dir_all(&shown).expect("made");
        for (state, is_free) in [("inactive\n", true), ("active\n", false)] {
            fs::write(shown.join("state"), state).expect("written");
            let checked = HardwareWatchdog::check(&path, root.path());
            assert_eq!(checked.is_ok(), is_free, "{state}");
        }
        assert_eq!(fs::read(&path).expect("there"), b"");
    }

    fn armed() -> (tempfile::TempDir, PathBuf, HardwareWatchdog) {
        let root = tempfile::tempdir().expect("a directory");
        let path = root.path().join("watchdog0");
        fs::write(&path, "").expect("made");
        let hardware = HardwareWatchdog::arm(&path).expect("armed");
        (root, path, hardware)
    }

    fn written(path: &Path) -> String {
        fs::read_to_string(path).expect("read")
    }

    #[test]
    fn the_timer_is_fed_once_a_second() {
        let (_root, path, mut hardware) = armed();
        for now in (500..5_500).step_by(10) {
            hardware.feed(Milliseconds(now)).expect("written");
        }
        assert_eq!(written(&path), ".....");
    }

    #[test]
    fn disarming_writes_v_and_dropping_does_not() {
        let (_root, path, mut hardware) = armed();
        hardware.feed(Milliseconds(0)).expect("written");
        hardware.disarm().expect("written");
        assert_eq!(written(&path), ".V");
        let (_root, path, mut hardware) = armed();
        hardware.feed(Milliseconds(0)).expect("written");
        drop(hardware);
        assert_eq!(written(&path), ".");
    }

    #[test]
    fn a_missing_device_is_named() {
        let error = HardwareWatchdog::arm(Path::new("/dev/no watchdog")).expect_err("absent");
        assert_eq!(
            error.to_string(),
            "hardware_watchdog: /dev/no watchdog: No such file or directory (os error 2); name a device of this board, or take the key \
             out"
        );
    }

    /// Every write to `/dev/full` fails.
    #[test]
    fn consecutive_failures_are_reported_once() {
        let mut hardware = HardwareWatchdog::arm(Path::new("/dev/full")).expect("opened");
        assert!(hardware.feed(Milliseconds(0)).is_err());
        assert!(hardware.feed(Milliseconds(1_000)).is_ok());
        assert!(hardware.disarm().is_err());
    }

    #[test]
    fn the_driver_s_timeout_is_read() {
        let (root, _, hardware) = armed();
        assert_eq!(hardware.timeout_s(root.path()), None);
        let directory = root.path().join("sys/class/watchdog/watchdog0");
        fs::create_dir_all(&directory).expect("made");
        fs::write(directory.join("timeout"), "120\n").expect("written");
        assert_eq!(hardware.timeout_s(root.path()), Some(120));
    }
}
