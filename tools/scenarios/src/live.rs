//! The daemon `wattgated` as a process in real time, beside a board whose files are on a disk.
//!
//! Scenarios are short, and several run at once. What is counted as over the limit is the truth of
//! the board, as in simulated time; how fast the daemon is depends on the machine that runs both.
//! What its unit does around it, [`ToHolder::IsKilled`], is done here.

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
use wattgate_runtime::{Cause, State};
use wattgate_watchdog::control::name;
use wattgate_watchdog::report::STATES;

use super::holder::{Outcome, finish};
use super::list::{Scenario, ToHolder};
use super::plant::{Plant, Record};
use super::report::{Row, Run};
use super::wattgate::{end, settings};
use super::{Task, at_once};
use wattgate_simulated_board::tree::mirror::Mirror;

/// So many daemons with their boards run at once.
const AT_ONCE: usize = 10;

/// `RestartSec=` of the daemon's unit.
const RESTART: Duration = Duration::from_secs(1);

/// A daemon that has not ended so long after its signal is stuck.
const PATIENCE: Duration = Duration::from_secs(30);

const fn live(name: &'static str, orders: &'static [&'static str]) -> Scenario {
    Scenario {
        name,
        length: 48,
        orders,
        steps: None,
        by_clock: false,
        holder: None,
        units: false,
        nominal: false,
    }
}

/// The scenarios in real time. While the daemon sleeps, it is stopped and its board works on.
pub const SCENARIOS: &[Scenario] = &[
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
        holder: Some((24, ToHolder::ReadsBadModel)),
        ..live("model file defective", &[])
    },
    Scenario {
        holder: Some((24, ToHolder::Sleeps(10))),
        ..live("stopped 10 s", &[])
    },
    Scenario {
        holder: Some((24, ToHolder::IsKilled)),
        ..live("killed", &[])
    },
];

/// Runs all of them, each once, and gives their rows in the same order. `weights` is the folder
/// with the models, `wattgated` the daemon.
pub fn rows(tasks: &[Task<'_>], weights: &Path, wattgated: &Path) -> io::Result<Vec<Row>> {
    let weights = fs::canonicalize(weights)?;
    let runs = at_once(AT_ONCE, tasks, |task| run(task, &weights, wattgated))?;
    let rows = tasks.iter().zip(runs);
    Ok(rows
        .filter_map(|(task, run)| Row::of(task, &[run]))
        .collect())
}

fn run(task: &Task<'_>, weights: &Path, wattgated: &Path) -> io::Result<Run> {
    const SEED: u64 = 1;
    let (mut plant, tree) = Plant::new(task, SEED, weights)?;
    let folder = tempfile::tempdir()?;
    // Other models are to be beside it.
    let model = folder.path().join("model.wgt");
    fs::copy(&plant.course.model, &model)?;
    plant.course.model = model;
    let place = Place {
        plant: &plant,
        program: wattgated,
        root: folder.path().join("root"),
        config: folder.path().join("wattgated.toml"),
    };
    let mut mirror = Mirror::create(&place.root, tree).map_err(io::Error::other)?;
    let length = task.scenario.length();
    let mut record = Record::default();
    let stop = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        let living = scope.spawn(|| {
            mirror.run_noted(&stop, 1.0, |jetson| {
                // Afterwards the daemon restores what was before.
                if jetson.now() <= length {
                    record.note(jetson);
                }
            })
        });
        let outcome = place.hold(Instant::now());
        stop.store(true, Ordering::Relaxed);
        match living.join() {
            Ok(end) => end.map_err(io::Error::other).and(outcome),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })?;
    finish(&plant, SEED, &record, outcome)
}

/// Where a daemon runs.
struct Place<'a> {
    plant: &'a Plant<'a>,
    program: &'a Path,
    root: PathBuf,
    config: PathBuf,
}

