//! A client of the running daemon's socket; [`protocol`](crate::serve::protocol) defines the messages.

use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thiserror::Error;
use wattgate_cli::exit;

use crate::lock::{directory, root_directory};
use crate::report::Report;
use crate::serve::protocol::{Refused, Request, WantedLease, parse_answer};

/// Timeout of a read or write. The daemon answers between two control cycles.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a request failed.
#[derive(Debug, Error)]
pub enum ClientError {
    /// There is no daemon, it ended, it closed the connection, or its answer is late or unknown.
    /// The connection is closed.
    #[error("{}: the daemon does not answer: {}", path.display(), Hint(why))]
    NoDaemon { path: PathBuf, why: io::Error },
    /// The daemon refused the request. The connection stays open, unless the protocol says
    /// otherwise.
    #[error("{}", .0.message)]
    Refused(Refused),
}

impl ClientError {
    /// The exit code of a program that fails by it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NoDaemon { .. } => exit::OTHER,
            Self::Refused(refused) => match &*refused.name {
                "out_of_range" | "over_max_limit" => exit::ARGUMENTS,
                "model_unreadable" => exit::OTHER,
                name if name.starts_with("model_") => exit::INPUT,
                _ => exit::OTHER,
            },
        }
    }
}

/// An error, and what to do about it.
struct Hint<'a>(&'a io::Error);

impl fmt::Display for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(why) = self;
        match why.kind() {
            io::ErrorKind::WouldBlock => write!(
                f,
                "no answer within {} s; `systemctl status wattgated` shows what it does",
                ANSWER_TIMEOUT.as_secs()
            ),
            io::ErrorKind::UnexpectedEof => write!(
                f,
                "it has closed the connection; `systemctl status wattgated` shows whether it runs"
            ),
            io::ErrorKind::PermissionDenied => write!(
                f,
                "{why}; run this as root, or join the group of the config (`sudo usermod -aG wattgate $USER`) and log in \
                 again"
            ),
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => write!(
                f,
                "it does not run on this board ({why}); start it with `systemctl start wattgated`"
            ),
            _ => why.fmt(f),
        }
    }
}

/// A connection to the daemon. Dropping it ends its lease, and gives the board back.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    lines: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the daemon of the board below `root`, which is `/` on a board: over the socket that is root's alone
    /// where this process may, else over that of all clients.
    pub fn connect(root: &Path) -> Result<Self, ClientError> {
        let as_root = Self::open(root_directory(root).join("socket"));
        as_root.or_else(|_| Self::connect_as_user(root))
    }

    /// Connects over the socket of all clients.
    pub fn connect_as_user(root: &Path) -> Result<Self, ClientError> {
        Self::open(directory(root).join("socket"))
    }

    fn open(path: PathBuf) -> Result<Self, ClientError> {
        let connect = || {
            let stream = UnixStream::connect(&path)?;
            stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
            stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
            Ok(BufReader::new(stream))
        };
        match connect() {
            Ok(lines) => Ok(Self { path, lines }),
            Err(why) => Err(ClientError::NoDaemon { path, why }),
        }
    }

    /// Returns the daemon's status.
    pub fn status(&mut self) -> Result<Report, ClientError> {
        self.ask(Request::Status)
    }

    /// Makes a limit, and a model if one is named, hold until this client is dropped or the process
    /// ends. It replaces this client's earlier lease.
    pub fn lease(&mut self, wanted: WantedLease) -> Result<Report, ClientError> {
        self.ask(Request::Lease(wanted))
    }

    /// Takes the board from the daemon until this client is dropped or the process ends. Meanwhile
    /// nothing holds the limit but the caller, who must send a request at least every two seconds,
    /// such as [`Self::status`].
    pub fn yield_board(&mut self) -> Result<Report, ClientError> {
        self.ask(Request::Yield)
    }

    /// Sends a request and waits for its answer.
    pub fn ask(&mut self, request: Request) -> Result<Report, ClientError> {
        // The daemon refuses a client too many before it reads; its answer says more than the error.
        let _ = self.lines.get_mut().write_all(&request.line());
        self.next_report()
    }

    /// Waits for the next answer, such as a further line of a subscription.
    pub fn next_report(&mut self) -> Result<Report, ClientError> {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line);
        let answer = read.and_then(|_| match parse_answer(&line) {
            Some(answer) => Ok(answer),
            None if line.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            None => Err(io::Error::other(
                "the answer has another protocol version; use the commands of the daemon's release",
            )),
        });
        match answer {
            Ok(answer) => answer.map_err(ClientError::Refused),
            Err(why) => Err(self.failed(why)),
        }
    }

    /// Whether the daemon still has the connection open. Does not wait. Once false, the lease has
    /// ended and the board is the daemon's, or nobody's.
    pub fn is_open(&mut self) -> bool {
        if !self.lines.buffer().is_empty() {
            return true;
        }
        let set = |lines: &BufReader<UnixStream>, is| lines.get_ref().set_nonblocking(is).is_ok();
        let is_open = set(&self.lines, true)
            && match self.lines.fill_buf() {
                Ok(bytes) => !bytes.is_empty(),
                Err(error) => error.kind() == io::ErrorKind::WouldBlock,
            };
        set(&self.lines, false) && is_open
    }

    /// Whether an answer is there, or the connection has ended. Does not wait.
    pub fn has_answer(&mut self) -> bool {
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut waiting = [PollFd::new(self.lines.get_ref(), PollFlags::IN)];
        !self.lines.buffer().is_empty() || poll(&mut waiting, Some(&at_once)) == Ok(1)
    }

    /// Closes the connection: a late answer must not count as that of the next request.
    fn failed(&self, why: io::Error) -> ClientError {
        // It may be closed already.
        let _ = self.lines.get_ref().shutdown(Shutdown::Both);
        let path = self.path.clone();
        ClientError::NoDaemon { path, why }
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.lines.get_ref().as_fd()
    }
}
