//! Which mode is wanted: down when the power is over the limit or the mode no longer fits, up where a
//! faster one does.

use super::fit::PEAK_DEVIATIONS;
use super::interface::{Cause, Command, State};
use super::machine::{ALL_UPS, FOLLOWS, Governor, Jump, SPAN, TOLD_FIRST, UP_EVERY};
use super::memory::Work;
use crate::estimator::Estimate;
use crate::units::Milliseconds;

/// The estimate is not used for steps so soon after a change of the mode.
const SETTLES: u64 = 100;

/// A mode is left for a faster one after this time at the earliest.
const DWELL: Milliseconds = Milliseconds(1_500);

/// The estimate is over the limit when it is so by this number of standard deviations.
const OVER_DEVIATIONS: f32 = 3.0;

/// After a step that was seen for sure, this number is enough.
const OVER_AFTER_STEP: f32 = -0.5;

/// And so is this one soon after a step down for a jump: it was likely too small.
const OVER_AFTER_JUMP: f32 = 1.0;

/// A step that is suspected is told within this time, or is none.
const SUSPECTED: Milliseconds = Milliseconds(150);

/// A step is believed after this part of the sensor's time constant.
const TOLD_AFTER: u64 = 6;

/// A step that leads to a known phase of the load within this number of deviations is none to another.
const KNOWN_DEVIATIONS: f32 = 2.0;

/// To stay in a mode, so many of them less are enough: hysteresis.
const STAY_DEVIATIONS: f32 = 0.8;

/// A jump that is shorter does not carry the mean over [`SPAN`] over the limit if it never did.
const SHORT: Milliseconds = Milliseconds(200);

/// A rise that is not told as a step shows more in the mean over this time than in that over [`SPAN`].
const RECENT: Milliseconds = Milliseconds(250);

/// Where the power exceeds the limit so soon after a mode was set, the mode may be the cause, not the
/// load.
const YOUNG: Milliseconds = Milliseconds(10_000);

/// A mode that was over the limit as soon as it was set is held off for so long at first.
const HOLD: Milliseconds = Milliseconds(60_000);

/// The greatest step up, as the ratio of predictions: before a second mode has confirmed the level
/// of the load, and afterwards.
const FIRST_CLIMB: f32 = 1.15;
const CLIMB: f32 = 1.4;

