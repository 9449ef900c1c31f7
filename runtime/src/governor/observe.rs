//! Learning: at each sample the governor books energy, estimates the level of the load, the error of
//! the mode and the noise, and plans the next sample.

use core::borrow::Borrow;

use super::fit::JUMP_LIFETIME;
use super::interface::{MOST_SAMPLE_INTERVAL, State};
use super::load::{Bursts, Jump, Phase, Signs};
use super::machine::{Governor, after};
use super::memory::Work;
use super::noise::highest_of;
use super::stay::{Compared, FIRST_ESTIMATE_MS, LAST_ESTIMATE_MS, Reference, Steady, YOUNG};
use crate::estimator::{Estimate, Sample};
use crate::front::Front;
use crate::quantities::Milliseconds;

/// Minimum duration of a long phase in ms. Its mean is remembered without a correction for noise.
const LONG_PHASE_MS: u64 = 2_000;

/// Samples are twice as frequent while a level may return whose power is this multiple of the limit.
const SOON_RETURN: f32 = 1.3;

/// The governor compares the mean over the last window with the mean since the load became steady. If they differ by
/// more than this number of standard deviations, the load drifts, and is no reference for the next mode.
const DRIFT_DEVIATIONS: f32 = 2.0;

/// Means of equal levels differ by at most this number of standard deviations.
const SAME_MEAN: f32 = 4.0;

impl<const N: usize, F: Borrow<Front<N>>> Governor<N, F> {
    /// Books the highest likely energy for a time without readings.
    pub(super) fn book_gap(&mut self, now: Milliseconds) {
        let level = self.load.memory.highest().max(1.0);
        let points = 0..self.modes.front().points().len();
        let expected = match self.stay.set {
            Some(_) => self.modes.expected(self.stay.at, level),
            // Another program's mode may be any. Without a front, the limit is all that is known.
            None if points.is_empty() => self.allowance.limit().power.0 as f32,
            None => points.fold(0.0, |most, index| {
                self.modes.expected(index, level).max(most)
            }),
        };
        let power = self
            .sensor
            .estimate()
            .map_or(expected, |it| it.power.max(expected));
        let passed = now.since(self.sensor.booked_at).0;
        self.book(
            (power.clamp(0.0, 1e7) as u64 + 1).saturating_mul(passed),
            now,
        );
    }

    pub(super) fn book(&mut self, microjoules: u64, now: Milliseconds) {
        self.allowance
            .spend(microjoules, now.since(self.sensor.booked_at).0);
        self.sensor.booked = self.sensor.booked.saturating_add(microjoules);
        self.sensor.booked_at = now;
    }

    /// Feeds a plausible sample to the estimator. Returns whether the sensor is blind.
    pub(super) fn take_sample(&mut self, sample: Option<&Sample>, now: Milliseconds) -> bool {
        let sample = sample.filter(|sample| {
            let total = sample.total().map(|total| total.0 as f32);
            let is_plausible = |total| self.modes.is_plausible(self.stay.at, total);
            total.is_some_and(|total| self.stay.requested.is_none() || is_plausible(total))
        });
        let was_blind = self.sensor.liveness.is_blind();
        let is_blind = self.sensor.liveness.update(sample, &self.load, now);
        if is_blind {
            self.book_gap(now);
            if !was_blind {
                self.sensor.estimator.forget();
            }
        } else if let Some(sample) = sample {
            let had = self.sensor.estimate().is_some();
            let before = self.sensor.estimator.energy_uj();
            self.sensor.estimator.update(sample, now);
            if had {
                let energy = self.sensor.estimator.energy_uj().saturating_sub(before);
                self.book(energy, now);
            } else {
                self.book_gap(now);
            }
        }
        is_blind
    }

    /// Schedules the next sample: soon near the limit, late far from it, and sooner still when the
    /// power seems to change.
    pub(super) fn plan_sample(&mut self, now: Milliseconds) {
        let interval = self.settings.sample_interval.0;
        let allowed = self.allowed();
        let is_fresh = self
            .stay
            .set
            .is_some_and(|set| now.since(set) < self.window);
        // What the load draws was never measured.
        let is_first = self.counts.changes == 1 && self.stay.measured.is_none();
        let Some(estimate) = self.sensor.estimate() else {
            self.due = after(now, interval);
            return;
        };
        self.sensor.suspect(now);
        let most = estimate.power + 4.0 * estimate.deviation;
        let is_suspected = self.sensor.suspected.is_some();
        let seems_over = is_suspected && estimate.power > allowed;
        let is_near = most > 0.85 * allowed;
        let seems_to_change = is_suspected && most > 0.9 * allowed;
        let is_soon = seems_to_change || is_first && is_near || self.borrows(now, SOON_RETURN);
        let ms = match () {
            () if seems_over || self.has_just_jumped(now) => (interval / 3).max(1),
            () if is_soon => (interval / 2).max(1),
            () if is_fresh || is_near => interval,
            () => 2 * interval,
        };
        self.due = after(now, ms.min(MOST_SAMPLE_INTERVAL));
    }

