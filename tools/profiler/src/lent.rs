//! A board that the running daemon has lent: it holds no limit until it gets the board back.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wattgate_runtime::Milliwatts;
use wattgate_watchdog::client::{Client, ClientError};

/// Interval of the signs of life. After two seconds without one the daemon takes the board back.
const SIGN: Duration = Duration::from_millis(400);

/// A board that was lent. Dropping it gives the board back.
#[derive(Debug)]
pub struct Lent {
    /// The limit that the daemon held.
    pub limit: Milliwatts,
    lost: Arc<AtomicBool>,
    /// Dropped to end the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Lent {
    /// Asks the daemon of the board below `root` for the board. From then on a thread shows the
    /// daemon that this process lives.
    pub fn ask(root: &Path) -> Result<Self, ClientError> {
        let mut client = Client::connect(root)?;
        let report = client.yield_board()?;
        let lost = Arc::new(AtomicBool::new(false));
        let (end, ended) = channel();
        let is_lost = Arc::clone(&lost);
        let thread = thread::spawn(move || {
            while ended.recv_timeout(SIGN) == Err(RecvTimeoutError::Timeout) {
                if client.status().is_err() {
                    is_lost.store(true, Ordering::Relaxed);
                    return;
                }
            }
        });
        Ok(Self {
            limit: Milliwatts(report.limit_mw),
            lost,
            end: Some(end),
            thread: Some(thread),
        })
    }

    /// Gives the board back.
    pub fn give_back(&mut self) {
        self.end = None;
        let ended = self.thread.take().map(JoinHandle::join);
        debug_assert!(ended.is_none_or(|ended| ended.is_ok()), "a panic");
    }

    /// Becomes true when the board is lent no longer. It must not be written to from then on.
    pub fn lost(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.lost)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.give_back();
    }
}
