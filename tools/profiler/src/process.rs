//! The world of a session outside of tests: the board's files, a command, the socket on which it
//! counts its steps, and the clock.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use wattgate_board::{Disk, Files};
use wattgate_cli::steps::{MAX_BYTES, SOCKET, StepLine};

use crate::session::{Event, World};
use crate::window::Count;

/// The end of a workload is seen within this time.
const CHECK_CHILD: Duration = Duration::from_millis(200);

/// Time in which the files of a simulated board follow a write.
const ANSWER: Duration = Duration::from_millis(10);

/// A workload that is asked to end has this time; then it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// The files of a board whose time may run at another speed.
#[derive(Clone, Copy, Debug)]
pub struct BoardFiles {
    /// The board's time per real time.
    speed: f64,
}

impl BoardFiles {
    /// The files of a board; `speed` is its time per real time, 1 for a real one.
    pub fn new(speed: f64) -> Self {
        Self { speed }
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
        // A simulated board answers a write within some milliseconds of real time.
        Disk.wait(time.div_f64(self.speed).max(time.min(ANSWER)));
    }
}

/// A process that works, and its counts.
#[derive(Debug)]
pub struct Process {
    files: BoardFiles,
    start: Instant,
    socket: UnixDatagram,
    /// Removes the socket at the end.
    directory: TempDir,
    child: Option<Child>,
    stop: Arc<AtomicBool>,
}

impl Process {
    /// Opens the socket.
    pub fn new(files: BoardFiles, stop: Arc<AtomicBool>) -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("wattgate-").tempdir()?;
        let socket = UnixDatagram::bind(directory.path().join("steps"))?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            files,
            start: Instant::now(),
            socket,
            directory,
            child: None,
            stop,
        })
    }

    /// Starts the workload. Its standard output goes to standard error if ours is for a program.
    pub fn start(
        &mut self,
        program: &OsString,
        arguments: &[OsString],
        is_for_program: bool,
    ) -> io::Result<()> {
        let mut command = Command::new(program);
        command.args(arguments);
        command.env(SOCKET, self.directory.path().join("steps"));
        if is_for_program {
            command.stdout(io::stderr());
        }
        let child = command.spawn()?;
        self.child = Some(child);
        Ok(())
    }

    /// A count that has arrived, if there is one. Lines of other programs are ignored.
    fn count(&self) -> Option<Count> {
        // A longer line is no line of the protocol.
        let mut buffer = [0; MAX_BYTES + 1];
        loop {
            let length = self.socket.recv(&mut buffer).ok()?;
            if let Ok(line) = StepLine::parse(&buffer[..length]) {
                return Some(Count {
                    at: self.now(),
                    steps: line.steps,
                });
            }
        }
    }
}

impl World for Process {
    type Files = BoardFiles;

    fn files(&mut self) -> &mut BoardFiles {
        &mut self.files
    }

    fn now(&self) -> Duration {
        self.start.elapsed().mul_f64(self.files.speed)
    }

    fn wait(&mut self, until: Duration) -> Event {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Event::Stop;
            }
            // First, so that no flood of counts keeps the session from looking at the sensor.
            let now = self.now();
            if now >= until {
                return Event::Time;
            }
            if let Some(count) = self.count() {
                return Event::Count(count);
            }
            if let Some(Ok(Some(status))) = self.child.as_mut().map(Child::try_wait) {
                return Event::Ended(status.code());
            }
            let rest = (until - now).div_f64(self.files.speed).min(CHECK_CHILD);
            let timeout = Timespec {
                tv_sec: 0,
                tv_nsec: rest.subsec_nanos().into(),
            };
            let mut waiting = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)];
            // An error, such as EINTR, leads to another turn.
            let _ = poll(&mut waiting, Some(&timeout));
        }
    }
}

impl Drop for Process {
    /// Ends the workload.
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        if matches!(child.try_wait(), Ok(Some(_))) {
            return;
        }
        let _ = kill_process(Pid::from_child(child), Signal::TERM);
        let asked = Instant::now();
        while asked.elapsed() < GRACE {
            if matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}
