//! The last violations of the limit, for the status: when, for how long, how much, and the answer.

use std::collections::VecDeque;

use wattgate_runtime::{Milliseconds, Milliwatts, ModeId, PowerMode, Status};

/// The number of violations that are kept.
pub const KEPT: usize = 8;

/// The power exceeded what was allowed, and the governor answered with another mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When the governor answered.
    pub at: Milliseconds,
    /// Time during which the mean over 430 ms was above what was allowed. Zero if the answer came
    /// before.
    pub over: Milliseconds,
    /// The highest mean over 430 ms meanwhile.
    pub highest: Option<Milliwatts>,
    /// What was allowed.
    pub allowed: Milliwatts,
    /// The mode that was set.
    pub answer: PowerMode,
}

/// What the mean over 430 ms did above what is allowed.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    over: Milliseconds,
    highest: Option<Milliwatts>,
}

impl Stretch {
    fn add(&mut self, over: u64, mean: Option<Milliwatts>) {
        self.over.0 += over;
        self.highest = self.highest.max(mean);
    }
}

/// Keeps the last violations. Does not allocate after its creation.
#[derive(Debug)]
pub(super) struct Violations {
    /// The oldest first.
    last: VecDeque<Violation>,
    /// The present stretch, before the governor's answer.
    unanswered: Stretch,
    /// Whether the stretch of the newest violation goes on.
    is_over: bool,
}

impl Violations {
    pub(super) fn new() -> Self {
        Self {
            last: VecDeque::with_capacity(KEPT),
            unanswered: Stretch::default(),
            is_over: false,
        }
    }

    /// The violations, the newest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Violation> {
        self.last.iter().rev()
    }

    /// Compares the governor's status before and after a step.
    pub(super) fn note(
        &mut self,
        now: Milliseconds,
        before: &Status,
        after: &Status,
        mode: impl Fn(ModeId) -> Option<PowerMode>,
    ) {
        let passed = after.over.0.saturating_sub(before.over.0);
        // A change of the mode has no mean yet.
        let mean = after.measured.or(before.measured).filter(|_| passed > 0);
        match self.last.back_mut() {
            Some(last) if self.is_over && passed > 0 => {
                last.over.0 += passed;
                last.highest = last.highest.max(mean);
            }
            _ if passed > 0 => self.unanswered.add(passed, mean),
            _ => self.is_over = false,
        }
        if after.violations > before.violations
            && let Some(answer) = mode(after.mode)
        {
            if self.last.len() == KEPT {
                self.last.pop_front();
            }
            let Stretch { over, highest } = std::mem::take(&mut self.unanswered);
            self.last.push_back(Violation {
                at: now,
                over,
                highest,
                allowed: before.allowed,
                answer,
            });
            self.is_over = true;
        } else if passed == 0 {
            self.unanswered = Stretch::default();
        }
    }
}
