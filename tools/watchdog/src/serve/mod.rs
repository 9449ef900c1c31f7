//! The services of the daemon. In the control thread: the sockets of clients, the socket for steps, and the file of metrics. In a
//! process of its own: the page of metrics.
//!
//! Control has priority. Streams are non-blocking, a turn ends when the next step is due, and a
//! client's memory, input, requests and output are all bounded. Without clients and steps
//! nothing is allocated.

pub mod http;
pub mod listener;
pub mod metrics;
pub mod protocol;
pub mod rate_limit;
pub mod socket;
pub mod textfile;
pub mod users;

mod connection;
mod peer;
mod stranger;

use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::PollFlags;
use wattgate_board::Files;
use wattgate_runtime::Milliseconds;

use self::socket::Socket;
use crate::clock::Clock;
use crate::daemon::Daemon;
use crate::steps::receiver::Receiver;

/// A file descriptor and the events to poll for.
pub type Waiting<'a> = (BorrowedFd<'a>, PollFlags);

/// Maximum number of polled descriptors: two sockets and their clients, and the socket for steps.
pub const MAX_POLLED: usize = 2 * (1 + socket::MAX_CLIENTS) + 1;

/// Maximum number of datagrams with steps that a turn reads.
const DATAGRAMS_PER_TURN: usize = 64;

/// A change of a client leads to a step at once, but not more often than this. Otherwise the next step is soon enough.
const CHECK_INTERVAL: Milliseconds = Milliseconds(100);

/// The sockets; one that could not be opened is absent.
#[derive(Debug, Default)]
pub struct Services {
    /// Root's alone. It is served first.
    pub root: Option<Socket>,
    /// For all clients.
    pub clients: Option<Socket>,
    /// For the steps of workloads, which anybody may send.
    pub steps: Option<Receiver>,
    /// Whether the budget of steps for this second is used up, so that no more are read.
    is_full: bool,
    /// When a client's change last led to a step.
    checked: Option<Milliseconds>,
}

impl Services {
    /// The services of these sockets.
    pub fn new(root: Option<Socket>, clients: Option<Socket>, steps: Option<Receiver>) -> Self {
        Self {
            root,
            clients,
            steps,
            is_full: false,
            checked: None,
        }
    }

    /// What to poll: at most [`MAX_POLLED`] descriptors.
    pub fn waiting(&self, now: Milliseconds) -> impl Iterator<Item = Waiting<'_>> {
        let sockets = self.root.iter().chain(&self.clients);
        let flags = match self.is_full {
            true => PollFlags::empty(),
            false => PollFlags::IN,
        };
        let steps = self.steps.iter().map(move |it| (it.as_fd(), flags));
        sockets.flat_map(move |it| it.waiting(now)).chain(steps)
    }

    /// Serves clients until `until` at the latest. `is_ready`: poll reported an event. Returns
    /// whether a request changed the limit or the model, so that a step is due.
    pub fn turn<F: Files>(
        &mut self,
        is_ready: bool,
        daemon: &mut Daemon<F>,
        clock: &impl Clock,
        until: Milliseconds,
    ) -> bool {
        let mut has_changed = false;
        for socket in self.root.iter_mut().chain(&mut self.clients) {
            has_changed |= socket.turn(is_ready, daemon, clock, until);
        }
        if is_ready || self.is_full {
            self.read_steps(daemon, clock, until);
        }
        let now = clock.now();
        let is_soon = |last: Milliseconds| now.since(last) < CHECK_INTERVAL;
        if !has_changed || self.checked.is_some_and(is_soon) {
            return false;
        }
        self.checked = Some(now);
        true
    }

    /// Reads steps until `until` at the latest.
    fn read_steps<F: Files>(
        &mut self,
        daemon: &mut Daemon<F>,
        clock: &impl Clock,
        until: Milliseconds,
    ) {
        let Some(steps) = &self.steps else {
            return;
        };
        for _ in 0..DATAGRAMS_PER_TURN {
            let now = clock.now();
            self.is_full = !daemon.takes_datagrams(now);
            if self.is_full || now >= until {
                return;
            }
            let Some(received) = steps.receive() else {
                return;
            };
            daemon.take_datagram(received, clock);
        }
    }

    /// Closes and removes the sockets.
    pub fn remove(self) {
        self.root
            .into_iter()
            .chain(self.clients)
            .for_each(Socket::remove);
    }
}
