//! All kinds of loads on all boards under several limits: a row for each, over seeds.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use wattgate_runtime::Front;
use wattgate_watchdog::setup::POINTS;

use super::oracle::Mode;
use super::report::Report;
use super::{ReplayError, Run, modes, parse, read_model, run, workload_of};
use crate::cases::WORKLOAD;
use crate::{CASES, Holder, Spread, at_once};
use wattgate_board_tables::Board;
use wattgate_simulated_board::load::Kind;
use wattgate_simulated_board::machine::mode_errors::ModeErrors;
use wattgate_simulated_board::workload::Workload;

/// Limits of a table, in % of a board's span.
pub const LIMITS_PCT: [f64; 3] = [25.0, 45.0, 75.0];

/// The length of each run of a table.
pub const LENGTH: Duration = Duration::from_secs(300);

/// The boards of a table: those that have a model.
pub fn boards() -> [&'static str; 3] {
    CASES.map(|case| case.board)
}

/// How the model is wrong, or the board.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wrong {
    /// Within its band.
    Nothing,
    /// Another unit of the board for each seed.
    Unit,
    /// The power above rest is so many times the model's, which differs from the least to the highest clock
    /// of the GPU.
    Tilt([f64; 2]),
    /// Each mode on its own by a factor whose logarithm has this spread.
    Each(f64),
    /// Some modes by far; see [`ModeErrors::Rogues`].
    Rogues,
}

/// All that tables have, under a constant load.
pub const WRONGS: [Wrong; 7] = [
    Wrong::Unit,
    Wrong::Tilt([0.7, 0.7]),
    Wrong::Tilt([1.3, 1.3]),
    Wrong::Tilt([0.85, 1.15]),
    Wrong::Tilt([1.15, 0.85]),
    Wrong::Each(0.1),
    Wrong::Rogues,
];

impl Wrong {
    /// As it is printed behind the kind of load.
    pub fn name(self) -> String {
        let percent = |factor: f64| format!("{:+.0} %", 100.0 * (factor - 1.0));
        match self {
            Self::Nothing => String::new(),
            Self::Unit => ", other units".to_owned(),
            Self::Tilt([low, high]) if low == high => format!(", power {}", percent(low)),
            Self::Tilt([low, high]) => format!(", tilt {} to {}", percent(low), percent(high)),
            Self::Each(spread) => format!(", each mode by {:.0} %", 100.0 * spread),
            Self::Rogues => ", rogue modes".to_owned(),
        }
    }

    fn errors(self, seed: u64) -> Option<ModeErrors> {
        match self {
            Self::Nothing | Self::Unit => None,
            Self::Tilt(factors) => Some(ModeErrors::Tilt { factors }),
            Self::Each(spread) => Some(ModeErrors::Each { spread, seed }),
            Self::Rogues => Some(ModeErrors::Rogues { seed }),
        }
    }
}

/// A board with its model, and what many runs need of both.
#[derive(Debug)]
pub struct Bench {
    /// The board.
    pub board: Board,
    /// The model's file.
    pub model: PathBuf,
    /// That the model was made of.
    pub workload: Workload,
    /// True times of all modes.
    pub modes: Vec<Mode>,
    /// The least and the highest predicted power of the model's front, in mW.
    pub span_mw: [u32; 2],
}

impl Bench {
    /// The board of a name, with its model in the folder `weights`.
    pub fn of(board: &str, weights: &Path) -> Result<Self, ReplayError> {
        let board = Board::named(board)?;
        let model = weights.join(format!("{}-{WORKLOAD}.wgt", board.name));
        let workload = workload_of(&model)?;
        let modes = modes(&board, &model, &workload)?;
        let bytes = read_model(&model)?;
        let parsed = parse(&model, &bytes)?;
        let front = Front::<POINTS>::of(&parsed, &parsed.profiled());
        let ends = [front.points().first(), front.points().last()];
        let span_mw = ends.map(|point| point.map_or(0, |point| point.power.0));
        Ok(Self {
            board,
            model,
            workload,
            modes,
            span_mw,
        })
    }

    /// The limit in mW at so many % of the span.
    pub fn limit_mw(&self, pct: f64) -> u32 {
        let [least, most] = self.span_mw.map(f64::from);
        (least + pct / 100.0 * (most - least)).round() as u32
    }
}

