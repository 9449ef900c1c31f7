//! Scenarios: a governor on a simulated board in simulated time, beside an oracle that knows the
//! truth.
//!
//! The *true power* is the mean over one period of the sensor (430 ms), at every 10 ms; a step
//! can hide from a sensor for up to two. The *oracle* is always in the fastest mode of the model's
//! front whose true mean power stays below the limit by three times the spread of such a mean,
//! as any governor has to that holds the limit. It needs no time to find that mode or to change.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use wattgate_board::{Board, Files};
use wattgate_runtime::{Front, Limit, Milliseconds, Milliwatts, Model, PowerMode};
use wattgate_watchdog::config::Config;
use wattgate_watchdog::control::{Control, name};
use wattgate_watchdog::setup::{POINTS, Setup};

use crate::board::Board as Description;
use crate::pipeline::Clocks;
use crate::power::{Activity, watts};
use crate::sensor::UPDATE;
use crate::steady::Steady;
use crate::tree::{Errno, Tree};
use crate::unit::Unit;
use crate::workload::Workload;

/// Power is noted so often.
const TICK: Duration = Duration::from_millis(10);

/// The spread of a mean over one period: that of a slice of 10 ms, of which it holds 43.
const SPREAD: f64 = 0.06 / 6.56;

/// What runs at first; the models are of it.
const WORKLOAD: &str = "resnet18";

/// A board with its model and limits.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The board, and the model's file is named after it.
    pub board: &'static str,
    /// The mode of nvpmodel without caps, which is set before.
    pub maxn: Option<u32>,
    /// The limit in mW, and those of the scenario `limit stepped`.
    pub limits_mw: [u32; 3],
}

/// The boards.
pub const CASES: [Case; 3] = [
    Case {
        board: "orin-agx-64",
        maxn: Some(0),
        limits_mw: [45_000, 20_000, 35_000],
    },
    Case {
        board: "orin-nano-8-super",
        maxn: Some(2),
        limits_mw: [16_000, 8_000, 12_000],
    },
    Case {
        board: "xavier-agx",
        maxn: Some(0),
        limits_mw: [27_000, 12_000, 20_000],
    },
];

/// What happens.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// As it is printed.
    pub name: &'static str,
    /// Commands of the simulator's control language. `*` stands for each power rail, `GPU` for
    /// the file of the GPU's highest clock.
    orders: &'static [&'static str],
    /// Whether the limit changes after 60 and 120 s.
    steps: bool,
    /// Another unit of the board for each seed.
    units: bool,
    /// The sensor works and writes do.
    pub nominal: bool,
}

const fn nominal(name: &'static str, orders: &'static [&'static str]) -> Scenario {
    Scenario {
        name,
        orders,
        steps: false,
        units: false,
        nominal: true,
    }
}

const fn fault(name: &'static str, orders: &'static [&'static str]) -> Scenario {
    Scenario {
        nominal: false,
        ..nominal(name, orders)
    }
}

/// All scenarios.
pub const SCENARIOS: &[Scenario] = &[
    nominal("steady", &[]),
    Scenario {
        steps: true,
        ..nominal("limit stepped", &[])
    },
    nominal("workload changed", &["at 100 load mobilenetv3"]),
    nominal("model 30 % too high", &["power 0.7"]),
    nominal("model 15 % too high", &["power 0.85"]),
    nominal("model 15 % too low", &["power 1.15"]),
    nominal("model 30 % too low", &["power 1.3"]),
    Scenario {
        units: true,
        ..nominal("another board", &[])
    },
    nominal("ambient +30 K", &["at 60 ambient 55"]),
    nominal("nvpmodel run again", &["at 100 service"]),
    nominal("jetson_clocks", &["at 100 jetson-clocks"]),
    fault(
        "sensor missing 0.5 s",
        &["at 100 sensor * missing", "at 100.5 sensor * ok"],
    ),
    fault(
        "sensor missing 3 s",
        &["at 100 sensor * missing", "at 103 sensor * ok"],
    ),
    fault(
        "sensor missing 30 s",
        &["at 100 sensor * missing", "at 130 sensor * ok"],
    ),
    fault(
        "sensor frozen 30 s",
        &["at 100 sensor * frozen", "at 130 sensor * ok"],
    ),
    fault(
        "writes ignored 30 s",
        &["at 50 ignore GPU", "at 80 allow GPU"],
    ),
    fault(
        "writes refused 30 s",
        &["at 50 refuse GPU EIO", "at 80 allow GPU"],
    ),
];

/// The length of every scenario.
const LENGTH: Duration = Duration::from_secs(180);

/// Who holds the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The daemon's control.
    Wattgate,
    /// The fastest mode whose prediction is within the limit, once: PowerTrain's use of a model.
    OpenLoop,
    /// nvpmodel's mode with the most watts in its name that are within the limit.
    Preset,
    /// No cap at all.
    Maxn,
}

impl Holder {
    /// Everyone.
    pub const ALL: [Self; 4] = [Self::Wattgate, Self::OpenLoop, Self::Preset, Self::Maxn];

    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wattgate => "wattgate",
            Self::OpenLoop => "open loop",
            Self::Preset => "preset",
            Self::Maxn => "maxn",
        }
    }
}