impl Place<'_> {
    /// From the start of a scenario to what its daemon has left behind.
    fn hold(&self, start: Instant) -> io::Result<Outcome> {
        let scenario = self.plant.task.scenario;
        let before = settings(&Disk, &self.root)?;
        self.configure(Duration::ZERO)?;
        let mut told = Told::default();
        let mut daemon = Daemon::start(self.command("run"), start)?;
        let mut killed = None;
        for (at, act) in self.acts() {
            thread::sleep(at.saturating_sub(start.elapsed()));
            match act {
                Act::Limit => {
                    self.configure(at)?;
                    daemon.signal(Signal::HUP)?;
                }
                Act::Holder(ToHolder::Sleeps(seconds)) => {
                    daemon.signal(Signal::STOP)?;
                    thread::sleep(Duration::from_secs(seconds));
                    daemon.signal(Signal::CONT)?;
                }
                Act::Holder(ToHolder::ReadsBadModel) => {
                    let model = self.config.with_file_name("half.wgt");
                    fs::write(&model, self.plant.half_a_model()?)?;
                    let mut set = Command::new(self.program);
                    set.arg("set-model")
                        .arg(&model)
                        .arg("--root")
                        .arg(&self.root);
                    if set.stderr(Stdio::null()).status()?.success() {
                        return Err(io::Error::other("half a model was taken"));
                    }
                }
                Act::Holder(ToHolder::IsKilled) => {
                    let death = Instant::now();
                    told.add(daemon.end(Signal::KILL)?.1);
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
        told.add(lines);
        let kept = self.root.join("var/lib/wattgate");
        let is_restored = is_clean && self.becomes(&before)? && kept.read_dir()?.next().is_none();
        Ok(Outcome {
            changes: told.changes(),
            end: end(told.state(), is_restored),
            safe_after: killed.or_else(|| told.safe_after(scenario.loss()?)),
        })
    }

    /// What is to be done, in the order of time.
    fn acts(&self) -> Vec<(Duration, Act)> {
        let scenario = self.plant.task.scenario;
        let limits = scenario.steps.into_iter().flatten();
        let limits = limits.map(|at| (Duration::from_secs(at), Act::Limit));
        let holder = scenario.holder.into_iter();
        let holder = holder.map(|(at, what)| (Duration::from_secs(at), Act::Holder(what)));
        let mut acts: Vec<(Duration, Act)> = limits.chain(holder).collect();
        acts.sort_by_key(|(at, _)| *at);
        acts
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

    /// Waits until the board shows what was set before.
    fn becomes(&self, before: &[String]) -> io::Result<bool> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if settings(&Disk, &self.root)? == before {
                return Ok(true);
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(false)
    }
}

/// What is done to a daemon.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Another limit is in its config.
    Limit,
    Holder(ToHolder),
}

/// What a daemon says, and when.
type Line = (Duration, String);

/// A daemon that ends with this value.
struct Daemon {
    child: Child,
    lines: Receiver<Line>,
    seen: Vec<Line>,
}

impl Daemon {
    /// Returns when it has set its first mode: from then on it takes signals.
    fn start(mut command: Command, start: Instant) -> io::Result<Self> {
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let (sender, lines) = channel();
        if let Some(stderr) = child.stderr.take() {
            thread::spawn(move || {
                let stderr = BufReader::new(stderr).lines();
                for line in stderr.map_while(Result::ok) {
                    // Nobody listens any more when a scenario has failed.
                    let _ = sender.send((start.elapsed(), line));
                }
            });
        }
        let mut daemon = Self {
            child,
            lines,
            seen: Vec::new(),
        };
        while !daemon.seen.iter().any(is_mode) {
            match daemon.lines.recv_timeout(PATIENCE) {
                Ok(line) => daemon.seen.push(line),
                Err(_) => return Err(io::Error::other(format!("no mode: {:?}", daemon.seen))),
            }
        }
        Ok(daemon)
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Ends it. Returns whether it says that all is well, and all that it has said.
    fn end(&mut self, signal: Signal) -> io::Result<(bool, Vec<Line>)> {
        self.signal(signal)?;
        let start = Instant::now();
        while self.child.try_wait()?.is_none() && start.elapsed() < PATIENCE {
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
        // It may have ended before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// It says that it has set a mode.
fn is_mode((_, line): &Line) -> bool {
    line.contains("; predicted ")
}

/// All that the daemons of a scenario have said.
#[derive(Debug, Default)]
struct Told(Vec<Line>);

impl Told {
    fn add(&mut self, lines: Vec<Line>) {
        // Without the priority.
        let text = |line: String| match line.split_once('>') {
            Some((_, text)) => text.to_owned(),
            None => line,
        };
        let lines = lines.into_iter().map(|(at, line)| (at, text(line)));
        self.0.extend(lines);
    }

    /// Modes that were set.
    fn changes(&self) -> u32 {
        self.0.iter().filter(|line| is_mode(line)).count() as u32
    }

    /// The last state.
    fn state(&self) -> &'static str {
        let of = |line: &str| {
            let mut names = STATES.into_iter().map(name);
            names.find(|name| line.starts_with(name))
        };
        let mut lines = self.0.iter().rev();
        lines.find_map(|(_, line)| of(line)).unwrap_or("silent")
    }

    /// From the loss of the sensor to the safe mode.
    fn safe_after(&self, loss: Duration) -> Option<Duration> {
        let safe = name(State::Safe(Cause::NoSensor));
        let mut lines = self.0.iter();
        let found = lines.find(|(at, line)| *at >= loss && line.starts_with(safe));
        found.map(|(at, _)| at.saturating_sub(loss))
    }
}
