//! Steps from the datagrams of the workload ([`wattgate_cli::steps`]), also of several processes.
//!
//! Linux names the process of each datagram, and the address of the sender's socket where it has one, as each counter
//! of our packages does. So several counts are not taken for one that goes back and forth, be they of several
//! processes, of threads, or of a workload that has begun anew. A counter below is one of a process:
//!
//! - Counters of **the same name**, or of none, count the same steps, as the ranks of a
//!   data-parallel training do. The one that is ahead counts.
//! - Counts of **different names** are different work. They are added.
//! - A counter or a name that comes later begins at what is counted already, so that it adds what it
//!   does from then on. If its count is above that of the counters with its name it goes on from
//!   theirs: this is a loop in a shell, each step of which is another process.
//!
//! A sender may also report how long its steps waited for data and computed. With several senders these
//! times overlap, so they are used only if there is one sender. The samples of a step are used if there is
//! one name.
//!
//! In a container with process numbers of its own the address alone tells counters apart.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, ErrorKind, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process;

use rustix::fs::OFlags;
use rustix::net::sockopt::set_socket_passcred;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketAddrUnix, recvmsg};
use wattgate_cli::steps::{MAX_BYTES, StepLine};

use crate::window::Told;

/// Number of names, and of counters with one name, that are kept apart.
const MOST_SENDERS: usize = 64;

/// The first process namespace of a machine: `PROC_PID_INIT_INO` in Linux's `proc_ns.h`.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// A socket that takes the counts of a workload. Everybody may send.
#[derive(Debug)]
pub struct StepSocket {
    socket: UnixDatagram,
    path: PathBuf,
    senders: Senders,
    /// Whether datagrams tell their process.
    has_processes: bool,
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
        let counter = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(counter(path))?;
        counter.set_permissions(Permissions::from_mode(0o666))?;
        Ok(Self {
            socket,
            // The workload may change its directory.
            path: std::path::absolute(path)?,
            senders: Senders::default(),
            has_processes,
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
        &self.path
    }

    /// The name that the workload tells: `None` if it tells none, or several.
    pub fn name(&self) -> Option<&str> {
        self.senders.name()
    }

    /// The steps of the workload and what came with them, if a datagram has changed the steps. Other
    /// datagrams are ignored.
    pub fn take(&mut self) -> Option<(u64, Told)> {
        loop {
            // A longer line is no line of the protocol.
            let mut buffer = [0; MAX_BYTES + 1];
            let (length, counter) = self.receive(&mut buffer)?;
            let line = StepLine::parse(&buffer[..length]).ok();
            let steps = line.and_then(|line| self.senders.take(counter, line));
            if let Some(steps) = steps {
                return Some((steps, self.senders.told()));
            }
        }
    }

    /// Length and counter of a datagram.
    fn receive(&self, buffer: &mut [u8]) -> Option<(usize, Counter)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(buffer)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(&self.socket, &mut parts, &mut control, flags).ok()?;
        let process = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmCredentials(who) => Some(who.pid.as_raw_nonzero().get()),
            _ => None,
        });
        let process = process.filter(|_| self.has_processes);
        let address = received.address.map(SocketAddrUnix::try_from);
        let address = address.and_then(Result::ok);
        let address = address.and_then(|it| it.abstract_name().map(<[u8]>::to_vec));
        Some((received.bytes, Counter { process, address }))
    }
}

impl AsFd for StepSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for StepSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_file(counter(&self.path));
        if let Some(directory) = &self.directory {
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

/// What tells a counter of steps from others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// The process; `None` where Linux does not tell.
    pub process: Option<i32>,
    /// The address of its socket in the abstract namespace, if it has one.
    pub address: Option<Vec<u8>>,
}

/// The senders of a workload, and the steps that their counts amount to.
#[derive(Debug, Default)]
pub struct Senders {
    steps: Option<u64>,
    /// What the last line told beside its count.
    told: Told,
    names: Vec<Name>,
}

/// The counters that send one name.
#[derive(Debug)]
struct Name {
    name: Option<String>,
    /// The count of the counter that is ahead.
    count: i128,
    /// The last one to send comes last.
    senders: Vec<Sender>,
}

#[derive(Debug)]
struct Sender {
    counter: Counter,
    last: u64,
    /// What is to be added to its count.
    offset: i128,
}

impl Senders {
    /// What came with the steps so far, as far as it is true of all senders.
    pub fn told(&self) -> Told {
        match &self.names[..] {
            [name] if name.senders.len() == 1 => self.told,
            [_] => Told {
                items: self.told.items,
                ..Told::default()
            },
            _ => Told::default(),
        }
    }

    /// The name of all senders that tell one; `None` if nobody does, or if they tell several.
    pub fn name(&self) -> Option<&str> {
        let mut told = self.names.iter().filter_map(|it| it.name.as_deref());
        told.next().filter(|_| told.next().is_none())
    }

    /// Takes a line of a counter. Returns the steps of the workload if they have changed. They are
    /// less than before if the count of the counter is.
    pub fn take(&mut self, counter: Counter, line: StepLine) -> Option<u64> {
        self.told = Told {
            fetch_us: line.fetch_us,
            compute_us: line.compute_us,
            items: line.items.filter(|items| *items > 0),
        };
        let count = i128::from(line.steps);
        let before = self.steps;
        let steps = before.unwrap_or(line.steps);
        let known = self.names.iter().position(|it| it.name == line.name);
        let known = known.unwrap_or(self.names.len());
        if known == self.names.len() && known < MOST_SENDERS {
            self.names.push(Name {
                name: line.name,
                count,
                senders: Vec::new(),
            });
        }
        let name = self.names.get_mut(known)?;
        let known = name.senders.iter().position(|it| it.counter == counter);
        let mut sender = match known {
            Some(known) => name.senders.remove(known),
            None => Sender {
                counter,
                last: line.steps,
                offset: (name.count - count).max(0),
            },
        };
        let lost = sender.last.saturating_sub(line.steps);
        sender.last = line.steps;
        let ahead = (count + sender.offset - name.count).max(0);
        name.count += ahead;
        if name.senders.len() == MOST_SENDERS {
            name.senders.remove(0);
        }
        name.senders.push(sender);
        let ahead = u64::try_from(ahead).unwrap_or(u64::MAX);
        let steps = steps.saturating_add(ahead).saturating_sub(lost);
        self.steps = Some(steps);
        (before != self.steps).then_some(steps)
    }
}
