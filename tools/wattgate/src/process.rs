//! The world of a session outside of tests: a workload, the source of its steps, and the clock.
//!
//! A workload that we start has a **process group of its own**, so that its end reaches all of it:
//! a training in a shell script has children. The group is not the terminal's foreground one, hence:
//!
//! - Ctrl-C, SIGTERM and the end of the terminal reach wattgate alone, which ends the session and
//!   sends the same signal to the group, SIGTERM if the group remains, and SIGKILL at last.
//! - Ctrl-Z does nothing: a session that is stopped would not watch the limit.
//! - A standard input that is a terminal is replaced by `/dev/null`: reading it would stop the
//!   workload.
//!
//! A process that leaves the group, as a service does, is not ended. While a limit is held, the workload runs as long
//! as any of its processes: whatever outlives its parent becomes a child of ours.

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process_group, set_child_subreaper,
    test_kill_process_group, wait,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP};
use wattgate_cli::exit::note;
use wattgate_cli::steps::{DAEMON, SOCKET};
use wattgate_watchdog::clock::{Clock, System};
use wattgate_watchdog::steps::Told;
use wattgate_watchdog::sudo_user::{self, SudoUser};

use crate::board_files::BoardFiles;
use crate::lent::Loan;
use crate::steps::output::Output;
use crate::steps::relay::Relay;
use crate::steps::socket::StepSocket;
use crate::window::Count;
use crate::world::{Event, Exit, World};

/// The end of a workload is seen within this time.
const CHECK_WORKLOAD: Duration = Duration::from_millis(200);

/// Interval between checks of a workload that is to end.
const CHECK_END: Duration = Duration::from_millis(10);

/// Time that a workload has to end after a signal of the user, after SIGTERM, and after SIGKILL.
const END_TIMEOUTS: [Duration; 3] = [
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(1),
];

/// The signal that ends a session, once it has come.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicUsize>);

impl Stop {
    /// Waits for SIGINT, SIGTERM and SIGHUP, except those that we are to ignore, as `nohup` asks.
    /// Ctrl-Z does not stop us any more.
    pub fn on_signals() -> io::Result<Self> {
        let stop = Self::default();
        signal_hook::flag::register(SIGTSTP, Arc::default())?;
        let ignored = ignored_signals()?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            if ignored & 1 << (signal - 1) == 0 {
                let value = signal.unsigned_abs() as usize;
                signal_hook::flag::register_usize(signal, Arc::clone(&stop.0), value)?;
            }
        }
        Ok(stop)
    }

    /// Ends the session as a signal does.
    pub fn send(&self, signal: Signal) {
        let value = signal.as_raw().unsigned_abs() as usize;
        self.0.store(value, Ordering::Relaxed);
    }

    /// The signal that has come.
    pub fn signal(&self) -> Option<Signal> {
        Signal::from_named_raw(self.0.load(Ordering::Relaxed) as i32)
    }
}

/// The signals that this process ignores, bit 0 for signal 1.
fn ignored_signals() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let bits = line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    Ok(bits.unwrap_or_default())
}

/// Where the counts of a workload come from.
#[derive(Debug)]
pub enum Source {
    Socket(StepSocket),
    Output(Output),
    /// The daemon takes them.
    Daemon(Relay),
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Socket(socket) => socket.as_fd(),
            Self::Output(output) => output.as_fd(),
            Self::Daemon(relay) => relay.as_fd(),
        }
    }
}

/// A workload, and its counts.
#[derive(Debug)]
pub struct Process {
    files: BoardFiles,
    start: Instant,
    source: Source,
    workload: Workload,
    stop: Stop,
    /// When the last count of the daemon came.
    relayed: Duration,
    /// Whether processes that outlive the workload belong to it, and whether the user knows that there are some.
    waits_for_all: bool,
    has_told: bool,
}

#[derive(Debug)]
enum Workload {
    None,
    /// Started by us, and the leader of its group.
    Ours(Child),
    /// Runs without us.
    Attached {
        pid: Pid,
        /// Tells it from a later process with its number.
        start_time: String,
    },
}

impl Process {
    /// No workload yet. `speed` is the board's time per real time, 1 for a real one.
    pub fn new(speed: f64, source: Source, stop: Stop) -> Self {
        Self {
            files: BoardFiles::new(speed),
            start: Instant::now(),
            source,
            workload: Workload::None,
            stop,
            relayed: Duration::ZERO,
            waits_for_all: false,
            has_told: false,
        }
    }

