//! Files of a board whose power sensors answer in time or not at all.
//!
//! A sensor is behind an I2C bus. A bus that hangs holds a read for seconds, and no signal ends it.
//! [`InTime`] reads the sensors' files in a thread of its own: a read that misses its deadline fails
//! with `TimedOut`, and so do further reads until the thread is back. The control then acts as if the
//! sensor were lost. All other files are read as [`Disk`] reads them. Reads do not allocate.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use wattgate_board::{Disk, Files, Refusal};

/// The longest time that a read may take. One register takes 0.6 ms, and a driver that waits for a
/// conversion 1 ms more (`jetson-platform.md`, section 6.3).
const READ_DEADLINE: Duration = Duration::from_millis(100);

/// Longest path; a longer one is read without a deadline.
const PATH: usize = 384;

/// Longest text of a sensor.
const TEXT: usize = 64;

/// The board's files. Dropping it ends the threads once their last reads are over.
#[derive(Debug)]
pub struct InTime {
    /// Without it, sensors are read without a deadline.
    desk: Option<Arc<Desk>>,
    /// Whether every write is refused.
    is_read_only: bool,
    /// The supply's meter, with a thread of its own: if it hangs, the sensors are read as before.
    meter: Option<(Box<Path>, Arc<Desk>)>,
}

