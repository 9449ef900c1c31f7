//! Who a client of the socket is, for the log: the user and the process that connected.

use std::fmt;
use std::os::unix::net::UnixStream;

use rustix::net::sockopt::socket_peercred;

use super::protocol::{Request, WantedLimit};
use crate::quantity::{Span, Watts};
use wattgate_runtime::{Milliseconds, Milliwatts};

/// The credentials of a client; `None` if the system does not tell them.
#[derive(Clone, Copy, Debug)]
pub struct Peer(Option<(u32, i32)>);

impl Peer {
    /// The process that connected to a stream.
    pub fn of(stream: &UnixStream) -> Self {
        let credentials = socket_peercred(stream).ok();
        Self(credentials.map(|it| (it.uid.as_raw(), it.pid.as_raw_nonzero().get())))
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((uid, pid)) => write!(f, "client of uid {uid}, pid {pid}"),
            None => f.write_str("unknown client"),
        }
    }
}

/// What a request changed, for the log; `None` if it only asked.
pub fn change(request: &Request) -> Option<String> {
    let watts = |power_mw| Watts(Milliwatts(power_mw));
    match request {
        Request::Status | Request::Subscribe(_) => None,
        Request::SetLimit(None) => Some("returned to the config's limit".to_owned()),
        Request::SetLimit(Some(WantedLimit {
            power_mw, for_ms, ..
        })) => {
            let limit = watts(*power_mw);
            Some(match for_ms {
                Some(ms) => format!("set the limit {limit} for {}", Span(Milliseconds(*ms))),
                None => format!("set the limit {limit}"),
            })
        }
        Request::SetModel(name) => Some(format!("set the model {name}")),
        Request::Lease(wanted) => {
            let limit = watts(wanted.power_mw);
            Some(match &wanted.model {
                Some(model) => format!("leased the limit {limit} with the model {model}"),
                None => format!("leased the limit {limit}"),
            })
        }
        Request::Yield => Some("took the board".to_owned()),
    }
}
