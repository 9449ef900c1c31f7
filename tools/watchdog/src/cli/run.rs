//! `run`: the daemon's process. Saves the state of the board, holds the limit, and leaves a mode in which it holds.
//!
//! There is one thread. After each control cycle it polls until the next cycle is due, a signal
//! arrives, or a client sends a request.

use std::array;
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use lexopt::Parser;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mm::{MlockAllFlags, mlockall};
use wattgate_board::Board;
use wattgate_runtime::governor::State;
use wattgate_runtime::{Milliseconds, Status};

use super::kept::Kept;
use super::lessons::Lessons;
use super::signals::Signals;
use super::waiting;
use super::{BoardArguments, Failure, below, check_writable, parse};
use crate::clock::{Clock, System};
use crate::config::{Config, Metrics};
use crate::control::{Event, Priority, name};
use crate::daemon::Daemon;
use crate::deadline::InTime;
use crate::distrust::Distrust;
use crate::group;
use crate::hardware_watchdog::{HardwareWatchdog, HardwareWatchdogError};
use crate::limits::{self, Lowerings};
use crate::lock::{Lock, directory, root_directory};
use crate::log::log;
use crate::meter::Meter;
use crate::quantity::Watts;
use crate::record;
use crate::saver::Saver;
use crate::sd_notify::SdNotify;
use crate::serve::socket::Socket;
use crate::serve::textfile::Textfile;
use crate::serve::{MAX_POLLED, Services};
use crate::steps;
use crate::steps::receiver::Receiver;

const USAGE: &str = "\
Run the daemon: measure, correct and hold the limit until SIGTERM or SIGINT

Usage: wattgated run [--config FILE] [--root DIR]

No end of the daemon raises the power: a stop leaves a mode in which the highest load that was seen fits the
limit. `wattgated restore` gives the board its settings from before the start. While a power sensor or a clock
that it needs is missing, the daemon holds the mode of fewest cores and lowest clocks, and looks for it.
With `observe` in the config it writes nothing to the board, and says what it would set.

On SIGHUP the daemon reads limit, max_limit, schedule, average, budget, objective and deadline from the config again.
What clients have lowered or leased stays. Clients, such as `wattgated set-limit`, connect to /run/wattgated/socket, and root to
/run/wattgated-root/socket. Log lines go to stderr, in the journal with their priority.

Options:
  --config FILE  The config [/etc/wattgated.toml]; see wattgated.toml(5)
  --root DIR     Root of the board's files, for a simulated board [/]
  -h, --help     Print this help

Example:
  wattgated run
";

/// Interval of systemd's watchdog notifications.
const ALIVE_INTERVAL: Milliseconds = Milliseconds(1_000);

/// Writing a file may take this long. The loop writes only if the next step is due later than that.
const MIN_TIME_FOR_FILE: Milliseconds = Milliseconds(50);

/// Name of the file that calls for root, beside the socket.
const CALL: &str = "over";

/// Interval at which the time that is left of lowerings is saved. A crash prolongs them by as much.
const SAVE_INTERVAL: Milliseconds = Milliseconds(10_000);

/// Interval between attempts to open the socket for steps.
const SOCKET_INTERVAL: Milliseconds = Milliseconds(10_000);

/// Interval of the searches for clocks that are missing.
const CLOCK_SEARCH_INTERVAL: Milliseconds = Milliseconds(10_000);

/// The text of the help.
pub fn help() -> String {
    USAGE.to_owned()
}

