//! Exploring: measures modes to earn smaller margins.
//!
//! A model learned from few modes has a wide guard band: it covers the worst modes of the grid. Near the
//! present mode the model is often much better, but the governor cannot know, and the margin rules
//! out all faster modes. So it measures slower modes, which are expected well within the limit.
//! Each compares a guess with a measurement; good guesses make the margin smaller.

use core::borrow::Borrow;

use super::fit::PEAK_DEVIATIONS;
use super::interface::{Command, State};
use super::machine::Governor;
use super::memory::Work;
use super::policy::LEAST_GAIN;
use crate::front::Front;
use crate::quantities::Milliseconds;

/// Minimum ratio of the expected power of an explored mode to that of the present mode.
const LEAST_POWER: f32 = 0.85;

impl<const N: usize, F: Borrow<Front<N>>> Governor<N, F> {
    /// Sets a slower mode that is not measured yet. Does so only under a steady full load, and only
    /// if a faster mode would fit without the margin for its guess.
    pub(super) fn explore(&mut self, phase: f32, allowed: f32, now: Milliseconds) -> Command {
        let is_steady = self
            .stay
            .steady
            .is_some_and(|steady| steady.before.is_some());
        if !self.modes.needs_guesses() || !is_steady || self.load.work != Work::Full {
            return Command::Keep;
        }
        let is_new = |index| !self.modes.is_measured(index) && !self.modes.is_held(index, now);
        let ripple = 1.0 + PEAK_DEVIATIONS * self.ripple();
        let faster = self.modes.fastest(|index| {
            is_new(index) && self.modes.expected(index, phase) * ripple <= allowed
        });
        if !faster.is_some_and(|faster| faster > self.stay.at && self.saves(faster, LEAST_GAIN)) {
            return Command::Keep;
        }
        let least = LEAST_POWER * self.modes.expected(self.stay.at, phase);
        let slower = (0..self.stay.at).rev().find(|&index| {
            is_new(index)
                && self.modes.is_choosable(index)
                && self.modes.expected(index, phase) >= least
                && self.bound(index, phase) <= allowed
        });
        let Some(slower) = slower else {
            return Command::Keep;
        };
        // The step up that leads back is free.
        self.steps_up.credit();
        self.change(slower, State::SteppingDown, now)
    }
}
