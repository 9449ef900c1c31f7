//! How busy the board is, told by the steps that the workload reports.

use super::memory::Work;
use crate::units::{Microseconds, Milliseconds};

/// Without a step for so long, and for so many predicted times of one, a board rests.
const RESTS_AFTER_MS: u64 = 2_000;
const RESTS_AFTER_STEPS: u64 = 3;

/// The pace is taken over this time in one mode, and over so many predicted times of a step.
const PACED_OVER_MS: u64 = 5_000;
const PACED_OVER_STEPS: u64 = 20;

/// A pace that is at least this part of the highest one is that of a board as busy as ever.
const FULL_PACE: f32 = 0.9;

/// The steps of a workload. Their *pace* is the steps in the time that the model predicts for one, so
/// that it is the same in every mode of a board that is fully busy.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    /// The last count, and when it last grew.
    count: Option<u64>,
    grew: Milliseconds,
    /// The count and the time at which the present pace began.
    from: (u64, Milliseconds),
    pace: Option<f32>,
    highest: f32,
    /// The predicted time of a step in ms.
    step_ms: f32,
}

impl Steps {
    pub const NONE: Self = Self {
        count: None,
        grew: Milliseconds(0),
        from: (0, Milliseconds(0)),
        pace: None,
        highest: 0.0,
        step_ms: 0.0,
    };

    /// The workload has done so many steps in all, in a mode with this predicted time for one. A count
    /// that falls is that of another workload.
    pub fn see(&mut self, count: u64, time: Microseconds, now: Milliseconds) {
        match self.count.replace(count) {
            Some(before) if count >= before => {
                if count > before {
                    self.grew = now;
                }
            }
            _ => *self = Self::begun(count, now),
        }
        self.step_ms = time.0 as f32 / 1e3;
        let (first, from) = self.from;
        let passed = now.since(from).0;
        if passed >= self.longer(PACED_OVER_MS, PACED_OVER_STEPS) {
            let steps = count.saturating_sub(first) as f32;
            let pace = steps * self.step_ms / passed as f32;
            (self.pace, self.from) = (Some(pace), (count, now));
            self.highest = self.highest.max(pace);
        }
    }

    /// The longer one of a time in ms and of so many steps.
    fn longer(&self, ms: u64, steps: u64) -> u64 {
        ms.max((steps as f32 * self.step_ms) as u64)
    }

    fn begun(count: u64, now: Milliseconds) -> Self {
        Self {
            count: Some(count),
            grew: now,
            from: (count, now),
            ..Self::NONE
        }
    }

    /// Another mode is set: the pace is taken anew.
    pub fn restart(&mut self, now: Milliseconds) {
        if let Some(count) = self.count {
            (self.from, self.pace) = ((count, now), None);
        }
    }

    /// How busy the board is; `None` where no step was ever reported.
    pub fn work(&self, now: Milliseconds) -> Option<Work> {
        self.count?;
        let rests = now.since(self.grew).0 >= self.longer(RESTS_AFTER_MS, RESTS_AFTER_STEPS);
        let is_full = self
            .pace
            .is_some_and(|pace| pace >= FULL_PACE * self.highest);
        Some(match (rests, is_full) {
            (true, _) => Work::None,
            (false, true) => Work::Full,
            (false, false) => Work::Some,
        })
    }
}
