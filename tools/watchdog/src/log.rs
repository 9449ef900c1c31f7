//! Logs one line per event to stderr. If stderr goes to the journal, a line has journald's priority prefix, such as
//! `<6>tracking`, and journald adds the time. Elsewhere a line is for people, such as `warning: …`. Each line is built on
//! the stack and written with one call.
//!
//! Logging never blocks the control loop. Linux's buffer of the pipe or socket is the queue: a
//! line for which it has no room is dropped and counted, and the next line that is written comes
//! after a line with the count. [`finish`] writes that count at the end.
//!
//! A regular file is always ready: a disk that hangs can block.

use std::env;
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;

use wattgate_runtime::Milliseconds;

use crate::control::Priority;

/// Maximum length of a line with its newline; longer lines are truncated.
const MAX_LOG_LINE: usize = 512;

/// The longest time that [`finish`] waits for stderr.
const FINISH_TIMEOUT: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

const NO_TIME: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// Number of lines dropped since the last line that was written.
static DROPPED: AtomicU32 = AtomicU32::new(0);

/// Lines that clients may cause in a minute; the others are counted.
const MAX_LINES: u32 = 6;
const MINUTE: Milliseconds = Milliseconds(60_000);

/// A budget of lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lines {
    since: Option<Milliseconds>,
    written: u32,
    withheld: u32,
}

impl Lines {
    /// Whether one more line may be written, with the number of those before it that were not.
    pub fn take(&mut self, now: Milliseconds) -> Option<u32> {
        if self.since.is_none_or(|since| now.since(since) >= MINUTE) {
            (self.since, self.written) = (Some(now), 0);
        }
        if self.written >= MAX_LINES {
            self.withheld += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.withheld))
    }
}

/// The number of lines that were withheld before the one that ends with it.
#[derive(Clone, Copy, Debug)]
pub struct Withheld(pub u32);

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            lines => write!(f, "; {lines} lines like this were not logged"),
        }
    }
}

/// A character of a stranger's text, or `?` in place of a control, or of a mark that reverses or breaks a line.
pub fn printable(c: char) -> char {
    match c.is_alphanumeric() || c.is_ascii_graphic() || c == ' ' {
        true => c,
        false => '?',
    }
}

/// A text buffer on the stack; what does not fit is truncated.
#[derive(Debug)]
pub struct Text {
    bytes: [u8; MAX_LOG_LINE],
    length: usize,
}