    /// From now on the workload has ended when all of its processes have. This process must have no other child.
    pub fn wait_for_all(&mut self) {
        // What the workload leaves behind becomes our child.
        self.waits_for_all = set_child_subreaper(Some(getpid())).is_ok();
    }

    /// The board was lent: the session ends with the loan. `None` if it is lent no longer.
    pub fn set_loan(&mut self, loan: Option<Loan>) {
        self.files.set_loan(loan);
    }

    /// Starts the workload as a user. Its standard output goes to standard error if ours is for a program.
    pub fn start(
        &mut self,
        program: &OsString,
        arguments: &[OsString],
        is_for_program: bool,
        user: Option<&SudoUser>,
    ) -> io::Result<()> {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let to = match is_for_program {
            true => stderr.as_fd(),
            false => stdout.as_fd(),
        };
        let mut command = Command::new(program);
        command.args(arguments).process_group(0);
        match &mut self.source {
            Source::Socket(socket) => {
                command.env(SOCKET, socket.path());
                command.stdout(to.try_clone_to_owned()?);
            }
            // A process that runs already.
            Source::Daemon(_) => {}
            Source::Output(output) => {
                // Its packages would send steps to the daemon, beside those that are counted here.
                command.env(SOCKET, "");
                // Else Python keeps lines back where its output is not a terminal.
                command.env("PYTHONUNBUFFERED", "1");
                command.stdout(output.copy(to, user)?);
                command.stderr(output.copy(stderr.as_fd(), user)?);
            }
        }
        if io::stdin().is_terminal() {
            command.stdin(Stdio::null());
        }
        self.workload = Workload::Ours(sudo_user::spawn(&mut command, user)?);
        Ok(())
    }

    /// Whether steps that are sent to this socket reach the session.
    pub fn takes_steps_of(&self, socket: &Path) -> bool {
        match &self.source {
            Source::Daemon(_) => true,
            Source::Socket(own) => own.path() == socket,
            Source::Output(_) => false,
        }
    }

    /// Takes a process that runs already for the workload. It is not ended with the session.
    pub fn attach(&mut self, pid: Pid) -> io::Result<()> {
        let start_time = start_time(pid)?;
        self.workload = Workload::Attached { pid, start_time };
        Ok(())
    }

    /// A count that has arrived, if there is one.
    fn count(&mut self) -> Option<Count> {
        match &mut self.source {
            Source::Socket(socket) => {
                let (steps, told) = socket.take()?;
                let at = self.now();
                Some(Count { at, steps, told })
            }
            Source::Output(output) => {
                let (found, steps) = output.take()?;
                let at = found.saturating_duration_since(self.start);
                let at = at.mul_f64(self.files.speed());
                let told = Told::default();
                Some(Count { at, steps, told })
            }
            Source::Daemon(relay) => {
                let relayed = relay.take()?;
                let ago = Duration::from_millis(System.now().since(relayed.at).0);
                let at = self.now().saturating_sub(ago.mul_f64(self.files.speed()));
                // Computed from two clocks: it must not go back.
                self.relayed = at.max(self.relayed);
                Some(Count {
                    at: self.relayed,
                    steps: relayed.steps,
                    told: relayed.told,
                })
            }
        }
    }

    /// The event of the workload's end, if it has ended.
    fn ended(&mut self) -> Option<Event> {
        match &mut self.workload {
            Workload::None => None,
            Workload::Ours(child) => match child.try_wait() {
                Ok(Some(_)) if self.waits_for_all && has_children() => {
                    if !std::mem::replace(&mut self.has_told, true) {
                        note(
                            "the workload has ended, but processes that it started still run; the limit is held \
                             until they end, or until Ctrl-C",
                        );
                    }
                    None
                }
                Ok(Some(status)) => Some(Event::Ended(match (status.code(), status.signal()) {
                    (Some(code), _) => Exit::Code(code),
                    (None, Some(signal)) => Exit::Signal(signal),
                    (None, None) => Exit::Unknown,
                })),
                _ => None,
            },
            Workload::Attached {
                pid,
                start_time: before,
            } => match start_time(*pid) {
                Ok(now) if now == *before => None,
                _ => Some(Event::Ended(Exit::Unknown)),
            },
        }
    }
}

/// When a process started, in Linux's ticks. A later process with its number has another time.
fn start_time(pid: Pid) -> io::Result<String> {
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name before may have spaces and parentheses. The fields have the numbers 3 and 22.
    let (_, fields) = stat.rsplit_once(") ").ok_or_else(gone)?;
    let mut fields = fields.split(' ');
    match (fields.next(), fields.nth(18)) {
        (Some("Z" | "X"), _) | (_, None) => Err(gone()),
        (_, Some(ticks)) => Ok(ticks.to_owned()),
    }
}

