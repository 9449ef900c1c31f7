//! The bank of hypotheses: each one assumes a time of the last step of the power.

use super::Estimate;
use super::hypothesis::Hypothesis;
use super::sensor::{Chip, MOST_CHIPS, step};
use super::track::{Event, MOST_POWER, NO_EVENT, Track, View};
use crate::float::{max, min, sqrt};
use crate::quantities::Milliseconds;

/// Maximum number of hypotheses. More do not detect steps sooner (16 were tried).
const HYPOTHESES: usize = 12;

/// Prior rate of steps of the power in 1/s. The traces of real boards have 0.1 to 0.3. A lower rate
/// makes false steps rarer and detection later.
const STEPS_A_SECOND: f32 = 0.08;

/// Standard deviations of a step, as part of the power: of a change of phase, and of a start or an
/// end.
const STEP_SIZES: [f32; 2] = [0.1, 0.4];

/// Prior rate of pulses of the power in 1/s. A lower rate predicts the traces of the Orin NX worse;
/// a higher rate delays the detection of steps.
const PULSES_A_SECOND: f32 = 0.05;

/// Standard deviation of a pulse, as part of the power, and its maximum duration in ms: bursts on
/// an idle AGX Orin (traces).
const PULSE_SIZE: f32 = 0.4;
const PULSE_MS: f32 = 50.0;

/// Detection threshold: [`Bank::since`] moves to a step when the probability of no step falls below
/// this. With a ripple of 6 % there is less than one false step a minute
/// (tests/it/estimator/steps.rs).
const DETECTION_THRESHOLD: f32 = 0.05;

/// Suspicion threshold: [`Bank::is_suspicious`] when the probability of a step after
/// [`Bank::since`] exceeds this. On a steady load this affects one sample in four at worst
/// (tests/it/estimator/steps.rs).
const SUSPICION_THRESHOLD: f32 = 0.1;

/// Standard deviation of the ripple in means over [`RIPPLE_MS`](super::track::RIPPLE_MS), as part
/// of the power. The initial value is that of steady LLM inference on an AGX Orin (platform
/// reference, addendum: 0.5 to 1.6 % at 100 ms, which is 1.6 to 5 % at 10 ms). The range covers
/// real rails: the CPU rail of an idle AGX Orin has 1 (traces).
const INITIAL_RIPPLE: f32 = 0.04;
const RIPPLE_RANGE: (f32, f32) = (0.005, 2.0);

/// Learning rate of the ripple's variance: each sample contributes 1/25 of its excess, so the ripple
/// follows the load within some 25 samples.
const RIPPLE_RATE: f32 = 0.04;

/// Maximum excess of a sample that counts for the ripple.
const MOST_EXCESS: f32 = 8.0;

/// Prior at the first reading, as (standard deviation relative to the power, probability): of a
/// steady board, and of a board in the middle of a step. Assumed.
const INITIAL_PRIOR: [(f32, f32); 2] = [(0.02, 0.8), (0.3, 0.2)];

/// Standard deviation of the power after an expected change: a part of the change, because models
/// of power have this error, and a part of the total, because the rails' shares of the change are
/// unknown. Assumed.
const CHANGE_DEVIATION: f32 = 0.3;
const TOTAL_DEVIATION: f32 = 0.03;

/// Hypotheses about the time of the last step.
#[derive(Clone, Debug)]
pub struct Bank {
    /// The most probable one after the last sample is the first.
    hypotheses: [Hypothesis; HYPOTHESES],
    /// Ripple of each chip as part of its power.
    pub ripples: [f32; MOST_CHIPS],
    /// The time of the last detected step.
    pub since: Milliseconds,
}

impl Bank {
    /// Creates a bank without hypotheses.
    pub const fn new() -> Self {
        Self {
            hypotheses: [Hypothesis::FREE; HYPOTHESES],
            ripples: [INITIAL_RIPPLE; MOST_CHIPS],
            since: Milliseconds(0),
        }
    }

