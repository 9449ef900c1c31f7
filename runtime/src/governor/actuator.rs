//! The actuator: sets the wanted mode, checks the read-back and retries.

use super::interface::{Cause, Command, Input, State};
use super::knowledge::RATIO_RANGE;
use super::machine::{FIRST_ESTIMATE_MS, Governor};
use super::memory::Work;
use crate::units::Milliseconds;

/// Retries before a mode is avoided, and modes that may fail in a row before all count as failed.
const RETRIES: u8 = 2;
const MOST_FAILED_MODES: u8 = 3;

/// Retry interval of the safe mode.
const RETRY_INTERVAL: Milliseconds = Milliseconds(1_000);

/// Back-off of a mode that could not be set.
const FAILURE_BACK_OFF: Milliseconds = Milliseconds(60_000);

impl<const N: usize> Governor<N> {
    pub(super) fn is_set(&self, input: &Input) -> bool {
        let wanted = self.modes.point(self.at).map(|point| point.mode);
        wanted.is_some() && input.mode == wanted
    }

    /// Tells the estimator and the liveness check that the wanted mode is now set.
    pub(super) fn arrive(&mut self, now: Milliseconds) {
        let Some(estimate) = self.estimator.estimate() else {
            return;
        };
        // The mode before the first one is unknown: the measured power replaces its prediction.
        let from = match self.before {
            Some(before) => self.modes.expected(before, 1.0),
            None => estimate.power,
        };
        let to = self.modes.expected(self.at, 1.0);
        let times = (to / from.max(1.0)).clamp(RATIO_RANGE.0, RATIO_RANGE.1);
        // The power of an idle board depends much less on its clocks.
        let times = match self.work {
            Work::None => 1.0 + (times - 1.0) / 4.0,
            _ => times,
        };
        self.estimator.expect_change(times);
        let change = (times - 1.0).abs() * estimate.power;
        if self.work != Work::None && change > self.least_visible_change(estimate.power) {
            self.liveness.expect_change(self.gpu, now);
        }
    }

    /// Compares the read-back with the wanted mode, and retries or changes the mode if they differ.
    pub(super) fn check_mode(&mut self, input: &Input, now: Milliseconds) -> Option<Command> {
        let wanted = self.modes.point(self.at)?.mode;
        self.requested?;
        // The caller has excluded the mode.
        if !self.modes.is_choosable(self.at) {
            let Some(next) = self.best_below(now) else {
                self.state = State::Safe(Cause::NothingApplies);
                return Some(Command::Keep);
            };
            return Some(self.change(next, State::SteppingDown, now));
        }
        if input.mode == Some(wanted) {
            (self.failures, self.modes_failed) = (0, 0);
            if self.since.replace(self.since.unwrap_or(now)).is_none()
                && matches!(
                    self.state,
                    State::Booting | State::Tracking | State::Safe(Cause::NothingApplies)
                )
            {
                self.state = State::Settling;
            }
            if now.since(self.failed_at) >= FAILURE_BACK_OFF {
                self.modes.forgive();
            }
            return None;
        }
        // The mode was set before, so another program has changed it.
        if self.since.take().is_some() {
            (self.requested, self.before) = (Some(now), None);
            self.reference = None;
            return Some(Command::Apply(wanted));
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures <= RETRIES {
            self.requested = Some(now);
            return Some(Command::Apply(wanted));
        }
        if self.modes_failed < MOST_FAILED_MODES && self.modes.choosable() > 1 {
            self.modes.fail(self.at);
            self.failed_at = now;
            self.modes_failed += 1;
            let next = self.best_below(now)?;
            return Some(self.change(next, State::SteppingDown, now));
        }
        if self.state != State::Safe(Cause::NothingApplies) {
            return Some(self.change(self.least()?, State::Safe(Cause::NothingApplies), now));
        }
        if self
            .requested
            .is_some_and(|requested| now.since(requested) < RETRY_INTERVAL)
        {
            return Some(Command::Keep);
        }
        self.requested = Some(now);
        Some(Command::Apply(wanted))
    }

    pub(super) fn change(&mut self, to: usize, state: State, now: Milliseconds) -> Command {
        self.reference = self.steady_level(now);
        self.before = self.since.map(|_| self.at);
        self.end_phase();
        (self.is_new, self.next_estimate_ms, self.steady) = (true, FIRST_ESTIMATE_MS, None);
        self.is_trial = false;
        (self.at, self.state, self.since) = (to, state, None);
        (self.requested, self.failures) = (Some(now), 0);
        (self.measured, self.compared) = (None, None);
        self.steps.restart(now);
        self.changes = self.changes.saturating_add(1);
        self.modes
            .point(to)
            .map_or(Command::Keep, |point| Command::Apply(point.mode))
    }
}