impl World for Process {
    type Files = BoardFiles;

    fn files(&mut self) -> &mut BoardFiles {
        &mut self.files
    }

    fn now(&self) -> Duration {
        self.start.elapsed().mul_f64(self.files.speed())
    }

    fn wait(&mut self, until: Duration) -> Event {
        loop {
            if self.stop.signal().is_some() {
                return Event::Stop;
            }
            if self.files.is_lost() {
                return Event::Lost;
            }
            // First, so that no flood of counts keeps the session from looking at the sensor.
            let now = self.now();
            if now >= until {
                return Event::Time;
            }
            if let Some(count) = self.count() {
                return Event::Count(count);
            }
            if let Some(ended) = self.ended() {
                return ended;
            }
            let rest = (until - now)
                .div_f64(self.files.speed())
                .min(CHECK_WORKLOAD);
            let timeout = Timespec {
                tv_sec: 0,
                tv_nsec: rest.subsec_nanos().into(),
            };
            let mut waiting = [PollFd::new(&self.source, PollFlags::IN)];
            // An error, such as EINTR, leads to another turn.
            let _ = poll(&mut waiting, Some(&timeout));
        }
    }

    fn stop_signal(&self) -> Option<i32> {
        self.stop.signal().map(Signal::as_raw)
    }

    fn is_lost(&self) -> bool {
        self.files.is_lost()
    }

    fn is_hopeless(&self) -> bool {
        match &self.source {
            Source::Output(output) => output.is_hopeless(),
            Source::Socket(_) | Source::Daemon(_) => false,
        }
    }

    fn told_name(&self) -> Option<String> {
        match &self.source {
            Source::Output(_) => None,
            Source::Socket(socket) => socket.name().map(str::to_owned),
            Source::Daemon(relay) => relay.name().map(str::to_owned),
        }
    }

    fn telling(&self) -> String {
        match &self.source {
            Source::Output(output) => output.explain(),
            Source::Socket(socket) => format!(
                "let the workload send its steps to the socket that WATTGATE_SOCKET names, which is \
                 {}, one line `steps=N` with the steps since its start, or count those of its \
                 output with --steps-from",
                socket.path().display()
            ),
            Source::Daemon(relay) if !relay.others().is_empty() => format!(
                "the daemon takes steps, but none of this process: {}; name the process that tells them with --attach",
                relay.others().join(", ")
            ),
            Source::Daemon(_) => format!(
                "start the workload with {SOCKET}={DAEMON}, where the daemon takes its steps, one line \
                 `steps=N` with the steps since its start, or count those of its output with --steps-from"
            ),
        }
    }
}

impl Process {
    /// Ends a workload that we started, and watches the board `meanwhile`.
    pub fn end(&mut self, mut meanwhile: impl FnMut(&mut BoardFiles)) {
        let Workload::Ours(child) = &mut self.workload else {
            return;
        };
        let group = Pid::from_child(child);
        let asked = self.stop.signal().unwrap_or(Signal::TERM);
        for (signal, patience) in [asked, Signal::TERM, Signal::KILL]
            .into_iter()
            .zip(END_TIMEOUTS)
        {
            if is_gone(child, group, self.waits_for_all) {
                break;
            }
            let _ = kill_process_group(group, signal);
            // A stopped process ends when it goes on.
            let _ = kill_process_group(group, Signal::CONT);
            let asked = Instant::now();
            while asked.elapsed() < patience && !is_gone(child, group, self.waits_for_all) {
                meanwhile(&mut self.files);
                thread::sleep(CHECK_END);
            }
        }
        if !is_gone(child, group, self.waits_for_all) {
            note(format_args!(
                "warning: processes of the workload still run, in the process group {group}"
            ));
        } else if self.waits_for_all && has_children() {
            note(
                "warning: processes that the workload started still run, outside of its process group",
            );
        }
        self.workload = Workload::None;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end(|_| ());
    }
}

/// Whether a child of ours still runs. The workload itself has ended.
fn has_children() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Whether all processes of a group have ended. Those that are children of ours are gone from it only after we have
/// asked for their end; `are_ours` tells whether there are others than the first one.
fn is_gone(child: &mut Child, group: Pid, are_ours: bool) -> bool {
    let has_ended = matches!(child.try_wait(), Ok(Some(_)));
    if has_ended && are_ours {
        has_children();
    }
    has_ended && test_kill_process_group(group) == Err(Errno::SRCH)
}