    /// Drops all hypotheses. The ripple stays.
    pub fn clear(&mut self) {
        self.hypotheses = [Hypothesis::FREE; HYPOTHESES];
    }

    /// Starts from the first readings.
    pub fn begin(
        &mut self,
        chips: &[Chip; MOST_CHIPS],
        readings: [f32; MOST_CHIPS],
        now: Milliseconds,
    ) {
        for (part, weight) in INITIAL_PRIOR {
            let mut tracks = [Track::NONE; MOST_CHIPS];
            for ((track, chip), reading) in tracks.iter_mut().zip(chips).zip(readings) {
                if reading > 0.0 {
                    let step = step(chip);
                    *track = Track::at(reading, part * reading + step, step);
                }
            }
            self.admit(Hypothesis {
                since: now,
                tracks,
                weight,
            });
        }
        self.since = now;
    }

    /// Announces a change of the power at the last sample, `last`: the power is expected to be
    /// `times` (0 … 100) the one before, within a part of the change.
    pub fn expect_change(&mut self, times: f32, last: Milliseconds) {
        let mut only = *self.heaviest();
        let total = only.power();
        for track in &mut only.tracks {
            let change = track.power * (times.clamp(0.0, 100.0) - 1.0);
            let deviation = CHANGE_DEVIATION * change.abs() + TOTAL_DEVIATION * total;
            track.power = (track.power + change).clamp(-MOST_POWER, MOST_POWER);
            track.covariance.power += deviation * deviation;
        }
        (only.since, only.weight, self.since) = (last, 1.0, last);
        self.hypotheses = [Hypothesis::FREE; HYPOTHESES];
        self.admit(only);
    }

    /// Advances all hypotheses to a sample, and adds the hypotheses of an event since the last sample.
    pub fn update(&mut self, views: &[View; MOST_CHIPS], ms: f32, last: Milliseconds) {
        let parent = *self.heaviest();
        let power = max(parent.power(), 0.0);
        let mut excesses = [0.0; MOST_CHIPS];
        let [first, others @ ..] = &mut self.hypotheses;
        first.update(views, NO_EVENT, Some(&mut excesses));
        for hypothesis in others.iter_mut().filter(|it| it.weight > 0.0) {
            hypothesis.update(views, NO_EVENT, None);
        }
        self.learn_ripple(excesses);
        let mut pulsed = parent;
        pulsed.weight *= min(PULSES_A_SECOND * ms / 1_000.0, 0.5);
        let pulse = PULSE_SIZE * power * min(PULSE_MS / ms, 1.0);
        pulsed.update(views, Event { step: 0.0, pulse }, None);
        self.merge(pulsed);
        for size in STEP_SIZES {
            let mut stepped = parent;
            stepped.since = last;
            stepped.weight *= min(STEPS_A_SECOND * ms / 1_000.0, 0.5) / STEP_SIZES.len() as f32;
            let step = size * power;
            stepped.update(views, Event { step, pulse: 0.0 }, None);
            self.admit(stepped);
        }
    }

    /// Normalises the weights after [`Self::update`], and decides whether there was a step.
    pub fn judge(&mut self) {
        self.normalise();
        self.decide();
    }

    /// Whether a step is suspected.
    pub fn is_suspicious(&self) -> bool {
        let later = self.hypotheses.iter().filter(|it| it.since > self.since);
        later.map(|it| it.weight).sum::<f32>() > SUSPICION_THRESHOLD
    }

    /// The most probable hypothesis of the last sample.
    fn heaviest(&self) -> &Hypothesis {
        let [first, ..] = &self.hypotheses;
        first
    }

    /// Updates the ripple from the excess of the hypothesis that was the most probable before the
    /// sample.
    fn learn_ripple(&mut self, excesses: [f32; MOST_CHIPS]) {
        let (least, most) = RIPPLE_RANGE;
        for (ripple, excess) in self.ripples.iter_mut().zip(excesses) {
            let times = 1.0 + RIPPLE_RATE * min(excess, MOST_EXCESS) / 2.0;
            *ripple = (*ripple * times).clamp(least, most);
        }
    }

