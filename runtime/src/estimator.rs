//! The estimator: from readings of a power sensor that lags to the power that is drawn now.
//!
//! # The sensor
//!
//! An INA3221 averages as a low-pass of first order: at each conversion its register moves by
//! one part in `samples` towards the converted value (TI, data sheet SBOS576A, "Averaging
//! function"). With the power `x` and the register `y`,
//!
//! ```text
//! τ · dy/dt = x − y          τ = 430 ms with 512 samples, 54 ms with 64
//! ```
//!
//! A reading `z` is `y`, rounded to the steps of its rails.
//!
//! # Energy
//!
//! The equation above, integrated, needs no model of the power:
//!
//! ```text
//! ∫ x dt  =  ∫ y dt  +  τ · (y(end) − y(begin))
//! ```
//!
//! So the energy of any time span follows from the readings within it, whatever the power did in
//! between, and so does the mean power of a span ([`Estimator::mean`]). An error of one step in
//! the last reading is an error of τ / span steps in the mean.
//!
//! # Power now
//!
//! Each chip has a Kalman filter with the state `(x, y)`. Between two looks `dt` apart
//!
//! ```text
//! ┌ x ┐      ┌ 1      0 ┐ ┌ x ┐
//! └ y ┘  ←   └ 1 − a  a ┘ └ y ┘     a = exp(−dt / τ)
//! ```
//!
//! with a random walk of `x` for slow drifts and white noise of `x` for the ripple of the load.
//! The filter learns the size of the ripple from the readings: it grows where readings surprise the
//! filter more than they should, and shrinks where they surprise it less.
//!
//! # Rounding
//!
//! A reading says that `y` is within half a step of it, and nothing else. So the filter cuts off what
//! is outside, and takes the mean and the variance of the rest (the Gaussian fit of R. E. Curry,
//! Estimation and Control with Quantized Measurements, MIT Press 1970). A reading that repeats tells
//! little, however often it repeats. A reading that changes tells where between two steps `y` is.
//! This is exact for one rail. For a sum of rails, a half of the root of the sum of the squares of
//! their steps is an approximation.
//!
//! # Steps
//!
//! A load that starts or changes its phase steps. The estimator keeps a bank of hypotheses: one says
//! that there was no step of late, each of the others that there was one in the time before a
//! certain look. Each hypothesis has filters of its own, and a probability that each look multiplies
//! by how likely its filters find the readings (Bayes; R. P. Adams and D. J. C. MacKay, Bayesian
//! Online Changepoint Detection, 2007, arXiv:0710.3742; for jumps in a Kalman filter A. S. Willsky and
//! H. L. Jones, IEEE Transactions on Automatic Control 21, 1976). A look adds hypotheses of a step
//! since the look before, and the least probable ones give way to them.
//!
//! The [estimate](Estimator::estimate) is the mean over the hypotheses. Its deviation says how wide
//! each of them is and how far they lie apart: after a step it grows before the step is sure.
//!
//! A pulse, such as of a background task, moves the register and is over at the next look. So is a
//! reading that waited on the bus after its time was taken, as some in the traces of an Orin NX did.
//! Hence each look also adds the hypothesis that the power has only pulsed; it merges with its parent
//! at once.
//!
//! Readings may be missing or late, chips may have time constants of their own, and these may
//! change at any time.

use heapless::Deque;
use nalgebra::{Matrix2, Vector2};

use crate::units::{Milliseconds, Milliwatts};

/// The most chips that a total comes from: an INA3221 has four addresses on its bus.
pub const MOST_CHIPS: usize = 4;

/// A reading of the power sensor: of each chip the sum of the rails that belong to the module's
/// total. Chips that there are not show 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// In any order that stays.
    pub chips: [Milliwatts; MOST_CHIPS],
}

impl Sample {
    /// Of a sensor with one chip.
    pub fn one(power: Milliwatts) -> Self {
        let mut sample = Self::default();
        let [first, ..] = &mut sample.chips;
        *first = power;
        sample
    }

    /// Of the whole module, saturating.
    pub fn total(&self) -> Milliwatts {
        let powers = self.chips.iter().map(|chip| chip.0);
        Milliwatts(powers.fold(0, u32::saturating_add))
    }
}