/// Where the two threads meet.
#[derive(Debug)]
struct Desk {
    state: Mutex<State>,
    /// Signals a new state.
    changed: Condvar,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box would allocate")]
enum State {
    Idle,
    /// A path to read.
    Asked(Text<PATH>),
    /// The thread is reading.
    Reading,
    /// The read missed its deadline: its result is not wanted.
    Late,
    Answered(Result<Text<TEXT>, Refusal>),
    Over,
}

#[derive(Clone, Copy, Debug)]
struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Text<N> {
    fn from_bytes(text: &[u8]) -> Option<Self> {
        let mut bytes = [0; N];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        let length = text.len();
        Some(Self { bytes, length })
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl InTime {
    /// Files without a deadline, for commands that run once: the same type as that of the daemon, so
    /// that the code of the board exists once.
    pub const fn plain() -> Self {
        Self {
            desk: None,
            is_read_only: false,
            meter: None,
        }
    }

    /// Refuses every write from now on: for a daemon that only observes, should it try one.
    pub fn read_only(self) -> Self {
        let mut files = self;
        files.is_read_only = true;
        files
    }

    /// Starts the thread.
    pub fn new() -> io::Result<Self> {
        Self::with_meter(None)
    }

    /// Starts the thread, and one for the supply's meter if there is one. A read of this file never waits: it returns what
    /// was read since the last one, or `WouldBlock`.
    pub fn with_meter(meter: Option<&Path>) -> io::Result<Self> {
        let meter =
            meter.map(|path| Ok::<_, io::Error>((path.into(), Desk::open("meter", read_file)?)));
        Ok(Self {
            desk: Some(Desk::open("sensors", read)?),
            meter: meter.transpose()?,
            is_read_only: false,
        })
    }
}

impl Drop for InTime {
    fn drop(&mut self) {
        let meter = self.meter.as_ref().map(|(_, desk)| desk);
        for desk in self.desk.iter().chain(meter) {
            *desk.lock() = State::Over;
            desk.changed.notify_all();
        }
    }
}

/// How a thread reads a path.
type Read = fn(&[u8]) -> Result<Text<TEXT>, Refusal>;

impl Desk {
    /// Starts a thread that reads.
    fn open(name: &str, read: Read) -> io::Result<Arc<Self>> {
        let desk = Arc::new(Self {
            state: Mutex::new(State::Idle),
            changed: Condvar::new(),
        });
        let its = Arc::clone(&desk);
        thread::Builder::new()
            .name(name.to_owned())
            .stack_size(64 << 10)
            .spawn(move || its.answer(read))?;
        Ok(desk)
    }

    /// Returns the answer to the last question, and asks again. While the other thread still reads, nothing is asked and the error
    /// is `WouldBlock`, as it is at the first question.
    fn take(&self, path: Text<PATH>) -> io::Result<Text<TEXT>> {
        let mut state = self.lock();
        let last = match *state {
            State::Answered(answer) => answer.map_err(io::Error::from),
            State::Idle => Err(ErrorKind::WouldBlock.into()),
            State::Asked(_) | State::Reading | State::Late | State::Over => {
                return Err(ErrorKind::WouldBlock.into());
            }
        };
        *state = State::Asked(path);
        self.changed.notify_all();
        last
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No thread panics while it has the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a file in the other thread.
    fn read(&self, path: Text<PATH>) -> io::Result<Text<TEXT>> {
        let mut state = self.lock();
        if !matches!(*state, State::Idle) {
            return Err(ErrorKind::TimedOut.into());
        }
        *state = State::Asked(path);
        self.changed.notify_all();
        let is_open = |state: &mut State| !matches!(state, State::Answered(_));
        let waited = self
            .changed
            .wait_timeout_while(state, READ_DEADLINE, is_open);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match *state {
            State::Answered(answer) => {
                *state = State::Idle;
                answer.map_err(io::Error::from)
            }
            // The thread has not even begun.
            State::Asked(_) => {
                *state = State::Idle;
                Err(ErrorKind::TimedOut.into())
            }
            _ => {
                *state = State::Late;
                Err(ErrorKind::TimedOut.into())
            }
        }
    }

    /// Answers until the end.
    fn answer(&self, read: Read) {
        let mut state = self.lock();
        loop {
            let path = match *state {
                State::Over => return,
                State::Asked(path) => path,
                _ => {
                    let waited = self.changed.wait(state);
                    state = waited.unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
            };
            *state = State::Reading;
            drop(state);
            let answer = read(path.bytes());
            state = self.lock();
            match *state {
                State::Reading => {
                    *state = State::Answered(answer);
                    self.changed.notify_all();
                }
                State::Late => *state = State::Idle,
                _ => {}
            }
        }
    }
}

fn read(path: &[u8]) -> Result<Text<TEXT>, Refusal> {
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let mut buffer = [0; TEXT];
    let text = Disk.read(path, &mut buffer).map_err(Refusal::from)?;
    let length = text.len();
    Ok(Text {
        bytes: buffer,
        length,
    })
}

/// As [`read`], but of a regular file alone: `Unsupported` for a folder, a pipe or a device.
fn read_file(path: &[u8]) -> Result<Text<TEXT>, Refusal> {
    let found = fs::metadata(std::ffi::OsStr::from_bytes(path)).map_err(Refusal::from)?;
    match found.is_file() {
        true => read(path),
        false => Err(io::Error::from(ErrorKind::Unsupported).into()),
    }
}

/// Whether the file shows a register of a power sensor.
fn is_sensor(path: &Path) -> bool {
    let name = path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
    let is = |start: &[u8], end: &[u8]| name.starts_with(start) && name.ends_with(end);
    is(b"curr", b"_input") || is(b"in", b"_input") || is(b"power", b"_input")
}

impl Files for InTime {
    fn read<'b>(&self, path: &Path, buffer: &'b mut [u8]) -> io::Result<&'b str> {
        let meter = self.meter.as_ref().filter(|(meter, _)| **meter == *path);
        let desk = self.desk.as_ref().filter(|_| is_sensor(path));
        let asked = Text::from_bytes(path.as_os_str().as_bytes());
        let text = match (meter, desk, asked) {
            (Some((_, meter)), _, Some(asked)) => meter.take(asked)?,
            // Without a thread it might hang for ever.
            (Some(_), ..) => return Err(ErrorKind::InvalidFilename.into()),
            (None, Some(desk), Some(asked)) => desk.read(asked)?,
            _ => return Disk.read(path, buffer),
        };
        let place = buffer.get_mut(..text.length);
        let place = place.ok_or(ErrorKind::FileTooLarge)?;
        place.copy_from_slice(text.bytes());
        std::str::from_utf8(place).map_err(|_| ErrorKind::InvalidData.into())
    }

    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        if self.is_read_only {
            return Err(ErrorKind::ReadOnlyFilesystem.into());
        }
        Disk.write(path, text)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        Disk.list(directory)
    }

    fn wait(&mut self, time: Duration) {
        Disk.wait(time);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Instant;

    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a folder")
    }

    /// A file whose reader waits until somebody writes.
    fn pipe(path: &Path) {
        let made = Command::new("mkfifo").arg(path).status();
        assert!(made.expect("started").success());
    }

    #[test]
    fn a_sensor_is_read_as_on_a_disk() {
        let (folder, files) = (folder(), InTime::new().expect("a thread"));
        let path = folder.path().join("curr1_input");
        for text in ["1234\n", "-8\n", "5"] {
            fs::write(&path, text).expect("written");
            assert_eq!(files.read(&path, &mut [0; 64]).expect("read"), text);
        }
        fs::write(&path, "1".repeat(65)).expect("written");
        for (path, kind) in [
            (path.clone(), ErrorKind::FileTooLarge),
            (folder.path().join("curr2_input"), ErrorKind::NotFound),
        ] {
            let here = files.read(&path, &mut [0; 64]).expect_err("an error");
            assert_eq!(here.kind(), kind);
            let on_disk = Disk.read(&path, &mut [0; 64]).expect_err("an error");
            assert_eq!(here.raw_os_error(), on_disk.raw_os_error());
        }
        fs::write(&path, "1234\n").expect("written");
        let error = files.read(&path, &mut [0; 3]).expect_err("short");
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
    }

    #[test]
    fn a_read_that_hangs_fails_in_time_and_the_next_ones_at_once() {
        let (folder, files) = (folder(), InTime::new().expect("a thread"));
        let (hangs, works) = (
            folder.path().join("curr1_input"),
            folder.path().join("in1_input"),
        );
        pipe(&hangs);
        fs::write(&works, "5000\n").expect("written");
        let start = Instant::now();
        let error = files.read(&hangs, &mut [0; 64]).expect_err("late");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(start.elapsed() >= READ_DEADLINE);
        let error = files.read(&works, &mut [0; 64]).expect_err("not back");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        // Other files have nothing to do with the bus.
        let other = folder.path().join("max_freq");
        fs::write(&other, "1\n").expect("written");
        assert_eq!(files.read(&other, &mut [0; 64]).expect("read"), "1\n");
        // The bus works again: the late answer is not taken for the next one.
        fs::write(&hangs, "1\n").expect("written");
        let mut found = files.read(&works, &mut [0; 64]).map(str::to_owned);
        while found.is_err() && start.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(5));
            found = files.read(&works, &mut [0; 64]).map(str::to_owned);
        }
        assert_eq!(found.expect("read"), "5000\n");
    }

