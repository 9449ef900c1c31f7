//! Logs one line per event to stderr with journald's priority prefix, such as `<6>tracking`.
//! journald adds the time. Each line is built on the stack and written with one call.

use std::fmt::{self, Write as _};
use std::io::{self, Write as _};

use crate::control::Priority;

/// Maximum length of a line with its newline; longer lines are truncated.
const MAX_BYTES: usize = 512;

/// A text buffer on the stack; what does not fit is truncated.
#[derive(Debug)]
pub struct Text {
    bytes: [u8; MAX_BYTES],
    length: usize,
}

impl Text {
    /// An empty buffer.
    pub fn new() -> Self {
        Self {
            bytes: [0; MAX_BYTES],
            length: 0,
        }
    }

    /// The contents.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

impl Default for Text {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let free = self.bytes.get_mut(self.length..).unwrap_or_default();
        let most = free.len().min(text.len());
        let length = text.floor_char_boundary(most);
        free[..length].copy_from_slice(&text.as_bytes()[..length]);
        self.length += length;
        match length == text.len() {
            true => Ok(()),
            // The error stops the formatter: later parts are dropped too.
            false => Err(fmt::Error),
        }
    }
}

/// Writes a line. Errors are ignored: control goes on without a log.
pub fn log(priority: Priority, event: impl fmt::Display) {
    let line = line(priority, event);
    let _ = io::stderr().write_all(line.bytes());
}

fn line(priority: Priority, event: impl fmt::Display) -> Text {
    let mut line = Text::new();
    // Room for the newline.
    let _ = write!(line, "<{}>", priority as u8).and_then(|()| write!(line, "{event}"));
    line.length = line.length.min(MAX_BYTES - 1);
    for byte in &mut line.bytes[..line.length] {
        // File names may contain newlines.
        if *byte == b'\n' {
            *byte = b' ';
        }
    }
    line.bytes[line.length] = b'\n';
    line.length += 1;
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_priority_and_is_one_line() {
        let line = line(Priority::Error, "gone:\nno power");
        assert_eq!(line.bytes(), b"<3>gone: no power\n");
    }

    #[test]
    fn a_long_line_is_truncated() {
        let line = line(Priority::Info, "ä".repeat(MAX_BYTES));
        assert!(line.bytes().len() <= MAX_BYTES);
        let text = std::str::from_utf8(line.bytes()).unwrap_or_default();
        assert!(line.bytes().ends_with(b"\n"), "{text}");
    }
}
