//! What is told of a run.

use std::time::Duration;

use serde::Serialize;

use super::account::{Account, Event};
use super::holder::Held;
use super::oracle::Oracle;

/// The figures of a run. But for `seconds`, `changes_per_min`, `safe_pct` and `energy_j`, the
/// first second does not count.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The length of the run.
    pub seconds: f64,
    /// The share of the time in which the true mean power of 430 ms was over the limit.
    pub over_430ms_pct: f64,
    /// The same of 10 ms, without the random ripple.
    pub over_10ms_pct: f64,
    /// The longest stretch in which the mean of 430 ms was over the limit.
    pub longest_430ms_ms: f64,
    /// The same of 10 ms.
    pub longest_10ms_ms: f64,
    /// The highest mean of 430 ms above the limit, in % of it.
    pub excess_430ms_pct: f64,
    /// The same of 10 ms.
    pub excess_10ms_pct: f64,
    /// Energy above the limit, of the mean of 10 ms.
    pub over_j: f64,
    /// Each time that the load or the limit jumped over the limit.
    pub events: Vec<Event>,
    /// Work against that of the fastest mode, for each limit, that fits into the load's worst 430 ms.
    pub speed_vs_fixed_pct: f64,
    /// Work against that of the fastest mode that fits into each second.
    pub speed_vs_clairvoyant_pct: f64,
    /// Changes of the mode.
    pub changes_per_min: f64,
    /// The share of the time in which wattgate was in a state of safety.
    pub safe_pct: f64,
    /// True energy of the module.
    pub energy_j: f64,
}

impl Report {
    /// The figures of a run of some length.
    pub fn new(
        account: &Account,
        oracle: &Oracle<'_>,
        held: &Held,
        length: Duration,
        energy_j: f64,
    ) -> Self {
        let seconds = length.as_secs_f64();
        let Account { slow, fast, .. } = account;
        // A load without any work has none to lose.
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
            changes_per_min: 60.0 * f64::from(held.changes) / seconds,
            safe_pct: 100.0 * held.safe_s / seconds,
            energy_j,
        }
    }

    /// The time of the longest event, 0 without any.
    pub fn longest_event_ms(&self) -> f64 {
        self.events.iter().map(|event| event.ms).fold(0.0, f64::max)
    }
}
