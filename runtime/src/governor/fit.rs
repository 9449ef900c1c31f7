//! Which modes fit below the limit, and which draw least.

use super::machine::{Governor, JUMP_COUNTS};
use crate::units::Milliseconds;

/// The highest phase of the load is to stay within the limit with this number of standard deviations
/// of the mean over [`SPAN`](super::machine::SPAN): 0.016 % of the means of a steady load are higher.
pub const PEAK_DEVIATIONS: f32 = 3.6;

/// The ripple that is provided for, at most: what is more is no ripple but phases, of which the
/// peak is remembered.
const MOST_RIPPLE: f32 = 0.015;

/// A change of the power by so many steps of the sensor and by this part of it must show.
const SHOWS_STEPS: f32 = 5.0;
const SHOWS_PART: f32 = 1.0 / 16.0;

/// Before the governor says that the limit is too low, it tries so many modes beside the least one.
const LEAST_TRIED: usize = 3;

/// It does not try a mode whose prediction is more than this many times that of the least mode.
const MUCH_MORE: f32 = 1.2;

impl<const N: usize> Governor<N> {
    /// A change of this power in mW must show.
    pub(super) fn least_that_shows(&self, power: f32) -> f32 {
        let steps = self.settings.chips.iter().map(|chip| chip.step.0);
        let step = steps.max().unwrap_or(0) as f32;
        (SHOWS_STEPS * step).max(SHOWS_PART * power)
    }

    /// The fastest mode that draws so much less than the present one that it must show.
    pub(super) fn shows(&self, power: f32) -> Option<usize> {
        let most = power - self.least_that_shows(power) * 1.2;
        let present = self.modes.expected(self.at, 1.0);
        self.modes
            .fastest(|index| self.modes.expected(index, 1.0) / present * power < most)
    }

    pub(super) fn allowed(&self) -> f32 {
        self.allowance.reading(&self.settings).0 as f32
    }

    /// Standard deviation of the true mean over [`SPAN`](super::machine::SPAN) of a steady load, as
    /// part of the power.
    pub(super) fn ripple(&self) -> f32 {
        self.noise.deviation().min(MOST_RIPPLE)
    }

    /// The level of the load's highest phase that counts.
    pub(super) fn phase(&self, now: Milliseconds) -> f32 {
        let phase = self.memory.highest();
        match self.jump {
            Some(jump) if now.since(jump.at) < JUMP_COUNTS => phase.max(jump.level),
            _ => phase,
        }
    }

    /// The power in mW that a mode stays below in a phase. Ripple, and the error of a guess, are
    /// independent of each other.
    pub(super) fn bound(&self, index: usize, phase: f32) -> f32 {
        let (ripple, doubt) = (PEAK_DEVIATIONS * self.ripple(), self.modes.doubt(index));
        let margin = libm::sqrtf(ripple * ripple + doubt * doubt);
        self.modes.expected(index, phase) * (1.0 + margin)
    }

    pub(super) fn fastest_predicted(&self) -> Option<usize> {
        let allowed = self.allowance.reading(&self.settings);
        self.modes
            .fastest(|index| self.modes.is_predicted_within(index, allowed))
    }

    /// The fastest mode that fits at a level and draws less than the present one. A mode that was
    /// measured counts with what it drew, although it is held off from a climb.
    pub(super) fn fitting(&self, level: f32, now: Milliseconds) -> Option<usize> {
        let allowed = self.allowed();
        let present = self.modes.expected(self.at, 1.0);
        self.modes.fastest(|index| {
            self.bound(index, level) <= allowed
                && self.modes.expected(index, 1.0) < present
                && (self.modes.is_measured(index) || !self.modes.is_held(index, now))
        })
    }

    /// The same, or else the least.
    pub(super) fn below(&self, level: f32, now: Milliseconds) -> Option<usize> {
        self.fitting(level, now).or_else(|| self.least())
    }

    pub(super) fn best_below(&self, now: Milliseconds) -> Option<usize> {
        self.below(self.phase(now), now)
    }

    /// The least predicted of the few least modes that was not measured yet.
    pub(super) fn untried(&self) -> Option<usize> {
        let mut least = (0..N).filter(|&index| self.modes.is_choosable(index));
        let first = least.clone().next()?;
        let most = MUCH_MORE * self.modes.predicted(first);
        let least = least.by_ref().take(1 + LEAST_TRIED);
        least
            .take_while(|&index| self.modes.predicted(index) < most)
            .find(|&index| !self.modes.is_measured(index))
    }

    /// The mode that draws least, as far as is known; where the few least modes were measured, of
    /// those that were.
    pub(super) fn least(&self) -> Option<usize> {
        match self.untried() {
            Some(_) => self.modes.least(),
            None => self.modes.least_measured(),
        }
    }
}
