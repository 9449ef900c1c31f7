//! Exploring: measures modes to earn smaller margins.
//!
//! The guard band of a model that was learned from few modes is that of all its modes. It is much
//! wider than the errors of neighbours, and its margin can keep the governor from all faster modes.
//! A slower neighbour is within the limit, and measuring it tells how good the guesses are.

use super::fit::PEAK_DEVIATIONS;
use super::interface::{Command, State};
use super::machine::{Governor, UP_EVERY};
use super::memory::Work;
use crate::units::Milliseconds;

/// Minimum expected power of a mode to explore, as part of that of the present mode.
const LEAST_POWER: f32 = 0.85;

/// Minimum part of a step's time that the faster modes must save that doubt alone rules out.
const LEAST_GAIN: f32 = 0.015;

impl<const N: usize> Governor<N> {
    /// Sets a slower mode that is not measured yet, if only doubt rules out a faster one and the
    /// load is steady.
    pub(super) fn explore(&mut self, phase: f32, allowed: f32, now: Milliseconds) -> Command {
        let is_steady = self.steady.is_some_and(|steady| steady.before.is_some());
        if !self.modes.needs_guesses() || !is_steady || self.work != Work::Full {
            return Command::Keep;
        }
        let is_new = |index| !self.modes.is_measured(index) && !self.modes.is_held(index, now);
        let ripple = 1.0 + PEAK_DEVIATIONS * self.ripple();
        let faster = self.modes.fastest(|index| {
            is_new(index) && self.modes.expected(index, phase) * ripple <= allowed
        });
        if !faster.is_some_and(|faster| faster > self.at && self.saves(faster, LEAST_GAIN)) {
            return Command::Keep;
        }
        let least = LEAST_POWER * self.modes.expected(self.at, phase);
        let slower = (0..self.at).rev().find(|&index| {
            is_new(index)
                && self.modes.is_choosable(index)
                && self.modes.expected(index, phase) >= least
                && self.bound(index, phase) <= allowed
        });
        let Some(slower) = slower else {
            return Command::Keep;
        };
        // Credit the step up that leads back.
        self.ups = self.ups.saturating_add(UP_EVERY.0);
        self.change(slower, State::SteppingDown, now)
    }
}