impl Text {
    /// An empty buffer.
    pub fn new() -> Self {
        Self {
            bytes: [0; MAX_LOG_LINE],
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

/// Writes a line, or drops it if stderr has no room for it. Other errors are ignored: control goes
/// on without a log.
pub fn log(priority: Priority, event: impl fmt::Display) {
    let form = Form::of_stderr();
    write(io::stderr(), form, &line(form, priority, event), &DROPPED);
}

/// Logs the last line of a process and the number of lines that were dropped. Waits up to a second
/// for a stderr without room.
pub fn finish(last: Option<(Priority, &dyn fmt::Display)>) {
    let stderr = io::stderr();
    if last.is_none() && DROPPED.load(Ordering::Relaxed) == 0 {
        return;
    }
    is_ready(&stderr, &FINISH_TIMEOUT);
    match last {
        Some((priority, event)) => log(priority, event),
        None => report_dropped(&mut stderr.lock(), Form::of_stderr(), &DROPPED),
    }
}

/// Writes a line after the count of dropped ones. Without room, the line is counted as dropped.
fn write(mut to: impl Write + AsFd, form: Form, line: &Text, dropped: &AtomicU32) {
    if dropped.load(Ordering::Relaxed) > 0 {
        report_dropped(&mut to, form, dropped);
    }
    match is_ready(&to, &NO_TIME) {
        true => {
            let _ = to.write_all(line.bytes());
        }
        false => drop(dropped.fetch_add(1, Ordering::Relaxed)),
    }
}

/// Writes the count of dropped lines, if there is room.
fn report_dropped(to: &mut (impl Write + AsFd), form: Form, dropped: &AtomicU32) {
    if is_ready(to, &NO_TIME) {
        let number = dropped.swap(0, Ordering::Relaxed);
        let event = format_args!("{number} log lines were dropped: stderr had no room");
        let _ = to.write_all(line(form, Priority::Warning, event).bytes());
    }
}

/// Whether a line can be written without blocking. A pipe is ready if it has room for a page, and a
/// socket if three quarters of its buffer are free: both are more than a line.
fn is_ready(to: &impl AsFd, time: &Timespec) -> bool {
    let mut fds = [PollFd::new(to, PollFlags::OUT)];
    // An error, such as a closed pipe, counts as ready: the write then fails at once.
    retry_on_intr(|| poll(&mut fds, Some(time))).is_ok_and(|ready| ready > 0)
}

/// What a line begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// journald's prefix of the priority.
    Prefixed,
    /// A word for errors and warnings.
    Plain,
}

impl Form {
    fn of_stderr() -> Self {
        static OF_STDERR: OnceLock<Form> = OnceLock::new();
        *OF_STDERR.get_or_init(|| {
            let journal = env::var("JOURNAL_STREAM").unwrap_or_default();
            Self::of_stream(&io::stderr(), &journal)
        })
    }

    /// `journal` is systemd's `JOURNAL_STREAM`: the device and the inode of the stream to the journal. A child process
    /// whose stderr goes elsewhere inherits it.
    fn of_stream(stream: &impl AsFd, journal: &str) -> Self {
        let stream = stream.as_fd().try_clone_to_owned();
        let metadata = stream.and_then(|stream| File::from(stream).metadata());
        let is_journal = |it: std::fs::Metadata| format!("{}:{}", it.dev(), it.ino()) == journal;
        match metadata.is_ok_and(is_journal) {
            true => Self::Prefixed,
            false => Self::Plain,
        }
    }
}

fn line(form: Form, priority: Priority, event: impl fmt::Display) -> Text {
    let mut line = Text::new();
    let prefix = match form {
        Form::Prefixed => write!(line, "<{}>", priority as u8),
        Form::Plain => line.write_str(match priority {
            Priority::Error => "error: ",
            Priority::Warning => "warning: ",
            Priority::Notice | Priority::Info => "",
        }),
    };
    let _ = prefix.and_then(|()| write!(line, "{event}"));
    // Room for the newline.
    line.length = line.length.min(MAX_LOG_LINE - 1);
    for byte in &mut line.bytes[..line.length] {
        // File names may contain newlines, and what a terminal obeys.
        if byte.is_ascii_control() {
            *byte = b' ';
        }
    }
    line.bytes[line.length] = b'\n';
    line.length += 1;
    line
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_line_has_its_priority_and_is_one_line() {
        let event = "gone:\n\x1b[2Kno\x7fpower";
        let prefixed = line(Form::Prefixed, Priority::Error, event);
        assert_eq!(prefixed.bytes(), b"<3>gone:  [2Kno power\n");
        let plain = line(Form::Plain, Priority::Error, event);
        assert_eq!(plain.bytes(), b"error: gone:  [2Kno power\n");
        let plain = line(Form::Plain, Priority::Info, event);
        assert_eq!(plain.bytes(), b"gone:  [2Kno power\n");
    }

    #[test]
    fn the_journal_is_known_by_its_inode() {
        let (_reader, writer) = io::pipe().expect("a pipe");
        let file = File::from(writer.as_fd().try_clone_to_owned().expect("a copy"));
        let metadata = file.metadata().expect("metadata");
        let journal = format!("{}:{}", metadata.dev(), metadata.ino());
        assert_eq!(Form::of_stream(&writer, &journal), Form::Prefixed);
        for other in ["", "8:1"] {
            assert_eq!(Form::of_stream(&writer, other), Form::Plain);
        }
    }

    #[test]
    fn a_long_line_is_truncated() {
        let line = line(Form::Prefixed, Priority::Info, "ä".repeat(MAX_LOG_LINE));
        assert!(line.bytes().len() <= MAX_LOG_LINE);
        let text = std::str::from_utf8(line.bytes()).unwrap_or_default();
        assert!(line.bytes().ends_with(b"\n"), "{text}");
    }

    #[test]
    fn without_room_lines_are_dropped_and_counted() {
        let (mut reader, writer) = UnixStream::pair().expect("sockets");
        writer.set_nonblocking(true).expect("set");
        let dropped = AtomicU32::new(0);
        let log = |event: &str| {
            let line = line(Form::Prefixed, Priority::Info, event);
            write(&writer, Form::Prefixed, &line, &dropped);
        };
        let mut lines = 0;
        while dropped.load(Ordering::Relaxed) < 3 {
            log("a line that nobody reads");
            lines += 1;
            assert!(lines < 100_000, "no line was dropped");
        }
        let mut read = vec![0; 1 << 20];
        let length = reader.read(&mut read).expect("lines");
        let text = String::from_utf8(read[..length].to_vec()).expect("text");
        assert_eq!(text.lines().count(), lines - 3);
        log("read again");
        let length = reader.read(&mut read).expect("lines");
        assert_eq!(
            read[..length],
            *b"<4>3 log lines were dropped: stderr had no room\n<6>read again\n"
        );
    }
}