/// The figures of one run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The part of the time over the limit.
    pub time_over_pct: f64,
    /// The longest stretch over it.
    pub longest_over_ms: f64,
    /// Energy above the limit.
    pub overshoot_j: f64,
    /// Minibatches against those of the oracle.
    pub speed_vs_oracle_pct: f64,
    /// Changes of the mode.
    pub changes_per_min: f64,
    /// What the holder says at the end.
    pub end: String,
}

/// The median and the worst of all seeds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    /// The middle one, the lower of two.
    pub median: f64,
    /// The one that is furthest on the bad side.
    pub worst: f64,
}

/// A line of the report.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub scenario: &'static str,
    pub board: &'static str,
    pub governor: &'static str,
    pub seeds: usize,
    pub time_over_pct: Spread,
    pub longest_over_ms: Spread,
    pub overshoot_j: Spread,
    pub speed_vs_oracle_pct: Spread,
    pub changes_per_min: Spread,
    pub r#final: String,
}

impl Row {
    /// Of at least one run.
    fn of(scenario: &Scenario, case: &Case, holder: Holder, runs: &[Run]) -> Self {
        let spread = |of: fn(&Run) -> f64, sign: f64| {
            let mut values: Vec<f64> = runs.iter().map(|run| sign * of(run)).collect();
            values.sort_by(f64::total_cmp);
            Spread {
                median: sign * values[(values.len() - 1) / 2],
                worst: sign * values[values.len() - 1],
            }
        };
        let mut ends: Vec<&str> = runs.iter().map(|run| run.end.as_str()).collect();
        ends.sort_unstable();
        ends.dedup();
        Self {
            scenario: scenario.name,
            board: case.board,
            governor: holder.name(),
            seeds: runs.len(),
            time_over_pct: spread(|run| run.time_over_pct, 1.0),
            longest_over_ms: spread(|run| run.longest_over_ms, 1.0),
            overshoot_j: spread(|run| run.overshoot_j, 1.0),
            speed_vs_oracle_pct: spread(|run| run.speed_vs_oracle_pct, -1.0),
            changes_per_min: spread(|run| run.changes_per_min, 1.0),
            r#final: ends.join(", "),
        }
    }
}

/// Runs a scenario with the seeds 1 … `seeds`. `weights` is the folder with the models.
pub fn row(
    scenario: &Scenario,
    case: &Case,
    holder: Holder,
    seeds: u64,
    weights: &Path,
) -> io::Result<Row> {
    let runs: io::Result<Vec<Run>> = (1..=seeds)
        .map(|seed| Plant::new(scenario, case, holder, seed, weights)?.run(holder))
        .collect();
    Ok(Row::of(scenario, case, holder, &runs?))
}