/// How a chip of the sensor measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chip {
    /// The time constant of its low-pass: samples × the time of one conversion of all channels.
    /// 0 … 60,000 ms.
    pub time_constant: Milliseconds,
    /// The steps of its rails, each of which is one step of the shunt's voltage: the root of the
    /// sum of their squares.
    pub step: Milliwatts,
}

impl Chip {
    /// An INA3221 as L4T sets it: 512 samples. The step is that of a 5 mΩ shunt at 5 V.
    pub const L4T: Self = Self {
        time_constant: Milliseconds(430),
        step: Milliwatts(40),
    };
}

/// The power now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// In mW.
    pub power: f32,
    /// Its standard deviation in mW.
    pub deviation: f32,
    /// Since when the power is at this level, as far as the readings tell.
    pub since: Milliseconds,
}

/// The most hypotheses at a time. More detect steps no sooner (16 were tried).
const HYPOTHESES: usize = 12;

/// Steps of the power in a second. The traces of real boards have 0.1 to 0.3; fewer make false steps
/// rarer and true ones later.
const STEPS_A_SECOND: f32 = 0.08;

/// Standard deviations of a step, as part of the power: of a change of phase, and of a start or an
/// end.
const STEP_SIZES: [f32; 2] = [0.1, 0.4];

/// Pulses of the power in a second. With fewer the traces of the Orin NX are predicted worse; more
/// delay the detection of steps.
const PULSES_A_SECOND: f32 = 0.05;

/// Standard deviation of a pulse, as part of the power, and how long it lasts at most in ms: bursts on
/// an idle AGX Orin (traces).
const PULSE_SIZE: f32 = 0.4;
const PULSE_MS: f32 = 50.0;

/// [`Estimate::since`] moves to a step when the probability that there was none is below this: less
/// than one false step a minute with a ripple of 6 % (tests/estimator.rs).
const DOUBT: f32 = 0.05;

/// [`Estimator::is_suspicious`] where the probability of a step after [`Estimate::since`] is above
/// this: one look in four at worst on a steady load (tests/estimator.rs).
const SUSPICION: f32 = 0.1;

/// Random walk of the power in one second, as part of the ripple: what ripples much drifts much.
/// Predicts the traces best between 0.1 and 0.4; less is steadier.
const DRIFT: f32 = 0.15;

/// The ripple is white noise: its standard deviation in means over [`RIPPLE_MS`], as part of the
/// power. The first value is that of steady LLM inference on an AGX Orin (platform reference,
/// addendum: 0.5 to 1.6 % at 100 ms, which is 1.6 to 5 % at 10 ms). The others keep it within what
/// rails do: the CPU rail of an idle AGX Orin has 1 (traces).
const RIPPLE_MS: f32 = 10.0;
const RIPPLE_AT_FIRST: f32 = 0.04;
const RIPPLE_RANGE: (f32, f32) = (0.005, 2.0);

/// The part of a look's excess that changes the variance of the ripple: 1 / 25 of what one look
/// tells, so that the ripple follows the load within some 25 looks.
const RIPPLE_RATE: f32 = 0.04;

/// A look changes the variance of the ripple as if its excess were this at most.
const MOST_EXCESS: f32 = 8.0;

/// Standard deviation of a time constant, as part of it. A conversion of 140 µs takes 154 µs at most
/// (TI, data sheet SBOS576A).
const CLOCK: f32 = 0.04;

/// Correlation of the errors of two chips: between 1 for ripple, which moves all of them, and 0 for
/// rounding, which moves each alone.
const TOGETHER: f32 = 0.5;

/// Standard deviation of the power at the first reading, as part of it, and probability: of a board at
/// rest, and of one in the middle of a step. Assumed.
const AT_FIRST: [(f32, f32); 2] = [(0.02, 0.8), (0.3, 0.2)];

/// Standard deviation of the power after an expected change: a part of the change, as models of power
/// are that far off, and a part of the total, as nobody knows how the rails share the change. Assumed.
const OF_CHANGE: f32 = 0.3;
const OF_TOTAL: f32 = 0.03;

/// No power in mW is greater: 100 kW.
const MOST_POWER: f32 = 1e8;

/// A longer time constant of a chip counts as this one.
const LONGEST_TIME_CONSTANT: Milliseconds = Milliseconds(60_000);

/// A longer time in ms between two looks tells no more.
const LONGEST_MS: f32 = 60_000.0;

