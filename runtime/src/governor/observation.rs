//! Learning: at each look the governor books energy, estimates the level of the load, the error of
//! the mode and the noise, and plans the next look.

use super::interface::State;
use super::machine::{
    CLOCK_DELAY_MS, Compared, FIRST_ESTIMATE_MS, Governor, JUMP_LIFETIME, LAST_ESTIMATE_MS,
    NO_PHASE, SPAN, Steady, after,
};
use super::memory::Work;
use super::noise::highest_of;
use crate::estimator::{Estimate, Sample};
use crate::units::Milliseconds;

/// Minimum duration of a long phase in ms. Its mean is remembered without a correction for noise.
const LONG_PHASE_MS: u64 = 2_000;

/// Smoothing time of the GPU's load in ms, and the tolerance within which two loads are equal, in
/// permille.
const SMOOTHING_MS: u64 = 60;
const SAME_LOAD: u16 = 100;

impl<const N: usize> Governor<N> {
    /// Smooths the GPU's load, which some drivers measure over a few ms only.
    pub(super) fn smooth_load(&mut self, load: Option<u16>, passed: u64) {
        if let Some(load) = load {
            self.memory.record_load(load.min(1_000), passed);
        }
        self.gpu = match (self.gpu, load) {
            (Some(before), Some(now)) => {
                let (before, now) = (u64::from(before), u64::from(now.min(1_000)));
                let passed = passed.min(SMOOTHING_MS);
                let sum = before * (SMOOTHING_MS - passed) + now * passed;
                Some((sum / SMOOTHING_MS) as u16)
            }
            _ => load.map(|load| load.min(1_000)),
        };
    }

    /// Books the highest likely energy for a time without readings.
    pub(super) fn book_gap(&mut self, now: Milliseconds) {
        let expected = self.modes.expected(self.at, self.memory.highest().max(1.0));
        let power = self
            .estimator
            .estimate()
            .map_or(expected, |it| it.power.max(expected));
        let passed = now.since(self.booked_at).0;
        self.book(
            (power.clamp(0.0, 1e7) as u64 + 1).saturating_mul(passed),
            now,
        );
    }

    pub(super) fn book(&mut self, microjoules: u64, now: Milliseconds) {
        self.allowance
            .spend(microjoules, now.since(self.booked_at).0);
        self.booked = self.booked.saturating_add(microjoules);
        self.booked_at = now;
    }

    /// Feeds a plausible sample to the estimator. Returns whether the sensor is blind.
    pub(super) fn take_sample(&mut self, sample: Option<&Sample>, now: Milliseconds) -> bool {
        let sample = sample.filter(|sample| {
            let total = sample.total().0 as f32;
            self.requested.is_none() || self.modes.is_plausible(self.at, total)
        });
        let was_blind = self.liveness.is_blind();
        let is_blind = self.liveness.update(sample, self.gpu, now);
        if is_blind {
            self.book_gap(now);
            if !was_blind {
                self.estimator.forget();
            }
        } else if let Some(sample) = sample {
            let had = self.estimator.estimate().is_some();
            let before = self.estimator.energy_uj();
            self.estimator.look(sample, now);
            if had {
                let energy = self.estimator.energy_uj().saturating_sub(before);
                self.book(energy, now);
            } else {
                self.book_gap(now);
            }
        }
        is_blind
    }

    /// Schedules the next look: soon near the limit, late far from it, and sooner still when the
    /// power seems to change.
    pub(super) fn plan_look(&mut self, now: Milliseconds) {
        let look = self.settings.look.0;
        let allowed = self.allowance.reading(&self.settings).0 as f32;
        let is_fresh = self.since.is_some_and(|since| now.since(since) < SPAN);
        let Some(estimate) = self.estimator.estimate() else {
            self.due = after(now, look);
            return;
        };
        self.suspected = match self.estimator.is_suspicious() {
            true => Some(self.suspected.unwrap_or(now)),
            false => None,
        };
        let most = estimate.power + 4.0 * estimate.deviation;
        let is_suspected = self.suspected.is_some();
        let seems_over = is_suspected && estimate.power > allowed;
        let ms = if seems_over || self.has_just_jumped(now) {
            (look / 3).max(1)
        } else if is_suspected && most > 0.9 * allowed {
            (look / 2).max(1)
        } else if is_fresh || most > 0.85 * allowed {
            look
        } else {
            2 * look
        };
        self.due = after(now, ms.min(100));
    }

