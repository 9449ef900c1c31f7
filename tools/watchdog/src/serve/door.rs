//! A listener that does not block, and how many may come through it.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::event::PollFlags;
use wattgate_runtime::Milliseconds;

use super::Waiting;
use super::rate::Rate;

/// Connections in a second. Others wait in the queue of the system.
const MOST: u32 = 100;

/// Connections in a turn.
const A_TURN: usize = 8;

/// A listener of streams.
pub trait Listener: AsFd {
    type Stream;

    /// The next stream, which does not block.
    fn next(&self) -> io::Result<Self::Stream>;
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    fn next(&self) -> io::Result<UnixStream> {
        let (stream, _) = self.accept()?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    }
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    fn next(&self) -> io::Result<TcpStream> {
        let (stream, _) = self.accept()?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    }
}

/// Where clients come in.
#[derive(Debug)]
pub struct Door<L> {
    listener: L,
    connects: Rate,
}

impl<L: Listener> Door<L> {
    /// Of a listener that does not block.
    pub fn new(listener: L) -> Self {
        Self {
            listener,
            connects: Rate::default(),
        }
    }

    /// What to wait for; nothing while too many come.
    pub fn waiting(&self, now: Milliseconds) -> Waiting<'_> {
        let flags = match self.connects.has_room(MOST, now) {
            true => PollFlags::IN,
            false => PollFlags::empty(),
        };
        (self.listener.as_fd(), flags)
    }

    /// Lets in who waits.
    pub fn open(&mut self, now: Milliseconds, mut take: impl FnMut(L::Stream)) {
        for _ in 0..A_TURN {
            if !self.connects.has_room(MOST, now) {
                return;
            }
            match self.listener.next() {
                Ok(stream) => take(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Who has gone already, or no more descriptors: there may be in a second.
                Err(_) => {}
            }
            self.connects.count(now);
        }
    }
}
