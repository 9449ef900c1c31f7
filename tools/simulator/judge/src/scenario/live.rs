//! The daemon `wattgated` as a process in real time, beside a board whose files are on a disk.
//!
//! Scenarios are short, and several run at once. As in simulated time, the true power of the board
//! is compared with the limit. The daemon's response time depends on the machine. After an
//! [`Incident::Kill`] this module does what the daemon's systemd unit would do.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use wattgate_board::Disk;
use wattgate_runtime::governor::{Cause, State};
use wattgate_simulated_board::tree::mirror::Mirror;
use wattgate_watchdog::control::name;
use wattgate_watchdog::report::STATES;

use super::list::{Scenario, fault};
use super::outcome::{Outcome, end, settings};
use super::plant::Plant;
use super::report::ScenarioReport;
use super::table::ScenarioRow;
use super::task::ScenarioTask;
use crate::holder::Incident;
use crate::parallel;
use crate::recorded::Record;

/// Number of daemons that run at once, each with its board.
const THREADS: usize = 10;

/// `RestartSec=` of the daemon's systemd unit.
const RESTART: Duration = Duration::from_secs(1);

/// Timeout of each wait for the daemon: for its first mode, its end, and the restored settings.
const TIMEOUT: Duration = Duration::from_secs(30);

const fn live(name: &'static str, orders: &'static [&'static str]) -> Scenario {
    Scenario {
        length: 48,
        ..fault(name, orders)
    }
}

/// The scenarios in real time. [`Incident::Suspend`] stops the daemon while its board works on.
pub const LIVE_SCENARIOS: &[Scenario] = &[
    live("steady", &[]),
    Scenario {
        steps: Some([16, 32]),
        ..live("limit stepped", &[])
    },
    live("workload changed", &["at 24 load mobilenetv3"]),
    live("nvpmodel run again", &["at 24 service"]),
    live(
        "sensor missing 3 s",
        &["at 24 sensor * missing", "at 27 sensor * ok"],
    ),
    live(
        "sensor frozen 3 s",
        &["at 24 sensor * frozen", "at 27 sensor * ok"],
    ),
    live(
        "writes refused 10 s",
        &["at 10 refuse GPU EIO", "at 20 allow GPU"],
    ),
    Scenario {
        incident: Some((24, Incident::BadModel)),
        ..live("model file defective", &[])
    },
    Scenario {
        incident: Some((24, Incident::Suspend(10))),
        ..live("stopped 10 s", &[])
    },
    Scenario {
        incident: Some((24, Incident::Kill)),
        ..live("killed", &[])
    },
];

/// The seed of the noise and of the unit.
const SEED: u64 = 1;

/// Runs each task once. The rows have the order of the tasks. `weights` is the folder with the
/// models, `wattgated` the daemon.
pub fn rows(
    tasks: &[ScenarioTask<'_>],
    weights: &Path,
    wattgated: &Path,
) -> io::Result<Vec<ScenarioRow>> {
    let weights = fs::canonicalize(weights)?;
    let reports = parallel::map(THREADS, tasks, |task| run(task, &weights, wattgated))?;
    let rows = tasks.iter().zip(reports);
    Ok(rows
        .filter_map(|(task, report)| ScenarioRow::from_reports(task, &[(SEED, report)]))
        .collect())
}

fn run(task: &ScenarioTask<'_>, weights: &Path, wattgated: &Path) -> io::Result<ScenarioReport> {
    let (mut plant, tree) = Plant::new(task, SEED, weights)?;
    let folder = tempfile::tempdir()?;
    // The model has a folder of its own, because the daemon writes other models beside it.
    let model = folder.path().join("model.wgt");
    fs::copy(&plant.course.model, &model)?;
    plant.course.model = model;
    let installation = Installation {
        plant: &plant,
        program: wattgated,
        root: folder.path().join("root"),
        config: folder.path().join("wattgated.toml"),
    };
    let mut mirror = Mirror::create(&installation.root, tree).map_err(io::Error::other)?;
    let length = task.scenario.length();
    let mut record = Record::default();
    let stop = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        let living = scope.spawn(|| {
            mirror.run_noted(&stop, 1.0, |jetson| {
                // After the end the daemon restores the settings from before.
                if jetson.now() <= length {
                    record.note(jetson);
                }
            })
        });
        let outcome = installation.hold(Instant::now());
        stop.store(true, Ordering::Relaxed);
        match living.join() {
            Ok(end) => end.map_err(io::Error::other).and(outcome),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })?;
    ScenarioReport::new(&plant, &record, outcome)
}

/// The daemon's files and those of its board.
struct Installation<'a> {
    plant: &'a Plant<'a>,
    program: &'a Path,
    root: PathBuf,
    config: PathBuf,
}

