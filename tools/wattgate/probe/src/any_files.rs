//! One type for the files of a board, of a probe, and of a board that is being recorded, so that
//! discovery is compiled once for all three. The program is 70 KiB smaller for it.

use std::io;
use std::path::Path;
use std::time::Duration;

use wattgate_board::Files;

/// Any files of a board.
pub struct AnyFiles<'a>(pub &'a mut dyn Files);

impl Files for AnyFiles<'_> {
    fn read<'b>(&self, path: &Path, buffer: &'b mut [u8]) -> io::Result<&'b str> {
        self.0.read(path, buffer)
    }

    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        self.0.write(path, text)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.0.list(directory)
    }

    fn wait(&mut self, time: Duration) {
        self.0.wait(time);
    }
}
