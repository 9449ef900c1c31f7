//! The policy chooses the wanted mode. It steps down when the power exceeds the limit or the mode
//! no longer fits, and up when a faster mode fits.

use core::borrow::Borrow;

use super::actuator::BACK_OFF;
use super::fit::{PEAK_DEVIATIONS, RETURN_EXCESS};
use super::interface::{Cause, Command, State};
use super::load::Jump;
use super::machine::{Governor, milliwatts};
use super::over::OVER_DEVIATIONS;
use super::stay::{FIRST_ESTIMATE_MS, Reference, YOUNG};
use crate::estimator::Estimate;
use crate::front::Front;
use crate::quantities::{Milliseconds, Milliwatts};

/// Minimum dwell time in a mode before a step up.
const DWELL: Milliseconds = Milliseconds(1_500);

/// A suspected step delays other mode changes for at most this time.
const SUSPICION_TIMEOUT: Milliseconds = Milliseconds(150);

/// Hysteresis: the present mode may stay with a margin smaller by this number of standard
/// deviations.
const STAY_DEVIATIONS: f32 = 0.8;

/// Maximum step up, as the ratio of predictions: before a second mode has confirmed the level of
/// the load, and afterwards.
const FIRST_CLIMB: f32 = 1.15;
const CLIMB: f32 = 1.4;

/// Maximum power in a mode if a load returns whose level was already forgotten, as a multiple of the limit.
const MOST_RETURN: f32 = 2.0;

/// By how much the next mode of a front of unknown powers may exceed its guess, as part of the power.
const TRIAL_ERROR: f32 = 0.3;

/// A power that nobody expects takes this many times longer to be seen and answered than a known one.
const SURPRISE: f32 = 3.0;

/// A faster mode is set, or explored for, only if the model predicts that it shortens a step of the workload by more than
/// this part.
pub const LEAST_GAIN: f32 = 0.005;

impl<const N: usize, F: Borrow<Front<N>>> Governor<N, F> {
    /// The most that the next faster mode would draw under the highest load that is remembered, as far as is known; `None` in the
    /// fastest mode, and before a load was measured.
    pub fn faster(&self) -> Option<Milliwatts> {
        let saves =
            |index: &usize| self.modes.is_choosable(*index) && self.saves(*index, LEAST_GAIN);
        let next = (self.stay.at + 1..N).find(saves)?;
        let phase = self.phase(self.clock.now());
        (phase > 0.0).then(|| milliwatts(self.bound(next, phase)))
    }

    pub(super) fn decide(&mut self, is_blind: bool, now: Milliseconds, passed: u64) -> Command {
        if self.stay.requested.is_none() {
            // Without a sensor, another front changes nothing.
            return match self.least().filter(|_| is_blind && self.counts.changes > 0) {
                Some(least) => self.change(least, State::Safe(Cause::NoSensor), now),
                None => self.boot(now),
            };
        }
        if is_blind {
            return self.without_sensor(now);
        }
        if self.state == State::Safe(Cause::NoSensor) {
            self.state = State::Settling;
        }
        let (Some(estimate), Some(_)) = (self.sensor.estimate(), self.stay.set) else {
            return Command::Keep;
        };
        if !self.sensor.liveness.has_reading(now) {
            // A missing reading teaches nothing. A mean may span a few of them.
            if self.sensor.liveness.missed(now).0 > self.window.0 / 2 {
                self.stay.miss(self.due);
            }
            return Command::Keep;
        }
        // Read before `observe`, so that the new step does not count as a known phase.
        let known = self.modes.expected(self.stay.at, self.phase(now));
        self.observe(&estimate, now, passed);
        if let Some(mean) = self.stay.measured
            && mean > self.allowed_until(now)
        {
            self.counts.over.0 += passed;
        }
        // The limit has changed, not the load.
        let is_over = estimate.power - estimate.deviation > self.allowed();
        if self.is_lowered(now) && is_over && !self.fits(now) {
            return self.follow(now);
        }
        if let Some(power) = self.over(&estimate, known, now) {
            return self.step_down(power, &estimate, now);
        }
        self.follow_burst(&estimate);
        // A mode change would hide a step that is about to be detected.
        let suspected = self.sensor.suspected.map(|at| now.since(at));
        if suspected.is_some_and(|ms| ms < SUSPICION_TIMEOUT) || !self.is_confirmed(&estimate, now)
        {
            return Command::Keep;
        }
        if self.sensor.liveness.needs_probe(now)
            && let Some(next) = self.probe_mode(estimate.power)
        {
            self.sensor.liveness.begin_probe();
            // Credit the step up that leads back after the probe.
            self.steps_up.credit();
            return self.change(next, State::SteppingDown, now);
        }
        self.follow(now)
    }

