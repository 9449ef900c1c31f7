//! A listener that does not block, and how many may come through it.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::event::PollFlags;
use wattgate_runtime::Milliseconds;

use super::Waiting;
use super::rate_limit::RateCounter;

/// Connections in a second, some 20 µs of work each. Others wait in the queue of the system.
pub const MAX_ACCEPTS_PER_SECOND: u32 = 1_000;

/// Connections in a turn.
const ACCEPTS_PER_TURN: usize = 8;

/// A listener of streams.
pub trait Accept: AsFd {
    type Stream;

    /// The next stream, which does not block.
    fn accept_nonblocking(&self) -> io::Result<Self::Stream>;
}

impl Accept for UnixListener {
    type Stream = UnixStream;

    fn accept_nonblocking(&self) -> io::Result<UnixStream> {
        let (stream, _) = self.accept()?;
        stream.set_nonblocking(true)?;
        Ok(stream)
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

/// Where clients come in.
#[derive(Debug)]
pub struct Listener<L> {
    listener: L,
    accepts: RateCounter,
}

impl<L: Accept> Listener<L> {
    /// Of a listener that does not block.
    pub fn new(listener: L) -> Self {
        Self {
            listener,
            accepts: RateCounter::default(),
        }
    }

    /// What to wait for; nothing while too many come.
    pub fn waiting(&self, now: Milliseconds) -> Waiting<'_> {
        let flags = match self.accepts.has_room(MAX_ACCEPTS_PER_SECOND, now) {
            true => PollFlags::IN,
            false => PollFlags::empty(),
        };
        (self.listener.as_fd(), flags)
    }

    /// Lets in who waits.
    pub fn accept(&mut self, now: Milliseconds, mut take: impl FnMut(L::Stream)) {
        for _ in 0..ACCEPTS_PER_TURN {
            if !self.accepts.has_room(MAX_ACCEPTS_PER_SECOND, now) {
                return;
            }
            match self.listener.accept_nonblocking() {
                Ok(stream) => take(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Who has gone already, or no more descriptors: there may be in a second.
                Err(_) => {}
            }
            self.accepts.count(now);
        }
    }
}