    /// Learns from the power in the present mode.
    pub(super) fn observe(&mut self, estimate: &Estimate, now: Milliseconds, passed: u64) {
        let Some(set) = self.stay.set else {
            return;
        };
        let of_level = self.modes.expected(self.stay.at, 1.0);
        let has_model = !self.modes.front().is_unknown();
        let level = estimate.power / of_level;
        let work = match self.load.is_throttled {
            // Its power tells nothing about the mode or the load.
            true => Work::Idle,
            false => self.load.memory.work(self.load.gpu, level, has_model),
        };
        self.load.set_work(work, now);
        // Anybody may tell steps: they can make a level last longer, and do no more to it.
        let remembered = match self.load.steps.stand_still(now) {
            true => Work::Idle,
            false => work,
        };
        self.load.memory.pass(remembered, passed);
        self.mark_steady(estimate, set, now);
        let in_mode = self.stay.in_mode(now).unwrap_or(0);
        if in_mode < self.window.0 + self.settings.settling.0 {
            self.record_burst(set, now);
            return;
        }
        self.stay.measured = self.sensor.estimator.mean(self.window);
        let Some(mean) = self.stay.measured else {
            return;
        };
        self.clock.measure();
        self.estimate_error(set, now);
        if self.load.works() {
            self.compare(mean, estimate, now);
        }
        // In a mode that is not measured yet, an error of the mode looks like a change of the load.
        if self.load.works() && !self.stay.is_new {
            self.record_level(mean, now);
        }
        if !self.stay.is_new && !matches!(self.state, State::Safe(_)) {
            self.state = State::Tracking;
        }
    }

    /// Throttling is reported some seconds late, so what was just measured is forgotten.
    pub(super) fn note_throttling(&mut self, is_throttled: bool, now: Milliseconds) {
        let begins = is_throttled && !self.load.is_throttled;
        self.load.is_throttled = is_throttled;
        self.stay.was_throttled |= is_throttled;
        let present = self.stay.set.map(|set| (self.stay.at, set));
        let young = [present, self.stay.before].into_iter().flatten();
        for (index, _) in young.filter(|(_, set)| begins && now.since(*set) < YOUNG) {
            self.modes.forget(index);
        }
    }

    /// Records when the load became steady.
    fn mark_steady(&mut self, estimate: &Estimate, set: Milliseconds, now: Milliseconds) {
        let from = after(set, self.settings.settling.0);
        let is_steady = self.stay.steady.is_some_and(|steady| {
            let begun = steady.from;
            begun >= estimate.since
                && begun >= from
                && steady.works == self.load.works()
                && self.load.is_same(steady.signs)
        });
        if now >= from && !is_steady {
            self.end_phase();
            self.begin_steady(None, now);
        }
    }

    fn begin_steady(&mut self, before: Option<f32>, now: Milliseconds) {
        self.stay.steady = Some(Steady {
            from: now,
            energy: self.sensor.booked,
            signs: self.load.signs(),
            works: self.load.works(),
            before,
        });
    }

    /// The mean power in mW since the load became steady, and that time in ms; `None` below
    /// the window.
    pub(super) fn steady_mean(&self, now: Milliseconds) -> Option<(f32, u64)> {
        let Steady { from, energy, .. } = self.stay.steady?;
        let passed = now.since(from).0;
        let mean = self.sensor.booked.saturating_sub(energy) as f32 / passed as f32;
        (passed >= self.window.0).then_some((mean, passed))
    }

    /// Whether a change of the power since the mode before is the mode's. Without a model, slow cores starve the
    /// GPU in the lowest modes: its load tells the modes apart, not the loads.
    pub(super) fn is_of_mode(&self, before: Signs) -> bool {
        self.modes.front().is_unknown() || self.load.is_same(before)
    }

