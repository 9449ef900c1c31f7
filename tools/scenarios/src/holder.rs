//! Who holds the limit, and the peers that do not look at the sensor.

use std::io;
use std::path::Path;
use std::time::Duration;

use wattgate_board::Board;
use wattgate_runtime::{Front, Milliwatts, Model};
use wattgate_watchdog::config::Config;
use wattgate_watchdog::setup::{POINTS, Setup};

use super::account::Account;
use super::plant::{Noted, Plant, Record};
use super::report::Run;
use super::{Course, Task, oracle, stepper, wattgate};
use wattgate_board_tables::Board as Description;

/// Who holds the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The daemon's control.
    Wattgate,
    /// One step up or down after a look at the sensor.
    Stepper,
    /// The fastest mode whose prediction is within the limit, once: PowerTrain's use of a model.
    OpenLoop,
    /// `wattgated once`: the same with the guard band and the sensor's offset, once.
    Once,
    /// nvpmodel's mode with the most watts in its name that are within the limit.
    Preset,
    /// No cap at all.
    Maxn,
    /// The daemon itself, as a process in real time.
    Wattgated,
}

impl Holder {
    /// Everyone in the table of scenarios.
    pub const SIMULATED: [Self; 5] = [
        Self::Wattgate,
        Self::Stepper,
        Self::OpenLoop,
        Self::Preset,
        Self::Maxn,
    ];

    /// The board's own mode before the holder's first one is nobody's fault, for so long. A
    /// process takes its time to start.
    pub fn start(self) -> Duration {
        match self {
            Self::Wattgated => Duration::from_secs(3),
            _ => Duration::from_secs(1),
        }
    }

    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wattgate => "wattgate",
            Self::Stepper => "stepper",
            Self::OpenLoop => "open loop",
            Self::Once => "once",
            Self::Preset => "preset",
            Self::Maxn => "maxn",
            Self::Wattgated => "wattgated",
        }
    }
}

/// What a holder says of itself.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Changes of the mode.
    pub changes: u32,
    /// Its last state, in words.
    pub end: String,
    /// From the loss of all knowledge to the safe mode.
    pub safe_after: Option<Duration>,
}

impl Outcome {
    /// Of a holder without states.
    pub fn of(changes: u32) -> Self {
        Self {
            changes,
            end: "as set".to_owned(),
            safe_after: None,
        }
    }
}

/// One run in simulated time. `weights` is the folder with the models.
pub fn run(task: &Task<'_>, seed: u64, weights: &Path) -> io::Result<Run> {
    let (plant, tree) = Plant::new(task, seed, weights)?;
    let course = &plant.course;
    let mut files = Noted::new(tree);
    let outcome = match task.holder {
        Holder::Wattgate => {
            let (outcome, held) = wattgate::hold(&plant, files)?;
            files = held;
            outcome
        }
        Holder::Stepper => {
            if task.case.sets_sensor {
                set_sensor(course, &mut files)?;
            }
            stepper::hold(course, task.scenario.holder, &mut files)?
        }
        Holder::OpenLoop => Outcome::of(open_loop(course, &mut files)?),
        Holder::Once => Outcome::of(once(course, &mut files)?),
        Holder::Preset => Outcome::of(presets(course, &plant.description, &mut files)),
        Holder::Maxn => {
            files.until(task.scenario.length());
            Outcome::of(0)
        }
        Holder::Wattgated => return Err(io::Error::other("a process is not simulated")),
    };
    finish(&plant, seed, &files.record(), outcome)
}

/// For a peer without a key for it in its config.
pub fn set_sensor(course: &Course, files: &mut Noted) -> io::Result<()> {
    let board = Board::discover(files, Path::new("/")).map_err(io::Error::other)?;
    let set = board.set_averaging(files, course.sensor.samples);
    set.map(drop).map_err(io::Error::other)
}