/// The mode of nvpmodel with the most watts in its name that are within a limit, or the one with
/// the least.
fn preset(board: &Description, limit_mw: u32) -> Option<u32> {
    let modes = board.modes.iter();
    let named: Vec<(f64, u32)> = modes.filter_map(|it| Some((it.budget_w?, it.id))).collect();
    let within = named
        .iter()
        .filter(|(watts, _)| 1e3 * watts <= f64::from(limit_mw));
    let best = within.max_by(|a, b| a.0.total_cmp(&b.0));
    let least = named.iter().min_by(|a, b| a.0.total_cmp(&b.0));
    best.or(least).map(|(_, id)| *id)
}

/// A board under a scenario.
struct Plant {
    scenario: Scenario,
    case: Case,
    description: Description,
    unit: Unit,
    model: std::path::PathBuf,
    bytes: Vec<u8>,
    files: Noted,
}

/// A tree whose energy is noted at every tick.
struct Noted {
    tree: Tree,
    /// Time in s and energy in J.
    notes: Vec<[f64; 2]>,
}

impl Noted {
    fn now(&self) -> Duration {
        self.tree.jetson().now()
    }

    fn until(&mut self, end: Duration) {
        while self.now() < end {
            let next = (self.now() + TICK).min(end);
            self.tree.advance(next);
            let energy = self.tree.jetson().energy_j();
            self.notes.push([next.as_secs_f64(), energy]);
        }
    }
}

fn refused(errno: Errno) -> io::Error {
    io::Error::other(errno.to_string())
}

impl Files for Noted {
    fn read<'b>(&self, path: &Path, buffer: &'b mut [u8]) -> io::Result<&'b str> {
        let path = path.to_str().ok_or(io::ErrorKind::NotFound)?;
        let text = self.tree.read(path).map_err(refused)?;
        let place = buffer.get_mut(..text.len());
        let place = place.ok_or(io::ErrorKind::FileTooLarge)?;
        place.copy_from_slice(text.as_bytes());
        std::str::from_utf8(place).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        let path = path.to_str().ok_or(io::ErrorKind::NotFound)?;
        self.tree.write(path, text).map_err(refused)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let path = directory.to_str().ok_or(io::ErrorKind::NotFound)?;
        self.tree.list(path).map_err(refused)
    }

    fn wait(&mut self, time: Duration) {
        let end = self.now() + time;
        self.until(end);
    }
}

impl Plant {
    fn new(
        scenario: &Scenario,
        case: &Case,
        holder: Holder,
        seed: u64,
        weights: &Path,
    ) -> io::Result<Self> {
        let description = Description::named(case.board).map_err(io::Error::other)?;
        let unit = match scenario.units {
            true => Unit::drawn(seed),
            false => Unit::NOMINAL,
        };
        let model = weights.join(format!("{}-{WORKLOAD}.wgt", case.board));
        let bytes = std::fs::read(&model)?;
        // Masks need a reboot, so that a preset is booted in.
        let [first, ..] = case.limits_mw;
        let mode = match holder {
            Holder::Preset => preset(&description, first),
            _ => case.maxn,
        };
        let tree = Tree::new(description.clone(), unit, seed, mode);
        let mut tree = tree.map_err(io::Error::other)?;
        let gpu = tree.files().map(|(path, _)| path.to_owned());
        let gpu: Vec<String> = gpu.filter(|path| path.ends_with("/max_freq")).collect();
        let mut orders = vec![format!("load {WORKLOAD}")];
        for order in scenario.orders {
            if order.contains('*') {
                let rails = description.rails.iter();
                orders.extend(rails.map(|rail| order.replace('*', &rail.label)));
            } else if order.contains("GPU") {
                orders.extend(gpu.iter().map(|path| order.replace("GPU", path)));
            } else {
                orders.push((*order).to_owned());
            }
        }
        for order in orders {
            tree.control(&order).map_err(io::Error::other)?;
        }
        Ok(Self {
            scenario: *scenario,
            case: *case,
            description,
            unit,
            model,
            bytes,
            files: Noted {
                tree,
                notes: Vec::new(),
            },
        })
    }

