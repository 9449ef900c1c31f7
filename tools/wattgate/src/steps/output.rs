//! Steps from a workload's output or from a log file, which threads read.
//!
//! ```text
//! workload ──► pipe or pseudo-terminal ──► thread ──► our own output
//!                                            └──► pattern ──► count ──► session
//! ```
//!
//! The thread takes the time and the count before it writes. A slow terminal blocks the thread, and
//! the workload once the pipe is full: no longer than the terminal would block the workload itself.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};
use wattgate_cli::exit::{note, set_mid_line};
use wattgate_watchdog::sudo_user::SudoUser;

use super::lines::{Line, Lines};
use super::pattern::{NoCount, Pattern};
use super::tally::Tally;

/// Bytes that are read at once.
const OUTPUT_CHUNK: usize = 64 << 10;

/// Interval between checks of a log file of which no event tells, such as one on a network.
const LOG_POLL: Duration = Duration::from_millis(100);

/// Longest wait for the rest of the output of a workload that has ended.
const REST_TIMEOUT: Duration = Duration::from_secs(1);

/// Bytes of a line that a message shows.
const SHOWN_BYTES: usize = 160;

/// Steps that a pattern finds in output.
#[derive(Debug)]
pub struct Output {
    shared: Arc<Shared>,
    readers: Vec<JoinHandle<()>>,
}

/// What the threads share with the session.
#[derive(Debug)]
struct Shared {
    pattern: Pattern,
    state: Mutex<State>,
    /// Readable when there is something new.
    news: OwnedFd,
    is_closed: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    tally: Tally,
    /// When the pattern last found something.
    found: Option<Instant>,
    /// The last count that the session took.
    taken: Option<u64>,
    last_line: Option<String>,
    /// Why what the pattern captured is no count.
    problem: Option<NoCount>,
    /// A log file that does not exist yet.
    awaited: Option<PathBuf>,
}

impl Shared {
    /// A thread that panicked leaves a count that is still good.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for steps in a line. Returns whether it says something of them.
    fn count(&self, line: Line<'_>, last_line: &mut Option<String>) -> bool {
        let shown = &line.text[..line.text.len().min(SHOWN_BYTES)];
        let shown = String::from_utf8_lossy(shown);
        let shown = shown.trim().escape_debug().to_string();
        let shown = last_line.insert(shown);
        let found = match self.pattern.find(&line) {
            Ok(Some(found)) => found,
            Ok(None) => return false,
            Err(problem) => {
                self.state().problem.get_or_insert(problem);
                return true;
            }
        };
        let mut state = self.state();
        // Under the lock, so that the times of two threads are in order.
        let now = Instant::now();
        let is_first = state.found.replace(now).is_none();
        let notice = state.tally.take(&found, now, !line.is_redrawn);
        drop(state);
        if is_first {
            let number = line.number;
            note(format_args!(
                "steps: line {number} of the output, `{shown}`, is {found}"
            ));
        }
        if let Some(notice) = notice {
            note(format_args!("warning: steps: {notice}"));
        }
        true
    }

    /// Looks for counts in bytes of output, or at the end of it in the last line.
    fn read(&self, lines: &mut Lines, bytes: Option<&[u8]>) {
        let mut last_line = None;
        let mut has_found = false;
        let mut count = |line: Line<'_>| {
            let found = self.count(line, &mut last_line);
            has_found |= found;
            found
        };
        match bytes {
            Some(bytes) => lines.split(bytes, &mut count),
            None => lines.finish(&mut count),
        }
        if last_line.is_some() {
            self.state().last_line = last_line;
        }
        if has_found {
            let _ = rustix::io::write(&self.news, &1_u64.to_ne_bytes());
        }
    }
}

impl Output {
    /// Steps that a pattern finds in the outputs that follow.
    pub fn new(pattern: Pattern) -> io::Result<Self> {
        let news = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let state = State {
            tally: Tally::new(pattern.choice()),
            ..State::default()
        };
        let shared = Shared {
            pattern,
            state: Mutex::new(state),
            news,
            is_closed: AtomicBool::new(false),
        };
        Ok(Self {
            shared: Arc::new(shared),
            readers: Vec::new(),
        })
    }

