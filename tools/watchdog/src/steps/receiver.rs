//! The socket that takes the counts of workloads. Everybody may send.
//!
//! A thread reads it, and hands over what it has read. A datagram may carry open files, which Linux closes in the system call
//! that reads it: the close of a socket with a linger time waits, and nothing that holds a limit may wait for a stranger.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::thread;

use rustix::net::sockopt::set_socket_passcred;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketAddrUnix,
    SocketFlags, SocketType, bind, recvmsg, socket_with,
};
use wattgate_cli::steps::{MAX_BYTES, StepLine, StepLineError};

use super::senders::Counter;

/// The first process namespace of a machine: `PROC_PID_INIT_INO` in Linux's `proc_ns.h`.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Number of datagrams that are read ahead. While nobody takes them no more are read, and senders see a full queue.
const READ_AHEAD: usize = 64;

/// Bytes of the reading thread's stack.
const STACK: usize = 128 << 10;

/// Longest address of a Unix socket: `sizeof(struct sockaddr_un)`. Linux adds a zero to a path of all 108 bytes, and tells a
/// length that is one more.
const LONGEST_ADDRESS: u32 = 110;

/// A datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub counter: Counter,
    /// The user of the sender; `None` where Linux does not tell.
    pub uid: Option<u32>,
    /// What it says, or why it is no line of the protocol.
    pub line: Result<StepLine, StepLineError>,
}

/// The socket; dropping it removes its file.
#[derive(Debug)]
pub struct Receiver {
    socket: Arc<UnixDatagram>,
    path: PathBuf,
    /// Device and number of the socket's file.
    file: (u64, u64),
    received: mpsc::Receiver<Received>,
    /// Readable when datagrams have been read.
    wakes: UnixStream,
    has_ended: Arc<AtomicBool>,
}

impl Receiver {
    /// Opens the socket at a path, in place of one that was left. Folders that are missing are made.
    pub fn at(path: &Path) -> io::Result<Self> {
        // A name alone is in the present folder.
        let is_absent = |parent: &&Path| !parent.as_os_str().is_empty() && !parent.exists();
        if let Some(parent) = path.parent().filter(is_absent) {
            make_directory(parent)?;
        }
        let (socket, has_processes) = match bound(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && is_abandoned(path) => {
                fs::remove_file(path)?;
                bound(path)?
            }
            bound => bound?,
        };
        let file = file(path)?;
        // Last: from now on everybody may send.
        fs::set_permissions(path, Permissions::from_mode(0o666))?;
        let socket = Arc::new(socket);
        let has_ended = Arc::<AtomicBool>::default();
        let (wakes, wake) = UnixStream::pair()?;
        wakes.set_nonblocking(true)?;
        wake.set_nonblocking(true)?;
        let (sender, received) = mpsc::sync_channel(READ_AHEAD);
        let reader = Reader {
            socket: Arc::clone(&socket),
            has_processes,
            sender,
            wake,
            has_ended: Arc::clone(&has_ended),
        };
        let thread = thread::Builder::new().name("steps".to_owned());
        thread.stack_size(STACK).spawn(move || reader.run())?;
        Ok(Self {
            socket,
            // The workload may change its directory.
            path: std::path::absolute(path)?,
            file,
            received,
            wakes,
            has_ended,
        })
    }

    /// Path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next datagram; `None` if there is none now.
    pub fn receive(&self) -> Option<Received> {
        let next = || self.received.try_recv().ok();
        next().or_else(|| {
            let mut wakes = &self.wakes;
            while wakes.read(&mut [0; 64]).is_ok_and(|read| read > 0) {}
            // One may have come before the wake was taken.
            next()
        })
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakes.as_fd()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
        // The thread is not waited for: a stranger may keep it.
        let _ = self.socket.shutdown(Shutdown::Both);
        // Another program may have the path by now.
        if file(&self.path).is_ok_and(|file| file == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The thread that reads.
struct Reader {
    socket: Arc<UnixDatagram>,
    /// Whether datagrams tell their process.
    has_processes: bool,
    sender: SyncSender<Received>,
    wake: UnixStream,
    has_ended: Arc<AtomicBool>,
}

impl Reader {
    fn run(mut self) {
        while !self.has_ended.load(Ordering::Relaxed) {
            let Ok(received) = self.receive() else {
                continue;
            };
            if self.sender.send(received).is_err() {
                return;
            }
            // It stays readable if it is full.
            let _ = self.wake.write(&[0]);
        }
    }

    /// Waits for a datagram.
    fn receive(&self) -> io::Result<Received> {
        // A longer line is no line of the protocol.
        let mut buffer = [0; MAX_BYTES + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(&*self.socket, &mut parts, &mut control, flags)?;
        let sender = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmCredentials(who) => Some(who),
            _ => None,
        });
        let sender = sender.filter(|_| self.has_processes);
        let is_sound = |length: u32| length <= LONGEST_ADDRESS;
        let address = received.address.filter(|it| is_sound(it.addr_len()));
        let address = address.map(SocketAddrUnix::try_from).and_then(Result::ok);
        let address = address.and_then(|it| it.abstract_name().map(<[u8]>::to_vec));
        let process = sender.as_ref().map(|who| who.pid.as_raw_nonzero().get());
        Ok(Received {
            counter: Counter { process, address },
            uid: sender.map(|who| who.uid.as_raw()),
            line: StepLine::parse(&buffer[..received.bytes]),
        })
    }
}

/// A socket at a path, and whether its datagrams tell their process.
fn bound(path: &Path) -> io::Result<(UnixDatagram, bool)> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    // Elsewhere Linux may give number 0, which rustix cannot represent.
    let has_processes = namespace == Path::new(FIRST_NAMESPACE);
    // Before anybody may send: a datagram from before has number 0.
    set_socket_passcred(&socket, has_processes)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    Ok((UnixDatagram::from(socket), has_processes))
}

/// Device and number of a file.
fn file(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Makes a directory that everybody may enter, whatever our umask is.
fn make_directory(path: &Path) -> io::Result<()> {
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
