//! The steps protocol: a workload tells the count of its steps to a program that measures it.
//!
//! **Transport.** The receiver binds a Unix datagram socket and starts the workload with the
//! socket's path in the environment variable [`SOCKET`]. The sender gets no answer. Without the
//! variable, it sends to the daemon's socket, [`DAEMON`]; if the variable is empty, it does nothing.
//!
//! **A datagram** is one line of text, at most [`MAX_BYTES`] long; a newline at its end is
//! optional. Its fields are separated by spaces and stand in any order, each at most once:
//!
//! ```text
//! steps=1234 items=16 name=yolo
//! steps=1240 fetch_ms=310.25 compute_ms=5120.5
//! ```
//!
//! | field | value |
//! |---|---|
//! | `steps` | steps since the start of the sender, cumulative, 64 bits; required |
//! | `items` | samples in one step, 32 bits |
//! | `name` | name of the workload: 1 to 64 letters, digits, `.`, `_` and `-` |
//! | `fetch_ms` | time since the start of the sender in which steps waited for their data, cumulative, in ms with at most three digits after the point |
//! | `compute_ms` | time since then in which the GPU computed, likewise |
//!
//! **Several senders.** Linux tells the receiver the process of each datagram, and the address of its
//! socket. A sender is a process, an address and a name; its count never goes backwards. So a counter has
//! a socket of its own with an address, which Linux chooses for it (`autobind` in unix(7)). Senders of the
//! same name do the same steps, as the ranks of a data-parallel training do; those of different names do
//! different work.
//!
//! **The sender never blocks.** It ignores errors, because a lost line costs nothing: the next one
//! has the count. It sends at most one line each 20 ms, and on close a count that it has not sent
//! yet. When a send fails, it tries to connect again at a later step, at most once a second, and so
//! finds a receiver that comes late or comes back.

use std::env;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::str::{self, FromStr};
use std::time::{Duration, Instant};

use thiserror::Error;

/// Environment variable with the path of the receiver's socket. If it is empty, no steps are sent.
pub const SOCKET: &str = "WATTGATE_SOCKET";

/// The receiver's socket without the variable: that of the daemon.
pub const DAEMON: &str = "/run/wattgate/steps";

/// Maximum length of a line in bytes.
pub const MAX_BYTES: usize = 512;

/// Maximum length of a name in bytes.
const MAX_NAME: usize = 64;

/// Minimum time between two lines.
const LINE_INTERVAL: Duration = Duration::from_millis(20);

/// Minimum time between two attempts to connect.
const CONNECT_INTERVAL: Duration = Duration::from_secs(1);

/// One line of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepLine {
    /// Steps since the start of the sender.
    pub steps: u64,
    /// Samples in one step.
    pub items: Option<u32>,
    /// Name of the workload.
    pub name: Option<String>,
    /// Time in µs in which steps waited for their data.
    pub fetch_us: Option<u64>,
    /// Time in µs in which the GPU computed.
    pub compute_us: Option<u64>,
}

/// Why a datagram is not a line of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StepLineError {
    #[error("the line has {length} bytes, expected at most {MAX_BYTES}")]
    TooLong { length: usize },
    #[error("the line is not UTF-8")]
    NotText,
    #[error(
        "unknown field `{field}`, expected steps=N, items=N, name=NAME, fetch_ms=N or compute_ms=N"
    )]
    UnknownField { field: String },
    #[error("`{key}` is given twice")]
    Twice { key: &'static str },
    #[error("`{key}` is `{value}`, expected {expected}")]
    Value {
        key: &'static str,
        value: String,
        expected: &'static str,
    },
    #[error("missing steps=N")]
    NoSteps,
}

impl StepLine {
    /// Parses a datagram.
    pub fn parse(datagram: &[u8]) -> Result<Self, StepLineError> {
        if datagram.len() > MAX_BYTES {
            let length = datagram.len();
            return Err(StepLineError::TooLong { length });
        }
        let line = str::from_utf8(datagram).map_err(|_| StepLineError::NotText)?;
        let line = line.strip_suffix('\n').unwrap_or(line);
        let (mut steps, mut items, mut name) = (None, None, None);
        let (mut fetch_us, mut compute_us) = (None, None);
        for field in line.split(' ').filter(|field| !field.is_empty()) {
            match field.split_once('=') {
                Some(("steps", value)) => {
                    let value = number("steps", value, "a whole number of 64 bits")?;
                    once("steps", &mut steps, value)?;
                }
                Some(("items", value)) => {
                    let value = number("items", value, "a whole number of 32 bits")?;
                    once("items", &mut items, value)?;
                }
                Some(("fetch_ms", value)) => {
                    once("fetch_ms", &mut fetch_us, micros("fetch_ms", value)?)?;
                }
                Some(("compute_ms", value)) => {
                    once("compute_ms", &mut compute_us, micros("compute_ms", value)?)?;
                }
                Some(("name", value)) if is_name(value) => {
                    once("name", &mut name, value.to_owned())?;
                }
                Some(("name", value)) => {
                    return Err(StepLineError::Value {
                        key: "name",
                        value: value.to_owned(),
                        expected: "1 to 64 letters, digits, `.`, `_` and `-`",
                    });
                }
                _ => {
                    let field = field.to_owned();
                    return Err(StepLineError::UnknownField { field });
                }
            }
        }
        let steps = steps.ok_or(StepLineError::NoSteps)?;
        Ok(Self {
            steps,
            items,
            name,
            fetch_us,
            compute_us,
        })
    }
}