impl Installation<'_> {
    /// Runs the daemon from the start of the scenario to its end.
    fn hold(&self, start: Instant) -> io::Result<Outcome> {
        let scenario = self.plant.task.scenario;
        let before = settings(&Disk, &self.root)?;
        self.configure(Duration::ZERO)?;
        let mut log = Log::default();
        let mut daemon = Daemon::start(self.command("run"), start)?;
        let mut killed = None;
        for (at, action) in self.actions() {
            thread::sleep(at.saturating_sub(start.elapsed()));
            match action {
                Action::Limit => {
                    self.configure(at)?;
                    daemon.signal(Signal::HUP)?;
                }
                Action::Incident(Incident::Suspend(seconds)) => {
                    daemon.signal(Signal::STOP)?;
                    thread::sleep(Duration::from_secs(seconds));
                    daemon.signal(Signal::CONT)?;
                }
                Action::Incident(Incident::BadModel) => {
                    let model = self.config.with_file_name("half.wgt");
                    fs::write(&model, self.plant.half_a_model()?)?;
                    let mut set = Command::new(self.program);
                    set.arg("set-model")
                        .arg(&model)
                        .arg("--root")
                        .arg(&self.root);
                    if set.stderr(Stdio::null()).status()?.success() {
                        return Err(io::Error::other("the daemon took half a model"));
                    }
                }
                Action::Incident(Incident::Kill) => {
                    let death = Instant::now();
                    log.add(daemon.end(Signal::KILL)?.1);
                    let mut once = self.command("once");
                    once.arg("--safe").stderr(Stdio::null()).status()?;
                    killed = Some(death.elapsed());
                    thread::sleep(RESTART);
                    daemon = Daemon::start(self.command("run"), start)?;
                }
            }
        }
        thread::sleep(scenario.length().saturating_sub(start.elapsed()));
        let (is_clean, lines) = daemon.end(Signal::TERM)?;
        log.add(lines);
        let mut restore = Command::new(self.program);
        restore.args(["restore", "--root"]).arg(&self.root);
        let is_clean = is_clean && restore.stdout(Stdio::null()).status()?.success();
        let kept = self.root.join("var/lib/wattgate");
        let is_restored =
            is_clean && self.returns_to(&before)? && kept.read_dir()?.next().is_none();
        Ok(Outcome {
            changes: log.changes(),
            end: end(log.state(), is_restored),
            safe_after: killed.or_else(|| log.safe_after(scenario.loss()?)),
        })
    }

    /// The actions of the scenario in the order of time.
    fn actions(&self) -> Vec<(Duration, Action)> {
        let scenario = self.plant.task.scenario;
        let limits = scenario.steps.into_iter().flatten();
        let limits = limits.map(|at| (Duration::from_secs(at), Action::Limit));
        let incident = scenario.incident.into_iter();
        let incident = incident.map(|(at, what)| (Duration::from_secs(at), Action::Incident(what)));
        let mut actions: Vec<(Duration, Action)> = limits.chain(incident).collect();
        actions.sort_by_key(|(at, _)| *at);
        actions
    }

    fn configure(&self, at: Duration) -> io::Result<()> {
        fs::write(
            &self.config,
            self.plant.config(at, &self.plant.course.model),
        )
    }

    fn command(&self, command: &str) -> Command {
        let mut process = Command::new(self.program);
        process.args([command, "--config"]).arg(&self.config);
        process.arg("--root").arg(&self.root);
        process
    }

    /// Whether the board returns to the settings from before within [`TIMEOUT`].
    fn returns_to(&self, before: &[String]) -> io::Result<bool> {
        let start = Instant::now();
        while start.elapsed() < TIMEOUT {
            if settings(&Disk, &self.root)? == before {
                return Ok(true);
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(false)
    }
}

/// An action on the daemon.
#[derive(Clone, Copy, Debug)]
enum Action {
    /// Writes another limit to the daemon's config.
    Limit,
    Incident(Incident),
}

/// A line on the daemon's standard error, with its time.
type LogLine = (Duration, String);

/// A running daemon, which is killed when this value is dropped.
struct Daemon {
    child: Child,
    lines: Receiver<LogLine>,
    seen: Vec<LogLine>,
}

impl Daemon {
    /// Starts a daemon. Returns after its first mode, because from then on it handles signals.
    fn start(mut command: Command, start: Instant) -> io::Result<Self> {
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let (sender, lines) = channel();
        if let Some(stderr) = child.stderr.take() {
            thread::spawn(move || {
                let stderr = BufReader::new(stderr).lines();
                for line in stderr.map_while(Result::ok) {
                    // After a failed scenario the receiver is gone.
                    let _ = sender.send((start.elapsed(), line));
                }
            });
        }
        let mut daemon = Self {
            child,
            lines,
            seen: Vec::new(),
        };
        while !daemon.seen.iter().any(reports_mode) {
            match daemon.lines.recv_timeout(TIMEOUT) {
                Ok(line) => daemon.seen.push(line),
                Err(_) => {
                    return Err(io::Error::other(format!(
                        "the daemon set no mode; it printed {:?}",
                        daemon.seen
                    )));
                }
            }
        }
        Ok(daemon)
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Ends the daemon by a signal. Returns whether its exit code is 0, and all its lines.
    fn end(&mut self, signal: Signal) -> io::Result<(bool, Vec<LogLine>)> {
        self.signal(signal)?;
        let start = Instant::now();
        while self.child.try_wait()?.is_none() && start.elapsed() < TIMEOUT {
            thread::sleep(Duration::from_millis(5));
        }
        self.child.kill()?;
        let is_clean = self.child.wait()?.success();
        let mut lines = std::mem::take(&mut self.seen);
        lines.extend(self.lines.iter());
        Ok((is_clean, lines))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The daemon may have ended before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether the line says that the daemon has set a mode.
fn reports_mode((_, line): &LogLine) -> bool {
    line.contains("; predicted ")
}

/// All lines of the daemons in a scenario.
#[derive(Debug, Default)]
struct Log(Vec<LogLine>);

impl Log {
    fn add(&mut self, lines: Vec<LogLine>) {
        let text = |line: String| {
            let mut words = ["error: ", "warning: "].into_iter();
            let text = words.find_map(|word| line.strip_prefix(word).map(str::to_owned));
            text.unwrap_or(line)
        };
        let lines = lines.into_iter().map(|(at, line)| (at, text(line)));
        self.0.extend(lines);
    }

    /// The number of modes that were set.
    fn changes(&self) -> u32 {
        self.0.iter().filter(|line| reports_mode(line)).count() as u32
    }

    /// The name of the last state.
    fn state(&self) -> &'static str {
        let named_state = |line: &str| {
            let mut names = STATES.into_iter().map(name);
            names.find(|name| line.starts_with(name))
        };
        let mut lines = self.0.iter().rev();
        lines
            .find_map(|(_, line)| named_state(line))
            .unwrap_or("silent")
    }

    /// Time from the loss of the sensor to the safe mode.
    fn safe_after(&self, loss: Duration) -> Option<Duration> {
        let safe = name(State::Safe(Cause::NoSensor));
        let mut lines = self.0.iter();
        let found = lines.find(|(at, line)| *at >= loss && line.starts_with(safe));
        found.map(|(at, _)| at.saturating_sub(loss))
    }
}
