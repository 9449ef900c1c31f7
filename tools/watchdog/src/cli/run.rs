//! `run`: the daemon. Saves what is set, holds the limit, and restores what was set.
//!
//! One thread: it looks at the board, then waits for the next look, a signal or a question,
//! whichever comes first.

use std::fmt::{self, Write as _};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lexopt::Parser;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use wattgate_board::{Disk, Files};
use wattgate_runtime::{Milliseconds, PowerMode, Status};

use super::{EXIT_CODES, Failure, Place, below, parse, print, see_whether_writable};
use crate::clock;
use crate::config::Config;
use crate::control::{Control, Priority, name};
use crate::lock::{Lock, directory};
use crate::log::{Text, log};
use crate::notify::Notify;
use crate::prior::{Origin, Prior};

const USAGE: &str = "\
Hold the limit: measure, correct, enforce, until SIGTERM or SIGINT

Usage: wattgated run --config FILE [--root DIR]

What was set before is kept in the config's state_dir and restored at the end; a state that a
crash has left there is the one that is restored. On SIGHUP the config is read again, and its
limit and average hold from then on. Log lines on stderr have a priority as journald takes it.

Options:
  --config FILE  The config; tools/watchdog/wattgated.toml documents it
  --root DIR     A simulated board's files [/]
  -h, --help     Print this

Example:
  wattgated run --config /etc/wattgated.toml

";

/// systemd is told so often that the daemon is alive.
const ALIVE_EVERY: Milliseconds = Milliseconds(1_000);

/// Runs the command with the arguments that follow its name.
pub fn run(arguments: Parser) -> Result<(), Failure> {
    let Some(place) = parse(arguments, |_| false)? else {
        return print(&format!("{USAGE}{EXIT_CODES}"));
    };
    // Before anything is written: what was set has to be restored, whenever a signal comes.
    let signals = Signals::new().map_err(Failure::Signals)?;
    let notify = Notify::from_env().map_err(Failure::Notify)?;
    let setup = place.setup()?;
    see_whether_writable(&setup.board)?;
    let _lock = Lock::take(&place.root)?;
    let kept = below(&place.root, &setup.config.state_dir);
    let prior = Prior::keep(&setup.board, &Disk, &kept)?;
    match prior.origin() {
        Origin::Saved => {}
        Origin::LeftByCrash => log(
            Priority::Notice,
            format_args!(
                "{}: left by a crash, to be restored at the end",
                prior.path().display()
            ),
        ),
        Origin::SavedAgain(why) => log(
            Priority::Warning,
            format_args!(
                "{}: {why}; replaced by what is set now",
                prior.path().display()
            ),
        ),
    }
    for missing in setup.board.missing() {
        log(Priority::Notice, format_args!("missing: {missing}"));
    }
    for left_out in &setup.choices.left_out {
        log(Priority::Notice, left_out);
    }
    log(
        Priority::Info,
        format_args!(
            "limit {}; {}; {} modes to choose from",
            setup.config.limit.power,
            setup.choices.origin,
            setup.choices.front.points().len()
        ),
    );
    let socket = match Socket::open(&place.root) {
        Ok(socket) => Some(socket),
        Err(error) => {
            log(
                Priority::Warning,
                format_args!("no socket for `status`: {error}"),
            );
            None
        }
    };
    let config = setup.config.clone();
    let mut daemon = Daemon {
        control: Control::new(setup, Disk),
        signals,
        notify,
        socket,
        alive: None,
    };
    daemon.run(&place, config);
    daemon.notify.send(format_args!("STOPPING=1"));
    let (mut board, mut files) = daemon.control.release();
    prior.restore(&mut board, &mut files)?;
    log(Priority::Info, "restored what was set before");
    Ok(())
}

struct Daemon {
    control: Control<Disk>,
    signals: Signals,
    notify: Notify,
    socket: Option<Socket>,
    alive: Option<Milliseconds>,
}

impl Daemon {
    /// Until a signal says that it is over.
    fn run(&mut self, place: &Place, config: Config) {
        let mut tell = |event: crate::control::Event<'_>| log(event.priority(), &event);
        while !self.signals.stop.load(Ordering::Relaxed) {
            let next = self.control.look(clock::now(), &mut tell);
            self.say_alive();
            if self.signals.reload.swap(false, Ordering::Relaxed) {
                self.reload(place, &config);
            }
            let now = clock::now();
            if next > now {
                self.wait(next.since(now));
            }
        }
    }