    /// Learns from the power in the present mode.
    pub(super) fn observe(
        &mut self,
        estimate: &Estimate,
        since: Milliseconds,
        now: Milliseconds,
        passed: u64,
    ) {
        let prediction = self.modes.predicted(self.at);
        let error = self.modes.error(self.at).0;
        let of_level = prediction * error;
        self.work = match (self.gpu, self.steps.work(now)) {
            // Its power tells nothing about the mode or the load.
            _ if self.is_throttled => Work::None,
            (None, Some(work)) => work,
            (gpu, _) => self.memory.work(gpu, estimate.power / of_level),
        };
        self.memory.pass(self.work, passed);
        self.mark_steady(estimate, since, now);
        let in_mode = now.since(since.max(self.missed)).0;
        if in_mode < SPAN.0 + CLOCK_DELAY_MS {
            return;
        }
        self.measured = self.estimator.mean(SPAN);
        let Some(mean) = self.measured else {
            return;
        };
        self.estimate_error(since, now);
        if self.work != Work::None {
            self.compare(mean, estimate, now);
        }
        // In a mode that is not measured yet, an error of the mode looks like a change of the load.
        if self.work != Work::None && !self.is_new {
            self.record_level(mean, of_level, now);
        }
        if !self.is_new && !matches!(self.state, State::Safe(_)) {
            self.state = State::Tracking;
        }
    }

    /// Records when the load became steady.
    pub(super) fn mark_steady(
        &mut self,
        estimate: &Estimate,
        since: Milliseconds,
        now: Milliseconds,
    ) {
        let from = after(since, CLOCK_DELAY_MS);
        let is_steady = self.steady.is_some_and(|steady| {
            let begun = steady.from;
            begun >= estimate.since && begun >= from && self.is_same_load(steady.gpu)
        });
        if now >= from && !is_steady {
            self.end_phase();
            self.begin_steady(None, now);
        }
    }

    fn begin_steady(&mut self, before: Option<f32>, now: Milliseconds) {
        self.steady = Some(Steady {
            from: now,
            energy: self.booked,
            gpu: self.gpu,
            before,
        });
    }

    /// The mean power in mW since the load became steady, and that time in ms; `None` below
    /// [`SPAN`].
    pub(super) fn steady_mean(&self, now: Milliseconds) -> Option<(f32, u64)> {
        let Steady { from, energy, .. } = self.steady?;
        let passed = now.since(from).0;
        let mean = self.booked.saturating_sub(energy) as f32 / passed as f32;
        (passed >= SPAN.0).then_some((mean, passed))
    }

    /// Whether the GPU's load is unchanged. An unknown load counts as unchanged.
    pub(super) fn is_same_load(&self, before: Option<u16>) -> bool {
        let loads = before.zip(self.gpu);
        loads.is_none_or(|(before, now)| before.abs_diff(now) <= SAME_LOAD)
    }

    /// Whether a change of the power since the mode before is the mode's. Without a model, slow cores starve the
    /// GPU in the lowest modes: its load tells the modes apart, not the loads.
    pub(super) fn is_of_mode(&self, before: Option<u16>) -> bool {
        self.modes.front().is_unknown() || self.is_same_load(before)
    }

    /// Estimates the error of the mode from the powers before and after the mode change, if the
    /// load was steady.
    pub(super) fn estimate_error(&mut self, since: Milliseconds, now: Milliseconds) {
        if self.work == Work::None {
            return;
        }
        let in_mode = now.since(since).0;
        if let Some(level) = self.level_of_unreachable() {
            if let Some(mean) = self.measured.filter(|_| in_mode >= FIRST_ESTIMATE_MS) {
                let error = mean / (self.modes.predicted(self.at) * level);
                self.modes.raise(self.at, error);
                self.is_new = false;
            }
            return;
        }
        let is_steady = self
            .steady
            .is_some_and(|steady| steady.from.since(since).0 <= 5 * CLOCK_DELAY_MS);
        let reference = self.reference.filter(|(_, gpu)| self.is_of_mode(*gpu));
        let Some((reference, _)) = reference.filter(|_| is_steady) else {
            // There is no reference. The first mode keeps its guessed error: a deviation is
            // attributed to the load.
            if self.is_new && !self.modes.is_measured(self.at) && self.before.is_none() {
                self.modes.raise(self.at, self.modes.error(self.at).0);
            }
            self.is_new = false;
            return;
        };
        if in_mode < self.next_estimate_ms.saturating_add(CLOCK_DELAY_MS)
            || self.next_estimate_ms > LAST_ESTIMATE_MS
        {
            return;
        }
        let Some((mean, passed)) = self.steady_mean(now) else {
            return;
        };
        let error = mean / (self.modes.predicted(self.at) * reference);
        // Both means have noise.
        let noise = self.noise.deviation();
        let noise = noise * noise * (1.0 + SPAN.0 as f32 / passed as f32);
        match self.next_estimate_ms == FIRST_ESTIMATE_MS {
            true => self.modes.learn(self.at, error, reference, noise),
            false => self.modes.refine(self.at, error),
        }
        self.is_new = false;
        self.next_estimate_ms = self.next_estimate_ms.saturating_mul(2);
    }