    /// Reads a file again while the answer is `kind`.
    fn after(kind: ErrorKind, files: &InTime, path: &Path) -> io::Result<String> {
        let start = Instant::now();
        loop {
            match files.read(path, &mut [0; 64]) {
                Err(error) if error.kind() == kind && start.elapsed().as_secs() < 60 => {
                    thread::sleep(Duration::from_millis(1));
                }
                read => return read.map(str::to_owned),
            }
        }
    }

    #[test]
    fn a_meter_never_waits_and_what_it_shows_comes_later() {
        let folder = folder();
        let path = folder.path().join("power1_input");
        let files = InTime::with_meter(Some(&path)).expect("threads");
        let answer = || after(ErrorKind::WouldBlock, &files, &path);
        let error = files.read(&path, &mut [0; 64]).expect_err("asked");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        let error = answer().expect_err("missing");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        fs::write(&path, "18200000\n").expect("written");
        // The answer from before the write comes first.
        let answers = [(); 2].map(|()| answer());
        assert_eq!(answers[1].as_deref().ok(), Some("18200000\n"));
        fs::remove_file(&path).expect("removed");
        pipe(&path);
        let answers = [(); 2].map(|()| answer());
        let error = answers[1].as_ref().expect_err("a pipe");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn a_meter_that_hangs_holds_up_no_sensor() {
        let folder = folder();
        let (meter, sensor) = (folder.path().join("plug"), folder.path().join("in1_input"));
        fs::write(&sensor, "5000\n").expect("written");
        // As a driver that waits for its device does.
        let hangs: Read = |_| {
            thread::sleep(Duration::from_secs(120));
            Err(io::Error::from(ErrorKind::TimedOut).into())
        };
        let desk = Desk::open("meter", hangs).expect("a thread");
        let mut files = InTime::new().expect("a thread");
        files.meter = Some((meter.as_path().into(), desk));
        for _ in 0..10 {
            let error = files.read(&meter, &mut [0; 64]).expect_err("hangs");
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            // Other work on this machine may make it late.
            let read = after(ErrorKind::TimedOut, &files, &sensor);
            assert_eq!(read.expect("read"), "5000\n");
        }
    }

    #[test]
    fn files_that_are_read_only_refuse_every_write() {
        let (folder, files) = (folder(), InTime::new().expect("a thread"));
        let path = folder.path().join("max_freq");
        fs::write(&path, "1\n").expect("written");
        let mut files = files.read_only();
        let error = files.write(&path, "2\n").expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem);
        assert_eq!(files.read(&path, &mut [0; 64]).expect("read"), "1\n");
    }

    #[test]
    fn readings_of_sensors_have_a_deadline() {
        for (path, is) in [
            ("/sys/class/hwmon/hwmon1/curr1_input", true),
            ("/sys/class/hwmon/hwmon1/in1_input", true),
            ("/sys/class/hwmon/hwmon1/power1_input", true),
            (
                "/sys/bus/i2c/drivers/ina3221x/1-0040/iio:device0/in_current0_input",
                true,
            ),
            (
                "/sys/bus/i2c/drivers/ina3221x/1-0040/iio:device0/in_voltage0_input",
                true,
            ),
            ("/sys/class/hwmon/hwmon1/curr1_crit", false),
            ("/sys/class/hwmon/hwmon1/in1_label", false),
            ("/sys/class/devfreq/17000000.gpu/max_freq", false),
            ("/", false),
        ] {
            assert_eq!(is_sensor(Path::new(path)), is, "{path}");
        }
    }
}
