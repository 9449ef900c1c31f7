//! The table of `loads`: kinds of loads on boards under several limits, one row each, over seeds.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use wattgate_board_tables::Board;
use wattgate_runtime::{Confidence, Front};
use wattgate_simulated_board::load::Kind;
use wattgate_simulated_board::machine::mode_errors::ModeErrors;
use wattgate_simulated_board::workload::Workload;
use wattgate_watchdog::setup::POINTS;

use super::error::ReplayError;
use super::model::{parse, read_model, timed_modes, workload_of};
use super::report::LoadReport;
use super::run::{LoadRun, run};
use super::truth::TimedMode;
use crate::holder::Holder;
use crate::models;
use crate::parallel::rows_over_seeds;
use crate::spread::Spread;
use crate::spread::Worst::{self, Highest, Lowest};

/// The table's limits, in % of a board's span.
pub const LIMITS_PCT: [f64; 3] = [25.0, 45.0, 75.0];

/// The length of each run.
pub const LENGTH: Duration = Duration::from_secs(300);

/// How the board differs from its model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mismatch {
    /// Not beyond the guard band.
    None,
    /// Another unit of the board for each seed.
    Unit,
    /// The power above rest is multiplied by a factor: the first at the lowest GPU clock, the
    /// second at the highest.
    Tilt([f64; 2]),
    /// The power of each mode is multiplied by a random factor, whose logarithm has this standard
    /// deviation.
    Each(f64),
    /// The power of some modes differs much; see [`ModeErrors::Rogues`].
    Rogues,
}

/// The differences in the table, each under a constant load.
pub const MISMATCHES: [Mismatch; 7] = [
    Mismatch::Unit,
    Mismatch::Tilt([0.7, 0.7]),
    Mismatch::Tilt([1.3, 1.3]),
    Mismatch::Tilt([0.85, 1.15]),
    Mismatch::Tilt([1.15, 0.85]),
    Mismatch::Each(0.1),
    Mismatch::Rogues,
];

impl Mismatch {
    /// The name that the table prints after the kind of load.
    pub fn name(self) -> String {
        let percent = |factor: f64| format!("{:+.0} %", 100.0 * (factor - 1.0));
        match self {
            Self::None => String::new(),
            Self::Unit => ", other units".to_owned(),
            Self::Tilt([low, high]) if low == high => format!(", power {}", percent(low)),
            Self::Tilt([low, high]) => format!(", tilt {} to {}", percent(low), percent(high)),
            Self::Each(spread) => format!(", each mode by {:.0} %", 100.0 * spread),
            Self::Rogues => ", rogue modes".to_owned(),
        }
    }

    fn errors(self, seed: u64) -> Option<ModeErrors> {
        match self {
            Self::None | Self::Unit => None,
            Self::Tilt(factors) => Some(ModeErrors::Tilt { factors }),
            Self::Each(spread) => Some(ModeErrors::Each { spread, seed }),
            Self::Rogues => Some(ModeErrors::Rogues { seed }),
        }
    }
}

/// A board with its model, prepared once for many runs.
#[derive(Debug)]
pub struct Bench {
    /// The board.
    pub board: Board,
    /// The model's file.
    pub model: PathBuf,
    /// The workload that runs.
    pub workload: Workload,
    /// True times of all modes.
    pub modes: Vec<TimedMode>,
    /// The span: the lowest and the highest predicted power of the model's front, in mW.
    pub span_mw: [u32; 2],
}

impl Bench {
    /// The board of a name, with its model in the folder `weights`.
    pub fn load(board: &str, weights: &Path) -> Result<Self, ReplayError> {
        let board = Board::named(board)?;
        let model = models::path(&board.name, weights);
        let workload = workload_of(&model)?;
        Self::new(board, workload, model)
    }