    /// In a least mode that the board cannot be in, until its error is known: the level of the load in the
    /// mode before.
    fn level_of_unreachable(&self) -> Option<f32> {
        let is_unknown = self.modes.is_unreachable(self.at) && !self.modes.is_measured(self.at);
        let jumped = self.jump.map_or(0.0, |jump| jump.level);
        let level = self.memory.highest().max(jumped);
        // The first mode of all: what the load draws elsewhere was never measured.
        let level = self.before.map_or(level.max(1.0), |_| level);
        is_unknown.then_some(level)
    }

    /// Estimates the noise from successive means of one phase in one mode.
    pub(super) fn compare(&mut self, mean: f32, estimate: &Estimate, now: Milliseconds) {
        let Some(last) = self.compared.filter(|last| last.at > estimate.since) else {
            // The first mean of a phase may overlap the previous phase.
            let is_whole = now.since(estimate.since) > SPAN;
            self.compared = is_whole.then_some(Compared {
                at: now,
                mean,
                before: None,
            });
            return;
        };
        if now.since(last.at) >= SPAN {
            // Compare the last mean only now: a step within it would have been detected since.
            if let Some(before) = last.before {
                let resolution = self.estimator.resolution(SPAN);
                self.noise.compare(last.mean, before, resolution);
            }
            self.compared = Some(Compared {
                at: now,
                mean,
                before: Some(last.mean),
            });
        }
    }

    /// Remembers the level of the present phase. A long phase counts with its mean, at once. A
    /// short phase counts when it ends, with its mean or, if it was not steady, its highest mean
    /// over [`SPAN`].
    pub(super) fn record_level(&mut self, mean: f32, of_level: f32, now: Milliseconds) {
        let level = mean / of_level;
        self.level_since_jump = self.level_since_jump.max(level);
        match self.steady_mean(now) {
            Some((mean, passed)) if passed >= LONG_PHASE_MS => {
                self.memory.record(mean / of_level);
                self.short_phase = NO_PHASE;
                if passed >= LAST_ESTIMATE_MS {
                    self.begin_steady(Some(mean), now);
                }
            }
            Some((mean, passed)) => self.short_phase = (mean / of_level, passed),
            None => self.short_phase = (self.short_phase.0.max(level), SPAN.0),
        }
        if let Some(jump) = self.jump
            && now.since(jump.at) >= JUMP_LIFETIME
        {
            // No mean since the jump would have exceeded the limit: the jump was short.
            if self.level_since_jump < jump.carried {
                self.harmless_level = self.harmless_level.max(jump.level);
            }
            self.jump = None;
        }
    }

    /// Ends a short phase. The highest of several noisy means overestimates its level, so the
    /// expected excess is subtracted.
    pub(super) fn end_phase(&mut self) {
        let (level, ms) = core::mem::replace(&mut self.short_phase, NO_PHASE);
        if level <= 0.0 {
            return;
        }
        let noise = self.ripple();
        let noise = noise * libm::sqrtf(SPAN.0 as f32 / ms.max(SPAN.0) as f32);
        let highest = self.memory.highest();
        if level > highest * (1.0 + 4.0 * noise) {
            self.peak_count = 1.0;
        } else if level > highest * (1.0 - 4.0 * noise) {
            self.peak_count += 1.0;
        }
        self.memory
            .record(level * (1.0 - highest_of(self.peak_count) * noise));
    }

    /// The level of the load and the GPU's load, if the load was steady for at least [`SPAN`].
    pub(super) fn steady_level(&self, now: Milliseconds) -> Option<(f32, Option<u16>)> {
        let mean = match self.steady_mean(now) {
            Some((mean, _)) => mean,
            None => self.steady?.before?,
        };
        if self.work == Work::None || self.is_new {
            return None;
        }
        Some((mean / self.modes.expected(self.at, 1.0), self.gpu))
    }
}
