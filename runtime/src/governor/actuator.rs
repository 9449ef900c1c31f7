//! The actuator: sets the wanted mode, checks the read-back and retries.

use core::borrow::Borrow;

use super::interface::{Cause, Command, Input, ReadBack, State};
use super::knowledge::RATIO_RANGE;
use super::machine::Governor;
use super::stay::Stay;
use crate::front::Front;
use crate::grid::ModeId;
use crate::quantities::Milliseconds;

/// Number of tries: requests for a mode before it is avoided, modes that may fail in a row before all count as failed,
/// and modes of least power, beside the least, that are tried before the limit cannot be held.
pub const TRIES: u8 = 3;

/// Time to wait for a mode to read back before it is requested again. Hot-plugging all cores of an
/// AGX Orin takes as long.
const READ_BACK_TIMEOUT: Milliseconds = Milliseconds(150);

/// Retry interval of the safe mode.
const RETRY_INTERVAL: Milliseconds = Milliseconds(1_000);

/// Back-off of a mode that could not be set, and the first one of a mode that exceeded the limit as soon as it was set.
pub const BACK_OFF: Milliseconds = Milliseconds(60_000);

impl<const N: usize, F: Borrow<Front<N>>> Governor<N, F> {
    /// The mode that the board is in; `None` for one that is not of the front or not known.
    pub(super) fn read_back(&mut self, input: &Input, now: Milliseconds) -> Option<ModeId> {
        match input.mode {
            ReadBack::Mode(mode) => {
                self.stay.read = now;
                Some(mode)
            }
            ReadBack::Other => None,
            ReadBack::Missing => {
                let set = self.stay.set?;
                let is_recent = now.since(self.stay.read.max(set)) < READ_BACK_TIMEOUT;
                let point = self.modes.point(self.stay.at).filter(|_| is_recent)?;
                Some(point.mode)
            }
        }
    }

    /// Tells the estimator and the liveness check that the wanted mode is now set.
    pub(super) fn arrive(&mut self, now: Milliseconds) {
        if let Some(requested) = self.stay.requested {
            let takes = now.since(requested).0;
            self.takes_ms = takes.max(self.takes_ms * 7 / 8);
        }
        // What the higher limit allowed was drawn until the mode followed the lower one.
        if let Some(lowered) = &mut self.lowered
            && core::mem::take(&mut lowered.is_pending)
            && now.since(lowered.until) < self.window
        {
            lowered.until = now;
        }
        let Some(estimate) = self.sensor.estimate() else {
            return;
        };
        // The level of the load cancels between two known modes. From an unknown mode, the power is measured, and the
        // last level of the load tells what to expect.
        let to = self.modes.expected(self.stay.at, 1.0);
        let level = self.load.level;
        let (from, to) = match self.stay.before {
            Some((before, _)) => (self.modes.expected(before, 1.0), to),
            None if level > 0.0 => (estimate.power, to * level),
            None => (estimate.power, to),
        };
        let (least, most) = RATIO_RANGE;
        let times = (to / from.max(1.0)).clamp(least, most);
        // The power of an idle board depends much less on its clocks.
        let times = match self.load.works() {
            false => 1.0 + (times - 1.0) / 4.0,
            true => times,
        };
        self.sensor.estimator.expect_change(times);
        let change = (times - 1.0).abs() * estimate.power;
        let shows = self.load.works() || self.sensor.liveness.is_probing();
        // A fast sensor has shown it before the read-back did.
        let requested = self.stay.requested.unwrap_or(now);
        let shows = shows && !self.sensor.liveness.has_changed_since(requested);
        if shows && change > self.least_visible_change(estimate.power) {
            self.sensor.liveness.expect_change(self.load.gpu, now);
        }
    }

    /// Compares the read-back with the wanted mode, and retries or changes the mode if they differ.
    pub(super) fn check_mode(
        &mut self,
        mode: Option<ModeId>,
        is_refused: bool,
        now: Milliseconds,
    ) -> Option<Command> {
        let wanted = self.modes.point(self.stay.at)?.mode;
        let requested = self.stay.requested?;
        // The caller has excluded the mode.
        if !self.modes.is_choosable(self.stay.at) {
            let Some(next) = self.best_below(now) else {
                self.state = State::Safe(Cause::NothingApplies);
                return Some(Command::Keep);
            };
            return Some(self.change(next, State::SteppingDown, now));
        }
        if mode == Some(wanted) {
            (self.stay.requests, self.failed.modes) = (0, 0);
            if self.stay.set.is_none() && self.stay.before.is_none() {
                self.load.forget_gpu();
            }
            if self
                .stay
                .set
                .replace(self.stay.set.unwrap_or(now))
                .is_none()
                && matches!(
                    self.state,
                    State::Booting | State::Tracking | State::Safe(Cause::NothingApplies)
                )
            {
                self.state = State::Settling;
            }
            if now.since(self.failed.at) >= BACK_OFF {
                self.modes.forgive();
            }
            return None;
        }
        // The mode was set before, so another program has changed it. What it drew teaches nothing.
        if self.stay.set.is_some() {
            self.stay = Stay::new(self.stay.at, now);
            self.load.drop_phase();
            return Some(Command::Apply(wanted));
        }
        let waited = now.since(requested);
        let is_safe = self.state == State::Safe(Cause::NothingApplies);
        let timeout = match is_safe {
            true => RETRY_INTERVAL,
            false => READ_BACK_TIMEOUT,
        };
        if waited < timeout && (is_safe || !is_refused) {
            return Some(Command::Keep);
        }
        if is_safe {
            // Any mode that can be set is better than the one that nobody chose.
            self.modes.fail(self.stay.at);
            if self.modes.choosable() == 0 {
                self.modes.forgive();
            }
            return Some(self.change(self.least()?, State::Safe(Cause::NothingApplies), now));
        }
        if self.stay.requests < TRIES {
            self.stay.requests = self.stay.requests.saturating_add(1);
            self.stay.requested = Some(now);
            return Some(Command::Apply(wanted));
        }
        if self.failed.modes < TRIES && self.modes.choosable() > 1 {
            self.modes.fail(self.stay.at);
            (self.failed.modes, self.failed.at) = (self.failed.modes + 1, now);
            let next = self.best_below(now)?;
            return Some(self.change(next, State::SteppingDown, now));
        }
        Some(self.change(self.least()?, State::Safe(Cause::NothingApplies), now))
    }

    pub(super) fn change(&mut self, to: usize, state: State, now: Milliseconds) -> Command {
        let reference = self.steady_level(now);
        self.end_phase();
        let before = self.stay.set.map(|set| (self.stay.at, set));
        self.stay = Stay {
            before,
            reference,
            ..Stay::new(to, now)
        };
        self.state = state;
        self.was_released = false;
        self.load.steps.restart();
        self.counts.changes = self.counts.changes.saturating_add(1);
        self.modes
            .point(to)
            .map_or(Command::Keep, |point| Command::Apply(point.mode))
    }
}