    fn limit_mw(&self, at: Duration) -> u32 {
        let [first, second, third] = self.case.limits_mw;
        match at.as_secs() {
            _ if !self.scenario.steps => first,
            0..60 => first,
            60..120 => second,
            _ => third,
        }
    }

    fn run(mut self, holder: Holder) -> io::Result<Run> {
        let (changes, end) = match holder {
            Holder::Wattgate => self.controlled()?,
            Holder::OpenLoop => (self.open_loop()?, "as set".to_owned()),
            Holder::Preset => (self.preset()?, "as set".to_owned()),
            Holder::Maxn => {
                self.files.until(LENGTH);
                (0, "as set".to_owned())
            }
        };
        let minibatches = self.files.tree.jetson().minibatches();
        let oracle = self.oracle()?;
        let [over_s, longest_s, overshoot_j] = self.over();
        let length = LENGTH.as_secs_f64();
        Ok(Run {
            time_over_pct: 100.0 * over_s / length,
            longest_over_ms: 1e3 * longest_s,
            overshoot_j,
            speed_vs_oracle_pct: 100.0 * minibatches / oracle,
            changes_per_min: 60.0 * f64::from(changes) / length,
            end,
        })
    }

    /// Under the daemon's control. Returns changes and the last state.
    fn controlled(&mut self) -> io::Result<(u32, String)> {
        let power = |mw: u32| Limit::of(Milliwatts(mw));
        let mut limit = self.limit_mw(Duration::ZERO);
        let model = self.model.display();
        let text = format!("version = 1\nmodel = \"{model}\"\nlimit = \"{limit}mW\"");
        let config = Config::parse(&text, Path::new("scenario")).map_err(io::Error::other)?;
        let setup = Setup::new(config, &self.files, Path::new("/")).map_err(io::Error::other)?;
        let empty = Noted {
            tree: self.files.tree.clone(),
            notes: Vec::new(),
        };
        let mut control = Control::new(setup, std::mem::replace(&mut self.files, empty));
        while control.files().now() < LENGTH {
            let now = control.files().now();
            let wanted = self.limit_mw(now);
            if std::mem::replace(&mut limit, wanted) != wanted {
                control.set_limit(power(wanted));
            }
            let ms = Milliseconds(now.as_millis() as u64);
            let next = control.look(ms, &mut |_| {});
            let next = Duration::from_millis(next.0).max(now + Duration::from_millis(1));
            control.files().until(next.min(LENGTH));
        }
        let (status, _) = control.status();
        (_, self.files) = control.release();
        Ok((status.changes, name(status.state).to_owned()))
    }

    /// The fastest mode by the prediction alone.
    fn open_loop(&mut self) -> io::Result<u32> {
        let model = Model::parse(&self.bytes).map_err(|why| io::Error::other(why.to_string()))?;
        let front = Front::<POINTS>::of(&model, &model.profiled());
        let mut board = Board::discover(&self.files, Path::new("/")).map_err(io::Error::other)?;
        let settable = board.settable(model.grid()).map_err(io::Error::other)?;
        let mut changes = 0;
        let (mut now, mut limit) = (Duration::ZERO, 0);
        while now < LENGTH {
            let wanted = self.limit_mw(now);
            if std::mem::replace(&mut limit, wanted) != wanted {
                let fits = front.points().iter().rev().filter_map(|point| {
                    let mode = model.grid().mode(point.mode)?;
                    (point.power.0 <= limit && settable.can_set(&mode)).then_some(mode)
                });
                let mode = fits.into_iter().next();
                let least = front.points().first();
                let least = least.and_then(|point| model.grid().mode(point.mode));
                if let Some(mode) = mode.or(least) {
                    // A fault may keep it from being set; then the board stays as it is.
                    let _ = board.apply(&mut self.files, &mode);
                    changes += 1;
                }
            }
            now = self.files.now() + Duration::from_secs(1);
            self.files.until(now.min(LENGTH));
        }
        Ok(changes)
    }