/// Runs the command with the arguments that follow its name.
pub fn run(arguments: Parser) -> Result<(), Failure> {
    let place = parse(arguments, |_| false)?;
    // Before the first write, so that any later signal leads to a clean stop and a restore.
    let signals = Signals::new().map_err(Failure::Signals)?;
    let notify = SdNotify::from_env().map_err(Failure::Notify)?;
    let config = Config::read(&place.config)?;
    place.check_machine()?;
    for why in &config.no_effect {
        log(
            Priority::Warning,
            format_args!("{}: {why}", place.config.display()),
        );
    }
    let group = config.group.as_deref().map(group::id).transpose()?;
    let _lock = Lock::take(&place.root)?;
    let is_stopped = || signals.stop.load(Ordering::Relaxed);
    let observes = config.observe;
    let waited = waiting::setup(&place, observes, group, &notify, is_stopped)?;
    let Some((mut setup, kept)) = waited else {
        return Ok(());
    };
    if observes {
        log(
            Priority::Notice,
            "NOT HOLDING: observe = true, so nothing is written to the board, and no limit holds",
        );
    }
    if let Err(why) = setup.learn_from(&place.root, System.utc()) {
        log(Priority::Notice, why);
    }
    if !observes {
        check_writable(&setup.board)?;
    }
    for missing in setup.board.missing() {
        log(Priority::Notice, format_args!("missing: {missing}"));
    }
    for left_out in &setup.choices.left_out {
        log(Priority::Notice, left_out);
    }
    if !setup.choices.unit.effect.is_profiled {
        log(Priority::Notice, format_args!("unit {}", setup.unit()));
    }
    if let Some(unmet) = setup.unmet() {
        log(Priority::Warning, unmet);
    }
    if let Some(distrust) = &setup.choices.distrust {
        let priority = match distrust {
            Distrust::NoModel => Priority::Notice,
            _ => Priority::Warning,
        };
        log(priority, distrust);
    }
    log(
        Priority::Info,
        format_args!(
            "limit {}; {}; {} modes on the Pareto front",
            setup.config.at_limit(setup.config.limit.power),
            setup.choices.origin,
            setup.choices.front.points().len()
        ),
    );
    if let Some(supply) = &setup.config.supply {
        let module = setup.config.draw().module(setup.config.limit.power);
        log(
            Priority::Info,
            format_args!(
                "the supply draws {supply}; the limit leaves the module {}; predicted, measured and allowed powers are the \
                 module's",
                Watts(module)
            ),
        );
    }
    let config = &setup.config;
    let hardware = config.hardware_watchdog.as_deref().filter(|_| !observes);
    let hardware = match hardware.map(|path| arm(path, &place.root)).transpose() {
        Ok(hardware) => hardware,
        Err(error) => {
            kept.map(Kept::withdraw).transpose()?;
            return Err(error.into());
        }
    };
    let textfile = metrics(config.metrics.as_ref(), &place.root);
    let clients = Socket::open(&directory(&place.root), group);
    let clients = or_warn(
        clients,
        format_args!("clients are not served, as their socket cannot be opened"),
    );
    if let (None, Some(group)) = (&clients, &config.group) {
        log(
            Priority::Warning,
            format_args!(
                "clients of the group `{group}` are not served: if the group is not that of the unit, add \
                 SupplementaryGroups={group} to it"
            ),
        );
    }
    let root = Socket::open_root(&root_directory(&place.root));
    let root = or_warn(
        root,
        format_args!("root's commands are not served, as their socket cannot be opened"),
    );
    let path = steps::socket(&place.root);
    let steps = Receiver::at(&path);
    let steps = or_warn(
        steps,
        format_args!(
            "steps of workloads are not counted yet, as {} cannot be opened; the daemon tries again",
            path.display()
        ),
    );
    let services = Services::new(root, clients, steps);
    // What clients have lowered stays saved while the daemon only observes, and counts for nothing.
    let (lowerings, read) = match observes {
        true => (Lowerings::default(), Ok(())),
        false => Lowerings::read(&limits::files(&place.root)),
    };
    if let Err(why) = read {
        log(Priority::Error, &why);
    }
    let call = directory(&place.root).join(CALL);
    // A call of a process that was killed.
    let _ = fs::remove_file(&call);
    let saver = Saver::new(limits::files(&place.root)).map_err(Failure::Thread)?;
    let meter = setup.meter.as_ref().map(Meter::path);
    let mut files = InTime::with_meter(meter).map_err(Failure::Thread)?;
    if observes {
        files = files.read_only();
    }
    lock_memory();
    let mut daemon = Daemon::new(setup, files, System.utc(), lowerings);
    if let Some(kept) = &kept {
        daemon.keep_own(kept.saved());
    }
    let mut process = Process {
        daemon,
        kept,
        signals,
        notify,
        services,
        textfile,
        saver,
        given: (0, System.now()),
        lessons: Lessons::new(&place.root),
        record: record::file(&place.root),
        has_recorded: true,
        has_called: false,
        tried: None,
        call,
        hardware,
        alive: None,
        searched: System.now(),
        steps: steps::socket(&place.root),
        opened: System.now(),
    };
    process.run(&place);
    // With the time that is left of them.
    let (lowerings, changes) = process.daemon.lowerings();
    if lowerings.has_timed() || process.saver.saved() != changes {
        process.saver.save(changes, lowerings.text());
    }
    process.notify.send(format_args!("STOPPING=1"));
    process.lessons.end(&process.daemon);
    let (_, changes) = process.daemon.lowerings();
    let ended = match observes {
        true => {
            log(Priority::Info, "stopped; nothing was written to the board");
            Ok(())
        }
        false => rest(process.daemon),
    };
    if process.saver.end() != changes {
        log(
            Priority::Error,
            "the limits of clients are not saved on the disk: a reboot loses them",
        );
    }
    if let Some(kept) = process.kept {
        kept.leave();
    }
    if let Some(textfile) = process.textfile {
        textfile.remove();
    }
    process.services.remove();
    if process.has_called {
        // The unit has started what root wants.
        let _ = fs::remove_file(&process.call);
    }
    // Whatever became of the board's settings: this end is no hang.
    if let Some(hardware) = process.hardware {
        hardware.disarm()?;
    }
    ended
}

