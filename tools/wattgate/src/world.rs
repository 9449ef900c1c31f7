//! What a session works on: the board's files, the workload, and the clock.

use std::fmt;
use std::time::Duration;

use wattgate_board::Files;

use crate::window::Count;

/// What happened while a session waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The time has come.
    Time,
    /// A count arrived.
    Count(Count),
    /// The workload has ended.
    Ended(Exit),
    /// The user wants the session to end.
    Stop,
    /// The board may not be changed any longer.
    Lost,
}

/// How a workload has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    /// By a signal of this number.
    Signal(i32),
    /// Nobody but its parent knows how.
    Unknown,
}

impl Exit {
    /// The exit code.
    pub fn code(self) -> Option<i32> {
        match self {
            Self::Code(code) => Some(code),
            Self::Signal(_) | Self::Unknown => None,
        }
    }

    /// The exit code of a shell that has run it.
    pub fn shell_code(self) -> u8 {
        let code = match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
            Self::Unknown => 0,
        };
        u8::try_from(code).unwrap_or(u8::MAX)
    }

    /// Whether something went wrong, as far as it is known.
    pub fn is_failure(self) -> bool {
        !matches!(self, Self::Code(0) | Self::Unknown)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "the workload has ended with exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal} has ended the workload"),
            Self::Unknown => f.write_str("the workload has ended"),
        }
    }
}

/// What a session works on.
pub trait World {
    /// The board's files.
    type Files: Files;

    /// The signal that has stopped the session.
    fn stop_signal(&self) -> Option<i32> {
        None
    }

    /// The board's files.
    fn files(&mut self) -> &mut Self::Files;

    /// Time since the start of the session, of the board's clock.
    fn now(&self) -> Duration;

    /// Waits for an event until a time.
    fn wait(&mut self, until: Duration) -> Event;

    /// Whether the board may not be changed any longer.
    fn is_lost(&self) -> bool {
        false
    }

    /// Whether what is taken for the steps of the workload is no count, so that none will come.
    fn is_hopeless(&self) -> bool {
        false
    }

    /// The name that the workload tells, if it tells one.
    fn told_name(&self) -> Option<String> {
        None
    }

    /// How the workload tells its steps, for the user of one that does not.
    fn telling(&self) -> String {
        "let the workload send its steps to the socket that WATTGATE_SOCKET names, one line `steps=N` \
         with the steps since its start"
            .to_owned()
    }
}