    /// The mode of nvpmodel. It is left as it is where the change needs a reboot.
    fn preset(&mut self) -> io::Result<u32> {
        let (mut now, mut limit, mut changes) = (Duration::ZERO, self.limit_mw(Duration::ZERO), 0);
        while now < LENGTH {
            let wanted = self.limit_mw(now);
            if std::mem::replace(&mut limit, wanted) != wanted
                && let Some(id) = preset(&self.description, wanted)
                && self.files.tree.control(&format!("nvpmodel {id}")).is_ok()
            {
                changes += 1;
            }
            now = self.files.now() + Duration::from_secs(1);
            self.files.until(now.min(LENGTH));
        }
        Ok(changes)
    }

    /// The minibatches of the oracle.
    fn oracle(&self) -> io::Result<f64> {
        let model = Model::parse(&self.bytes).map_err(|why| io::Error::other(why.to_string()))?;
        let front = Front::<POINTS>::of(&model, &model.profiled());
        let modes = front.points().iter();
        let modes: Vec<PowerMode> = modes.filter_map(|p| model.grid().mode(p.mode)).collect();
        let truths = |workload: &str| -> io::Result<Vec<(f64, f64)>> {
            let workload = Workload::named(workload).map_err(io::Error::other)?;
            let truth = |mode: &PowerMode| {
                let clocks = Clocks::of(&self.description, mode.knobs());
                let (board, unit) = (&self.description, &self.unit);
                let steady = Steady::of(board, unit, &workload, &clocks);
                let idle = Activity {
                    gpu_on: true,
                    ..Activity::IDLE
                };
                let rest = watts(board, unit, &clocks, &idle, steady.die_c).total();
                let work = steady.watts.total() - rest;
                (rest + self.factor() * work, steady.step.period)
            };
            Ok(modes.iter().map(truth).collect())
        };
        let first = truths(WORKLOAD)?;
        let second = match self.scenario.orders {
            ["at 100 load mobilenetv3"] => truths("mobilenetv3")?,
            _ => first.clone(),
        };
        let mut minibatches = 0.0;
        for second_of in 0..LENGTH.as_secs() {
            let at = Duration::from_secs(second_of);
            let limit = f64::from(self.limit_mw(at)) / 1e3;
            let truth = if second_of < 100 { &first } else { &second };
            let within = |(watts, _): &&(f64, f64)| watts * (1.0 + 3.0 * SPREAD) <= limit;
            let fits = truth.iter().filter(within).map(|(_, period)| *period);
            let slowest = truth.iter().map(|(_, period)| *period).fold(0.0, f64::max);
            minibatches += 1.0 / fits.fold(slowest, f64::min);
        }
        Ok(minibatches)
    }

    /// On what the workload draws, by the scenario's order.
    fn factor(&self) -> f64 {
        let order = self.scenario.orders.first();
        let factor = order.and_then(|order| order.strip_prefix("power "));
        factor.and_then(|factor| factor.parse().ok()).unwrap_or(1.0)
    }

    /// Seconds over the limit, the longest stretch of them, and joules above it.
    fn over(&self) -> [f64; 3] {
        let (mut all, mut stretch, mut longest, mut joules) = (0.0, 0.0_f64, 0.0_f64, 0.0);
        let notes = &self.files.notes;
        let period = UPDATE.as_secs_f64();
        let mut first = 0;
        for (at, pair) in notes.windows(2).enumerate() {
            let [[before, _], [now, energy]] = [pair[0], pair[1]];
            while now - notes[first][0] > period + 1e-6 && first < at {
                first += 1;
            }
            let [start, spent] = notes[first];
            // The first period, and the board's own mode before the holder's first one.
            if start < 1.0 {
                continue;
            }
            let mean = (energy - spent) / (now - start);
            let limit = f64::from(self.limit_mw(Duration::from_secs_f64(now))) / 1e3;
            let passed = now - before;
            if mean > limit {
                all += passed;
                stretch += passed;
                longest = longest.max(stretch);
                joules += (mean - limit) * passed;
            } else {
                stretch = 0.0;
            }
        }
        [all, longest, joules]
    }
}
