//! The policy chooses the wanted mode. It steps down when the power exceeds the limit or the mode
//! no longer fits, and up when a faster mode fits.

use super::fit::PEAK_DEVIATIONS;
use super::interface::{Cause, Command, State};
use super::machine::{ALL_UPS, CLOCK_DELAY_MS, FIRST_ESTIMATE_MS, Governor, Jump, SPAN, UP_EVERY};
use super::memory::Work;
use crate::estimator::Estimate;
use crate::units::Milliseconds;

/// Settling time in ms after a mode change. A step within it is no sure step of the load.
const SETTLING_MS: u64 = 100;

/// Minimum dwell time in a mode before a step up.
const DWELL: Milliseconds = Milliseconds(1_500);

/// The power is over the limit when the estimate exceeds it by this number of standard deviations.
const OVER_DEVIATIONS: f32 = 3.0;

/// The same threshold after a sure step of the load. Its final level is uncertain, so the threshold
/// is on the safe side.
const OVER_AFTER_STEP: f32 = -0.5;

/// The same threshold just after a step down for a jump: that step was likely too small.
const OVER_AFTER_JUMP: f32 = 1.0;

/// A suspected step delays other mode changes for at most this time.
const SUSPICION_TIMEOUT: Milliseconds = Milliseconds(150);

/// A step is believed after the sensor's time constant divided by this number.
const CONFIRMATION_DIVISOR: u64 = 6;

/// A step that ends within this number of standard deviations of a known phase is no jump.
const KNOWN_DEVIATIONS: f32 = 2.0;

/// Hysteresis: the present mode may stay with a margin smaller by this number of standard
/// deviations.
const STAY_DEVIATIONS: f32 = 0.8;

/// A jump to a level that proved harmless is ignored for this time: it lifts the mean over [`SPAN`]
/// only a little.
const SHORT_JUMP: Milliseconds = Milliseconds(200);

/// Averaging window for a rise that was not detected as a step. It shows more of the rise than
/// [`SPAN`].
const RISE_WINDOW: Milliseconds = Milliseconds(250);

/// Age of a mode up to which the mode, not the load, may be the cause of exceeding the limit.
const YOUNG: Milliseconds = Milliseconds(10_000);

/// First back-off of a mode that exceeded the limit as soon as it was set.
const FIRST_BACK_OFF: Milliseconds = Milliseconds(60_000);

/// Maximum step up, as the ratio of predictions: before a second mode has confirmed the level of
/// the load, and afterwards.
const FIRST_CLIMB: f32 = 1.15;
const CLIMB: f32 = 1.4;

/// A faster mode is set only if the model predicts that it shortens a step of the workload by more than
/// this part.
const LEAST_GAIN: f32 = 0.005;

