//! Faults that other programs see as errors of the system. An ordinary file cannot fail on demand,
//! so a symbolic link takes its place, to a file of the running system that fails.
//!
//! | error | target of the link | effect |
//! |---|---|---|
//! | EIO | `/proc/self/mem` | reads and writes at offset 0 fail |
//! | EINVAL | `/proc/self/setgroups` | a write of a number fails (only with CAP_SYS_ADMIN) |
//! | EBUSY | a terminal in exclusive use | open fails (only without CAP_SYS_ADMIN) |
//! | EROFS | a read-only file system of a helper process | open for writing fails; reads work |
//!
//! A read of `/proc/self/setgroups` gives Linux's text.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::ioctl_tiocexcl;
use thiserror::Error;

use super::super::errno::Errno;

/// Why a program cannot be given this error.
#[derive(Debug, Error)]
pub enum LinkError {
    #[error("no system file produces {errno}")]
    NoFile { errno: Errno },
    /// A process with CAP_SYS_ADMIN can open a terminal in exclusive use; its reads would then
    /// block.
    #[error("EBUSY cannot be produced for a process with CAP_SYS_ADMIN (root)")]
    Privileged,
    /// Only a process with CAP_SYS_ADMIN can open the file that gives EINVAL.
    #[error("EINVAL cannot be produced without CAP_SYS_ADMIN")]
    Unprivileged,
    #[error("cannot open a terminal: {0}")]
    Terminal(io::Error),
    #[error("no read-only file system (`unshare -Urm`): {0}")]
    ReadOnly(io::Error),
}

/// What a link needs to be held open.
#[derive(Debug)]
enum Held {
    Terminal { _both: [OwnedFd; 2] },
    Helper(Child),
}

/// Links that work only while something is held open.
#[derive(Debug, Default)]
pub struct Links {
    held: BTreeMap<String, Held>,
}

/// The helper: a file system of its own with one file in it, until its standard input ends.
const HELPER: &str = "mount -t tmpfs tmpfs /mnt && printf %s \"$1\" >/mnt/file && \
    mount -o remount,bind,ro /mnt && echo ready && exec cat >/dev/null";

impl Links {
    /// The target of the link at `path` for this error; `text` is what the file shows.
    pub fn target(&mut self, path: &str, errno: Errno, text: &str) -> Result<PathBuf, LinkError> {
        self.release(path);
        let (target, held) = match errno {
            Errno::Eio => return Ok("/proc/self/mem".into()),
            Errno::Einval => return setgroups(),
            Errno::Ebusy => terminal()?,
            Errno::Erofs => read_only(text).map_err(LinkError::ReadOnly)?,
            errno => return Err(LinkError::NoFile { errno }),
        };
        self.held.insert(path.to_owned(), held);
        Ok(target)
    }

    /// Releases what the link at `path` needs.
    pub fn release(&mut self, path: &str) {
        if let Some(Held::Helper(mut helper)) = self.held.remove(path) {
            // The end of its standard input ends it.
            drop(helper.stdin.take());
            // Its exit status does not matter.
            let _ = helper.wait();
        }
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        let paths: Vec<String> = self.held.keys().cloned().collect();
        paths.iter().for_each(|path| self.release(path));
    }
}

fn setgroups() -> Result<PathBuf, LinkError> {
    let path = "/proc/self/setgroups";
    match rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(_) => Ok(path.into()),
        Err(_) => Err(LinkError::Unprivileged),
    }
}

fn terminal() -> Result<(PathBuf, Held), LinkError> {
    let open = || {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let name = ptsname(&ours, Vec::new())?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let theirs = rustix::fs::open(&name, flags, Mode::empty())?;
        ioctl_tiocexcl(&theirs)?;
        let again = rustix::fs::open(&name, flags, Mode::empty());
        Ok((name, ours, theirs, again.err()))
    };
    let opened = open().map_err(|error: rustix::io::Errno| LinkError::Terminal(error.into()));
    let (name, ours, theirs, again) = opened?;
    if again != Some(rustix::io::Errno::BUSY) {
        return Err(LinkError::Privileged);
    }
    let name = PathBuf::from(name.to_string_lossy().into_owned());
    let both = [ours, theirs];
    Ok((name, Held::Terminal { _both: both }))
}

fn read_only(text: &str) -> io::Result<(PathBuf, Held)> {
    let mut helper = Command::new("unshare")
        .args(["-Urm", "sh", "-c", HELPER, "sh", text])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut answer = String::new();
    if let Some(output) = helper.stdout.take() {
        BufReader::new(output).read_line(&mut answer)?;
    }
    if answer != "ready\n" {
        let status = helper.wait()?;
        return Err(io::Error::other(format!("{status}")));
    }
    let target = format!("/proc/{}/root/mnt/file", helper.id());
    Ok((target.into(), Held::Helper(helper)))
}