    /// Sets the first mode after the start, after a sleep, or after another program's. While gaps in the time prevent
    /// every measurement, that is the mode of least power.
    pub(super) fn boot(&mut self, now: Milliseconds) -> Command {
        let was_released = self.was_released;
        let first = match self.counts.changes {
            // Nobody knows what a faster mode draws.
            _ if self.clock.is_useless() => None,
            0 => self.first_wanted(now),
            _ => {
                let phase = match self.stay.goes_on {
                    true => self.phase(now),
                    false => self.phase(now).max(1.0),
                };
                let allowed = self.allowed();
                let reading = self.allowance.reading(&self.settings);
                let is_unknown = self.modes.front().is_unknown();
                let goal = self.goal(now);
                self.modes.fastest(|index| {
                    self.bound(index, phase) <= allowed
                        && self.is_wanted(index, goal)
                        && !self.modes.is_held(index, now)
                        && (!is_unknown || self.modes.is_measured(index))
                        && (!was_released || self.modes.is_predicted_within(index, reading))
                })
            }
        };
        let Some(first) = first.or_else(|| self.least()) else {
            self.state = State::Safe(Cause::NothingApplies);
            return Command::Keep;
        };
        self.change(first, State::Booting, now)
    }

    fn without_sensor(&mut self, now: Milliseconds) -> Command {
        self.stay.measured = None;
        let Some(least) = self.least() else {
            return Command::Keep;
        };
        if self.state == State::Safe(Cause::NoSensor) {
            return Command::Keep;
        }
        if least == self.stay.at {
            self.state = State::Safe(Cause::NoSensor);
            return Command::Keep;
        }
        self.change(least, State::Safe(Cause::NoSensor), now)
    }

    /// Whether the limit was lowered within the last window.
    fn is_lowered(&self, now: Milliseconds) -> bool {
        let lowered = self.lowered;
        lowered.is_some_and(|it| now.since(it.until) < self.window)
    }

    /// Steps down at once, to a mode that fits at the level of the load that `power` implies.
    fn step_down(&mut self, power: f32, estimate: &Estimate, now: Milliseconds) -> Command {
        let Some(set) = self.stay.set else {
            return Command::Keep;
        };
        if self.state == State::Safe(Cause::CannotHold) {
            return Command::Keep;
        }
        let at = self.stay.at;
        // In the mode of least known power, the mean decides. From one that the board cannot be in, nothing follows.
        let is_least = self.modes.is_measured(at) && self.least() == Some(at);
        let is_least = is_least || self.modes.is_unreachable(at);
        if is_least || self.load.jump.is_some_and(|jump| jump.at > set) {
            return self.cannot_hold(now);
        }
        let of_mode = set.0.saturating_add(3 * self.settings.settling.0);
        let is_modes = estimate.since.0 <= of_mode && now.since(set) < YOUNG;
        // What the mode draws shows only when the throttling ends.
        let is_modes = is_modes || self.stay.is_new && self.stay.was_throttled;
        if is_modes {
            self.modes.hold(at, now, BACK_OFF);
        }
        let reference = self
            .stay
            .reference
            .filter(|(_, signs)| self.is_of_mode(*signs));
        let reference = reference.filter(|_| is_modes && self.stay.is_new);
        let level = match reference {
            Some(reference) => self.blame_mode(estimate, power, reference),
            None => {
                let level = power / self.modes.expected(at, 1.0);
                self.load.memory.level_returned(level);
                level.max(self.returning(now).unwrap_or_else(|| self.phase(now)))
            }
        };
        self.load.jump = Some(Jump {
            at: now,
            level,
            carried: reference.map_or(self.allowed() / self.modes.expected(at, 1.0), |_| 0.0),
            mean: 0.0,
        });
        let fitting = self.fitting(level, f32::MAX, now);
        if fitting.is_none() && self.is_trial(at) {
            return self.cannot_hold(now);
        }
        // Nothing fits: the modes of least power are measured one by one.
        let untried = match fitting {
            Some(_) => None,
            None => self.untried(),
        };
        // What the window leaves may be less than the limit for a while.
        let left = self.left(power, now);
        let fitting = match fitting {
            Some(index) if self.modes.expected(index, level) > left => {
                self.fitting(level, left, now)
            }
            fitting => fitting,
        };
        let next = match fitting.or(untried).or_else(|| self.least()) {
            Some(next) if next != at => next,
            _ => return self.cannot_hold(now),
        };
        self.counts.violations = self.counts.violations.saturating_add(1);
        let command = self.change(next, State::SteppingDown, now);
        // A load that has just jumped may not stay, so it is no reference.
        self.stay.reference = reference.map(|(level, _)| (level, self.load.signs()));
        self.stay.is_trial = untried.is_some();
        command
    }