    /// Merges with the first hypothesis, which has the same time of the last step. The more likely
    /// of the two stays.
    fn merge(&mut self, pulsed: Hypothesis) {
        let [parent, ..] = &mut self.hypotheses;
        let weight = parent.weight + pulsed.weight;
        if pulsed.weight > parent.weight {
            *parent = pulsed;
        }
        parent.weight = weight;
    }

    /// Replaces the least probable hypothesis that is older than the new one.
    fn admit(&mut self, new: Hypothesis) {
        let older = |it: &&mut Hypothesis| it.weight == 0.0 || it.since != new.since;
        let places = self.hypotheses.iter_mut().filter(older);
        if let Some(place) = places.min_by(|one, other| one.weight.total_cmp(&other.weight)) {
            *place = new;
        }
    }

    /// Scales the weights to a sum of 1, and moves the most probable hypothesis to the front.
    fn normalise(&mut self) {
        let sum: f32 = self.hypotheses.iter().map(|it| it.weight).sum();
        for hypothesis in &mut self.hypotheses {
            hypothesis.weight /= sum;
        }
        let [first, others @ ..] = &mut self.hypotheses;
        let best = others
            .iter_mut()
            .max_by(|one, other| one.weight.total_cmp(&other.weight));
        if let Some(best) = best.filter(|best| best.weight > first.weight) {
            core::mem::swap(first, best);
        }
    }

    /// Detects a step.
    fn decide(&mut self) {
        let without = self.hypotheses.iter().filter(|it| it.since <= self.since);
        if without.map(|it| it.weight).sum::<f32>() < DETECTION_THRESHOLD {
            self.since = self.heaviest().since;
        }
    }

    /// The power now.
    pub fn estimate(&self) -> Estimate {
        let mut powers = [(0.0, 0.0); HYPOTHESES];
        let mut power = 0.0;
        for (of_hypothesis, hypothesis) in powers.iter_mut().zip(&self.hypotheses) {
            *of_hypothesis = hypothesis.moments();
            power += hypothesis.weight * of_hypothesis.0;
        }
        let mut variance = 0.0;
        for ((of_hypothesis, own), hypothesis) in powers.into_iter().zip(&self.hypotheses) {
            let apart = of_hypothesis - power;
            variance += hypothesis.weight * (own + apart * apart);
        }
        Estimate {
            power,
            deviation: sqrt(variance),
            since: self.since,
        }
    }

    /// The mean registers of the chips in mW.
    #[inline]
    pub fn registers(&self) -> [f32; MOST_CHIPS] {
        let mut registers = [0.0; MOST_CHIPS];
        for hypothesis in &self.hypotheses {
            for (register, track) in registers.iter_mut().zip(&hypothesis.tracks) {
                if track.is_present() {
                    *register += hypothesis.weight * track.register;
                }
            }
        }
        registers
    }

    /// The mean registers in mW after the distances between register and power have decayed to
    /// these parts.
    pub fn forecast(&self, left: [f32; MOST_CHIPS]) -> [f32; MOST_CHIPS] {
        let mut shown = [0.0; MOST_CHIPS];
        for hypothesis in &self.hypotheses {
            for ((shown, track), left) in shown.iter_mut().zip(&hypothesis.tracks).zip(left) {
                let (power, register) = (track.power, track.register);
                *shown += hypothesis.weight * (power + (register - power) * left);
            }
        }
        shown
    }

    /// Ripple of the load: standard deviation of the power in means over
    /// [`RIPPLE_MS`](super::track::RIPPLE_MS), as part of the power.
    pub fn ripple(&self) -> f32 {
        let (mut ripple, mut power) = (0.0, 0.0);
        // Rails of one board ripple together.
        for (track, of_chip) in self.heaviest().tracks.iter().zip(self.ripples) {
            let of_track = max(track.power, 0.0);
            ripple += of_chip * of_track;
            power += of_track;
        }
        if power < 1.0 {
            INITIAL_RIPPLE
        } else {
            ripple / power
        }
    }
}