    /// A board with a workload and the file of a model.
    pub fn new(board: Board, workload: Workload, model: PathBuf) -> Result<Self, ReplayError> {
        let modes = timed_modes(&board, &model, &workload)?;
        let bytes = read_model(&model)?;
        let parsed = parse(&model, &bytes)?;
        let front = Front::<POINTS>::from_model(&parsed, &parsed.profiled(), Confidence::P95);
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

    /// The limit in mW at a percentage of the span.
    pub fn limit_mw(&self, pct: f64) -> u32 {
        let [least, most] = self.span_mw.map(f64::from);
        (least + pct / 100.0 * (most - least)).round() as u32
    }
}

/// What one row of the table is about.
#[derive(Clone, Copy, Debug)]
pub struct LoadTask<'a> {
    /// The kind of load.
    pub kind: Kind,
    /// The board with its model.
    pub bench: &'a Bench,
    /// The limit in % of the board's span.
    pub limit_pct: f64,
    /// The number of samples in one result of the sensor; see
    /// [`Sensor::samples`](crate::Sensor::samples).
    pub samples: u32,
    /// Who holds the limit.
    pub holder: Holder,
    /// How the board differs from its model.
    pub mismatch: Mismatch,
    /// The length of the load.
    pub length: Duration,
}

impl LoadTask<'_> {
    /// Runs the task with a seed.
    pub fn run(&self, seed: u64) -> Result<LoadReport, ReplayError> {
        let Bench {
            board,
            model,
            workload,
            modes,
            ..
        } = self.bench;
        let limit_mw = self.bench.limit_mw(self.limit_pct);
        let load_run = LoadRun {
            board,
            model,
            limits: vec![(Duration::ZERO, limit_mw)],
            load: self.kind.load(self.length, seed),
            workload,
            samples: self.samples,
            unit: (self.mismatch == Mismatch::Unit).then_some(seed),
            seed,
            holder: self.holder,
            errors: self.mismatch.errors(seed),
        };
        run(&load_run, modes)
    }
}

/// Runs all tasks with the seeds 1 … `seeds`, on all cores. The rows have the order of the tasks.
pub fn rows(tasks: &[LoadTask<'_>], seeds: u64) -> Result<Vec<LoadRow>, ReplayError> {
    rows_over_seeds(tasks, seeds, LoadTask::run, LoadRow::from_reports)
}

/// A row of the table: the figures of [`LoadReport`] over all seeds.
#[derive(Clone, Debug, Serialize)]
pub struct LoadRow {
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
    /// The longest event of each run; 0 for a run without events.
    pub longest_event_ms: Spread,
    pub speed_vs_fixed_pct: Spread,
    pub speed_vs_clairvoyant_pct: Spread,
    pub changes_per_min: Spread,
    pub safe_pct: Spread,
    pub energy_j: Spread,
}

impl LoadRow {
    /// The row of a task and its report of each seed. None without reports.
    pub fn from_reports(task: &LoadTask<'_>, reports: &[(u64, LoadReport)]) -> Option<Self> {
        let spread = |figure: fn(&LoadReport) -> f64, worst: Worst| {
            let values = reports.iter().map(|(seed, report)| (*seed, figure(report)));
            Spread::from_values(values, worst)
        };
        Some(Self {
            kind: task.kind.name() + &task.mismatch.name(),
            board: task.bench.board.name.clone(),
            limit_pct: task.limit_pct,
            limit_mw: task.bench.limit_mw(task.limit_pct),
            samples: task.samples,
            governor: task.holder.name(),
            seeds: reports.len(),
            over_430ms_pct: spread(|it| it.over_430ms_pct, Highest)?,
            over_10ms_pct: spread(|it| it.over_10ms_pct, Highest)?,
            longest_430ms_ms: spread(|it| it.longest_430ms_ms, Highest)?,
            longest_10ms_ms: spread(|it| it.longest_10ms_ms, Highest)?,
            excess_430ms_pct: spread(|it| it.excess_430ms_pct, Highest)?,
            excess_10ms_pct: spread(|it| it.excess_10ms_pct, Highest)?,
            over_j: spread(|it| it.over_j, Highest)?,
            longest_event_ms: spread(LoadReport::longest_event_ms, Highest)?,
            speed_vs_fixed_pct: spread(|it| it.speed_vs_fixed_pct, Lowest)?,
            speed_vs_clairvoyant_pct: spread(|it| it.speed_vs_clairvoyant_pct, Lowest)?,
            changes_per_min: spread(|it| it.changes_per_min, Highest)?,
            safe_pct: spread(|it| it.safe_pct, Highest)?,
            energy_j: spread(|it| it.energy_j, Highest)?,
        })
    }
}
