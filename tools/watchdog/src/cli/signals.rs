//! The signals of the daemon's process.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};

/// Signal flags, and a self-pipe that ends the poll when a signal arrives.
pub struct Signals {
    /// SIGTERM or SIGINT.
    pub stop: Arc<AtomicBool>,
    /// SIGHUP.
    pub reload: Arc<AtomicBool>,
    /// Readable after a signal, until [`Self::drain`].
    pub wakes: UnixStream,
}

impl Signals {
    /// Catches the signals.
    pub fn new() -> io::Result<Self> {
        let (stop, reload) = (Arc::default(), Arc::default());
        let (wakes, end) = UnixStream::pair()?;
        wakes.set_nonblocking(true)?;
        for (signal, flag) in [(SIGTERM, &stop), (SIGINT, &stop), (SIGHUP, &reload)] {
            signal_hook::flag::register(signal, Arc::clone(flag))?;
            signal_hook::low_level::pipe::register(signal, end.try_clone()?)?;
        }
        // The upgrade of an older version sends it. A stop never raises the power now.
        signal_hook::flag::register(SIGUSR1, Arc::default())?;
        Ok(Self {
            stop,
            reload,
            wakes,
        })
    }

    /// Makes `wakes` unreadable until the next signal.
    pub fn drain(&self) {
        let mut stream = &self.wakes;
        while stream.read(&mut [0; 16]).is_ok_and(|read| read > 0) {}
    }
}