    /// The load is unchanged, so the mode draws more than predicted. Its neighbours may too: returns
    /// the level for a step down as far as if the load had risen.
    fn blame_mode(&mut self, estimate: &Estimate, power: f32, (level, _): Reference) -> f32 {
        let at = self.stay.at;
        let as_if = power / self.modes.expected(at, 1.0);
        let is_trying = self.stay.is_trying();
        let error = match is_trying {
            true => self.error_beyond_noise(estimate, level),
            false => estimate.power / (self.modes.predicted(at) * level),
        };
        self.modes.learn(at, error, level, 0.0);
        match is_trying {
            true => level,
            false => as_if,
        }
    }

    /// Handles a mode of least power that does not fit. Similar modes may draw less than predicted:
    /// the governor measures a few, one after another.
    fn cannot_hold(&mut self, now: Milliseconds) -> Command {
        // A load that never is steady must not delay this for ever.
        let steady = self.steady_mean(now);
        let is_steady = steady.is_some_and(|(_, passed)| passed >= FIRST_ESTIMATE_MS);
        let unfit = now.since(*self.stay.unfit.get_or_insert(now)).0;
        if !is_steady && unfit < 2 * FIRST_ESTIMATE_MS {
            return Command::Keep;
        }
        let at = self.stay.at;
        if !self.modes.is_measured(at) {
            self.modes.raise(at, self.modes.error(at).0);
        }
        self.stay.is_new = false;
        let untried = self.untried();
        match untried.or_else(|| self.least()) {
            Some(next) if next != at => {
                let command = self.change(next, State::SteppingDown, now);
                self.stay.is_trial = untried.is_some();
                command
            }
            _ => {
                if self.stay.measured.is_some_and(|mean| mean > self.allowed()) {
                    self.state = State::Safe(Cause::CannotHold);
                }
                Command::Keep
            }
        }
    }

    /// The error of the mode at a level of the load: the guess, unless the estimate excludes it.
    fn error_beyond_noise(&self, estimate: &Estimate, level: f32) -> f32 {
        let (guess, _) = self.modes.error(self.stay.at);
        let expected = self.modes.expected(self.stay.at, level);
        match libm::fabsf(estimate.power - expected) > OVER_DEVIATIONS * estimate.deviation {
            true => guess * estimate.power / expected,
            false => guess,
        }
    }

    /// Whether the present mode may stay: the highest phase fits, with hysteresis.
    fn fits(&self, now: Milliseconds) -> bool {
        let allowed = self.allowed() * (1.0 + STAY_DEVIATIONS * self.ripple());
        let ripple = 1.0 + PEAK_DEVIATIONS * self.ripple();
        self.modes.expected(self.stay.at, self.phase(now)) * ripple <= allowed
    }

    /// Follows the limit: steps down when the present mode no longer fits, and up when a faster
    /// mode does.
    fn follow(&mut self, now: Milliseconds) -> Command {
        if self.fits(now) {
            self.stay.unfit = None;
            if self.state == State::Safe(Cause::CannotHold) {
                self.state = State::Tracking;
            }
            return self.climb(now);
        }
        if self.stay.is_trying() {
            return Command::Keep;
        }
        let is_within = self
            .stay
            .measured
            .is_some_and(|mean| mean <= self.allowed());
        match self.below(self.phase(now), now) {
            // What was learned of a faster mode may say that it draws less. From one that is within the limit that is a step up.
            Some(next) if next > self.stay.at && is_within => self.try_up(next, now),
            Some(next) if next != self.stay.at => self.change(next, State::SteppingDown, now),
            _ if self.state == State::Safe(Cause::CannotHold) => Command::Keep,
            _ => self.cannot_hold(now),
        }
    }

    /// Sets a faster mode, if a step up is left.
    fn try_up(&mut self, next: usize, now: Milliseconds) -> Command {
        if self.steps_up.is_empty() || self.state != State::Tracking {
            return Command::Keep;
        }
        self.steps_up.take();
        self.change(next, State::ProbingUp, now)
    }