/// Energies are kept at least this far apart, and so many of them: 1.1 s and more.
const SPAN_MS: u64 = 18;
const ENERGIES: usize = 64;

/// What the time between two looks does to a chip.
#[derive(Clone, Copy, Debug)]
struct Passage {
    /// The part of the register that is left of before.
    decay: f32,
    /// The same after half of the time.
    half: f32,
    /// Variance that drift adds to the power, over the square of the ripple.
    drift: f32,
    /// Variance that ripple adds to the register, over the square of the ripple.
    ripple: f32,
}

impl Passage {
    fn new(ms: f32, time_constant: Milliseconds) -> Self {
        let half = decay(ms / 2.0, time_constant);
        let decay = half * half;
        // White noise through the low-pass; at most that of RIPPLE_MS.
        let seen = (RIPPLE_MS / (2.0 * time_constant.0.max(1) as f32)).min(1.0);
        Self {
            decay,
            half,
            drift: DRIFT * DRIFT * ms / 1_000.0,
            ripple: seen * (1.0 - decay * decay),
        }
    }
}

/// What is left of a register's distance from the power; nothing without a low-pass.
fn decay(ms: f32, time_constant: Milliseconds) -> f32 {
    match time_constant.0 {
        0 => 0.0,
        time_constant => libm::expf(-ms / time_constant as f32),
    }
}

/// What a hypothesis says that happened between two looks: standard deviations in mW.
#[derive(Clone, Copy, Debug)]
struct Event {
    step: f32,
    pulse: f32,
}

/// Neither a step nor a pulse.
const NOTHING: Event = Event {
    step: 0.0,
    pulse: 0.0,
};

/// The filter of one chip.
#[derive(Clone, Copy, Debug)]
struct Track {
    /// Power and register in mW.
    state: Vector2<f32>,
    covariance: Matrix2<f32>,
    /// By what part of it the variance of the ripple seems too small, by the last reading.
    excess: f32,
}

impl Track {
    /// Of a chip that there is not.
    const NONE: Self = Self {
        state: Vector2::new(0.0, 0.0),
        covariance: Matrix2::new(0.0, 0.0, 0.0, 0.0),
        excess: 0.0,
    };

    /// With the power at a reading, give or take a deviation.
    fn at(reading: f32, deviation: f32, step: f32) -> Self {
        Self {
            state: Vector2::new(reading, reading),
            covariance: Matrix2::new(deviation * deviation, 0.0, 0.0, step * step / 12.0),
            excess: 0.0,
        }
    }

    /// Lets time pass. Returns the variance of the register by ripple.
    fn predict(&mut self, view: &View, event: Event) -> f32 {
        let Passage {
            decay,
            half,
            drift,
            ripple,
        } = view.passage;
        let (gain, spread) = (1.0 - half, 1.0 - decay);
        // A power that is far from the register is not known well: no measure of noise.
        let level = self.state.x.min(3.0 * self.state.y).max(0.0);
        let rippling = view.ripple * level;
        let square = rippling * rippling;
        let ripple = ripple * square;
        // The power may change at any time in between: in the middle, give or take.
        let change = event.step * event.step + drift * square;
        let pulse = event.pulse * spread;
        let register = change * (gain * gain + spread * spread / 12.0) + ripple + pulse * pulse;
        let added = Matrix2::new(change, change * gain, change * gain, register);
        let transition = Matrix2::new(1.0, 0.0, spread, decay);
        self.state = transition * self.state;
        self.covariance = transition * self.covariance * transition.transpose() + added;
        ripple
    }

    /// Takes a reading into account. Returns ln of the probability of the reading.
    fn correct(&mut self, reading: f32, step: f32, ripple: f32) -> f32 {
        let variance = self.covariance.m22.max(0.01);
        let cut = Cut::new(reading - self.state.y, step / 2.0, variance);
        let gain = Vector2::new(self.covariance.m12, self.covariance.m22) / variance;
        self.state += gain * cut.mean;
        self.state.x = self.state.x.clamp(-MOST_POWER, MOST_POWER);
        self.covariance -= gain * gain.transpose() * (variance - cut.variance);
        // Where rounding errors of f32 would make it impossible.
        let (power, register) = (self.covariance.m11.max(1.0), self.covariance.m22.max(0.001));
        let most = 0.999 * libm::sqrtf(power * register);
        let both = self.covariance.m12.max(-most).min(most);
        self.covariance = Matrix2::new(power, both, both, register);
        let excess = (cut.variance + cut.mean * cut.mean) / variance - 1.0;
        self.excess = excess * ripple / variance;
        cut.likelihood
    }
}