impl<const N: usize> Governor<N> {
    pub(super) fn decide(&mut self, is_blind: bool, now: Milliseconds, passed: u64) -> Command {
        if self.asked.is_none() {
            return self.boot(now);
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
        if !self.liveness.is_heard(now) {
            // What is not read teaches nothing, nor does a mean across it.
            (self.steady, self.compared, self.measured) = (None, None, None);
            self.missed = self.due;
            return Command::Keep;
        }
        // What the step itself has shown so far is no phase that is known.
        let known = self.modes.expected(self.at, self.phase(now));
        self.observe(&estimate, since, now, passed);
        if self.measured.is_some_and(|mean| mean > self.allowed()) {
            self.over.0 += passed;
        }
        if let Some(power) = self.over(&estimate, known, since, now) {
            return self.go_down(power, &estimate, since, now);
        }
        // Another mode would hide a step that is about to be told.
        let is_suspected = self.suspected.is_some_and(|at| now.since(at) < SUSPECTED);
        if is_suspected || !self.is_told(&estimate, now) {
            return Command::Keep;
        }
        if self.liveness.is_in_doubt(now)
            && let Some(next) = self.shows(estimate.power)
        {
            self.liveness.try_out();
            // The way back is none.
            self.ups = self.ups.saturating_add(UP_EVERY.0);
            return self.change(next, State::SteppingDown, now);
        }
        self.follow(since, now)
    }

    /// The first mode, or the first after a sleep.
    pub(super) fn boot(&mut self, now: Milliseconds) -> Command {
        let first = match self.changes {
            0 => self.fastest_predicted(),
            _ => {
                let (phase, allowed) = (self.phase(now), self.allowed());
                self.modes.fastest(|index| {
                    self.bound(index, phase.max(1.0)) <= allowed && !self.modes.is_held(index, now)
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

    /// The power that is over what is allowed, if it is.
    pub(super) fn over(
        &self,
        estimate: &Estimate,
        known: f32,
        since: Milliseconds,
        now: Milliseconds,
    ) -> Option<f32> {
        let allowed = self.allowed();
        if now.since(since).0 < FOLLOWS {
            return None;
        }
        let mean = self.measured.unwrap_or(0.0);
        let is_slowly = mean - self.estimator.resolution(SPAN) > allowed;
        // A step was seen for sure; where it leads to is the question. A phase that is known fits.
        let has_stepped = now.since(estimate.since) < SPAN
            && estimate.since.0 > since.0.saturating_add(SETTLES)
            && estimate.power - KNOWN_DEVIATIONS * estimate.deviation > known;
        let deviations = match has_stepped {
            true => OVER_AFTER_STEP,
            false if self.has_just_jumped(now) && !self.is_trying() => OVER_AFTER_JUMP,
            false => OVER_DEVIATIONS,
        };
        let is_now = estimate.power - deviations * estimate.deviation > allowed;
        let level = estimate.power / self.modes.expected(self.at, 1.0);
        let is_short =
            level < 1.03 * self.short && now.since(estimate.since) < SHORT && self.jump.is_none();
        // Where the step is not seen yet, the last means have more of it.
        let is_in_mode = now.since(since).0 >= RECENT.0 + FOLLOWS;
        let recent = self.estimator.mean(RECENT).filter(|_| is_in_mode);
        let power = estimate.power + estimate.deviation;
        match (is_slowly, is_now) {
            (true, _) => Some(power.max(mean).max(recent.unwrap_or(0.0))),
            (false, true) if self.is_told(estimate, now) && !is_short => Some(power),
            _ => None,
        }
    }

    /// Of a step that has just begun, rounding tells more than the power.
    pub(super) fn is_told(&self, estimate: &Estimate, now: Milliseconds) -> bool {
        let slowest = self.estimator.slowest().0;
        let told_after = match self.is_trying() {
            true => 2 * slowest / TOLD_AFTER,
            false => slowest / TOLD_AFTER,
        };
        now.since(estimate.since).0 >= told_after
    }

    /// The mode was left for a jump so lately that it shows whether that was enough.
    pub(super) fn has_just_jumped(&self, now: Milliseconds) -> bool {
        self.jump.is_some_and(|jump| now.since(jump.at) <= SPAN)
    }

    /// Down at once, to a mode that fits at the level that the power tells.
    pub(super) fn go_down(
        &mut self,
        power: f32,
        estimate: &Estimate,
        since: Milliseconds,
        now: Milliseconds,
    ) -> Command {
        if self.state == State::Safe(Cause::LimitTooLow) {
            return Command::Keep;
        }
        // The least mode, as far as is known: its mean decides.
        let is_least = self.modes.is_measured(self.at) && self.least() == Some(self.at);
        if is_least || self.jump.is_some_and(|jump| jump.at > since) {
            return self.too_low(now);
        }
        let is_modes = estimate.since.0 <= since.0.saturating_add(3 * FOLLOWS);
        let is_young = now.since(since) < YOUNG;
        if is_modes && is_young {
            self.modes.hold(self.at, now, HOLD);
        }
        let phase = self.phase(now);
        let reference = self.reference.filter(|(_, gpu)| self.is_same_load(*gpu));
        let reference = reference.filter(|_| is_modes && is_young && self.is_new);
        let mut level = power / self.modes.expected(self.at, 1.0);
        match reference {
            // The load is as before, so it is the mode that draws more. Its neighbours may too: the step
            // down is as great as if it were the load.
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
            None => self.memory.came_back(level),
        }
        let fitting = self.fitting(level, now);
        let untried = match fitting {
            Some(_) => None,
            // Nothing fits, so that the least modes are compared, each by what it draws.
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
        self.since_jump = 0.0;
        self.jump = Some(Jump {
            at: now,
            level,
            carried: self.allowed() / self.modes.expected(self.at, 1.0),
        });
        let next = match fitting.or(untried).or_else(|| self.least()) {
            Some(next) if next != self.at => next,
            _ => return self.too_low(now),
        };
        self.violations = self.violations.saturating_add(1);
        let command = self.change(next, State::SteppingDown, now);
        // After a jump the load is not known to stay. Among the least modes it is taken to.
        self.reference = match (reference, fitting) {
            (Some((level, _)), _) => Some((level, self.gpu)),
            (None, None) => Some((level, self.gpu)),
            (None, Some(_)) => None,
        };
        self.is_trial = untried.is_some();
        command
    }

    /// The least mode does not fit. Others of the least may draw less than predicted: some are tried, one
    /// after another, each for as long as it takes to measure it.
    pub(super) fn too_low(&mut self, now: Milliseconds) -> Command {
        let is_told = self
            .steady_mean(now)
            .is_some_and(|(_, passed)| passed >= TOLD_FIRST);
        if !is_told {
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

    /// The error of the mode at a level of the load: what was guessed, if the estimate does not exclude it.
    pub(super) fn error_beyond_noise(&self, estimate: &Estimate, level: f32) -> f32 {
        let (guess, _) = self.modes.error(self.at);
        let expected = self.modes.expected(self.at, level);
        match libm::fabsf(estimate.power - expected) > OVER_DEVIATIONS * estimate.deviation {
            true => guess * estimate.power / expected,
            false => guess,
        }
    }

    /// One of the least modes is tried, and is not measured yet.
    pub(super) fn is_trying(&self) -> bool {
        self.is_trial && self.is_new
    }

    /// Follows the limit: down where the present mode no longer fits, up where a faster one does.
    pub(super) fn follow(&mut self, since: Milliseconds, now: Milliseconds) -> Command {
        let (allowed, phase) = (self.allowed(), self.phase(now));
        // To stay takes less than to come: hysteresis.
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
            _ => self.too_low(now),
        }
    }

    pub(super) fn climb(&mut self, phase: f32, since: Milliseconds, now: Milliseconds) -> Command {
        // A load that became lighter is another chance.
        if phase < 0.95 * self.level_at_up {
            (self.ups, self.level_at_up) = (ALL_UPS, phase);
        }
        let is_time = now.since(since) >= DWELL && self.ups >= UP_EVERY.0;
        // After a time without readings it is measured anew first.
        let is_time = is_time && self.measured.is_some();
        if !is_time || self.state != State::Tracking || self.work == Work::None {
            return Command::Keep;
        }
        // What the present phase has shown counts, although it may be noise.
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
        let reach = reach * self.modes.predicted(self.at);
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
            Some(next) if next > self.at && self.is_faster(next) => {
                self.ups -= UP_EVERY.0;
                self.level_at_up = phase;
                self.change(next, State::ProbingUp, now)
            }
            _ => Command::Keep,
        }
    }

    /// Whether the model says that a mode is faster than the present one by half a percent or more.
    pub(super) fn is_faster(&self, next: usize) -> bool {
        let time = |index| self.modes.point(index).map_or(0, |point| point.time.0);
        let (present, faster) = (time(self.at), time(next));
        faster < present - present / 200
    }
}