impl Display for StepLine {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "steps={}", self.steps)?;
        if let Some(items) = self.items {
            write!(formatter, " items={items}")?;
        }
        if let Some(name) = &self.name {
            write!(formatter, " name={name}")?;
        }
        for (key, micros) in [("fetch_ms", self.fetch_us), ("compute_ms", self.compute_us)] {
            if let Some(micros) = micros {
                write!(formatter, " {key}={}.{:03}", micros / 1000, micros % 1000)?;
            }
        }
        writeln!(formatter)
    }
}

fn number<N: FromStr>(
    key: &'static str,
    value: &str,
    expected: &'static str,
) -> Result<N, StepLineError> {
    // `from_str` alone would take a sign.
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    let number = value.parse().ok().filter(|_| digits);
    number.ok_or_else(|| StepLineError::Value {
        key,
        value: value.to_owned(),
        expected,
    })
}

/// A time in ms with at most three digits after the point, in µs.
fn micros(key: &'static str, value: &str) -> Result<u64, StepLineError> {
    let (whole, part) = value.split_once('.').unwrap_or((value, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let sound = is_number(whole) && is_number(part) && part.len() <= 3;
    let whole: Option<u64> = whole.parse().ok().filter(|_| sound);
    let part: Option<u64> = format!("{part:0<3}").parse().ok();
    let micros = whole
        .zip(part)
        .and_then(|(whole, part)| whole.checked_mul(1000)?.checked_add(part));
    micros.ok_or_else(|| StepLineError::Value {
        key,
        value: value.to_owned(),
        expected: "a time in ms with at most three digits after the point",
    })
}

fn once<V>(key: &'static str, place: &mut Option<V>, value: V) -> Result<(), StepLineError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(StepLineError::Twice { key }),
    }
}

fn is_name(text: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(is_legal)
}

/// The sender of a workload. Dropping it sends a count that it has not sent yet.
#[derive(Debug)]
pub struct Steps {
    /// Path of the receiver's socket; `None` if nobody wants the steps.
    path: Option<PathBuf>,
    line: StepLine,
    socket: Option<UnixDatagram>,
    /// The last count that was sent.
    told: Option<u64>,
    /// Time of the last send.
    sent: Option<Instant>,
    /// Time of the last attempt to connect.
    tried: Option<Instant>,
}

impl Steps {
    /// A sender to the socket that the environment names, or else to the daemon's. A step has `items` samples; a name that
    /// the protocol does not allow is left out.
    pub fn from_env(items: u32, name: &str) -> Self {
        let path = env::var_os(SOCKET).unwrap_or_else(|| DAEMON.into());
        let path = Some(path).filter(|path| !path.is_empty());
        Self::new(path.map(PathBuf::from), items, name)
    }

    /// A sender to a socket; without a path it does nothing.
    pub fn new(path: Option<PathBuf>, items: u32, name: &str) -> Self {
        Self {
            path,
            line: StepLine {
                steps: 0,
                items: Some(items),
                name: Some(name.to_owned()).filter(|name| is_name(name)),
                fetch_us: None,
                compute_us: None,
            },
            socket: None,
            told: None,
            sent: None,
            tried: None,
        }
    }

    /// Sets the cumulative times of the steps that the next report counts: waiting for their data,
    /// and computing.
    pub fn spent(&mut self, fetch: Duration, compute: Duration) {
        let micros = |time: Duration| u64::try_from(time.as_micros()).ok();
        (self.line.fetch_us, self.line.compute_us) = (micros(fetch), micros(compute));
    }

    /// Reports the cumulative count of steps; a count below the last one is ignored.
    pub fn report(&mut self, steps: u64) {
        self.report_at(steps, Instant::now());
    }

    fn report_at(&mut self, steps: u64, now: Instant) {
        self.line.steps = self.line.steps.max(steps);
        if is_over(self.sent, LINE_INTERVAL, now) {
            self.send(now);
        }
    }

    fn send(&mut self, now: Instant) {
        if self.told == Some(self.line.steps) {
            return;
        }
        self.connect(now);
        let Some(socket) = &self.socket else {
            return;
        };
        self.sent = Some(now);
        match socket.send(self.line.to_string().as_bytes()) {
            Ok(_) => self.told = Some(self.line.steps),
            // The receiver's queue is full.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.socket = None,
        }
    }

    fn connect(&mut self, now: Instant) {
        if let Some(path) = &self.path
            && self.socket.is_none()
            && is_over(self.tried, CONNECT_INTERVAL, now)
        {
            self.tried = Some(now);
            self.socket = connected(path).ok();
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        if self.line.steps > 0 {
            self.send(Instant::now());
        }
    }
}

/// Whether a time has passed since `start`, if there was one.
fn is_over(start: Option<Instant>, time: Duration, now: Instant) -> bool {
    start.is_none_or(|start| now.saturating_duration_since(start) >= time)
}

/// A socket with an address of its own, if Linux gives it one, which tells this counter from others.
fn connected(path: &Path) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::bind("").or_else(|_| UnixDatagram::unbound())?;
    socket.set_nonblocking(true)?;
    socket.connect(path)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn line(steps: u64, items: Option<u32>, name: Option<&str>) -> StepLine {
        StepLine {
            steps,
            items,
            name: name.map(str::to_owned),
            fetch_us: None,
            compute_us: None,
        }
    }

    #[test]
    fn lines_are_parsed() {
        let most = u64::MAX.to_string();
        let longest = "n".repeat(64);
        for (text, expected) in [
            ("steps=0", line(0, None, None)),
            ("steps=1234\n", line(1234, None, None)),
            (
                "steps=7 items=16 name=yolo\n",
                line(7, Some(16), Some("yolo")),
            ),
            (
                "name=a.B_1-  items=0 steps=7",
                line(7, Some(0), Some("a.B_1-")),
            ),
            (&format!("steps={most}"), line(u64::MAX, None, None)),
            (
                "fetch_ms=0.25 steps=3 compute_ms=1200",
                StepLine {
                    fetch_us: Some(250),
                    compute_us: Some(1_200_000),
                    ..line(3, None, None)
                },
            ),
            (
                &format!("steps=1 name={longest}"),
                line(1, None, Some(&longest)),
            ),
            (
                &format!("steps={}1", "0".repeat(MAX_BYTES - 7)),
                line(1, None, None),
            ),
        ] {
            assert_eq!(StepLine::parse(text.as_bytes()), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn a_line_survives_writing_and_parsing() {
        for line in [
            line(1, None, None),
            line(2, Some(3), Some("x")),
            line(4, None, Some("y")),
            StepLine {
                fetch_us: Some(1_005),
                compute_us: Some(0),
                ..line(5, Some(1), Some("z"))
            },
        ] {
            assert_eq!(StepLine::parse(line.to_string().as_bytes()), Ok(line));
        }
    }

    #[test]
    fn each_defect_has_its_message() {
        let long = format!("steps=1{}", " ".repeat(MAX_BYTES));
        let long_name = format!("steps=1 name={}", "n".repeat(65));
        for (datagram, message) in [
            (
                long.as_bytes(),
                "the line has 519 bytes, expected at most 512",
            ),
            (b"steps=1 name=\xff", "the line is not UTF-8"),
            (b"", "missing steps=N"),
            (b"items=16", "missing steps=N"),
            (
                b"steps",
                "unknown field `steps`, expected steps=N, items=N, name=NAME, fetch_ms=N or",
            ),
            (b"steps=1 fps=3", "unknown field `fps=3`, expected"),
            (b"steps=1 steps=2", "`steps` is given twice"),
            (b"steps=1 items=2 items=2", "`items` is given twice"),
            (b"name=a name=b steps=1", "`name` is given twice"),
            (
                b"steps=",
                "`steps` is ``, expected a whole number of 64 bits",
            ),
            (b"steps=-1", "`steps` is `-1`, expected"),
            (b"steps=+1", "`steps` is `+1`, expected"),
            (b"steps=1.5", "`steps` is `1.5`, expected"),
            (b"steps=1\nsteps=2", "`steps` is `1\nsteps=2`, expected"),
            (
                b"steps=18446744073709551616",
                "`steps` is `18446744073709551616`",
            ),
            (
                b"steps=1 items=4294967296",
                "`items` is `4294967296`, expected",
            ),
            (b"steps=1 name=", "`name` is ``, expected 1 to 64 letters"),
            (b"steps=1 name=a/b", "`name` is `a/b`, expected"),
            (long_name.as_bytes(), "`name` is `nnn"),
            (
                b"steps=1 fetch_ms=-1",
                "`fetch_ms` is `-1`, expected a time in ms",
            ),
            (b"steps=1 fetch_ms=.5", "`fetch_ms` is `.5`, expected"),
            (b"steps=1 fetch_ms=1e3", "`fetch_ms` is `1e3`, expected"),
            (
                b"steps=1 compute_ms=1.2345",
                "`compute_ms` is `1.2345`, expected a time in ms with at most three digits",
            ),
            (
                b"steps=1 compute_ms=1 compute_ms=1",
                "`compute_ms` is given twice",
            ),
        ] {
            let error = StepLine::parse(datagram).expect_err(message).to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }

    /// A receiver, and the texts that it has got.
    struct Receiver(UnixDatagram);

    impl Receiver {
        fn bind(path: &Path) -> Self {
            let socket = UnixDatagram::bind(path).expect("bound");
            socket.set_nonblocking(true).expect("set");
            Self(socket)
        }

        fn lines(&self) -> Vec<u64> {
            let mut buffer = [0; MAX_BYTES];
            let received = std::iter::from_fn(|| {
                self.0
                    .recv(&mut buffer)
                    .ok()
                    .map(|at| buffer[..at].to_vec())
            });
            let parsed = received.map(|line| StepLine::parse(&line).expect("a line").steps);
            parsed.collect()
        }
    }

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn lines_are_20_ms_apart_and_the_last_count_is_sent_on_close() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let receiver = Receiver::bind(&path);
        let mut steps = Steps::new(Some(path), 16, "yolo");
        let start = Instant::now();
        for at in 0..50 {
            steps.report_at(at, start + ms(at));
        }
        assert_eq!(receiver.lines(), [0, 20, 40]);
        // The same or a lower count adds nothing.
        steps.report_at(40, start + ms(70));
        assert_eq!(receiver.lines(), [49]);
        steps.report_at(49, start + ms(100));
        assert!(receiver.lines().is_empty());
        steps.report_at(50, start + ms(100));
        steps.report_at(51, start + ms(101));
        drop(steps);
        assert_eq!(receiver.lines(), [50, 51]);
    }

    #[test]
    fn a_receiver_is_found_when_it_comes_and_when_it_comes_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let mut steps = Steps::new(Some(path.clone()), 1, "x");
        let start = Instant::now();
        steps.report_at(1, start);
        let first = Receiver::bind(&path);
        steps.report_at(2, start + ms(999));
        assert!(first.lines().is_empty());
        steps.report_at(3, start + ms(1000));
        assert_eq!(first.lines(), [3]);
        drop(first);
        fs::remove_file(&path).expect("there");
        steps.report_at(4, start + ms(1500));
        let second = Receiver::bind(&path);
        steps.report_at(5, start + ms(1999));
        assert!(second.lines().is_empty());
        steps.report_at(5, start + ms(2000));
        assert_eq!(second.lines(), [5]);
    }

    #[test]
    fn a_full_queue_does_not_block_and_loses_no_count() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let receiver = Receiver::bind(&path);
        let mut steps = Steps::new(Some(path), 1, "x");
        let start = Instant::now();
        for at in 0..2000 {
            steps.report_at(at, start + ms(20 * at));
        }
        let queued = receiver.lines();
        assert!(queued.len() < 2000, "the queue holds all");
        steps.report_at(1999, start + ms(40_000));
        assert_eq!(receiver.lines(), [1999]);
    }

    #[test]
    fn parts_of_the_time_are_sent_with_the_count() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let receiver = UnixDatagram::bind(&path).expect("bound");
        let mut steps = Steps::new(Some(path), 1, "x");
        steps.spent(Duration::from_micros(1_500), ms(20));
        steps.report(2);
        let mut buffer = [0; MAX_BYTES];
        let length = receiver.recv(&mut buffer).expect("a line");
        let expected = StepLine {
            fetch_us: Some(1_500),
            compute_us: Some(20_000),
            ..line(2, Some(1), Some("x"))
        };
        assert_eq!(StepLine::parse(&buffer[..length]), Ok(expected));
    }

    #[test]
    fn a_name_that_the_protocol_does_not_allow_is_left_out() {
        let steps = Steps::new(None, 8, "a b");
        assert_eq!(steps.line, line(0, Some(8), None));
    }
}
