//! What is served beside the control, in its thread: the socket and the metrics.
//!
//! Control comes first. Nothing here waits: streams do not block, a turn ends when the next look
//! at the board is due, and all that a client can make the daemon hold, read, answer or write is
//! bounded. Without clients nothing is allocated.

pub mod http;
pub mod listener;
pub mod metrics;
pub mod protocol;
pub mod socket;
pub mod textfile;

mod connection;
mod rate_limit;

use std::os::fd::BorrowedFd;

use rustix::event::PollFlags;
use wattgate_board::Files;
use wattgate_runtime::Milliseconds;

use self::http::Http;
use self::socket::Socket;
use crate::clock::Clock;
use crate::daemon::Daemon;

/// A stream or listener, and what is waited for.
pub type Waiting<'a> = (BorrowedFd<'a>, PollFlags);

/// The most that is waited for: two listeners and their clients.
pub const MAX_POLLED: usize = 2 + socket::MAX_CLIENTS + http::MAX_CLIENTS;

/// What clients connect to.
#[derive(Debug, Default)]
pub struct Services {
    /// For requests.
    pub socket: Option<Socket>,
    /// For Prometheus.
    pub http: Option<Http>,
}

impl Services {
    /// What to wait for, [`MAX_POLLED`] at most.
    pub fn waiting(&self, now: Milliseconds) -> impl Iterator<Item = Waiting<'_>> {
        let sockets = self.socket.iter().flat_map(move |it| it.waiting(now));
        sockets.chain(self.http.iter().flat_map(move |it| it.waiting(now)))
    }

    /// Hears and answers, at the latest until a time; `is_ready` where something waited for is
    /// there. Says whether a request has changed something, so that a look is due.
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