/// Leaves a mode on the board in which the limit holds without the daemon, as far as its load is known.
fn rest(daemon: Daemon<InTime>) -> Result<(), Failure> {
    let least = daemon.least();
    let is_safe = matches!(daemon.status().0.state, State::Safe(_));
    let (mode, board, _) = daemon.rest()?;
    let why = match (least == mode, is_safe) {
        (true, _) => "fewest cores and lowest clocks",
        (false, true) => "the least power that is known",
        (false, false) => "the highest load that was seen fits the limit",
    };
    log(
        Priority::Info,
        format_args!(
            "stopped; the board stays at {mode}: {why}; `wattgated restore` restores the settings from before the \
             start"
        ),
    );
    for knob in board.disobedient() {
        log(Priority::Warning, format_args!("does not obey: {knob}"));
    }
    Ok(())
}

/// The opened service; on error logs a warning, because control works without it.
fn or_warn<T>(opened: io::Result<T>, without: fmt::Arguments<'_>) -> Option<T> {
    match opened {
        Ok(opened) => Some(opened),
        Err(error) => {
            log(Priority::Warning, format_args!("{without}: {error}"));
            None
        }
    }
}

/// Keeps the pages that are in memory there: a page that has to come from a disk under load would
/// stop the control loop. Without the right to do so the daemon works all the same.
fn lock_memory() {
    let present = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    if let Err(error) = mlockall(present) {
        log(
            Priority::Notice,
            format_args!(
                "the daemon's memory is not locked, so control may be late when memory is short: {error}; the unit's \
                 LimitMEMLOCK=infinity allows it"
            ),
        );
    }
}

fn arm(path: &Path, root: &Path) -> Result<HardwareWatchdog, HardwareWatchdogError> {
    let hardware = HardwareWatchdog::arm(&below(root, path))?;
    let shown = path.display();
    match hardware.timeout_s(root) {
        Some(seconds) => log(
            Priority::Notice,
            format_args!("{shown} resets the board {seconds} s after the last control cycle"),
        ),
        None => log(
            Priority::Notice,
            format_args!("{shown} resets the board after its driver's timeout"),
        ),
    }
    Ok(hardware)
}

fn metrics(at: Option<&Metrics>, root: &Path) -> Option<Textfile> {
    match at? {
        Metrics::File(path) => Some(Textfile::new(below(root, path))),
        Metrics::Address(address) => {
            log(
                Priority::Warning,
                format_args!(
                    "metrics = \"{address}\" has no effect: the daemon opens no port; `wattgated metrics --listen \
                     {address}` serves them, see wattgated-metrics.service"
                ),
            );
            None
        }
    }
}

struct Process {
    daemon: Daemon<InTime>,
    /// `None` if the daemon only observes.
    kept: Option<Kept>,
    signals: Signals,
    notify: SdNotify,
    services: Services,
    textfile: Option<Textfile>,
    saver: Saver,
    /// The change of the lowerings that was last given to be saved, and when.
    given: (u64, Milliseconds),
    lessons: Lessons,
    /// The file of what was observed, and whether it could be written.
    record: PathBuf,
    has_recorded: bool,
    /// The file that calls for root, and whether it is there.
    call: PathBuf,
    has_called: bool,
    /// When that failed last.
    tried: Option<Milliseconds>,
    hardware: Option<HardwareWatchdog>,
    alive: Option<Milliseconds>,
    /// When clocks were searched.
    searched: Milliseconds,
    /// The socket for steps, and when it was last opened.
    steps: PathBuf,
    opened: Milliseconds,
}

