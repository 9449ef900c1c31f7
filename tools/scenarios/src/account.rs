//! How long and how far the true power was over the limit.

use std::time::Duration;

use super::plant::{Note, Plant};

/// The limit holds for the mean power over this time.
pub const SPAN: Duration = Duration::from_millis(430);

/// The mean may be over the limit for so long where the sensor works.
pub const LONGEST_OVER: Duration = Duration::from_millis(300);

/// What was over the limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Account {
    /// All of the time, in s.
    pub over_s: f64,
    /// The longest stretch, in s.
    pub longest_s: f64,
    /// The energy above the limit, in J.
    pub joules: f64,
    /// The greatest excess, in % of the limit, of stretches that no change explains: none of
    /// them begins within [`SPAN`] and [`LONGEST_OVER`] after one.
    pub excess_pct: f64,
}

impl Account {
    /// Of the energy that was noted, in the order of time.
    pub fn of(plant: &Plant<'_>, notes: &[Note]) -> Self {
        let span = SPAN.as_secs_f64();
        let changes = plant.task.scenario.changes();
        let explained = |at: f64| {
            let since = changes.iter().map(|change| at - change.as_secs_f64());
            let mut since = since.filter(|since| *since >= 0.0);
            since.any(|since| since <= (SPAN + LONGEST_OVER).as_secs_f64())
        };
        let begin = plant.task.holder.start().as_secs_f64();
        let end = plant.task.scenario.length().as_secs_f64();
        let mut account = Self::default();
        let (mut stretch, mut is_explained) = (0.0_f64, false);
        let mut first = 0;
        for pair in notes.windows(2) {
            let [[before, _], [now, energy]] = [pair[0], pair[1]];
            let start = now - span;
            // After the end what was set before is restored, which may be any mode.
            if start < begin || now > end {
                continue;
            }
            while notes[first + 1][0] <= start {
                first += 1;
            }
            let mean = (energy - between(notes[first], notes[first + 1], start)) / span;
            // What was drawn before a limit fell was within that limit.
            let limit_mw = |at: f64| plant.limit_mw(Duration::from_secs_f64(at));
            let limit = f64::from(limit_mw(start).max(limit_mw(now))) / 1e3;
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

/// The energy at a time between two notes.
fn between([from, before]: Note, [to, after]: Note, at: f64) -> f64 {
    before + (after - before) * (at - from) / (to - from)
}
