//! The services in the control thread: the socket and the metrics.
//!
//! Control has priority. Streams are non-blocking, a turn ends when the next look is due, and a
//! client's memory, input, requests and output are all bounded. Without clients nothing is
//! allocated.

pub mod http;
pub mod listener;
pub mod metrics;
pub mod protocol;
pub mod socket;
pub mod textfile;

mod connection;
mod peer;
mod rate_limit;

use std::os::fd::BorrowedFd;

use rustix::event::PollFlags;
use wattgate_board::Files;
use wattgate_runtime::Milliseconds;

use self::http::Http;
use self::socket::Socket;
use crate::clock::Clock;
use crate::daemon::Daemon;

/// A file descriptor and the events to poll for.
pub type Waiting<'a> = (BorrowedFd<'a>, PollFlags);

/// Maximum number of polled descriptors: two listeners and their clients.
pub const MAX_POLLED: usize = 2 + socket::MAX_CLIENTS + http::MAX_CLIENTS;

/// The services; one that could not be opened, or is not configured, is absent.
#[derive(Debug, Default)]
pub struct Services {
    /// For clients.
    pub socket: Option<Socket>,
    /// For Prometheus.
    pub http: Option<Http>,
}

impl Services {
    /// What to poll: at most [`MAX_POLLED`] descriptors.
    pub fn waiting(&self, now: Milliseconds) -> impl Iterator<Item = Waiting<'_>> {
        let sockets = self.socket.iter().flat_map(move |it| it.waiting(now));
        sockets.chain(self.http.iter().flat_map(move |it| it.waiting(now)))
    }

    /// Serves clients until `until` at the latest. `is_ready`: poll reported an event. Returns
    /// whether a request changed the limit or the model, so that a look is due.
    pub fn turn<F: Files>(
        &mut self,
        is_ready: bool,
        daemon: &mut Daemon<F>,
        clock: &impl Clock,
        until: Milliseconds,
    ) -> bool {
        if let Some(http) = &mut self.http {
            http.turn(is_ready, daemon, clock, until);
        }
        let mut sockets = self.socket.iter_mut();
        sockets.any(|it| it.turn(is_ready, daemon, clock, until))
    }
}