    /// Estimates the error of the mode from the powers before and after the mode change, if the
    /// load was steady.
    fn estimate_error(&mut self, set: Milliseconds, now: Milliseconds) {
        if !self.load.works() {
            return;
        }
        let in_mode = now.since(set).0;
        if let Some(level) = self.level_of_unreachable() {
            if let Some(mean) = self.stay.measured.filter(|_| in_mode >= FIRST_ESTIMATE_MS) {
                let error = mean / (self.modes.predicted(self.stay.at) * level);
                self.modes.raise(self.stay.at, error);
                self.stay.is_new = false;
            }
            return;
        }
        let soon = 5 * self.settings.settling.0;
        let steady = self.stay.steady;
        let is_steady = steady.is_some_and(|steady| steady.from.since(set).0 <= soon);
        let reference = self
            .stay
            .reference
            .filter(|(_, signs)| self.is_of_mode(*signs));
        let Some((reference, _)) = reference.filter(|_| is_steady) else {
            // There is no reference. The first mode keeps its guessed error: a deviation is
            // attributed to the load.
            if self.stay.is_new
                && !self.modes.is_measured(self.stay.at)
                && self.stay.before.is_none()
            {
                self.modes
                    .raise(self.stay.at, self.modes.error(self.stay.at).0);
            }
            self.stay.is_new = false;
            return;
        };
        if in_mode
            < self
                .stay
                .next_estimate_ms
                .saturating_add(self.settings.settling.0)
            || self.stay.next_estimate_ms > LAST_ESTIMATE_MS
        {
            return;
        }
        let Some((mean, passed)) = self.steady_mean(now) else {
            return;
        };
        let error = mean / (self.modes.predicted(self.stay.at) * reference);
        // Both means have noise.
        let noise = self.load.noise.deviation();
        let noise = noise * noise * (1.0 + self.window.0 as f32 / passed as f32);
        match self.stay.next_estimate_ms == FIRST_ESTIMATE_MS {
            true => self.modes.learn(self.stay.at, error, reference, noise),
            false => self.modes.refine(self.stay.at, error),
        }
        self.stay.is_new = false;
        self.stay.next_estimate_ms = self.stay.next_estimate_ms.saturating_mul(2);
    }

    /// In a least mode that the board cannot be in, until its error is known: the level of the load in the
    /// mode before.
    fn level_of_unreachable(&self) -> Option<f32> {
        let is_unknown =
            self.modes.is_unreachable(self.stay.at) && !self.modes.is_measured(self.stay.at);
        let jumped = self.load.jump.map_or(0.0, |jump| jump.level);
        let level = self.load.memory.highest().max(jumped);
        // The first mode of all: what the load draws elsewhere was never measured.
        let level = self.stay.before.map_or(level.max(1.0), |_| level);
        is_unknown.then_some(level)
    }

    /// Estimates the noise from successive means of one phase in one mode.
    fn compare(&mut self, mean: f32, estimate: &Estimate, now: Milliseconds) {
        let Some(last) = self.stay.compared.filter(|last| last.at > estimate.since) else {
            // The first mean of a phase may overlap the previous phase.
            let is_whole = now.since(estimate.since) > self.window;
            self.stay.compared = is_whole.then_some(Compared {
                at: now,
                mean,
                before: None,
            });
            return;
        };
        if now.since(last.at) >= self.window {
            // Compare the last mean only now: a step within it would have been detected since.
            if let Some(before) = last.before {
                let resolution = self.sensor.estimator.resolution(self.window);
                self.load.noise.compare(last.mean, before, resolution);
            }
            self.stay.compared = Some(Compared {
                at: now,
                mean,
                before: Some(last.mean),
            });
        }
    }

    /// Remembers the level of the present phase. A long phase counts with its mean, at once. A
    /// short phase counts when it ends, with its mean or, if it was not steady, its highest mean
    /// over the window.
    fn record_level(&mut self, mean: f32, now: Milliseconds) {
        if let Some(jump) = self.load.jump
            && now.since(jump.at) >= JUMP_LIFETIME
        {
            self.end_jump(jump);
        }
        // What a mode draws that the board cannot be in tells nothing of the load.
        if self.modes.is_unreachable(self.stay.at) {
            return;
        }
        let of_level = self.modes.expected(self.stay.at, 1.0);
        let level = mean / of_level;
        self.load.level = level;
        if let Some(jump) = &mut self.load.jump {
            jump.mean = jump.mean.max(level);
        }
        match self.steady_mean(now) {
            Some((mean, passed)) if passed >= LONG_PHASE_MS => {
                self.load.memory.record(mean / of_level);
                self.load.short = Phase::NONE;
                if passed >= LAST_ESTIMATE_MS {
                    self.begin_steady(Some(mean), now);
                }
            }
            Some((mean, ms)) => {
                let level = mean / of_level;
                self.load.short = Phase { level, ms };
            }
            None => {
                let level = self.load.short.level.max(level);
                let ms = self.window.0;
                self.load.short = Phase { level, ms };
            }
        }
    }

