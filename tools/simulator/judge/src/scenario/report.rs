//! The figures of one run.

use std::io;

use super::account::ScenarioAccount;
use super::oracle;
use super::outcome::Outcome;
use super::plant::Plant;
use crate::recorded::Record;

/// The figures of one run.
#[derive(Clone, Debug)]
pub struct ScenarioReport {
    /// The share of the time over the limit.
    pub time_over_pct: f64,
    /// The longest stretch over the limit.
    pub longest_over_ms: f64,
    /// The greatest excess, in % of the limit, that no change of limit, load or mode explains.
    pub excess_pct: f64,
    /// The greatest excess of the mean of 10 ms, in % of the limit, from 20 ms after a change on.
    pub peak_pct: f64,
    /// Energy above the limit.
    pub overshoot_j: f64,
    /// Minibatches against those of the oracle.
    pub speed_vs_oracle_pct: f64,
    /// Changes of the mode.
    pub changes_per_min: f64,
    /// Events of OC1 and OC2: too little voltage, and too much current on average.
    pub over_current_events: f64,
    /// Time from the loss of the sensor or of the daemon to the safe mode, if it was set.
    pub safe_after_ms: Option<f64>,
    /// The holder's last state, in words.
    pub end: String,
}

impl ScenarioReport {
    /// The figures of a run that is over.
    pub fn new(plant: &Plant<'_>, record: &Record, outcome: Outcome) -> io::Result<Self> {
        let account = ScenarioAccount::from_notes(plant, &record.notes);
        let length = plant.task.scenario.length().as_secs_f64();
        Ok(Self {
            time_over_pct: 100.0 * account.over_s / length,
            longest_over_ms: 1e3 * account.longest_s,
            excess_pct: account.excess_pct,
            peak_pct: account.peak_pct,
            overshoot_j: account.joules,
            speed_vs_oracle_pct: 100.0 * record.minibatches / oracle::minibatches(plant)?,
            changes_per_min: 60.0 * f64::from(outcome.changes) / length,
            over_current_events: record.over_current_events as f64,
            safe_after_ms: outcome.safe_after.map(|time| 1e3 * time.as_secs_f64()),
            end: outcome.end,
        })
    }
}
