//! A living board, seen from another process.
//!
//! The board's process holds an exclusive lock (`flock`) on the file [`PROGRESS`]. Linux
//! releases the lock when the process ends, whatever ends it.

use std::fmt::{self, Display, Formatter};
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;

use super::disk::read;
use super::{CONTROL, LOG};
use crate::machine::Work;

/// File of the workload's progress, in the root; its one line is a [`Progress`].
pub const PROGRESS: &str = "progress";

/// Time between two readings of the board's files.
const POLL: Duration = Duration::from_millis(2);

/// Timeout of the board's answer to a command. A board answers within some ms.
const ANSWER: Duration = Duration::from_secs(30);

/// What the workloads of a board have done up to a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The board's time in s.
    pub seconds: f64,
    /// The work of all workloads since the board's start.
    pub work: Work,
}

impl Display for Progress {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self { seconds, work } = self;
        let Work {
            minibatches,
            fetch_s,
            compute_s,
        } = work;
        writeln!(
            formatter,
            "seconds={seconds:.6} minibatches={minibatches:.6} fetch_s={fetch_s:.6} \
             compute_s={compute_s:.6}"
        )
    }
}

impl Progress {
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.lines().next()?.split(' ');
        let mut field = |name: &str| {
            let (key, value) = fields.next()?.split_once('=')?;
            value.parse().ok().filter(|_| key == name)
        };
        Some(Self {
            seconds: field("seconds")?,
            work: Work {
                minibatches: field("minibatches")?,
                fetch_s: field("fetch_s")?,
                compute_s: field("compute_s")?,
            },
        })
    }
}

/// Why a board cannot be used.
#[derive(Debug, Error)]
pub enum LivingError {
    #[error(
        "{}: no board lives there, expected the directory of a running `wattgate-simulator board`; start one, and name its --root",
        root.display()
    )]
    NoBoard { root: PathBuf },
    #[error("{}: the board has ended; start it again", root.display())]
    Ended { root: PathBuf },
    #[error("{}: the board refuses `{command}`: {why}", root.display())]
    Refused {
        root: PathBuf,
        command: String,
        why: String,
    },
    #[error("{}: the board does not answer `{command}`; see whether it still runs", root.display())]
    Silent { root: PathBuf, command: String },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// A board that another process keeps alive.
#[derive(Debug)]
pub struct Living {
    root: PathBuf,
    progress: File,
    control: File,
    log: File,
}

impl Living {
    /// Opens the files of the board in a directory.
    pub fn open(root: &Path) -> Result<Self, LivingError> {
        let no_board = || LivingError::NoBoard {
            root: root.to_owned(),
        };
        let open = |name: &str| {
            let mut options = File::options();
            let options = options.read(true).append(name == CONTROL);
            options
                .open(root.join(name))
                .map_err(|error| match error.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => no_board(),
                    _ => io_error(&root.join(name), error),
                })
        };
        let board = Self {
            root: root.to_owned(),
            progress: open(PROGRESS)?,
            control: open(CONTROL)?,
            log: open(LOG)?,
        };
        match board.lives()? {
            true => Ok(board),
            false => Err(no_board()),
        }
    }

    /// What the board's workloads have done up to now.
    pub fn progress(&self) -> Result<Progress, LivingError> {
        let progress = || read(&self.progress, 0).map_err(|error| self.io(PROGRESS, error));
        while self.lives()? {
            let text = progress()?;
            if text.is_empty() {
                // The board is being made.
                thread::sleep(POLL);
                continue;
            }
            // Linux does not promise that a read sees a concurrent write whole.
            if text == progress()? {
                let defect = || self.io(PROGRESS, io::ErrorKind::InvalidData.into());
                return Progress::parse(&text).ok_or_else(defect);
            }
        }
        Err(self.ended())
    }

    /// Gives the board a command of the control language, and waits until it has executed it.
    pub fn order(&self, command: &str) -> Result<(), LivingError> {
        let log = |error| self.io(LOG, error);
        let from = self.log.metadata().map_err(log)?.len();
        let line = format!("{command}\n");
        let written = (&self.control).write_all(line.as_bytes());
        written.map_err(|error| self.io(CONTROL, error))?;
        let start = Instant::now();
        loop {
            let is_alive = self.lives()?;
            let text = read(&self.log, from).map_err(log)?;
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            match whole.lines().find_map(|line| answer(line, command)) {
                Some("ok") => return Ok(()),
                Some(why) => {
                    return Err(LivingError::Refused {
                        root: self.root.clone(),
                        command: command.to_owned(),
                        why: why.trim_start_matches("error: ").to_owned(),
                    });
                }
                None if !is_alive => return Err(self.ended()),
                None if start.elapsed() > ANSWER => {
                    return Err(LivingError::Silent {
                        root: self.root.clone(),
                        command: command.to_owned(),
                    });
                }
                None => thread::sleep(POLL),
            }
        }
    }

    /// Whether the board's process holds its lock.
    fn lives(&self) -> Result<bool, LivingError> {
        match self.progress.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(self.io(PROGRESS, error)),
            Ok(()) => {
                let released = self.progress.unlock();
                released.map_err(|error| self.io(PROGRESS, error))?;
                Ok(false)
            }
        }
    }

    fn ended(&self) -> LivingError {
        LivingError::Ended {
            root: self.root.clone(),
        }
    }

    fn io(&self, name: &str, source: io::Error) -> LivingError {
        io_error(&self.root.join(name), source)
    }
}

fn io_error(path: &Path, source: io::Error) -> LivingError {
    LivingError::Io {
        path: path.to_owned(),
        source,
    }
}

/// The result of a command, if this line of the log has it.
fn answer<'a>(line: &'a str, command: &str) -> Option<&'a str> {
    let (_seconds, text) = line.split_once(' ')?;
    text.strip_prefix(command)?.strip_prefix(": ")
}
