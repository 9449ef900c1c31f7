//! The files of a board whose time may run at another speed: a simulated one's.

use std::io;
use std::path::Path;
use std::time::Duration;

use wattgate_board::{Disk, Files};

/// Time in which the files of a simulated board follow a write.
const ANSWER: Duration = Duration::from_millis(10);

/// The file system, with waits in the board's time.
#[derive(Clone, Copy, Debug)]
pub struct BoardFiles {
    speed: f64,
}

impl BoardFiles {
    /// The files of a board; `speed` is its time per real time, 1 for a real one.
    pub fn new(speed: f64) -> Self {
        Self { speed }
    }

    /// The board's time per real time.
    pub fn speed(self) -> f64 {
        self.speed
    }
}

impl Files for BoardFiles {
    fn read<'b>(&self, path: &Path, buffer: &'b mut [u8]) -> io::Result<&'b str> {
        Disk.read(path, buffer)
    }

    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        Disk.write(path, text)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        Disk.list(directory)
    }

    fn wait(&mut self, time: Duration) {
        Disk.wait(time.div_f64(self.speed).max(time.min(ANSWER)));
    }
}
