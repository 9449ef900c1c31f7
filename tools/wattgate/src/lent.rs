//! A board that the running daemon has lent: it holds no limit until it gets the board back.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wattgate_runtime::{Milliseconds, Milliwatts};
use wattgate_watchdog::client::{Client, ClientError};
use wattgate_watchdog::clock::{Clock, System};
use wattgate_watchdog::report::Report;

/// Interval of the signs of life.
const SIGN: Duration = Duration::from_millis(300);

/// Time after a sign of life in which the board may be written to. The daemon takes the board back
/// after two seconds; the difference is more than a change of the mode takes.
const VALID: Milliseconds = Milliseconds(1_700);

/// A board that was lent. Dropping it gives the board back.
#[derive(Debug)]
pub struct Lent {
    /// What the daemon's limit left for the module.
    pub limit: Milliwatts,
    loan: Loan,
    /// Dropped to end the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The right to write to a board that was lent. A process that was stopped has lost it as soon as it
/// goes on, before any thread of it learns that the daemon has closed the connection.
#[derive(Clone, Debug)]
pub struct Loan {
    /// When the last sign of life was sent that the daemon has answered, in ms; 0 once lost.
    sign: Arc<AtomicU64>,
}

impl Loan {
    fn new(sent: Milliseconds) -> Self {
        let sign = Arc::new(AtomicU64::new(sent.0));
        Self { sign }
    }

    /// Whether the board may be written to. Once false it stays so.
    pub fn holds(&self) -> bool {
        let sign = self.sign.load(Ordering::Relaxed);
        let is_valid = sign > 0 && System.now().since(Milliseconds(sign)) < VALID;
        if !is_valid {
            self.end();
        }
        is_valid
    }

    /// Extends it from a sign of life that the daemon has answered, unless it has ended.
    fn extend(&self, sent: Milliseconds) -> bool {
        let later = |sign: u64| (sign > 0).then_some(sent.0);
        let set = Ordering::Relaxed;
        self.sign.fetch_update(set, set, later).is_ok()
    }

    fn end(&self) {
        self.sign.store(0, Ordering::Relaxed);
    }
}

impl Lent {
    /// Asks the daemon of the board below `root` for the board. From then on a thread shows the
    /// daemon that this process lives.
    pub fn ask(root: &Path) -> Result<Self, ClientError> {
        let mut client = Client::connect(root)?;
        let sent = System.now();
        let report = client.yield_board()?;
        let held_mw = report.limit_mw;
        let limit = report.limit_of_module();
        let loan = Loan::new(sent);
        let (end, ended) = channel();
        let shown = loan.clone();
        let thread = thread::spawn(move || {
            while ended.recv_timeout(SIGN) == Err(RecvTimeoutError::Timeout) {
                let sent = System.now();
                // A lower limit is the daemon's to hold. To end the connection gives the board back.
                let is_lent = |report: Report| report.limit_mw >= held_mw;
                if !client.status().is_ok_and(is_lent) || !shown.extend(sent) {
                    return shown.end();
                }
            }
        });
        Ok(Self {
            limit,
            loan,
            end: Some(end),
            thread: Some(thread),
        })
    }

    /// Gives the board back.
    pub fn give_back(&mut self) {
        self.loan.end();
        self.end = None;
        let ended = self.thread.take().map(JoinHandle::join);
        debug_assert!(ended.is_none_or(|ended| ended.is_ok()), "a panic");
    }

    /// The right to write to the board.
    pub fn loan(&self) -> Loan {
        self.loan.clone()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use wattgate_board::Files;

    use super::*;
    use crate::board_files::BoardFiles;

    #[test]
    fn without_a_sign_of_life_nothing_is_written() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let before = |time: u64| Milliseconds(System.now().0 - time);
        let mut files = BoardFiles::new(1.0);
        let mut write = |loan: &Loan, text: &str| {
            files.set_loan(Some(loan.clone()));
            files.write(file.path(), text).is_ok()
        };
        let loan = Loan::new(before(0));
        assert!(write(&loan, "lent"));
        // Stopped since then, the process has lost the board, whatever arrives later.
        assert!(loan.extend(before(VALID.0)));
        assert!(!write(&loan, "lost"));
        assert!(!loan.extend(before(0)));
        assert!(!write(&loan, "late"));
        assert_eq!(fs::read(file.path()).expect("there"), b"lent");
    }
}