    /// An output for a workload, which is copied. Where the copy goes to a terminal, the workload
    /// has a terminal too, so that it buffers and draws as it would without us.
    pub fn copy(&mut self, to: BorrowedFd<'_>, user: Option<&SudoUser>) -> io::Result<Stdio> {
        let to = to.try_clone_to_owned()?;
        let (ours, theirs): (OwnedFd, OwnedFd) = match terminal_like(&to) {
            Ok((ours, theirs)) => (ours, theirs),
            Err(_) => {
                let (ours, theirs) = io::pipe()?;
                (ours.into(), theirs.into())
            }
        };
        if let Some(user) = user {
            user.give(theirs.as_fd())?;
        }
        let shared = Arc::clone(&self.shared);
        let reader = thread::spawn(move || copy(File::from(ours), File::from(to), &shared));
        self.readers.push(reader);
        Ok(Stdio::from(theirs))
    }

    /// Follows a log file from its present end, also when it is rotated or truncated. A file that
    /// is absent is read from its start when it comes.
    pub fn follow(&mut self, path: &Path) -> io::Result<()> {
        let file = match File::open(path) {
            Ok(mut file) => {
                file.seek(SeekFrom::End(0))?;
                Some(file)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                note(format_args!(
                    "steps: the log file {} does not exist; waiting for it",
                    path.display()
                ));
                self.shared.state().awaited = Some(path.to_owned());
                None
            }
            Err(error) => return Err(error),
        };
        let path = path.to_owned();
        let watch = watch(&path).ok();
        let shared = Arc::clone(&self.shared);
        thread::spawn(move || follow(&path, file, watch.as_ref(), &shared));
        Ok(())
    }

    /// The steps so far and when they were counted, if that has changed.
    pub fn take(&self) -> Option<(Instant, u64)> {
        let _ = rustix::io::read(&self.shared.news, &mut [0; 8]);
        let mut state = self.shared.state();
        let found = state.found?;
        let steps = state.tally.steps();
        let is_new = state.taken.replace(steps) != Some(steps);
        is_new.then_some((found, steps))
    }

    /// What was found, for the user of a workload that shows no steps.
    pub fn explain(&self) -> String {
        let state = self.shared.state();
        let found = match state.taken {
            Some(steps) => format!("has counted {steps} steps and no more"),
            None => "has found no count".to_owned(),
        };
        let last = match (&state.last_line, &state.awaited) {
            (Some(line), _) => format!("the last line of the output is `{line}`"),
            (None, Some(path)) => format!(
                "there is still no file {}: --log names the file that the workload writes",
                path.display()
            ),
            (None, None) => "there is no output: a program may buffer it (start it with `stdbuf -oL`), and some bars are drawn only in \
                     a terminal"
                .to_owned(),
        };
        let problem = state.problem.as_ref();
        let problem = problem.map_or(String::new(), |why| format!("; {why}"));
        let pattern = self.shared.pattern.as_str();
        format!("--steps-from `{pattern}` {found}{problem}; {last}")
    }

    /// Whether the pattern captures what is no count, and has found no count before.
    pub fn is_hopeless(&self) -> bool {
        let state = self.shared.state();
        state.problem.is_some() && state.found.is_none()
    }
}

impl AsFd for Output {
    /// Readable when [`Self::take`] may have something.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.news.as_fd()
    }
}

