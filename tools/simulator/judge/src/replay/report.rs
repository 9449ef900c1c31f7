//! The figures of one run.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::account::{Event, LoadAccount};
use super::oracle::Oracle;
use crate::holder::HolderFigures;

/// The figures of one run. The first second counts only for `seconds`, `changes_per_min`,
/// `safe_pct` and `energy_j`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LoadReport {
    /// The length of the run.
    pub seconds: f64,
    /// The share of the time in which the true mean power of 430 ms was over the limit.
    pub over_430ms_pct: f64,
    /// The same by the mean of 10 ms, without the random ripple.
    pub over_10ms_pct: f64,
    /// The longest stretch in which the mean of 430 ms was over the limit.
    pub longest_430ms_ms: f64,
    /// The same by the mean of 10 ms.
    pub longest_10ms_ms: f64,
    /// The greatest excess of a mean of 430 ms above the limit, in % of the limit.
    pub excess_430ms_pct: f64,
    /// The same by the mean of 10 ms.
    pub excess_10ms_pct: f64,
    /// Energy above the limit, by the mean of 10 ms.
    pub over_j: f64,
    /// Jumps of the load or the limit after which the power was over the limit.
    pub events: Vec<Event>,
    /// Minibatches against those of the fixed oracle.
    pub speed_vs_fixed_pct: f64,
    /// Minibatches against those of the clairvoyant oracle.
    pub speed_vs_clairvoyant_pct: f64,
    /// Changes of the mode.
    pub changes_per_min: f64,
    /// The share of the time in which the daemon's control was in a safe state.
    pub safe_pct: f64,
    /// The true energy of the module.
    pub energy_j: f64,
}

impl LoadReport {
    /// The figures of a run that is over. `energy_j` is the module's true energy.
    pub fn new(
        account: &LoadAccount,
        oracle: &Oracle<'_>,
        figures: &HolderFigures,
        length: Duration,
        energy_j: f64,
    ) -> Self {
        let seconds = length.as_secs_f64();
        let LoadAccount { slow, fast, .. } = account;
        // A load without any work runs at full speed.
        let speed = |work: f64| match work > 0.0 {
            true => 100.0 * account.minibatches / work,
            false => 100.0,
        };
        Self {
            seconds,
            over_430ms_pct: 100.0 * slow.over_s / slow.seconds,
            over_10ms_pct: 100.0 * fast.over_s / fast.seconds,
            longest_430ms_ms: 1e3 * slow.longest_s,
            longest_10ms_ms: 1e3 * fast.longest_s,
            excess_430ms_pct: 100.0 * slow.excess,
            excess_10ms_pct: 100.0 * fast.excess,
            over_j: fast.joules,
            events: account.events.clone(),
            speed_vs_fixed_pct: speed(oracle.fixed()),
            speed_vs_clairvoyant_pct: speed(oracle.clairvoyant()),
            changes_per_min: 60.0 * f64::from(figures.changes) / seconds,
            safe_pct: 100.0 * figures.safe_s / seconds,
            energy_j,
        }
    }

    /// The duration of the longest event in ms, 0 without events.
    pub fn longest_event_ms(&self) -> f64 {
        self.events.iter().map(|event| event.ms).fold(0.0, f64::max)
    }
}