    /// Follows a burst that is not answered by a step down.
    pub(super) fn follow_burst(&mut self, estimate: &Estimate) {
        let of_level = self.modes.expected(self.stay.at, 1.0);
        if estimate.power > self.allowed() {
            let mean = self.stay.measured.unwrap_or(0.0) / of_level;
            let bursts = &mut self.load.bursts;
            bursts.present = bursts.present.max(mean);
        } else if self.load.bursts.present > 0.0 {
            let noise = SAME_MEAN * self.ripple();
            let bursts = &mut self.load.bursts;
            let mean = core::mem::replace(&mut bursts.present, 0.0);
            bursts.note(0.0, mean, noise);
        }
    }

    /// Just after a step down for a jump: computes what the mean level over the window would have
    /// been without it.
    fn record_burst(&mut self, set: Milliseconds, now: Milliseconds) {
        let jump = self
            .load
            .jump
            .filter(|jump| Some(jump.at) == self.stay.requested);
        let (Some(_), Some((before, before_set))) = (jump, self.stay.before) else {
            return;
        };
        let window = self.window;
        let passed = now.since(set);
        // The window must not reach back beyond the mode before.
        let is_known = !self.modes.is_unreachable(self.stay.at);
        let reaches = is_known && after(before_set, window.0 + self.settings.settling.0) <= now;
        if !reaches || passed.0 == 0 || passed >= window {
            return;
        }
        let estimator = &self.sensor.estimator;
        let Some((all, since)) = estimator.mean(window).zip(estimator.mean(passed)) else {
            return;
        };
        let since = since * passed.0 as f32;
        let earlier = all * window.0 as f32 - since;
        let sum = earlier / self.modes.expected(before, 1.0)
            + since / self.modes.expected(self.stay.at, 1.0);
        if let Some(jump) = &mut self.load.jump {
            jump.mean = jump.mean.max(sum / window.0 as f32);
        }
    }

    /// Ends a jump. What its mean over the window was counts as a short phase.
    fn end_jump(&mut self, jump: Jump) {
        self.load.jump = None;
        if jump.carried <= 0.0 {
            return;
        }
        if jump.mean > 0.0 {
            let margin = highest_of(self.load.peaks) * self.ripple();
            self.load.memory.record(jump.mean * (1.0 - margin));
        }
        if jump.mean > 0.0 && jump.mean < jump.carried {
            self.load
                .bursts
                .note(jump.level, jump.mean, SAME_MEAN * self.ripple());
            // Credit the step up that leads back.
            self.steps_up.credit();
        } else if jump.level <= self.load.bursts.level {
            // Bursts of this level last longer now.
            self.load.bursts = Bursts::NONE;
        }
    }

    /// Ends a short phase. The highest of several noisy means overestimates its level, so the
    /// expected excess is subtracted.
    pub(super) fn end_phase(&mut self) {
        let Phase { level, ms } = core::mem::replace(&mut self.load.short, Phase::NONE);
        if level <= 0.0 {
            return;
        }
        let noise = self.ripple();
        let noise = noise * libm::sqrtf(self.window.0 as f32 / ms.max(self.window.0) as f32);
        let highest = self.load.memory.highest();
        if level > highest * (1.0 + SAME_MEAN * noise) {
            self.load.peaks = 1.0;
        } else if level > highest * (1.0 - SAME_MEAN * noise) {
            self.load.peaks += 1.0;
        }
        self.load
            .memory
            .record(level * (1.0 - highest_of(self.load.peaks) * noise));
    }

    /// The present level of the load, and its signs; `None` unless the load was steady for a window.
    pub(super) fn steady_level(&self, now: Milliseconds) -> Option<Reference> {
        let mean = match self.steady_mean(now) {
            Some((mean, _)) => mean,
            None => self.stay.steady?.before?,
        };
        let works = self.load.works() && self.stay.steady.is_some_and(|steady| steady.works);
        // A load that moves slowly differs from its mean by now.
        let resolution = self.sensor.estimator.resolution(self.window);
        let most = DRIFT_DEVIATIONS * (self.ripple() * mean + resolution);
        let measured = self.stay.measured.unwrap_or(mean);
        let drifts = libm::fabsf(measured - mean) > most;
        if !works || drifts || self.stay.is_new {
            return None;
        }
        Some((
            mean / self.modes.expected(self.stay.at, 1.0),
            self.load.signs(),
        ))
    }
}
