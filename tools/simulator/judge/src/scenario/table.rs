//! The table of scenarios: one row for each task, over seeds.

use std::io;
use std::path::Path;

use serde::Serialize;

use super::report::ScenarioReport;
use super::run::run;
use super::task::ScenarioTask;
use crate::parallel::rows_over_seeds;
use crate::spread::Spread;
use crate::spread::Worst::{self, Highest, Lowest};

/// Runs all tasks with the seeds 1 … `seeds`, on all cores. The rows have the order of the tasks.
/// `weights` is the folder with the models.
pub fn rows(
    tasks: &[ScenarioTask<'_>],
    seeds: u64,
    weights: &Path,
) -> io::Result<Vec<ScenarioRow>> {
    let run = |task: &ScenarioTask<'_>, seed| run(task, seed, weights);
    rows_over_seeds(tasks, seeds, run, ScenarioRow::from_reports)
}

/// A row of the table: the figures of [`ScenarioReport`] over all seeds.
#[derive(Clone, Debug, Serialize)]
pub struct ScenarioRow {
    pub scenario: &'static str,
    pub board: String,
    /// The time constant of the sensor.
    pub time_constant_ms: u64,
    pub governor: &'static str,
    pub seeds: usize,
    pub time_over_pct: Spread,
    pub longest_over_ms: Spread,
    pub excess_pct: Spread,
    pub peak_pct: Spread,
    pub overshoot_j: Spread,
    pub speed_vs_oracle_pct: Spread,
    pub changes_per_min: Spread,
    pub over_current_events: Spread,
    /// None if no run set the safe mode.
    pub safe_after_ms: Option<Spread>,
    pub r#final: String,
}

impl ScenarioRow {
    /// The row of a task and its report of each seed. None without reports.
    pub fn from_reports(
        task: &ScenarioTask<'_>,
        reports: &[(u64, ScenarioReport)],
    ) -> Option<Self> {
        let spread = |figure: fn(&ScenarioReport) -> f64, worst: Worst| {
            let values = reports.iter().map(|(seed, report)| (*seed, figure(report)));
            Spread::from_values(values, worst)
        };
        let safe = reports.iter();
        let safe = safe.filter_map(|(seed, report)| Some((*seed, report.safe_after_ms?)));
        let mut ends: Vec<&str> = reports.iter().map(|(_, it)| it.end.as_str()).collect();
        ends.sort_unstable();
        ends.dedup();
        Some(Self {
            scenario: task.scenario.name,
            board: task.case.board.to_string(),
            time_constant_ms: task.sensor.time_constant.as_millis() as u64,
            governor: task.holder.name(),
            seeds: reports.len(),
            time_over_pct: spread(|it| it.time_over_pct, Highest)?,
            longest_over_ms: spread(|it| it.longest_over_ms, Highest)?,
            excess_pct: spread(|it| it.excess_pct, Highest)?,
            peak_pct: spread(|it| it.peak_pct, Highest)?,
            overshoot_j: spread(|it| it.overshoot_j, Highest)?,
            speed_vs_oracle_pct: spread(|it| it.speed_vs_oracle_pct, Lowest)?,
            changes_per_min: spread(|it| it.changes_per_min, Highest)?,
            over_current_events: spread(|it| it.over_current_events, Highest)?,
            safe_after_ms: Spread::from_values(safe, Highest),
            r#final: ends.join("; "),
        })
    }
}
