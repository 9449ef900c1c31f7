//! The last violations of the limit, for the status: when, for how long, how much, and the answer.

use std::collections::VecDeque;

use wattgate_runtime::governor::WINDOW;
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
    count: u32,
    over: Milliseconds,
    unknown: Milliseconds,
}

impl Violations {
    pub(super) fn new() -> Self {
        Self {
            last: VecDeque::with_capacity(KEPT),
            unanswered: Stretch::default(),
            is_over: false,
            count: 0,
            over: Milliseconds(0),
            unknown: Milliseconds(0),
        }
    }

    /// The number of violations.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Time in which the power exceeded what was allowed, and time in which it is unknown.
    pub(super) fn over_and_unknown(&self) -> (Milliseconds, Milliseconds) {
        (self.over, self.unknown)
    }

    /// The violations, the newest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Violation> {
        self.last.iter().rev()
    }

    /// Takes the power of the `passed` time up to `now`, `None` if it is unknown, and the governor's status
    /// before and after the step. A stretch over what is allowed is a violation when the governor answers
    /// it, and otherwise once it is longer than the limit's mean.
    pub(super) fn note(
        &mut self,
        [now, passed]: [Milliseconds; 2],
        power: Option<Milliwatts>,
        [before, after]: [&Status; 2],
        mode: impl Fn(ModeId) -> Option<PowerMode>,
    ) {
        let is_over = power.is_some_and(|power| power > before.allowed);
        let add = |time: &mut Milliseconds| time.0 = time.0.saturating_add(passed.0);
        if power.is_none() {
            add(&mut self.unknown);
        }
        if is_over {
            add(&mut self.over);
        }
        match self.last.back_mut() {
            Some(last) if self.is_over && is_over => {
                add(&mut last.over);
                last.highest = last.highest.max(power);
            }
            _ if is_over => self.unanswered.add(passed.0, power),
            _ => self.is_over = false,
        }
        let is_answered = after.violations > before.violations;
        let is_long = !self.is_over && self.unanswered.over > WINDOW;
        if (is_answered || is_long)
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
            self.count = self.count.saturating_add(1);
            self.is_over = true;
        } else if !is_over {
            self.unanswered = Stretch::default();
        }
    }
}