/// What is left of a normal distribution of mean 0 within an interval.
struct Cut {
    mean: f32,
    variance: f32,
    /// ln of the probability of the interval.
    likelihood: f32,
}

impl Cut {
    /// Of an interval around a centre, and of a distribution of some variance.
    fn new(centre: f32, half: f32, variance: f32) -> Self {
        let deviation = libm::sqrtf(variance);
        let low = (centre.abs() - half) / deviation;
        let high = (centre.abs() + half) / deviation;
        if low > 4.0 || high - low < 0.5 {
            return Self::far_or_narrow(centre, half, variance);
        }
        let (at_low, at_high) = (density(low), density(high));
        let probability = (above(low) - above(high)).max(1e-9);
        let mean = (at_low - at_high) / probability;
        let left = 1.0 + (low * at_low - high * at_high) / probability - mean * mean;
        Self {
            mean: (mean * deviation).copysign(centre),
            variance: variance * left.clamp(0.001, 1.0),
            likelihood: libm::logf(probability),
        }
    }

    /// Where the differences above lose their digits: as with a normal error of the same variance.
    fn far_or_narrow(centre: f32, half: f32, variance: f32) -> Self {
        let error = half * half / 3.0;
        let sum = variance + error;
        let mean = centre * variance / sum;
        let width = 2.0 * half / libm::sqrtf(core::f32::consts::TAU * sum);
        Self {
            mean: mean.max(centre - half).min(centre + half),
            variance: variance * error / sum,
            likelihood: libm::logf(width) - centre * centre / (2.0 * sum),
        }
    }
}

/// The standard normal density.
fn density(x: f32) -> f32 {
    libm::expf(-x * x / 2.0) * 0.398_942_3
}

/// The probability that a standard normal number is above.
fn above(x: f32) -> f32 {
    libm::erfcf(x * core::f32::consts::FRAC_1_SQRT_2) / 2.0
}

/// The readings are in whole mW.
fn step(chip: &Chip) -> f32 {
    chip.step.0.clamp(1, 1 << 24) as f32
}

/// A look at a chip.
#[derive(Clone, Copy, Debug)]
struct View {
    reading: f32,
    step: f32,
    /// As part of the power.
    ripple: f32,
    passage: Passage,
}

/// Says since when the power is at its level, and follows it.
#[derive(Clone, Copy, Debug)]
struct Hypothesis {
    since: Milliseconds,
    tracks: [Track; MOST_CHIPS],
    /// Probability; 0 where the place is free.
    weight: f32,
}

impl Hypothesis {
    const FREE: Self = Self {
        since: Milliseconds(0),
        tracks: [Track::NONE; MOST_CHIPS],
        weight: 0.0,
    };

    fn power(&self) -> f32 {
        self.tracks.iter().map(|track| track.state.x).sum()
    }

    fn register(&self) -> f32 {
        self.tracks.iter().map(|track| track.state.y).sum()
    }

    /// Variance of the power.
    fn variance(&self) -> f32 {
        let variances = self.tracks.iter().map(|track| track.covariance.m11);
        let deviations: f32 = variances.clone().map(libm::sqrtf).sum();
        let alone: f32 = variances.sum();
        let lag = CLOCK * (self.power() - self.register());
        alone + TOGETHER * (deviations * deviations - alone) + lag * lag
    }

    /// Follows the power to the next look.
    fn follow(&mut self, views: &[View; MOST_CHIPS], event: Event) {
        let mut likelihood = 0.0;
        for (track, view) in self.tracks.iter_mut().zip(views) {
            if view.reading == 0.0 && track.state.y.abs() < view.step {
                *track = Track::NONE;
                continue;
            }
            let ripple = track.predict(view, event);
            likelihood += track.correct(view.reading, view.step, ripple);
        }
        // One that all readings contradict is still there if all others are, too.
        self.weight = (self.weight * libm::expf(likelihood.max(-60.0))).max(1e-30);
    }
}