impl<const N: usize> Governor<N> {
    pub(super) fn decide(&mut self, is_blind: bool, now: Milliseconds, passed: u64) -> Command {
        if self.requested.is_none() {
            // Without a sensor, another front changes nothing.
            return match self.least().filter(|_| is_blind && self.changes > 0) {
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
        let (Some(estimate), Some(since)) = (self.estimator.estimate(), self.since) else {
            return Command::Keep;
        };
        if !self.liveness.has_reading(now) {
            // A missing reading teaches nothing, and no mean may span it.
            (self.steady, self.compared, self.measured) = (None, None, None);
            self.missed = self.due;
            return Command::Keep;
        }
        // Read before `observe`, so that the new step does not count as a known phase.
        let known = self.modes.expected(self.at, self.phase(now));
        self.observe(&estimate, since, now, passed);
        if self.measured.is_some_and(|mean| mean > self.allowed()) {
            self.over.0 += passed;
        }
        if let Some(power) = self.over(&estimate, known, since, now) {
            return self.step_down(power, &estimate, since, now);
        }
        // A mode change would hide a step that is about to be detected.
        let suspected = self.suspected.map(|at| now.since(at));
        if suspected.is_some_and(|ms| ms < SUSPICION_TIMEOUT) || !self.is_confirmed(&estimate, now)
        {
            return Command::Keep;
        }
        if self.liveness.needs_probe(now)
            && let Some(next) = self.probe_mode(estimate.power)
        {
            self.liveness.begin_probe();
            // Credit the step up that leads back after the probe.
            self.ups = self.ups.saturating_add(UP_EVERY.0);
            return self.change(next, State::SteppingDown, now);
        }
        self.follow(since, now)
    }

    /// Sets the first mode after the start, after a sleep, or after another program's.
    pub(super) fn boot(&mut self, now: Milliseconds) -> Command {
        let was_released = core::mem::take(&mut self.was_released);
        let first = match self.changes {
            0 => self.fastest_predicted(),
            _ => {
                let (phase, allowed) = (self.phase(now), self.allowed());
                let reading = self.allowance.reading(&self.settings);
                let is_unknown = self.modes.front().is_unknown();
                self.modes.fastest(|index| {
                    self.bound(index, phase.max(1.0)) <= allowed
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

    pub(super) fn without_sensor(&mut self, now: Milliseconds) -> Command {
        self.measured = None;
        let Some(least) = self.least() else {
            return Command::Keep;
        };
        if self.state == State::Safe(Cause::NoSensor) {
            return Command::Keep;
        }
        if least == self.at {
            self.state = State::Safe(Cause::NoSensor);
            return Command::Keep;
        }
        self.change(least, State::Safe(Cause::NoSensor), now)
    }

    /// The estimated power if it exceeds the allowed power.
    pub(super) fn over(
        &self,
        estimate: &Estimate,
        known: f32,
        since: Milliseconds,
        now: Milliseconds,
    ) -> Option<f32> {
        let allowed = self.allowed();
        if now.since(since).0 < CLOCK_DELAY_MS {
            return None;
        }
        let mean = self.measured.unwrap_or(0.0);
        let is_slowly = mean - self.estimator.resolution(SPAN) > allowed;
        // The step is sure, its final level is not. A known phase fits.
        let has_stepped = now.since(estimate.since) < SPAN
            && estimate.since.0 > since.0.saturating_add(SETTLING_MS)
            && estimate.power - KNOWN_DEVIATIONS * estimate.deviation > known;
        let deviations = match has_stepped {
            true => OVER_AFTER_STEP,
            false if self.has_just_jumped(now) && !self.is_trying() => OVER_AFTER_JUMP,
            false => OVER_DEVIATIONS,
        };
        let is_now = estimate.power - deviations * estimate.deviation > allowed;
        let level = estimate.power / self.modes.expected(self.at, 1.0);
        let is_short = level < 1.03 * self.harmless_level
            && now.since(estimate.since) < SHORT_JUMP
            && self.jump.is_none();
        // A shorter mean shows more of a step that is not detected yet.
        let is_in_mode = now.since(since).0 >= RISE_WINDOW.0 + CLOCK_DELAY_MS;
        let recent = self.estimator.mean(RISE_WINDOW).filter(|_| is_in_mode);
        let power = estimate.power + estimate.deviation;
        match (is_slowly, is_now) {
            (true, _) => Some(power.max(mean).max(recent.unwrap_or(0.0))),
            (false, true) if self.is_confirmed(estimate, now) && !is_short => Some(power),
            _ => None,
        }
    }

    /// Whether the last step is old enough to estimate its size. At first, rounding dominates.
    pub(super) fn is_confirmed(&self, estimate: &Estimate, now: Milliseconds) -> bool {
        let times = if self.is_trying() { 2 } else { 1 };
        let delay = times * self.estimator.slowest().0 / CONFIRMATION_DIVISOR;
        now.since(estimate.since).0 >= delay
    }

    /// Whether a jump forced a step down within the last [`SPAN`]; the new mode must still prove
    /// sufficient.
    pub(super) fn has_just_jumped(&self, now: Milliseconds) -> bool {
        self.jump.is_some_and(|jump| now.since(jump.at) <= SPAN)
    }

    /// Steps down at once, to a mode that fits at the level of the load that `power` implies.
    pub(super) fn step_down(
        &mut self,
        power: f32,
        estimate: &Estimate,
        since: Milliseconds,
        now: Milliseconds,
    ) -> Command {
        if self.state == State::Safe(Cause::LimitTooLow) {
            return Command::Keep;
        }
        // In the mode of least known power, the mean decides.
        let is_least = self.modes.is_measured(self.at) && self.least() == Some(self.at);
        if is_least || self.jump.is_some_and(|jump| jump.at > since) {
            return self.limit_too_low(now);
        }
        let is_modes = estimate.since.0 <= since.0.saturating_add(3 * CLOCK_DELAY_MS);
        let is_young = now.since(since) < YOUNG;
        if is_modes && is_young {
            self.modes.hold(self.at, now, FIRST_BACK_OFF);
        }
        let phase = self.phase(now);
        let reference = self.reference.filter(|(_, gpu)| self.is_of_mode(*gpu));
        let reference = reference.filter(|_| is_modes && is_young && self.is_new);
        let mut level = power / self.modes.expected(self.at, 1.0);
        match reference {
            // The load is unchanged, so the mode draws more than predicted. Its neighbours may too:
            // step down as far as if the load had risen.
            Some((reference, _)) => {
                let is_trying = self.is_trying();
                let error = match is_trying {
                    true => self.error_beyond_noise(estimate, reference),
                    false => estimate.power / (self.modes.predicted(self.at) * reference),
                };
                self.modes.learn(self.at, error, reference, 0.0);
                if is_trying {
                    level = reference;
                }
            }
            None => self.memory.level_returned(level),
        }
        let fitting = self.fitting(level, now);
        let untried = match fitting {
            Some(_) => None,
            // Nothing fits: measure the modes of least power one by one.
            None => {
                if let Some((reference, _)) = reference {
                    level = reference;
                } else if !self.modes.is_measured(self.at) {
                    let error = self.error_beyond_noise(estimate, phase);
                    self.modes.raise(self.at, error);
                    level = phase;
                }
                self.untried()
            }
        };
        self.level_since_jump = 0.0;
        self.jump = Some(Jump {
            at: now,
            level,
            carried: self.allowed() / self.modes.expected(self.at, 1.0),
        });
        let next = match fitting.or(untried).or_else(|| self.least()) {
            Some(next) if next != self.at => next,
            _ => return self.limit_too_low(now),
        };
        self.violations = self.violations.saturating_add(1);
        let command = self.change(next, State::SteppingDown, now);
        // A load that has just jumped may not stay, so it is no reference. Among the modes of least
        // power it is assumed to stay.
        self.reference = match (reference, fitting) {
            (Some((level, _)), _) => Some((level, self.gpu)),
            (None, None) => Some((level, self.gpu)),
            (None, Some(_)) => None,
        };
        self.is_trial = untried.is_some();
        command
    }

    /// Handles a mode of least power that does not fit. Similar modes may draw less than predicted:
    /// the governor measures a few, one after another.
    pub(super) fn limit_too_low(&mut self, now: Milliseconds) -> Command {
        let steady = self.steady_mean(now);
        if steady.is_none_or(|(_, passed)| passed < FIRST_ESTIMATE_MS) {
            return Command::Keep;
        }
        if !self.modes.is_measured(self.at) {
            self.modes.raise(self.at, self.modes.error(self.at).0);
        }
        self.is_new = false;
        let untried = self.untried();
        match untried.or_else(|| self.least()) {
            Some(next) if next != self.at => {
                let command = self.change(next, State::SteppingDown, now);
                self.is_trial = untried.is_some();
                command
            }
            _ => {
                self.state = State::Safe(Cause::LimitTooLow);
                Command::Keep
            }
        }
    }

    /// The error of the mode at a level of the load: the guess, unless the estimate excludes it.
    pub(super) fn error_beyond_noise(&self, estimate: &Estimate, level: f32) -> f32 {
        let (guess, _) = self.modes.error(self.at);
        let expected = self.modes.expected(self.at, level);
        match libm::fabsf(estimate.power - expected) > OVER_DEVIATIONS * estimate.deviation {
            true => guess * estimate.power / expected,
            false => guess,
        }
    }

    /// Whether the mode is a trial among the modes of least power and not measured yet.
    pub(super) fn is_trying(&self) -> bool {
        self.is_trial && self.is_new
    }

    /// Follows the limit: steps down when the present mode no longer fits, and up when a faster
    /// mode does.
    pub(super) fn follow(&mut self, since: Milliseconds, now: Milliseconds) -> Command {
        let (allowed, phase) = (self.allowed(), self.phase(now));
        // Hysteresis.
        let allowed = allowed * (1.0 + STAY_DEVIATIONS * self.ripple());
        let ripple = 1.0 + PEAK_DEVIATIONS * self.ripple();
        let fits = self.modes.expected(self.at, phase) * ripple <= allowed;
        if fits {
            if self.state == State::Safe(Cause::LimitTooLow) {
                self.state = State::Tracking;
            }
            return self.climb(phase, since, now);
        }
        if self.is_trying() {
            return Command::Keep;
        }
        match self.below(phase, now) {
            Some(next) if next != self.at => self.change(next, State::SteppingDown, now),
            _ if self.state == State::Safe(Cause::LimitTooLow) => Command::Keep,
            _ => self.limit_too_low(now),
        }
    }

    pub(super) fn climb(&mut self, phase: f32, since: Milliseconds, now: Milliseconds) -> Command {
        // A lighter load refills the token bucket.
        if phase < 0.95 * self.level_at_up {
            (self.ups, self.level_at_up) = (ALL_UPS, phase);
        }
        let is_time = now.since(since) >= DWELL && self.ups >= UP_EVERY.0;
        // After a gap in the readings, the mode is measured again first.
        let is_time = is_time && self.measured.is_some();
        if !is_time || self.state != State::Tracking || self.work == Work::None {
            return Command::Keep;
        }
        // The present phase counts before it ends, less one deviation of noise.
        let phase = phase.max(self.short_phase.0 * (1.0 - self.noise.deviation()));
        let allowed = self.allowed();
        let measured = (0..self.at)
            .filter(|&index| self.modes.is_measured(index))
            .take(2)
            .count();
        let reach = match measured {
            0 => FIRST_CLIMB,
            _ => CLIMB,
        };
        let reach = reach
            * match self.modes.is_unreachable(self.at) {
                true => self.modes.expected(self.at, 1.0),
                false => self.modes.predicted(self.at),
            };
        let nearest = (self.at + 1..N)
            .find(|&index| self.modes.is_choosable(index) && !self.modes.is_held(index, now));
        let next = self.modes.fastest(|index| {
            (self.modes.predicted(index) <= reach
                || self.modes.is_measured(index)
                || Some(index) == nearest)
                && self.bound(index, phase) <= allowed
                && !self.modes.is_held(index, now)
        });
        match next {
            Some(next) if next > self.at && self.saves(next, LEAST_GAIN) => {
                self.ups -= UP_EVERY.0;
                self.level_at_up = phase;
                self.change(next, State::ProbingUp, now)
            }
            _ => self.explore(phase, allowed, now),
        }
    }

    /// Whether the model predicts that a mode shortens a step of the workload by more than a part.
    pub(super) fn saves(&self, next: usize, part: f32) -> bool {
        let time = |index| self.modes.point(index).map_or(0, |point| point.time.0) as f32;
        time(next) < time(self.at) * (1.0 - part)
    }
}
