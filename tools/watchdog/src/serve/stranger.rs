//! The stream of a client that may work against the daemon.
//!
//! What is sent over a Unix socket may carry open files. Linux closes them where their bytes are read, or where a stream with
//! unread bytes is closed, and the close of a socket with a linger time waits for that time. Nothing that holds a limit may wait
//! for a client: so bytes with files are never read, and a thread closes streams with unread bytes.

use std::io::{self, ErrorKind, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;

use rustix::io::ioctl_fionread;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, recvmsg};

/// While so many streams wait for their close, no more clients are accepted.
const MOST_CLOSING: usize = 64;

/// Number of streams that wait for their close.
static CLOSING: AtomicUsize = AtomicUsize::new(0);

/// Bytes of the closing thread's stack.
const STACK: usize = 64 << 10;

/// Whether another client may be accepted.
pub fn is_welcome() -> bool {
    CLOSING.load(Ordering::Relaxed) < MOST_CLOSING
}

/// A non-blocking stream.
#[derive(Debug)]
pub struct Stranger(Option<UnixStream>);

impl Stranger {
    pub fn new(stream: UnixStream) -> Self {
        Self(Some(stream))
    }

    fn stream(&self) -> io::Result<&UnixStream> {
        self.0.as_ref().ok_or(ErrorKind::NotConnected.into())
    }
}

impl Read for Stranger {
    /// Fails if the next bytes carry files.
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut stream = self.stream()?;
        // A peek leaves the files in the stream, and tells that there was no room for them.
        let (mut nothing, mut parts) = (RecvAncillaryBuffer::default(), [IoSliceMut::new(bytes)]);
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let peeked = recvmsg(stream, &mut parts, &mut nothing, flags)?;
        if peeked.flags.contains(ReturnFlags::CTRUNC) {
            return Err(io::Error::other("the client sends files"));
        }
        match bytes.get_mut(..peeked.bytes) {
            // The end of the stream.
            None | Some([]) => Ok(0),
            Some(bytes) => stream.read(bytes),
        }
    }
}

impl Write for Stranger {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stranger {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Some(stream) => stream.as_fd(),
            // It is taken when it is dropped.
            None => rustix::stdio::stderr(),
        }
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let Some(stream) = self.0.take() else {
            return;
        };
        // The client sees the end at once, and sends nothing more.
        let _ = stream.shutdown(Shutdown::Both);
        if ioctl_fionread(&stream) != Ok(0) {
            close(stream);
        }
    }
}

/// Closes a stream in the thread that does so.
fn close(stream: UnixStream) {
    static CLOSER: OnceLock<Option<Sender<UnixStream>>> = OnceLock::new();
    let closer = CLOSER.get_or_init(|| {
        let (closer, streams) = mpsc::channel();
        let thread = thread::Builder::new().name("close".to_owned());
        let thread = thread.stack_size(STACK).spawn(move || {
            for stream in streams {
                drop(stream);
                CLOSING.fetch_sub(1, Ordering::Relaxed);
            }
        });
        thread.ok().map(|_| closer)
    });
    if let Some(closer) = closer {
        CLOSING.fetch_add(1, Ordering::Relaxed);
        // The thread never ends.
        let _ = closer.send(stream);
    }
}
