//! Who a client of the socket is: the user and the process that connected.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, PidfdFlags, pidfd_open, test_kill_process};

use super::protocol::{Request, WantedLimit};
use crate::limits::{Owner, Setter};
use crate::quantity::{Span, Watts};
use wattgate_runtime::{Milliseconds, Milliwatts};

const NO_TIME: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// The process that connected to a stream. A child that has inherited the connection is not it.
#[derive(Debug)]
pub struct Peer {
    uid: u32,
    pid: Option<Pid>,
    /// Tells the end of the process; `None` before Linux 5.3.
    process: Option<OwnedFd>,
    is_root: bool,
}

impl Peer {
    /// `is_root`: over the socket that is root's alone.
    pub fn from_stream(stream: &impl AsFd, is_root: bool) -> Self {
        let credentials = socket_peercred(stream).ok();
        let pid = credentials.map(|it| it.pid);
        Self {
            // The overflow user, whose limits nobody else shares.
            uid: credentials.map_or(65_534, |it| it.uid.as_raw()),
            process: None,
            pid,
            is_root,
        }
    }

    /// Takes hold of the process, so that its end is seen, for a client that is served.
    pub fn hold(mut self) -> Self {
        let process = self.pid.map(|pid| pidfd_open(pid, PidfdFlags::empty()));
        self.process = process.and_then(Result::ok);
        self
    }

    /// The user, for budgets.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Who owns what this client sets.
    pub fn owner(&self) -> Owner {
        match self.is_root {
            true => Owner::Root,
            false => Owner::Uid(self.uid),
        }
    }

    /// Who sets what this client sets.
    pub fn setter(&self, program: Option<&str>) -> Setter {
        let pid = self.pid.map_or(0, |pid| pid.as_raw_nonzero().get());
        Setter::new(self.owner(), pid, program)
    }

    /// Whether the process has ended, though another one may have its connection.
    pub fn has_ended(&self) -> bool {
        match (&self.process, self.pid) {
            (Some(process), _) => {
                let mut ended = [PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)];
                poll(&mut ended, Some(&NO_TIME)).is_ok_and(|ended| ended > 0)
            }
            (None, Some(pid)) => test_kill_process(pid) == Err(Errno::SRCH),
            (None, None) => false,
        }
    }
}

/// What a request changed, for the log; `None` if it only asked.
pub fn change(request: &Request) -> Option<String> {
    let watts = |power_mw| Watts(Milliwatts(power_mw));
    match request {
        // These change nothing that the log tells.
        Request::Status | Request::Subscribe(_) | Request::Steps(_) => None,
        Request::SetLimit(None) => Some("lifted its limit".to_owned()),
        Request::SetLimit(Some(WantedLimit {
            power_mw, for_ms, ..
        })) => {
            let limit = watts(*power_mw);
            Some(match for_ms {
                Some(ms) => format!("set the limit {limit} for {}", Span(Milliseconds(*ms))),
                None => format!("set the limit {limit}"),
            })
        }
        Request::Lift(owner) => Some(format!("lifted the limit of {owner}")),
        Request::SetModel(name) => Some(format!("set the model {name}")),
        Request::Lease(wanted) => {
            let limit = watts(wanted.power_mw);
            Some(match &wanted.model {
                Some(model) => format!("leased the limit {limit} with the model {model}"),
                None => format!("leased the limit {limit}"),
            })
        }
        Request::SetAim(Some(_)) => Some("set an aim".to_owned()),
        Request::SetAim(None) => Some("lifted its aim".to_owned()),
        Request::Yield => Some("took the board".to_owned()),
    }
}