impl Process {
    /// Runs the control loop until SIGTERM or SIGINT.
    fn run(&mut self, place: &BoardArguments) {
        let mut emit = |event: Event<'_>| log(event.priority(), &event);
        while !self.signals.stop.load(Ordering::Relaxed) {
            let next = self.daemon.step(&System, &mut emit);
            self.report_alive();
            if self.signals.reload.swap(false, Ordering::Relaxed) {
                self.reload(place);
                continue;
            }
            self.save_lowerings();
            self.lessons.save(&self.daemon);
            self.call_root();
            self.record();
            // A late glance at the mode does less harm than a late step.
            let due = self.daemon.due().unwrap_or(next);
            self.write_files(due);
            self.find_clocks(place, due);
            self.serve(next);
        }
    }

    /// Appends what was observed in the last minute to its file.
    fn record(&mut self) {
        let Some(row) = self.daemon.take_row() else {
            return;
        };
        let written = record::append(&self.record, &row, System.utc());
        let had_recorded = std::mem::replace(&mut self.has_recorded, written.is_ok());
        if let Err(why) = written
            && had_recorded
        {
            let path = self.record.display();
            log(
                Priority::Warning,
                format_args!("{path}: what was observed is not recorded: {why}"),
            );
        }
    }

    /// Serves clients until the next step is due, a signal arrives, or a client changes the limit
    /// or the model.
    fn serve(&mut self, next: Milliseconds) {
        let mut is_ready = false;
        loop {
            let now = System.now();
            if now >= next {
                return;
            }
            let services = &mut self.services;
            let is_step_due = services.turn(is_ready, &mut self.daemon, &System, next);
            self.save_lowerings();
            if is_step_due {
                return;
            }
            let now = System.now();
            let is_signalled;
            (is_signalled, is_ready) = self.wait(now, next.since(now));
            if is_signalled {
                self.signals.drain();
                return;
            }
        }
    }

