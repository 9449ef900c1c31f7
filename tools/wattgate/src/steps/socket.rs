//! Steps from the datagrams of the workload ([`wattgate_cli::steps`]), also of several processes.

use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process;

use rustix::fs::OFlags;
use wattgate_watchdog::steps::Told;
use wattgate_watchdog::steps::receiver::Receiver;
use wattgate_watchdog::steps::senders::Senders;

/// A socket that takes the counts of a workload. Everybody may send.
#[derive(Debug)]
pub struct StepSocket {
    receiver: Receiver,
    senders: Senders,
    /// A directory of ours, which we remove.
    directory: Option<PathBuf>,
}

impl StepSocket {
    /// Opens a socket at a path.
    pub fn at(path: &Path) -> io::Result<Self> {
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        Self::open(path).map_err(named)
    }

    fn open(path: &Path) -> io::Result<Self> {
        let receiver = Receiver::at(path)?;
        let counter = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(counter(path))?;
        counter.set_permissions(Permissions::from_mode(0o666))?;
        Ok(Self {
            receiver,
            senders: Senders::default(),
            directory: None,
        })
    }

    /// Opens a socket `PID/steps` in a directory, such as `/run/wattgate`, which a container can
    /// mount; where that is not possible, in a temporary one.
    pub fn below(directory: &Path) -> io::Result<Self> {
        let own = directory.join(process::id().to_string());
        if let Ok(mut socket) = Self::at(&own.join("steps")) {
            socket.directory = Some(own);
            return Ok(socket);
        }
        let temporary = tempfile::Builder::new().prefix("wattgate-").tempdir();
        // The library's message names the temporary folder, which the user did not ask for.
        let temporary = temporary.map_err(|why| {
            let folder = std::env::temp_dir();
            let why = format!("{}: {}", folder.display(), why.kind());
            io::Error::other(format!(
                "{why}; name a folder that you may write to with TMPDIR"
            ))
        })?;
        fs::set_permissions(temporary.path(), Permissions::from_mode(0o755))?;
        let mut socket = Self::at(&temporary.path().join("steps"))?;
        socket.directory = Some(temporary.keep());
        Ok(socket)
    }

    /// Path of the socket.
    pub fn path(&self) -> &Path {
        self.receiver.path()
    }

    /// The name that the workload tells: `None` if it tells none, or several.
    pub fn name(&self) -> Option<&str> {
        self.senders.name()
    }

    /// The steps of the workload and what came with them, if a datagram has changed the steps. Other
    /// datagrams are ignored.
    pub fn take(&mut self) -> Option<(u64, Told)> {
        loop {
            let received = self.receiver.receive()?;
            let senders = &mut self.senders;
            let steps = received
                .line
                .ok()
                .and_then(|line| senders.take(received.counter, line));
            if let Some(steps) = steps {
                return Some((steps, senders.told()));
            }
        }
    }
}

impl AsFd for StepSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}

impl Drop for StepSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(counter(self.path()));
        if let Some(directory) = &self.directory {
            // Its own file is still in it.
            let _ = fs::remove_file(self.path());
            let _ = fs::remove_dir(directory);
        }
    }
}

/// The file with the counts of `wattgate step`, beside the socket.
pub fn counter(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".count");
    PathBuf::from(path)
}