/// A row to come.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// What the load does.
    pub kind: Kind,
    /// Where it runs.
    pub bench: &'a Bench,
    /// In % of the board's span.
    pub limit_pct: f64,
    /// Samples that a result of the sensor is the mean of; see [`wattgate_simulated_board::sampling::SAMPLES`].
    pub samples: u32,
    /// Who holds the limit.
    pub holder: Holder,
    /// What is wrong.
    pub wrong: Wrong,
}

impl Task<'_> {
    /// The run of a seed.
    pub fn run(&self, seed: u64) -> Result<Report, ReplayError> {
        let Bench {
            board,
            model,
            workload,
            modes,
            ..
        } = self.bench;
        let limit_mw = self.bench.limit_mw(self.limit_pct);
        let asked = Run {
            board,
            model,
            limits: vec![(Duration::ZERO, limit_mw)],
            load: self.kind.load(LENGTH, seed),
            workload,
            samples: self.samples,
            unit: (self.wrong == Wrong::Unit).then_some(seed),
            seed,
            holder: self.holder,
            errors: self.wrong.errors(seed),
        };
        run(&asked, modes)
    }
}

/// Runs all of them with the seeds 1 … `seeds`, on all cores, and gives their rows in the same
/// order.
pub fn rows(tasks: &[Task<'_>], seeds: u64) -> Result<Vec<Row>, ReplayError> {
    let runs: Vec<(usize, u64)> = (0..tasks.len())
        .flat_map(|task| (1..=seeds).map(move |seed| (task, seed)))
        .collect();
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let done = at_once(threads, &runs, |(task, seed)| {
        Ok::<_, ReplayError>((*task, *seed, tasks[*task].run(*seed)?))
    })?;
    let rows = tasks.iter().enumerate().filter_map(|(at, task)| {
        let reports = done.iter().filter(|(of, ..)| *of == at);
        let reports: Vec<(u64, &Report)> = reports.map(|(_, seed, it)| (*seed, it)).collect();
        Row::of(task, &reports)
    });
    Ok(rows.collect())
}

/// A line of the table: figures of [`Report`] over all seeds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub kind: String,
    pub board: String,
    pub limit_pct: f64,
    pub limit_mw: u32,
    pub samples: u32,
    pub governor: &'static str,
    pub seeds: usize,
    pub over_430ms_pct: Spread,
    pub over_10ms_pct: Spread,
    pub longest_430ms_ms: Spread,
    pub longest_10ms_ms: Spread,
    pub excess_430ms_pct: Spread,
    pub excess_10ms_pct: Spread,
    pub over_j: Spread,
    /// Of the longest event of each run; 0 where there was none.
    pub longest_event_ms: Spread,
    pub speed_vs_fixed_pct: Spread,
    pub speed_vs_clairvoyant_pct: Spread,
    pub changes_per_min: Spread,
    pub safe_pct: Spread,
    pub energy_j: Spread,
}

impl Row {
    /// Of the reports of each seed, or none where there is no report.
    pub fn of(task: &Task<'_>, reports: &[(u64, &Report)]) -> Option<Self> {
        let spread = |of: fn(&Report) -> f64, sign| {
            let values = reports.iter().map(|(seed, report)| (*seed, of(report)));
            Spread::of(values, sign)
        };
        Some(Self {
            kind: task.kind.name() + &task.wrong.name(),
            board: task.bench.board.name.clone(),
            limit_pct: task.limit_pct,
            limit_mw: task.bench.limit_mw(task.limit_pct),
            samples: task.samples,
            governor: task.holder.name(),
            seeds: reports.len(),
            over_430ms_pct: spread(|it| it.over_430ms_pct, 1.0)?,
            over_10ms_pct: spread(|it| it.over_10ms_pct, 1.0)?,
            longest_430ms_ms: spread(|it| it.longest_430ms_ms, 1.0)?,
            longest_10ms_ms: spread(|it| it.longest_10ms_ms, 1.0)?,
            excess_430ms_pct: spread(|it| it.excess_430ms_pct, 1.0)?,
            excess_10ms_pct: spread(|it| it.excess_10ms_pct, 1.0)?,
            over_j: spread(|it| it.over_j, 1.0)?,
            longest_event_ms: spread(Report::longest_event_ms, 1.0)?,
            speed_vs_fixed_pct: spread(|it| it.speed_vs_fixed_pct, -1.0)?,
            speed_vs_clairvoyant_pct: spread(|it| it.speed_vs_clairvoyant_pct, -1.0)?,
            changes_per_min: spread(|it| it.changes_per_min, 1.0)?,
            safe_pct: spread(|it| it.safe_pct, 1.0)?,
            energy_j: spread(|it| it.energy_j, 1.0)?,
        })
    }
}