impl Drop for Output {
    /// Waits for the rest of the output; a process that left the workload's group may keep it open.
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::Relaxed);
        let start = Instant::now();
        let is_reading = |reader: &JoinHandle<()>| !reader.is_finished();
        while self.readers.iter().any(is_reading) && start.elapsed() < REST_TIMEOUT {
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// A pseudo-terminal of the size of a terminal: our end and the workload's.
fn terminal_like(terminal: &OwnedFd) -> io::Result<(OwnedFd, OwnedFd)> {
    let size = tcgetwinsize(terminal)?;
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let name = ptsname(&ours, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let theirs = rustix::fs::open(name, flags, Mode::empty())?;
    // Our own terminal adds the carriage returns.
    let mut attributes = tcgetattr(&theirs)?;
    attributes.make_raw();
    tcsetattr(&theirs, OptionalActions::Now, &attributes)?;
    tcsetwinsize(&theirs, size)?;
    Ok((ours, theirs))
}

fn copy(mut from: File, mut to: File, shared: &Shared) {
    let mut buffer = vec![0; OUTPUT_CHUNK];
    let mut lines = Lines::default();
    let mut is_open = true;
    let is_terminal = to.is_terminal();
    loop {
        match from.read(&mut buffer) {
            // EIO is the end of a pseudo-terminal.
            Ok(0) | Err(_) => break,
            Ok(length) => {
                shared.read(&mut lines, Some(&buffer[..length]));
                // A reader that is gone does not stop the workload.
                is_open = is_open && write(&mut to, &buffer[..length]).is_ok();
                if is_terminal {
                    set_mid_line(!buffer[..length].ends_with(b"\n"));
                }
            }
        }
    }
    shared.read(&mut lines, None);
}

fn write(to: &mut File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(length) => bytes = &bytes[length..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Who shares our output may have made it non-blocking.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll(&mut [PollFd::new(to, PollFlags::OUT)], None)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Tells of changes in the directories of a file and of what it links to.
fn watch(path: &Path) -> io::Result<OwnedFd> {
    let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
    let events = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO;
    let linked = fs::canonicalize(path).ok();
    for file in [Some(path.to_owned()), linked].into_iter().flatten() {
        let directory = match file.parent() {
            Some(parent) if parent != Path::new("") => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        inotify::add_watch(&watch, directory, events)?;
    }
    Ok(watch)
}

/// Reads a log file until the session ends.
fn follow(path: &Path, mut file: Option<File>, watch: Option<&OwnedFd>, shared: &Shared) {
    let mut buffer = vec![0; OUTPUT_CHUNK];
    let mut lines = Lines::default();
    while !shared.is_closed.load(Ordering::Relaxed) {
        if let Some(Ok(length @ 1..)) = file.as_mut().map(|file| file.read(&mut buffer)) {
            shared.read(&mut lines, Some(&buffer[..length]));
            continue;
        }
        match is_replaced(path, file.as_mut()) {
            Ok(true) => {
                // What the old file got since the last read.
                while let Some(Ok(length @ 1..)) = file.as_mut().map(|file| file.read(&mut buffer))
                {
                    shared.read(&mut lines, Some(&buffer[..length]));
                }
                shared.read(&mut lines, None);
                file = File::open(path).ok();
                if file.is_some() {
                    shared.state().awaited = None;
                }
            }
            // Between two files there may be none.
            Ok(false) | Err(_) => wait(watch, &mut buffer),
        }
    }
}

/// Whether another file is at the path, or the file has been truncated and begins anew.
fn is_replaced(path: &Path, file: Option<&mut File>) -> io::Result<bool> {
    let there = fs::metadata(path)?;
    let Some(file) = file else { return Ok(true) };
    let open = file.metadata()?;
    let is_other = (open.dev(), open.ino()) != (there.dev(), there.ino());
    Ok(is_other || there.len() < file.stream_position()?)
}

fn wait(watch: Option<&OwnedFd>, buffer: &mut [u8]) {
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: LOG_POLL.subsec_nanos().into(),
    };
    let watches = watch.map(|watch| PollFd::new(watch, PollFlags::IN));
    let mut watches: Vec<PollFd<'_>> = watches.into_iter().collect();
    let _ = poll(&mut watches, Some(&timeout));
    if let Some(watch) = watch {
        let _ = rustix::io::read(watch, buffer);
    }
}
