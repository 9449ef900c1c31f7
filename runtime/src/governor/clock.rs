//! The governor's own time.

use crate::quantities::Milliseconds;

/// Maximum time between steps. After a longer gap the board has slept, and its power is unknown.
pub const LONGEST_GAP: Milliseconds = Milliseconds(5_000);

/// A longer jump of the caller's clock is a clock that was set, and no sleep.
const LONGEST_SLEEP: Milliseconds = Milliseconds(24 * 3_600 * 1_000);

/// Successive gaps without a measurement between them, after which the steps measure nothing.
const MOST_GAPS: u8 = 2;

/// Time that only advances, whatever the caller's clock does.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    now: Milliseconds,
    /// The caller's time of the last step; `None` before the first.
    last: Option<Milliseconds>,
    /// Number of gaps of unknown length.
    gaps: u32,
    /// Number of gaps of any length since the last measurement.
    unmeasured: u8,
}

/// The time since the last step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// The steps follow each other.
    Steadily(u64),
    /// The board has slept.
    Asleep,
    /// The caller's clock was set: how much time has passed is unknown.
    Unknown,
}

impl Clock {
    pub const NEW: Self = Self {
        now: Milliseconds(0),
        last: None,
        gaps: 0,
        unmeasured: 0,
    };

    /// Advances to the caller's time.
    pub fn advance(&mut self, to: Milliseconds) -> Passed {
        let last = self.last.replace(to).unwrap_or(to);
        let passed = to.since(last);
        if to < last || passed > LONGEST_GAP {
            self.unmeasured = self.unmeasured.saturating_add(1);
        }
        if to < last || passed > LONGEST_SLEEP {
            self.gaps = self.gaps.saturating_add(1);
            return Passed::Unknown;
        }
        self.now.0 = self.now.0.saturating_add(passed.0);
        match passed > LONGEST_GAP {
            true => Passed::Asleep,
            false => Passed::Steadily(passed.0),
        }
    }

    /// Notes that a mean over the window was measured.
    pub fn measure(&mut self) {
        self.unmeasured = 0;
    }

    /// Whether gaps follow each other so fast that nothing is ever measured.
    pub fn is_useless(&self) -> bool {
        self.unmeasured >= MOST_GAPS
    }

    /// The own time in ms since the first step.
    pub fn now(&self) -> Milliseconds {
        self.now
    }

    /// The caller's time for an own time in the future.
    pub fn of_caller(&self, at: Milliseconds) -> Milliseconds {
        let last = self.last.unwrap_or(Milliseconds(0));
        Milliseconds(last.0.saturating_add(at.since(self.now).0))
    }

    pub fn gaps(&self) -> u32 {
        self.gaps
    }
}
