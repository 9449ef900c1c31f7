//! The files of a board: one that was lent may be written as long as the loan lasts, and the time of a
//! simulated one may run at another speed.

use std::io;
use std::path::Path;
use std::time::Duration;

use wattgate_board::{Disk, Files};

use crate::lent::Loan;

/// Time in which the files of a simulated board follow a write.
const FOLLOW_TIME: Duration = Duration::from_millis(20);

/// The file system, with waits in the board's time.
#[derive(Clone, Debug)]
pub struct BoardFiles {
    speed: f64,
    loan: Option<Loan>,
    is_read_only: bool,
}

impl BoardFiles {
    /// The files of a board; `speed` is its time per real time, 1 for a real one.
    pub fn new(speed: f64) -> Self {
        Self {
            speed,
            loan: None,
            is_read_only: false,
        }
    }

    /// Refuses every write from now on.
    pub fn refuse_writes(&mut self) {
        self.is_read_only = true;
    }

    /// Refuses writes once this loan has ended; `None` for a board of our own.
    pub fn set_loan(&mut self, loan: Option<Loan>) {
        self.loan = loan;
    }

    /// Whether the board was lent, and is lent no longer.
    pub fn is_lost(&self) -> bool {
        self.loan.as_ref().is_some_and(|loan| !loan.holds())
    }

    /// The board's time per real time.
    pub fn speed(&self) -> f64 {
        self.speed
    }
}

impl Files for BoardFiles {
    fn read<'b>(&self, path: &Path, buffer: &'b mut [u8]) -> io::Result<&'b str> {
        Disk.read(path, buffer)
    }

    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        if self.is_read_only {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        if self.is_lost() {
            return Err(io::Error::other("the daemon has the board"));
        }
        Disk.write(path, text)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        Disk.list(directory)
    }

    fn wait(&mut self, time: Duration) {
        Disk.wait(time.div_f64(self.speed).max(time.min(FOLLOW_TIME)));
    }
}