    fn climb(&mut self, now: Milliseconds) -> Command {
        let at = self.stay.at;
        let has_dwelt = self.stay.set.is_some_and(|set| now.since(set) >= DWELL);
        // The power of a board that has just begun to work does not show yet.
        let is_busy = self
            .load
            .busy
            .is_some_and(|from| now.since(from) >= self.window);
        // No load is needed to go down to the mode of least power.
        let is_seen = is_busy || self.pursuit.aim.is_rest();
        // After a gap in the readings, the mode is measured again first.
        let is_time = has_dwelt && is_seen && self.stay.measured.is_some();
        if !is_time || self.state != State::Tracking {
            return Command::Keep;
        }
        // The present phase counts before it ends, less one deviation of noise.
        let short = self.load.short.level * (1.0 - self.load.noise.deviation());
        let phase = self.phase(now).max(short);
        let allowed = self.allowed();
        let goal = self.goal(now);
        if let Some(goal) = goal.filter(|&goal| goal < at) {
            return self.change(goal, State::SteppingDown, now);
        }
        if self.steps_up.is_empty() {
            return Command::Keep;
        }
        let reach = self.reach();
        let nearest = (at + 1..N).find(|&index| {
            self.modes.is_choosable(index)
                && !self.modes.is_held(index, now)
                && self.saves(index, LEAST_GAIN)
        });
        let is_unknown = self.modes.front().is_unknown();
        let bound = |index| {
            let bound = self.bound(index, phase);
            match is_unknown && Some(index) == nearest {
                true => bound.min(self.tried(index, phase)),
                false => bound,
            }
        };
        let next = self.modes.fastest(|index| {
            (self.modes.predicted(index) <= reach
                || self.modes.is_measured(index)
                || Some(index) == nearest)
                && self.is_wanted(index, goal)
                && bound(index) <= allowed
                && self.may_return(index, phase, allowed)
                && !self.modes.is_held(index, now)
        });
        match next {
            Some(next) if next > at && self.saves(next, LEAST_GAIN) => self.try_up(next, now),
            _ if !self.is_wanted(at + 1, goal) => Command::Keep,
            _ => self.explore(phase, allowed, now),
        }
    }

    /// Upper bound, in mW, for trying the next faster mode of a front of unknown powers: it probably fits, and the window's mean stays
    /// within the limit until an error of the guess is seen and answered.
    fn tried(&self, next: usize, phase: f32) -> f32 {
        let present = self.modes.expected(self.stay.at, phase);
        let expected = self.modes.expected(next, phase);
        let part = self.answered(SURPRISE);
        let mean = present * (1.0 - part) + expected * (1.0 + TRIAL_ERROR) * part;
        expected.max(mean) * (1.0 + PEAK_DEVIATIONS * self.ripple())
    }

    /// The highest prediction of a mode that may be set next without a measurement.
    fn reach(&self) -> f32 {
        let at = self.stay.at;
        let times = match (0..N).any(|index| index != at && self.modes.is_measured(index)) {
            true => CLIMB,
            false => FIRST_CLIMB,
        };
        let present = match self.modes.is_unreachable(at) {
            true => self.modes.expected(at, 1.0),
            false => self.modes.predicted(at),
        };
        times * present
    }

    /// The part of the window after which a known power is answered, or one that takes so many times longer.
    fn answered(&self, times: f32) -> f32 {
        (times * self.reaction() as f32 / self.window.0 as f32).min(1.0)
    }

    /// Whether a mode keeps the window's mean if the highest load within the memory returns, until
    /// it is seen and answered.
    fn may_return(&self, index: usize, phase: f32, allowed: f32) -> bool {
        let highest = self.load.memory.returning(phase);
        let jump = self.modes.expected(index, highest.max(phase));
        let part = self.answered(1.0);
        let mean = self.modes.expected(index, phase) * (1.0 - part) + jump * part;
        // The errors that were learned under a lighter load may be those of an idle board, whose power does not grow
        // with the clocks.
        let most = jump.max(self.modes.predicted(index) * highest);
        highest <= phase || mean <= (1.0 + RETURN_EXCESS) * allowed && most <= MOST_RETURN * allowed
    }

    /// Whether the model predicts that a mode shortens a step of the workload by more than a part.
    pub(super) fn saves(&self, next: usize, part: f32) -> bool {
        let time = |index| self.modes.time(index).map_or(0, |time| time.0) as f32;
        time(next) < time(self.stay.at) * (1.0 - part)
    }
}
