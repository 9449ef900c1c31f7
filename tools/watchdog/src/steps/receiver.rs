//! The socket that takes the counts of workloads. Everybody may send.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use rustix::net::sockopt::set_socket_passcred;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketAddrUnix, recvmsg};
use wattgate_cli::steps::{MAX_BYTES, StepLine};

use super::senders::Counter;

/// The first process namespace of a machine: `PROC_PID_INIT_INO` in Linux's `proc_ns.h`.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// A datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub counter: Counter,
    /// The user of the sender; `None` where Linux does not tell.
    pub uid: Option<u32>,
    /// What it says; `None` if it is no line of the protocol.
    pub line: Option<StepLine>,
}

/// The socket; dropping it removes its file.
#[derive(Debug)]
pub struct Receiver {
    socket: UnixDatagram,
    path: PathBuf,
    /// Whether datagrams tell their process.
    has_processes: bool,
}

impl Receiver {
    /// Opens the socket at a path, in place of one that was left. Folders that are missing are made.
    pub fn at(path: &Path) -> io::Result<Self> {
        // A name alone is in the present folder.
        let is_absent = |parent: &&Path| !parent.as_os_str().is_empty() && !parent.exists();
        if let Some(parent) = path.parent().filter(is_absent) {
            make_directory(parent)?;
        }
        let socket = match UnixDatagram::bind(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && is_abandoned(path) => {
                fs::remove_file(path)?;
                UnixDatagram::bind(path)?
            }
            bound => bound?,
        };
        fs::set_permissions(path, Permissions::from_mode(0o666))?;
        socket.set_nonblocking(true)?;
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        // Elsewhere Linux may give number 0, which rustix cannot represent.
        let has_processes = namespace == Path::new(FIRST_NAMESPACE);
        set_socket_passcred(&socket, has_processes)?;
        Ok(Self {
            socket,
            // The workload may change its directory.
            path: std::path::absolute(path)?,
            has_processes,
        })
    }

    /// Path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next datagram; `None` if there is none now.
    pub fn receive(&self) -> Option<Received> {
        // A longer line is no line of the protocol.
        let mut buffer = [0; MAX_BYTES + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(&self.socket, &mut parts, &mut control, flags).ok()?;
        let sender = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmCredentials(who) => Some(who),
            _ => None,
        });
        let sender = sender.filter(|_| self.has_processes);
        let address = received.address.map(SocketAddrUnix::try_from);
        let address = address.and_then(Result::ok);
        let address = address.and_then(|it| it.abstract_name().map(<[u8]>::to_vec));
        let process = sender.as_ref().map(|who| who.pid.as_raw_nonzero().get());
        Some(Received {
            counter: Counter { process, address },
            uid: sender.map(|who| who.uid.as_raw()),
            line: StepLine::parse(&buffer[..received.bytes]).ok(),
        })
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Makes a directory that everybody may enter, whatever our umask is.
pub fn make_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.exists() => make_directory(parent)?,
        _ => {}
    }
    DirBuilder::new().mode(0o755).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

/// Whether a socket was left by a program that has ended.
fn is_abandoned(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    let connected = UnixDatagram::unbound().and_then(|socket| socket.connect(path));
    is_socket && connected.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}
