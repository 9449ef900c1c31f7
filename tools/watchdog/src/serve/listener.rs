//! A non-blocking listener with a rate limit on accepted connections.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;

use rustix::event::PollFlags;
use wattgate_runtime::Milliseconds;

use super::Waiting;
use super::rate_limit::RateCounter;
use super::stranger::Stranger;

/// Rate limit of connections. Further ones wait in Linux's backlog.
pub const MAX_ACCEPTS_PER_SECOND: u32 = 5_000;

/// Maximum number of connections accepted per turn.
const ACCEPTS_PER_TURN: usize = 64;

/// A listening socket.
pub trait Accept: AsFd {
    type Stream;

    /// Accepts a connection and makes its stream non-blocking.
    fn accept_nonblocking(&self) -> io::Result<Self::Stream>;
}

impl Accept for UnixListener {
    type Stream = Stranger;

    fn accept_nonblocking(&self) -> io::Result<Stranger> {
        let (stream, _) = self.accept()?;
        let is_set = stream.set_nonblocking(true);
        let stranger = Stranger::new(stream);
        is_set.map(|()| stranger)
    }
}

impl Accept for TcpListener {
    type Stream = TcpStream;

    fn accept_nonblocking(&self) -> io::Result<TcpStream> {
        let (stream, _) = self.accept()?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    }
}

/// A listening socket with its rate limit.
#[derive(Debug)]
pub struct Listener<L> {
    listener: L,
    accepts: RateCounter,
}

impl<L: Accept> Listener<L> {
    /// Wraps a non-blocking listener.
    pub fn new(listener: L) -> Self {
        Self {
            listener,
            accepts: RateCounter::default(),
        }
    }

    /// What to poll; no events while the rate limit is reached.
    pub fn waiting(&self, now: Milliseconds) -> Waiting<'_> {
        let flags = match self.accepts.has_room(MAX_ACCEPTS_PER_SECOND, now) {
            true => PollFlags::IN,
            false => PollFlags::empty(),
        };
        (self.listener.as_fd(), flags)
    }

    /// Accepts pending connections within the rate limit.
    pub fn accept(&mut self, now: Milliseconds, mut take: impl FnMut(L::Stream)) {
        for _ in 0..ACCEPTS_PER_TURN {
            if !self.accepts.has_room(MAX_ACCEPTS_PER_SECOND, now) {
                return;
            }
            match self.listener.accept_nonblocking() {
                Ok(stream) => take(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The client has gone, or no descriptor is free. The attempt counts, so that the
                // rate limit bounds retries.
                Err(_) => {}
            }
            self.accepts.count(now);
        }
    }
}