/// Undoes the low-pass of a power sensor. In mW and ms.
#[derive(Clone, Debug)]
pub struct Estimator {
    chips: [Chip; MOST_CHIPS],
    hypotheses: [Hypothesis; HYPOTHESES],
    /// Ripple of each chip as part of its power.
    ripples: [f32; MOST_CHIPS],
    /// Since when there was no step.
    since: Milliseconds,
    /// Energy in µJ up to some looks, the newest at the back. None before the first reading.
    energies: Deque<(Milliseconds, i64), ENERGIES>,
    energy: i64,
    /// The part of a µJ that is not in `energy` yet.
    rest: f32,
}

impl Estimator {
    /// Nothing was read yet. Time constants beyond a minute count as one.
    pub fn new(chips: [Chip; MOST_CHIPS]) -> Self {
        let chips = chips.map(|chip| Chip {
            time_constant: chip.time_constant.min(LONGEST_TIME_CONSTANT),
            ..chip
        });
        Self {
            chips,
            hypotheses: [Hypothesis::FREE; HYPOTHESES],
            ripples: [RIPPLE_AT_FIRST; MOST_CHIPS],
            since: Milliseconds(0),
            energies: Deque::new(),
            energy: 0,
            rest: 0.0,
        }
    }

    /// A chip has another time constant from the last look on.
    pub fn set_time_constant(&mut self, chip: usize, time_constant: Milliseconds) {
        if let Some(chip) = self.chips.get_mut(chip) {
            chip.time_constant = time_constant.min(LONGEST_TIME_CONSTANT);
        }
    }

    /// The chips have other steps from the next look on, in mW as in [`Chip::step`].
    pub fn set_steps(&mut self, steps: [Milliwatts; MOST_CHIPS]) {
        for (chip, step) in self.chips.iter_mut().zip(steps) {
            chip.step = step;
        }
    }

    /// Nothing is known of the power any more, as after a sleep. Energy stays.
    pub fn forget(&mut self) {
        self.hypotheses = [Hypothesis::FREE; HYPOTHESES];
        self.energies.clear();
    }

    /// The power has changed at the last look: it is expected to be so many times the one before,
    /// give or take a part of the change. 0 … 100 times.
    pub fn expect_change(&mut self, times: f32) {
        let Some(&(last, _)) = self.energies.back().filter(|_| times.is_finite()) else {
            return;
        };
        let mut only = *self.heaviest();
        let total = only.power();
        for track in &mut only.tracks {
            let change = track.state.x * (times.clamp(0.0, 100.0) - 1.0);
            let deviation = OF_CHANGE * change.abs() + OF_TOTAL * total;
            track.state.x = (track.state.x + change).clamp(-MOST_POWER, MOST_POWER);
            track.covariance.m11 += deviation * deviation;
        }
        (only.since, only.weight, self.since) = (last, 1.0, last);
        self.hypotheses = [Hypothesis::FREE; HYPOTHESES];
        self.admit(only);
    }

    /// Takes readings into account. A time before the last one counts as that one.
    pub fn look(&mut self, sample: &Sample, now: Milliseconds) {
        let readings = sample.chips.map(|power| power.0.min(1 << 24) as f32);
        let Some(&(last, _)) = self.energies.back() else {
            self.begin(readings, now);
            return;
        };
        if now <= last {
            return;
        }
        let ms = now.since(last).0 as f32;
        let before = self.registers();
        let views = self.views(readings, ms.min(LONGEST_MS));
        self.follow(&views, ms.min(LONGEST_MS), last);
        self.normalise();
        self.decide();
        self.integrate(&before, ms, now);
    }

    /// The power now; `None` before the first reading.
    pub fn estimate(&self) -> Option<Estimate> {
        let _ = self.energies.back()?;
        let power = self.mean_of(Hypothesis::power);
        let variance = self.mean_of(|hypothesis| {
            let apart = hypothesis.power() - power;
            hypothesis.variance() + apart * apart
        });
        Some(Estimate {
            power,
            deviation: libm::sqrtf(variance),
            since: self.since,
        })
    }

    /// What the chips will show in mW so long after the last look, before rounding, if the power stays;
    /// `None` before the first reading.
    pub fn forecast(&self, ahead: Milliseconds) -> Option<[f32; MOST_CHIPS]> {
        let _ = self.energies.back()?;
        let left = self
            .chips
            .map(|chip| decay(ahead.0 as f32, chip.time_constant));
        let mut shown = [0.0; MOST_CHIPS];
        for hypothesis in &self.hypotheses {
            for ((shown, track), left) in shown.iter_mut().zip(&hypothesis.tracks).zip(left) {
                let (power, register) = (track.state.x, track.state.y);
                *shown += hypothesis.weight * (power + (register - power) * left);
            }
        }
        Some(shown)
    }

