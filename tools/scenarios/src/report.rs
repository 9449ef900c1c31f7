//! The lines of the report.

use serde::Serialize;

use super::Task;

/// The figures of one run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Of the noise and, in some scenarios, of the unit.
    pub seed: u64,
    /// The part of the time over the limit.
    pub time_over_pct: f64,
    /// The longest stretch over it.
    pub longest_over_ms: f64,
    /// The greatest excess that no change of limit, load or mode explains, of the limit.
    pub excess_pct: f64,
    /// Energy above the limit.
    pub overshoot_j: f64,
    /// Minibatches against those of the oracle.
    pub speed_vs_oracle_pct: f64,
    /// Changes of the mode.
    pub changes_per_min: f64,
    /// Events of OC1 and OC2: too little voltage, and too much current on average.
    pub over_current_events: f64,
    /// From the loss of all knowledge to the safe mode, where it was lost for so long.
    pub safe_after_ms: Option<f64>,
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
    /// The first seed that has it.
    pub seed: u64,
}

impl Spread {
    /// Of at least one value with its seed; `sign` is −1 where more is better.
    pub fn of(values: impl Iterator<Item = (u64, f64)>, sign: f64) -> Option<Self> {
        let mut values: Vec<(u64, f64)> = values.map(|(seed, it)| (seed, sign * it)).collect();
        values.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (_, median) = values.get(values.len().checked_sub(1)? / 2)?;
        let (_, worst) = values.last()?;
        let (seed, _) = values.iter().find(|(_, value)| value == worst)?;
        Some(Self {
            median: sign * median,
            worst: sign * worst,
            seed: *seed,
        })
    }
}

/// A line of the report: figures of [`Run`] over all seeds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub scenario: &'static str,
    pub board: &'static str,
    /// That of the sensor.
    pub time_constant_ms: u64,
    pub governor: &'static str,
    pub seeds: usize,
    pub time_over_pct: Spread,
    pub longest_over_ms: Spread,
    pub excess_pct: Spread,
    pub overshoot_j: Spread,
    pub speed_vs_oracle_pct: Spread,
    pub changes_per_min: Spread,
    pub over_current_events: Spread,
    /// None where no run came to the safe mode for a loss.
    pub safe_after_ms: Option<Spread>,
    pub r#final: String,
}

impl Row {
    /// Of runs, or none where there is no run.
    pub fn of(task: &Task<'_>, runs: &[Run]) -> Option<Self> {
        let seeds = || runs.iter().map(|run| run.seed);
        let spread = |of: fn(&Run) -> f64, sign| Spread::of(seeds().zip(runs.iter().map(of)), sign);
        let safe = runs
            .iter()
            .filter_map(|run| Some((run.seed, run.safe_after_ms?)));
        let mut ends: Vec<&str> = runs.iter().map(|run| run.end.as_str()).collect();
        ends.sort_unstable();
        ends.dedup();
        Some(Self {
            scenario: task.scenario.name,
            board: task.case.board,
            time_constant_ms: task.sensor.time_constant.as_millis() as u64,
            governor: task.holder.name(),
            seeds: runs.len(),
            time_over_pct: spread(|run| run.time_over_pct, 1.0)?,
            longest_over_ms: spread(|run| run.longest_over_ms, 1.0)?,
            excess_pct: spread(|run| run.excess_pct, 1.0)?,
            overshoot_j: spread(|run| run.overshoot_j, 1.0)?,
            speed_vs_oracle_pct: spread(|run| run.speed_vs_oracle_pct, -1.0)?,
            changes_per_min: spread(|run| run.changes_per_min, 1.0)?,
            over_current_events: spread(|run| run.over_current_events, 1.0)?,
            safe_after_ms: Spread::of(safe, 1.0),
            r#final: ends.join("; "),
        })
    }
}