    /// Until the next look, a signal or a question.
    fn wait(&mut self, time: Milliseconds) {
        let timeout = Timespec {
            tv_sec: (time.0 / 1_000) as i64,
            tv_nsec: (time.0 % 1_000 * 1_000_000) as i64,
        };
        let signals = PollFd::new(&self.signals.wakes, PollFlags::IN);
        let [woken, asked] = match &self.socket {
            Some(socket) => {
                let mut both = [signals, PollFd::new(&socket.0, PollFlags::IN)];
                // An error, such as a signal, is a reason to look early.
                let _ = poll(&mut both, Some(&timeout));
                both.map(|it| it.revents().contains(PollFlags::IN))
            }
            None => {
                let mut signals = [signals];
                let _ = poll(&mut signals, Some(&timeout));
                let [signals] = signals;
                [signals.revents().contains(PollFlags::IN), false]
            }
        };
        if woken {
            self.signals.drain();
        }
        if let Some(socket) = self.socket.as_ref().filter(|_| asked) {
            socket.answer(&self.control);
        }
    }

    fn say_alive(&mut self) {
        let now = clock::now();
        if self
            .alive
            .is_some_and(|alive| now.since(alive) < ALIVE_EVERY)
        {
            return;
        }
        if self.alive.replace(now).is_none() {
            self.notify.send(format_args!("READY=1"));
        }
        let (status, mode) = self.control.status();
        let state = name(status.state);
        let (allowed, measured) = (status.allowed, Measured(status));
        self.notify.send(format_args!(
            "WATCHDOG=1\nSTATUS={state}: {mode}; {measured} of {allowed}"
        ));
    }

    /// Takes the limits of the config over.
    fn reload(&mut self, place: &Place, config: &Config) {
        let path = place.config.display();
        match Config::read(&place.config) {
            Ok(new) => {
                let limit = new.limit;
                self.control.set_limit(limit);
                log(
                    Priority::Notice,
                    format_args!("limit {} from now on", limit.power),
                );
                let limit = config.limit;
                if (Config { limit, ..new }) != *config {
                    log(
                        Priority::Warning,
                        format_args!("{path}: other keys than limit and average need a restart"),
                    );
                }
            }
            Err(error) => log(
                Priority::Error,
                format_args!("{error}; the limit stays as it was"),
            ),
        }
    }
}

/// What was measured, or that nothing was.
struct Measured(Status);

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.measured {
            Some(power) => power.fmt(f),
            None => f.write_str("not yet measured"),
        }
    }
}

/// Signals as flags, and a stream that wakes who waits.
struct Signals {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    wakes: UnixStream,
}

impl Signals {
    fn new() -> io::Result<Self> {
        let (stop, reload) = (Arc::default(), Arc::default());
        let (wakes, end) = UnixStream::pair()?;
        wakes.set_nonblocking(true)?;
        for (signal, flag) in [(SIGTERM, &stop), (SIGINT, &stop), (SIGHUP, &reload)] {
            signal_hook::flag::register(signal, Arc::clone(flag))?;
            signal_hook::low_level::pipe::register(signal, end.try_clone()?)?;
        }
        Ok(Self {
            stop,
            reload,
            wakes,
        })
    }

    fn drain(&self) {
        let mut stream = &self.wakes;
        while stream.read(&mut [0; 16]).is_ok_and(|read| read > 0) {}
    }
}

/// Where `status` asks.
struct Socket(UnixListener);

impl Socket {
    /// Whoever has the lock may take the place of a socket that a crash has left.
    fn open(root: &Path) -> io::Result<Self> {
        let path = directory(root).join("socket");
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    /// One answer. Who does not listen gets none.
    fn answer<F: Files>(&self, control: &Control<F>) {
        if let Ok((mut stream, _)) = self.0.accept() {
            let (status, mode) = control.status();
            let mut text = Text::new();
            if report(&mut text, &status, &mode).is_ok() && stream.set_nonblocking(true).is_ok() {
                let _ = stream.write_all(text.bytes());
            }
        }
    }
}

/// Lines of a key and a value.
fn report(text: &mut Text, status: &Status, mode: &PowerMode) -> fmt::Result {
    let [cores, cpu, gpu, emc] = mode.knobs();
    writeln!(text, "state {}", name(status.state))?;
    writeln!(
        text,
        "cores {cores}\ncpu_khz {cpu}\ngpu_khz {gpu}\nemc_khz {emc}"
    )?;
    if let Some(measured) = status.measured {
        writeln!(text, "measured_mw {}", measured.0)?;
    }
    let ppm = (u64::from(status.ratio) * 1_000_000) >> 16;
    writeln!(text, "predicted_mw {}", status.predicted.0)?;
    writeln!(text, "allowed_mw {}\nratio_ppm {ppm}", status.allowed.0)?;
    writeln!(
        text,
        "violations {}\nchanges {}",
        status.violations, status.changes
    )
}
