//! Selects the modes that fit below the limit, and the mode of least power.

use core::borrow::Borrow;

use super::actuator::TRIES;
use super::machine::Governor;
use crate::front::Front;
use crate::quantities::Milliseconds;

/// The level of a jump counts for this time; afterwards the levels measured since count.
pub const JUMP_LIFETIME: Milliseconds = Milliseconds(3_000);

/// Margin of the highest phase below the limit, in standard deviations of the mean over the window:
/// 0.016 % of the means of a steady load are higher.
pub const PEAK_DEVIATIONS: f32 = 3.6;

/// Maximum ripple in the margin, as part of the power. A larger variation consists of phases, and
/// their peak is remembered.
const MOST_RIPPLE: f32 = 0.015;

/// Maximum excess of the window's mean, as part of the limit, if a load returns whose level was already forgotten.
pub const RETURN_EXCESS: f32 = 0.04;

/// Minimum change of the power that a live sensor must show, in steps of the sensor and as part of
/// the power. The larger one counts.
const VISIBLE_STEPS: f32 = 5.0;
const VISIBLE_PART: f32 = 1.0 / 16.0;

/// Maximum prediction of a mode to try, as a multiple of the least prediction.
const TRIAL_RANGE: f32 = 1.2;

impl<const N: usize, F: Borrow<Front<N>>> Governor<N, F> {
    /// The minimum change of the power in mW that a live sensor must show.
    pub(super) fn least_visible_change(&self, power: f32) -> f32 {
        let steps = self.settings.chips.iter().map(|chip| chip.step.0);
        let step = steps.max().unwrap_or(0) as f32;
        (VISIBLE_STEPS * step).max(VISIBLE_PART * power)
    }

    /// The fastest mode that draws enough less than the present one for a live sensor to show it.
    pub(super) fn probe_mode(&self, power: f32) -> Option<usize> {
        let most = power - self.least_visible_change(power) * 1.2;
        let present = self.modes.expected(self.stay.at, 1.0);
        self.modes
            .fastest(|index| self.modes.expected(index, 1.0) / present * power < most)
    }

    /// Standard deviation of the true mean over the window of a steady load, as part of the power.
    pub(super) fn ripple(&self) -> f32 {
        self.load.noise.deviation().min(MOST_RIPPLE)
    }

    /// The highest remembered level of the load, or the level of a recent jump if that is higher.
    pub(super) fn phase(&self, now: Milliseconds) -> f32 {
        let phase = self.load.memory.highest();
        match self.load.jump {
            Some(jump) if now.since(jump.at) < JUMP_LIFETIME => phase.max(jump.level),
            _ => phase,
        }
    }

    /// The highest level that may return, if it is above the remembered one.
    pub(super) fn returning(&self, now: Milliseconds) -> Option<f32> {
        let phase = self.phase(now);
        let level = self.load.memory.returning(phase);
        (level > phase).then_some(level)
    }

    /// Whether the present mode would draw more than this multiple of the limit if that level returned.
    pub(super) fn borrows(&self, now: Milliseconds, times: f32) -> bool {
        let most = times * self.allowed();
        let level = self.returning(now);
        level.is_some_and(|level| self.modes.expected(self.stay.at, level) > most)
    }

    /// Upper bound of the power of a mode in mW in a phase. Ripple and the error of a guess are
    /// independent, so their squares add up.
    pub(super) fn bound(&self, index: usize, phase: f32) -> f32 {
        let (ripple, doubt) = (PEAK_DEVIATIONS * self.ripple(), self.modes.doubt(index));
        let margin = libm::sqrtf(ripple * ripple + doubt * doubt);
        self.modes.expected(index, phase) * (1.0 + margin)
    }

    /// The fastest mode whose guarded prediction is within the limit, and that the aim wants: as a [query](Front::select).
    pub(super) fn first_wanted(&self, now: Milliseconds) -> Option<usize> {
        let allowed = self.allowance.reading(&self.settings);
        let goal = self.goal(now);
        self.modes.fastest(|index| {
            self.modes.is_predicted_within(index, allowed) && self.is_wanted(index, goal)
        })
    }

    /// The fastest mode that fits at a level of the load, is within what the window leaves, and draws less than the
    /// present one. A measured mode is eligible even while it is held off.
    pub(super) fn fitting(&self, level: f32, left: f32, now: Milliseconds) -> Option<usize> {
        let allowed = self.allowed();
        let present = self.modes.expected(self.stay.at, 1.0);
        self.modes.fastest(|index| {
            self.modes.expected(index, 1.0) < present
                && self.modes.expected(index, level) <= left
                && self.bound(index, level) <= allowed
                && (self.modes.is_measured(index) || !self.modes.is_held(index, now))
        })
    }

    /// The fastest mode that fits below the present one, or else the mode of least power.
    pub(super) fn below(&self, level: f32, now: Milliseconds) -> Option<usize> {
        self.fitting(level, f32::MAX, now).or_else(|| self.least())
    }

    pub(super) fn best_below(&self, now: Milliseconds) -> Option<usize> {
        self.below(self.phase(now), now)
    }

    /// The few modes of least predicted power, of which the governor tries each.
    fn trials(&self) -> impl Iterator<Item = usize> {
        let least = (0..N).filter(|&index| self.modes.is_choosable(index));
        let first = least.clone().next();
        let most = first.map_or(0.0, |first| TRIAL_RANGE * self.modes.predicted(first));
        let least = least.take(1 + usize::from(TRIES));
        least.take_while(move |&index| self.modes.predicted(index) <= most)
    }

    /// Whether a mode is one of [`Self::trials`].
    pub(super) fn is_trial(&self, at: usize) -> bool {
        self.trials().any(|index| index == at)
    }

    /// The first mode of [`Self::trials`] that is not measured yet.
    pub(super) fn untried(&self) -> Option<usize> {
        self.trials().find(|&index| !self.modes.is_measured(index))
    }

    /// The mode of least known power. Once the few modes of least prediction are measured, only
    /// measured modes count.
    pub(super) fn least(&self) -> Option<usize> {
        match self.untried() {
            Some(_) => self.modes.least(),
            None => self.modes.least_measured(),
        }
    }
}