/// The figures of a run that is over.
pub fn finish(plant: &Plant<'_>, seed: u64, record: &Record, outcome: Outcome) -> io::Result<Run> {
    let account = Account::of(plant, &record.notes);
    let length = plant.task.scenario.length().as_secs_f64();
    Ok(Run {
        seed,
        time_over_pct: 100.0 * account.over_s / length,
        longest_over_ms: 1e3 * account.longest_s,
        excess_pct: account.excess_pct,
        overshoot_j: account.joules,
        speed_vs_oracle_pct: 100.0 * record.minibatches / oracle::minibatches(plant)?,
        changes_per_min: 60.0 * f64::from(outcome.changes) / length,
        over_current_events: record.over_current_events as f64,
        safe_after_ms: outcome.safe_after.map(|time| 1e3 * time.as_secs_f64()),
        end: outcome.end,
    })
}

/// The mode of nvpmodel with the most watts in its name that are within a limit, or the one with
/// the least.
pub fn preset(board: &Description, limit_mw: u32) -> Option<u32> {
    let modes = board.modes.iter();
    let named: Vec<(f64, u32)> = modes.filter_map(|it| Some((it.budget_w?, it.id))).collect();
    let within = named
        .iter()
        .filter(|(watts, _)| 1e3 * watts <= f64::from(limit_mw));
    let best = within.max_by(|a, b| a.0.total_cmp(&b.0));
    let least = named.iter().min_by(|a, b| a.0.total_cmp(&b.0));
    best.or(least).map(|(_, id)| *id)
}

/// Calls `set` with each limit when it begins to hold, and lets time pass to the end.
fn at_each_limit(course: &Course, files: &mut Noted, mut set: impl FnMut(&mut Noted, u32)) {
    let limits = course.limits.iter();
    for (from, limit) in limits.filter(|(from, _)| *from < course.length) {
        files.until(files.now().max(*from));
        set(files, *limit);
    }
    files.until(files.now().max(course.length));
}

/// The fastest mode by the prediction alone. Returns the changes.
pub fn open_loop(course: &Course, files: &mut Noted) -> io::Result<u32> {
    let bytes = std::fs::read(&course.model)?;
    let model = Model::parse(&bytes).map_err(|why| io::Error::other(why.to_string()))?;
    let front = Front::<POINTS>::of(&model, &model.profiled());
    let mut board = Board::discover(files, Path::new("/")).map_err(io::Error::other)?;
    let settable = board.settable(model.grid()).map_err(io::Error::other)?;
    let mut changes = 0;
    at_each_limit(course, files, |files, limit| {
        let mut fits = front.points().iter().rev().filter_map(|point| {
            let mode = model.grid().mode(point.mode)?;
            (point.power.0 <= limit && settable.can_set(&mode)).then_some(mode)
        });
        let least = front.points().first();
        let least = least.and_then(|point| model.grid().mode(point.mode));
        if let Some(mode) = fits.next().or(least) {
            // A fault may keep it from being set; then the board stays as it is.
            let _ = board.apply(files, &mode);
            changes += 1;
        }
    });
    Ok(changes)
}

/// The mode of `wattgated once` for each limit. Returns the changes.
pub fn once(course: &Course, files: &mut Noted) -> io::Result<u32> {
    let text = course.config(Duration::ZERO, &course.model);
    let config = Config::parse(&text, Path::new("once")).map_err(io::Error::other)?;
    let mut setup = Setup::new(config, files, Path::new("/")).map_err(io::Error::other)?;
    let mut changes = 0;
    at_each_limit(course, files, |files, limit| {
        setup.config.limit.power = Milliwatts(limit);
        let mode = match setup.choice() {
            Ok(choice) => setup.mode(choice.mode),
            Err(_) => setup.safe(),
        };
        // A fault may keep it from being set; then the board stays as it is.
        let _ = setup.board.apply(files, &mode);
        changes += 1;
    });
    Ok(changes)
}

/// The modes of nvpmodel. One is left as it is where the change needs a reboot. Returns the
/// changes.
pub fn presets(course: &Course, board: &Description, files: &mut Noted) -> u32 {
    let (mut changes, mut is_booted) = (0, false);
    at_each_limit(course, files, |files, limit| {
        if std::mem::replace(&mut is_booted, true)
            && let Some(id) = preset(board, limit)
            && files.control(&format!("nvpmodel {id}")).is_ok()
        {
            changes += 1;
        }
    });
    changes
}