    /// The mean power in mW of the time up to the last look, from [`Self::estimate`]'s energy;
    /// `None` where the readings do not reach back so far, and for no span.
    pub fn mean(&self, span: Milliseconds) -> Option<f32> {
        let &(now, energy) = self.energies.back().filter(|_| span.0 > 0)?;
        let from = Milliseconds(now.0.checked_sub(span.0)?);
        let mut after: Option<(Milliseconds, i64)> = None;
        for &(at, then) in self.energies.iter().rev() {
            if at <= from {
                let part = match after {
                    Some((end, more)) if end > at => {
                        let part = from.since(at).0 as f32 / end.since(at).0 as f32;
                        more.saturating_sub(then) as f32 * part
                    }
                    _ => 0.0,
                };
                return Some((energy.saturating_sub(then) as f32 - part) / span.0 as f32);
            }
            after = Some((at, then));
        }
        None
    }

    /// Standard deviation of a [mean](Self::mean) over a span in mW, by the steps of the readings
    /// alone.
    pub fn resolution(&self, span: Milliseconds) -> f32 {
        let span = span.0.max(1) as f32;
        let registers = self.registers();
        let present = self
            .chips
            .iter()
            .zip(registers)
            .filter(|(_, register)| *register > 0.0);
        let variance = present.map(|(chip, _)| {
            let step = chip.step.0 as f32;
            // Of the two readings at the ends, and of those in between, which may all be alike.
            let ends = step * chip.time_constant.0 as f32 / span;
            ends * ends / 6.0 + step * step / 12.0
        });
        libm::sqrtf(variance.sum())
    }

    /// Standard deviation of the true mean over a span, as part of the power, by the ripple of the
    /// load.
    pub fn ripple(&self, span: Milliseconds) -> f32 {
        let (mut ripple, mut power) = (0.0, 0.0);
        // Rails of one board ripple together.
        for (track, of_chip) in self.heaviest().tracks.iter().zip(self.ripples) {
            let of_track = track.state.x.max(0.0);
            ripple += of_chip * of_track;
            power += of_track;
        }
        let ripple = if power < 1.0 {
            RIPPLE_AT_FIRST
        } else {
            ripple / power
        };
        ripple * libm::sqrtf(RIPPLE_MS / span.0.max(1) as f32)
    }

    /// Energy in µJ since the first reading.
    pub fn energy_uj(&self) -> u64 {
        self.energy.max(0).unsigned_abs()
    }

    /// The longest time constant of the chips that show anything.
    pub fn slowest(&self) -> Milliseconds {
        let chips = self.chips.iter().zip(self.registers());
        let present = chips.filter(|(_, register)| *register > 0.0);
        let times = present.map(|(chip, _)| chip.time_constant);
        times.max().unwrap_or(Milliseconds(0))
    }

    /// A step may be under way: another look soon tells.
    pub fn is_suspicious(&self) -> bool {
        let later = self.hypotheses.iter().filter(|it| it.since > self.since);
        later.map(|it| it.weight).sum::<f32>() > SUSPICION
    }

