//! The pace of the steps that the workload reports, and whether it does any.

use crate::quantities::{Microseconds, Milliseconds};

/// Timeout without a step after which the workload stands still: in ms and in predicted step times. The
/// longer one counts.
const IDLE_AFTER_MS: u64 = 2_000;
const IDLE_AFTER_STEPS: u64 = 3;

/// Averaging time of the pace in one mode: in ms and in predicted step times. The longer one
/// counts.
const PACE_MS: u64 = 5_000;
const PACE_STEPS: u64 = 20;

/// A pace, and the number of steps over which it was taken.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub pace: f32,
    pub steps: f32,
}

/// The steps of a workload. Their *pace* is the number of steps per predicted step time. A fully
/// busy board has the same pace in every mode.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    /// The last count, when it was told, and when it last grew.
    count: Option<u64>,
    told: Milliseconds,
    grew: Milliseconds,
    /// The count and the time at which the present pace began: at a step. `None` until the next one.
    from: Option<(u64, Milliseconds)>,
    pace: Option<f32>,
    /// The predicted time of a step in ms.
    step_ms: f32,
}

impl Steps {
    pub const NONE: Self = Self {
        count: None,
        told: Milliseconds(0),
        grew: Milliseconds(0),
        from: None,
        pace: None,
        step_ms: 0.0,
    };

    /// Records the total number of steps, and the predicted time of one in the present mode. Returns the pace of a
    /// period that ends now. A count that falls is that of another workload.
    pub fn record(&mut self, count: u64, time: Microseconds, now: Milliseconds) -> Option<Pace> {
        let before = self.count.replace(count);
        if before.is_none_or(|before| count < before) {
            *self = Self {
                count: Some(count),
                grew: now,
                ..Self::NONE
            };
        }
        self.told = now;
        self.step_ms = time.0 as f32 / 1e3;
        if before.is_none_or(|before| count <= before) {
            return None;
        }
        self.grew = now;
        let (first, from) = *self.from.get_or_insert((count, now));
        let passed = now.since(from).0;
        if passed < self.longer(PACE_MS, PACE_STEPS) {
            return None;
        }
        let steps = count.saturating_sub(first) as f32;
        let pace = steps * self.step_ms / passed as f32;
        (self.pace, self.from) = (Some(pace), Some((count, now)));
        Some(Pace { pace, steps })
    }

    /// The longer of a time in ms and a number of predicted step times.
    fn longer(&self, ms: u64, steps: u64) -> u64 {
        ms.max((steps as f32 * self.step_ms) as u64)
    }

    /// The pace of the last period in the present mode.
    pub fn pace(&self) -> Option<f32> {
        self.pace
    }

    /// Restarts the pace after a mode change.
    pub fn restart(&mut self) {
        (self.from, self.pace) = (None, None);
    }

    /// Whether steps are reported. A program that has ended reports none, and one that counts none always tells 0.
    pub fn are_reported(&self, now: Milliseconds) -> bool {
        let is_told = now.since(self.told).0 < IDLE_AFTER_MS;
        is_told && self.count.is_some_and(|count| count > 0)
    }

    /// Whether the workload counts steps and does none.
    pub fn stand_still(&self, now: Milliseconds) -> bool {
        let ms = self.longer(IDLE_AFTER_MS, IDLE_AFTER_STEPS);
        self.are_reported(now) && now.since(self.grew).0 >= ms
    }
}
