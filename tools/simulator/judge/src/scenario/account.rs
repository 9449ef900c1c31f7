//! How long and how far the true power was over the limit.

use std::time::Duration;

use super::plant::Plant;
use crate::course::LIMIT_WINDOW;
use crate::holder::Holder;
use crate::recorded::Note;

/// Maximum time for which the mean may be over the limit while the sensor works.
pub const LONGEST_OVER: Duration = Duration::from_millis(300);

/// Time after a change in which the mean of 10 ms does not count.
const PEAK_SETTLES: Duration = Duration::from_millis(20);

/// How long and how far the power was over the limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScenarioAccount {
    /// Time over the limit, in s.
    pub over_s: f64,
    /// The longest stretch, in s.
    pub longest_s: f64,
    /// The energy above the limit, in J.
    pub joules: f64,
    /// The greatest unexplained excess, in % of the limit. A change explains a stretch that begins
    /// within [`LIMIT_WINDOW`] plus [`LONGEST_OVER`] after it.
    pub excess_pct: f64,
    /// The greatest excess of a mean between two notes, 10 ms, in % of the limit. The first 20 ms
    /// after a change do not count.
    pub peak_pct: f64,
}

impl ScenarioAccount {
    /// Accounts for the energy noted at each tick, in the order of time.
    pub fn from_notes(plant: &Plant<'_>, notes: &[Note]) -> Self {
        let window = LIMIT_WINDOW.as_secs_f64();
        let changes = plant.task.scenario.changes();
        let explained = |at: f64| {
            let since = changes.iter().map(|change| at - change.as_secs_f64());
            let mut since = since.filter(|since| *since >= 0.0);
            since.any(|since| since <= (LIMIT_WINDOW + LONGEST_OVER).as_secs_f64())
        };
        let begin = start(plant.task.holder).as_secs_f64();
        let end = plant.task.scenario.length().as_secs_f64();
        let mut account = Self::default();
        let (mut stretch, mut is_explained) = (0.0_f64, false);
        let mut first = 0;
        for pair in notes.windows(2) {
            let [[before, earlier], [now, energy]] = [pair[0], pair[1]];
            let tail = now - window;
            // After the end the daemon restores the mode from before, which may be any.
            if tail < begin || now > end {
                continue;
            }
            while notes[first + 1][0] <= tail {
                first += 1;
            }
            let mean = (energy - between(notes[first], notes[first + 1], tail)) / window;
            let is_settled = |change: &Duration| {
                let since = before - change.as_secs_f64();
                since < -(now - before) || since >= PEAK_SETTLES.as_secs_f64()
            };
            if changes.iter().all(is_settled) {
                let limit = f64::from(plant.limit_mw(Duration::from_secs_f64(now))) / 1e3;
                let peak = (energy - earlier) / (now - before);
                account.peak_pct = account.peak_pct.max(100.0 * (peak / limit - 1.0));
            }
            // Power drawn before the limit fell was within the old limit.
            let limit_mw = |at: f64| plant.limit_mw(Duration::from_secs_f64(at));
            let limit = f64::from(limit_mw(tail).max(limit_mw(now))) / 1e3;
            let passed = now - before;
            if mean > limit {
                is_explained = is_explained && stretch > 0.0 || explained(now);
                stretch += passed;
                account.over_s += passed;
                account.longest_s = account.longest_s.max(stretch);
                account.joules += (mean - limit) * passed;
                if !is_explained {
                    let excess = 100.0 * (mean / limit - 1.0);
                    account.excess_pct = account.excess_pct.max(excess);
                }
            } else {
                stretch = 0.0;
            }
        }
        account
    }
}

/// Time in which a holder sets its first mode, and in which power does not count. A process needs
/// longer to start.
fn start(holder: Holder) -> Duration {
    match holder {
        Holder::Wattgated => Duration::from_secs(3),
        _ => Duration::from_secs(1),
    }
}

/// The energy at a time between two notes.
fn between([from, before]: Note, [to, after]: Note, at: f64) -> f64 {
    before + (after - before) * (at - from) / (to - from)
}
