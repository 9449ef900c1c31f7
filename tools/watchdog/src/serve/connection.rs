//! A non-blocking stream with buffers for input and output.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;

use rustix::event::PollFlags;

use super::Waiting;

/// A client with more unread output, in bytes, is disconnected.
const MAX_PENDING_OUTPUT: usize = 16 << 10;

/// Maximum number of bytes per read.
const READ_CHUNK: usize = 4_096;

/// A client's stream and its buffers.
#[derive(Debug)]
pub struct Connection<S> {
    stream: S,
    input: Vec<u8>,
    output: Vec<u8>,
    has_ended: bool,
}

/// The connection is closed or must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

impl<S: Read + Write + AsFd> Connection<S> {
    /// Wraps a non-blocking stream.
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            input: Vec::new(),
            output: Vec::new(),
            has_ended: false,
        }
    }

    /// What to poll.
    pub fn waiting(&self) -> Waiting<'_> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, !self.has_ended);
        flags.set(PollFlags::OUT, !self.output.is_empty());
        (self.stream.as_fd(), flags)
    }

    /// Reads once, until the input buffer has at most `most` bytes. Returns whether bytes arrived.
    pub fn read(&mut self, most: usize) -> Result<bool, Gone> {
        let free = most.saturating_sub(self.input.len()).min(READ_CHUNK);
        if self.has_ended || free == 0 {
            return Ok(false);
        }
        let mut chunk = [0; READ_CHUNK];
        match self.stream.read(&mut chunk[..free]) {
            Ok(0) => {
                self.has_ended = true;
                Ok(false)
            }
            Ok(read) => {
                self.input.extend_from_slice(&chunk[..read]);
                Ok(true)
            }
            Err(error) if is_later(&error) => Ok(false),
            Err(_) => Err(Gone),
        }
    }

    /// The input buffer.
    pub fn input(&self) -> &[u8] {
        &self.input
    }

    /// Takes the next complete line from the input buffer, without its newline.
    pub fn line(&mut self) -> Option<Vec<u8>> {
        let end = self.input.iter().position(|byte| *byte == b'\n')?;
        let mut line: Vec<u8> = self.input.drain(..=end).collect();
        line.pop();
        Some(line)
    }

    /// Whether the client closed its sending side.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether the output buffer is empty.
    pub fn is_flushed(&self) -> bool {
        self.output.is_empty()
    }

    /// Queues bytes and writes what the stream accepts. Fails if too much output is unread.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        self.output.extend_from_slice(bytes);
        self.flush()?;
        match self.output.len() <= MAX_PENDING_OUTPUT {
            true => Ok(()),
            false => Err(Gone),
        }
    }

    /// Writes as much of the output buffer as the stream accepts without blocking.
    pub fn flush(&mut self) -> Result<(), Gone> {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(0) => return Err(Gone),
                Ok(written) => drop(self.output.drain(..written)),
                Err(error) if is_later(&error) => break,
                Err(_) => return Err(Gone),
            }
        }
        Ok(())
    }
}

fn is_later(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted)
}