    fn begin(&mut self, readings: [f32; MOST_CHIPS], now: Milliseconds) {
        for (part, weight) in AT_FIRST {
            let mut tracks = [Track::NONE; MOST_CHIPS];
            for ((track, chip), reading) in tracks.iter_mut().zip(&self.chips).zip(readings) {
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
        let _ = self.energies.push_back((now, self.energy));
        self.since = now;
    }

    fn views(&self, readings: [f32; MOST_CHIPS], ms: f32) -> [View; MOST_CHIPS] {
        let mut views = self.chips.map(|chip| View {
            reading: 0.0,
            ripple: 0.0,
            step: step(&chip),
            passage: Passage::new(ms, chip.time_constant),
        });
        for ((view, reading), ripple) in views.iter_mut().zip(readings).zip(self.ripples) {
            view.reading = reading;
            view.ripple = ripple;
        }
        views
    }

    /// All hypotheses follow the power to a look. Those of an event since the last one join them.
    fn follow(&mut self, views: &[View; MOST_CHIPS], ms: f32, last: Milliseconds) {
        let parent = *self.heaviest();
        let power = parent.power().max(0.0);
        for hypothesis in self.hypotheses.iter_mut().filter(|it| it.weight > 0.0) {
            hypothesis.follow(views, NOTHING);
        }
        self.learn_ripple();
        let mut pulsed = parent;
        pulsed.weight *= (PULSES_A_SECOND * ms / 1_000.0).min(0.5);
        let pulse = PULSE_SIZE * power * (PULSE_MS / ms).min(1.0);
        pulsed.follow(views, Event { step: 0.0, pulse });
        self.merge(pulsed);
        for size in STEP_SIZES {
            let mut stepped = parent;
            stepped.since = last;
            stepped.weight *= (STEPS_A_SECOND * ms / 1_000.0).min(0.5) / STEP_SIZES.len() as f32;
            let step = size * power;
            stepped.follow(views, Event { step, pulse: 0.0 });
            self.admit(stepped);
        }
    }

    /// The heaviest hypothesis of the last look: the first.
    fn heaviest(&self) -> &Hypothesis {
        let [first, ..] = &self.hypotheses;
        first
    }

    /// From the surprise of the hypothesis that was the heaviest before the look.
    fn learn_ripple(&mut self) {
        let [parent, ..] = &self.hypotheses;
        let (least, most) = RIPPLE_RANGE;
        for (ripple, track) in self.ripples.iter_mut().zip(&parent.tracks) {
            let times = 1.0 + RIPPLE_RATE * track.excess.min(MOST_EXCESS) / 2.0;
            *ripple = (*ripple * times).clamp(least, most);
        }
    }

    /// With the first hypothesis, which says the same of the present. The likelier one stays.
    fn merge(&mut self, pulsed: Hypothesis) {
        let [parent, ..] = &mut self.hypotheses;
        let weight = parent.weight + pulsed.weight;
        if pulsed.weight > parent.weight {
            *parent = pulsed;
        }
        parent.weight = weight;
    }

    /// Takes the place of the lightest hypothesis that is not as new.
    fn admit(&mut self, new: Hypothesis) {
        let older = |it: &&mut Hypothesis| it.weight == 0.0 || it.since != new.since;
        let places = self.hypotheses.iter_mut().filter(older);
        if let Some(place) = places.min_by(|one, other| one.weight.total_cmp(&other.weight)) {
            *place = new;
        }
    }

    /// The weights are probabilities again, and the heaviest is the first.
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

    /// Whether there was a step.
    fn decide(&mut self) {
        let without = self.hypotheses.iter().filter(|it| it.since <= self.since);
        if without.map(|it| it.weight).sum::<f32>() < DOUBT {
            self.since = self.heaviest().since;
        }
    }

    /// Mean over the hypotheses.
    fn mean_of(&self, value: impl Fn(&Hypothesis) -> f32) -> f32 {
        self.hypotheses.iter().map(|it| it.weight * value(it)).sum()
    }

    fn registers(&self) -> [f32; MOST_CHIPS] {
        let mut registers = [0.0; MOST_CHIPS];
        for hypothesis in &self.hypotheses {
            for (register, track) in registers.iter_mut().zip(&hypothesis.tracks) {
                *register += hypothesis.weight * track.state.y;
            }
        }
        registers
    }

    /// Adds the energy since the last look.
    fn integrate(&mut self, before: &[f32; MOST_CHIPS], ms: f32, now: Milliseconds) {
        let mut energy = self.rest;
        for ((from, to), chip) in before.iter().zip(self.registers()).zip(&self.chips) {
            energy += (from + to) / 2.0 * ms + chip.time_constant.0 as f32 * (to - from);
        }
        let whole = libm::floorf(energy);
        self.rest = energy - whole;
        self.energy = self.energy.saturating_add(whole as i64);
        // The newest two may be closer than SPAN_MS.
        let mut newest = self.energies.iter().rev();
        let is_close = newest
            .next()
            .zip(newest.next())
            .is_some_and(|((last, _), (before, _))| last.since(*before).0 < SPAN_MS);
        if is_close {
            self.energies.pop_back();
        } else if self.energies.is_full() {
            self.energies.pop_front();
        }
        let _ = self.energies.push_back((now, self.energy));
    }
}