    /// Polls for at most `time`. Returns whether a signal arrived and whether a service is ready.
    fn wait(&self, now: Milliseconds, time: Milliseconds) -> (bool, bool) {
        let timeout = Timespec {
            tv_sec: (time.0 / 1_000) as i64,
            tv_nsec: (time.0 % 1_000 * 1_000_000) as i64,
        };
        let signals = self.signals.wakes.as_fd();
        let used = 1 + self.services.waiting(now).count();
        let mut services = self.services.waiting(now);
        // Unused entries are not polled.
        let mut waiting: [PollFd<'_>; 1 + MAX_POLLED] = array::from_fn(|index| {
            let (stream, flags) = match index {
                0 => (signals, PollFlags::IN),
                _ => services.next().unwrap_or((signals, PollFlags::empty())),
            };
            PollFd::from_borrowed_fd(stream, flags)
        });
        // An error, such as EINTR, counts as a signal: the next step comes early.
        let used = used.min(waiting.len());
        let Ok(_) = poll(&mut waiting[..used], Some(&timeout)) else {
            return (true, false);
        };
        let mut ready = waiting[..used].iter().map(|it| !it.revents().is_empty());
        (ready.next() == Some(true), ready.any(|it| it))
    }

    fn report_alive(&mut self) {
        let now = System.now();
        if let Some(Err(error)) = self.hardware.as_mut().map(|it| it.feed(now)) {
            log(Priority::Error, &error);
        }
        if self
            .alive
            .is_some_and(|alive| now.since(alive) < ALIVE_INTERVAL)
        {
            return;
        }
        if self.alive.replace(now).is_none() {
            self.notify.send(format_args!("READY=1"));
        }
        let (status, mode) = self.daemon.status();
        let (allowed, measured) = (Watts(status.allowed), Measured(status));
        if self.daemon.observes() {
            self.notify.send(format_args!(
                "WATCHDOG=1\nSTATUS=NOT HOLDING: only observes; {measured} of {allowed}"
            ));
            return;
        }
        if self.daemon.is_yielded() {
            self.notify.send(format_args!(
                "WATCHDOG=1\nSTATUS=yielded to a client; {measured} of {allowed}"
            ));
            return;
        }
        let state = name(status.state);
        self.notify.send(format_args!(
            "WATCHDOG=1\nSTATUS={state}: {mode}; {measured} of {allowed}"
        ));
    }

    /// Creates the file on which root's path unit waits, or removes it. It is in memory, not on a disk.
    fn call_root(&mut self) {
        let (now, calls) = (System.now(), self.daemon.calls_root());
        let is_soon = |tried: Milliseconds| now.since(tried) < ALIVE_INTERVAL;
        if calls == self.has_called || self.tried.is_some_and(is_soon) {
            return;
        }
        let done = match calls {
            true => fs::write(
                &self.call,
                "the power is over the limit, and nothing lowers it\n",
            ),
            false => fs::remove_file(&self.call),
        };
        let path = self.call.display();
        match done {
            Ok(()) if calls => log(
                Priority::Error,
                format_args!("{path}: created, for wattgated-over.path"),
            ),
            Ok(()) => log(Priority::Notice, format_args!("{path}: removed")),
            Err(why) if calls && self.tried.is_none() => {
                log(Priority::Error, format_args!("{path}: {why}"));
            }
            // Another program has removed it, or it was told.
            Err(_) => {}
        }
        let is_done = !calls || self.call.exists();
        self.tried = (!is_done).then_some(now);
        if is_done {
            self.has_called = calls;
        }
    }

    /// Gives changed lowerings to the thread that saves them, and now and then the time that is left of them.
    fn save_lowerings(&mut self) {
        let now = System.now();
        let (lowerings, changes) = self.daemon.lowerings();
        let is_due = lowerings.has_timed() && now.since(self.given.1) >= SAVE_INTERVAL;
        if changes != self.given.0 || is_due {
            self.given = (changes, now);
            self.saver.save(changes, lowerings.text());
        }
        if let Some(why) = self.saver.failure() {
            log(
                Priority::Warning,
                format_args!(
                    "the limits of clients are not saved, so a reboot would lose them: {why}; the daemon tries again"
                ),
            );
        }
        self.daemon.note_saved(self.saver.saved());
    }

    /// Writes the files that are due if there is enough time before the next step.
    fn write_files(&mut self, next: Milliseconds) {
        let now = System.now();
        if next.since(now) < MIN_TIME_FOR_FILE {
            return;
        }
        if let Some(kept) = &mut self.kept {
            kept.retry(now);
        }
        // Another program, such as `wattgate run --attach`, had the socket.
        let is_time = now.since(self.opened) >= SOCKET_INTERVAL;
        if self.services.steps.is_none() && is_time {
            self.opened = now;
            self.services.steps = Receiver::at(&self.steps).ok();
        }
        let textfile = self.textfile.as_mut();
        if let Some(Err(error)) = textfile.map(|it| it.turn(&self.daemon, now)) {
            log(Priority::Warning, &error);
        }
    }

    /// Looks for clocks that were missing, and controls the board with those that have come.
    fn find_clocks(&mut self, place: &BoardArguments, next: Milliseconds) {
        let now = System.now();
        let late = waiting::late(self.daemon.board());
        let is_time = now.since(self.searched) >= CLOCK_SEARCH_INTERVAL;
        if late == 0 || !is_time || next.since(now) < MIN_TIME_FOR_FILE {
            return;
        }
        self.searched = now;
        let files = InTime::plain();
        let has_more = |board: &Board| waiting::late(board) < late;
        let knobs = Board::discover_knobs(&files, &place.root);
        if !knobs.is_ok_and(|board| has_more(&board)) {
            return;
        }
        if let Some(board) = Board::discover(&files, &place.root).ok().filter(has_more) {
            if let Some(kept) = &mut self.kept {
                kept.complete(&board);
            }
            self.daemon.take_board(board);
            log(Priority::Notice, "a clock that was missing has come");
        }
    }

    /// Reads the config again and takes over its limits.
    fn reload(&mut self, place: &BoardArguments) {
        let path = place.config.display();
        let clients = self.services.clients.as_ref();
        if let Some(Err(why)) = clients.map(Socket::give_again) {
            log(
                Priority::Warning,
                format_args!(
                    "clients of the group are not served any more: {why}; restart the daemon"
                ),
            );
        }
        match Config::read(&place.config) {
            // Its limits would be taken for those of another place.
            Ok(new) if !self.daemon.has_supply_of(&new) => log(
                Priority::Error,
                format_args!(
                    "{path}: supply has changed, which needs a restart; limit and aim stay as they are"
                ),
            ),
            Ok(new) => {
                if self.daemon.reload(new, System.utc()) {
                    log(
                        Priority::Warning,
                        format_args!(
                            "{path}: keys other than limit, max_limit, schedule, average, budget, objective \
                             and deadline need a restart"
                        ),
                    );
                }
            }
            Err(error) => log(
                Priority::Error,
                format_args!("{error}; limit and aim stay as they are"),
            ),
        }
    }
}

/// The measured power, for messages.
struct Measured(Status);

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.measured {
            Some(power) => Watts(power).fmt(f),
            None => f.write_str("not yet measured"),
        }
    }
}
