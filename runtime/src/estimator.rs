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
//! with a random walk of `x` for slow drifts and white noise of `x` for the ripple of the load,
//! whose size is learned from the innovations. A step of `x` fits neither: then the filter goes
//! back to an earlier look, lets `x` be unknown from there on, and filters the readings since again.
//! Each of the last looks is tried, and the likeliest one is taken where the readings favour a step by
//! [`STEP_EVIDENCE`] over none (the generalised likelihood ratio test of Willsky and Jones, IEEE
//! Transactions on Automatic Control 21, 1976).
//!
//! Readings may be missing or late, chips may have time constants of their own, and these may
//! change at any time.

use heapless::{Deque, Vec};
use nalgebra::{Matrix2, RowVector2, Vector2};

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

/// The looks that a step is sought in. At 25 ms from one to the next they span 300 ms.
const LOOKS: usize = 12;

/// Twice the logarithm of how much likelier the readings are with a step than without one, from
/// which on a step is believed. Steps are taken to be as rare as one in 500 looks: 2 · ln 500.
const STEP_EVIDENCE: f32 = 9.0;

/// An innovation beyond this number of standard deviations is reason enough to look for a step.
const SUSPICIOUS: f32 = 2.0;

/// Standard deviations of a step, as part of the power, before anything is known of it: of a change
/// of phase, and of a start or an end.
const STEP_SIZES: [f32; 2] = [0.1, 0.5];

/// Random walk of the power in one second, as part of the power. Slower than this drifts with
/// temperature.
const DRIFT: f32 = 0.01;

/// The ripple is white noise: its standard deviation in means over [`RIPPLE_MS`], as part of the
/// power. The first value is that of steady LLM inference on an AGX Orin (platform reference,
/// addendum: 0.5 to 1.6 % at 100 ms), the others keep it within what loads do.
const RIPPLE_MS: f32 = 10.0;
const RIPPLE_AT_FIRST: f32 = 0.04;
const RIPPLE_RANGE: (f32, f32) = (0.005, 0.2);

/// How fast the ripple is learned: a part of each innovation's excess.
const RIPPLE_RATE: f32 = 0.04;

/// Energies are kept at least this far apart, and so many of them: 1.1 s and more.
const SPAN_MS: u64 = 18;
const ENERGIES: usize = 64;

/// The filter of one chip.
#[derive(Clone, Copy, Debug)]
struct Track {
    /// Power and register in mW.
    state: Vector2<f32>,
    covariance: Matrix2<f32>,
}

impl Track {
    /// At rest at a reading.
    fn at_rest(reading: f32, step: f32) -> Self {
        let (power, register) = (0.02 * reading + step, step * step / 12.0);
        Self {
            state: Vector2::new(reading, reading),
            covariance: Matrix2::new(power * power, 0.0, 0.0, register),
        }
    }

    /// Lets time pass.
    fn predict(&mut self, ms: f32, time_constant: f32, ripple: f32) {
        let decay = decay(ms, time_constant);
        let transition = Matrix2::new(1.0, 0.0, 1.0 - decay, decay);
        self.state = transition * self.state;
        let power = self.state.x.abs();
        let drift = DRIFT * power;
        let drift = drift * drift * ms / 1_000.0;
        // White noise of the power, of RIPPLE_MS, seen through the low-pass.
        let noise = ripple * power;
        let noise = noise * noise * RIPPLE_MS * (1.0 - decay * decay) / (2.0 * time_constant.max(1.0));
        let added = Matrix2::new(drift, drift * (1.0 - decay), drift * (1.0 - decay), noise);
        self.covariance = transition * self.covariance * transition.transpose() + added;
    }

    /// Variance of the next innovation.
    fn variance(&self, step: f32) -> f32 {
        self.covariance.m22 + step * step / 12.0
    }

    /// Takes a reading into account. The register is within half a step of it, surely.
    fn correct(&mut self, reading: f32, step: f32) {
        let variance = self.variance(step).max(1.0);
        let gain = Vector2::new(self.covariance.m12, self.covariance.m22) / variance;
        let innovation = reading - self.state.y;
        self.state += gain * innovation;
        let register = RowVector2::new(self.covariance.m21, self.covariance.m22);
        self.covariance -= gain * register;
        // Errors of rounding repeat as long as the reading does: more readings do not shrink them.
        self.covariance.m22 = self.covariance.m22.max(step * step / 12.0);
        self.state.y = self.state.y.clamp(reading - step / 2.0, reading + step / 2.0);
    }

    /// The power is unknown from now on, around a value.
    fn forget(&mut self, power: f32, deviation: f32) {
        self.state.x = power;
        self.covariance.m11 += deviation * deviation;
    }
}

/// exp(−ms / τ); 0 without a low-pass.
fn decay(ms: f32, time_constant: f32) -> f32 {
    if time_constant < 1.0 {
        return 0.0;
    }
    libm::expf(-ms / time_constant)
}

/// A look, and the filters after it.
#[derive(Clone, Debug)]
struct Look {
    at: Milliseconds,
    readings: [f32; MOST_CHIPS],
    tracks: [Track; MOST_CHIPS],
    /// Innovation of the total in standard deviations.
    deviations: f32,
    /// −2 · ln of the likelihood of its readings, given all before.
    surprise: f32,
}

/// Undoes the low-pass of a power sensor. In mW and ms.
#[derive(Clone, Debug)]
pub struct Estimator {
    chips: [Chip; MOST_CHIPS],
    tracks: [Track; MOST_CHIPS],
    /// The last looks, the newest at the back.
    looks: Deque<Look, LOOKS>,
    /// Ripple as part of the power.
    ripple: f32,
    /// Since when there was no step.
    since: Milliseconds,
    /// Since when there are readings without a longer gap.
    begun: Option<Milliseconds>,
    /// Energy in µJ up to some looks, the newest at the back.
    energies: Deque<(Milliseconds, i64), ENERGIES>,
    energy: i64,
}

impl Estimator {
    /// Nothing was read yet. Time constants beyond a minute count as one.
    pub fn new(chips: [Chip; MOST_CHIPS]) -> Self {
        let rest = Track::at_rest(0.0, 1.0);
        Self {
            chips,
            tracks: [rest; MOST_CHIPS],
            looks: Deque::new(),
            ripple: RIPPLE_AT_FIRST,
            since: Milliseconds(0),
            begun: None,
            energies: Deque::new(),
            energy: 0,
        }
    }

    /// A chip has another time constant from the last look on.
    pub fn set_time_constant(&mut self, chip: usize, time_constant: Milliseconds) {
        if let Some(chip) = self.chips.get_mut(chip) {
            chip.time_constant = time_constant;
        }
        self.looks.clear();
    }

    /// Nothing is known of the power any more, as after a sleep. Energy stays.
    pub fn forget(&mut self) {
        self.begun = None;
        self.looks.clear();
        self.energies.clear();
    }

    /// The power has changed at the last look: it is expected to be so many times the one before,
    /// give or take a part of the change.
    pub fn expect(&mut self, times: f32) {
        let total = self.power();
        for track in &mut self.tracks {
            let power = track.state.x * times;
            // Rails share the change in parts that nobody knows.
            let change = (power - track.state.x).abs();
            track.forget(power, 0.3 * change + 0.03 * total);
        }
        self.looks.clear();
        if let Some((at, _)) = self.energies.back() {
            self.since = *at;
        }
    }

    /// Takes readings into account. A time before the last one counts as that one.
    pub fn look(&mut self, sample: &Sample, now: Milliseconds) {
        let readings = sample.chips.map(|power| power.0.min(1 << 24) as f32);
        let Some(&(last, _)) = self.energies.back().filter(|_| self.begun.is_some()) else {
            self.begin(readings, now);
            return;
        };
        let ms = now.since(last).0;
        if ms == 0 {
            return;
        }
        let before = self.tracks;
        let (innovation, variance) = self.filter(&readings, ms as f32);
        let deviations = innovation / libm::sqrtf(variance);
        let surprise = deviations * deviations + libm::logf(variance);
        self.keep(Look {
            at: now,
            readings,
            tracks: self.tracks,
            deviations,
            surprise,
        });
        let is_step = self.is_suspicious() && self.find_step();
        if !is_step {
            self.learn_ripple(deviations);
        }
        self.integrate(&before, ms as f32, now);
    }

    /// The power now; `None` before the first reading.
    pub fn estimate(&self) -> Option<Estimate> {
        self.begun?;
        let variance: f32 = self.tracks.iter().map(|track| track.covariance.m11.max(0.0)).sum();
        Some(Estimate {
            power: self.power(),
            deviation: libm::sqrtf(variance),
            since: self.since,
        })
    }

    /// The mean power in mW of the time up to the last look, from [`Self::estimate`]'s energy;
    /// `None` where the readings do not reach back so far.
    pub fn mean(&self, span: Milliseconds) -> Option<f32> {
        let &(now, energy) = self.energies.back()?;
        let from = Milliseconds(now.0.checked_sub(span.0)?);
        let mut after: Option<(Milliseconds, i64)> = None;
        for &(at, then) in self.energies.iter().rev() {
            if at <= from {
                let part = match after {
                    Some((end, more)) if end > at => {
                        let part = from.since(at).0 as f32 / end.since(at).0 as f32;
                        (more - then) as f32 * part
                    }
                    _ => 0.0,
                };
                return Some(((energy - then) as f32 - part) / span.0.max(1) as f32);
            }
            after = Some((at, then));
        }
        None
    }

    /// Standard deviation of a [mean](Self::mean) over a span in mW, by the steps of the readings
    /// alone.
    pub fn resolution(&self, span: Milliseconds) -> f32 {
        let span = span.0.max(1) as f32;
        let variance = self.chips.iter().zip(&self.tracks).map(|(chip, _)| {
            let of_span = chip.step.0 as f32 * chip.time_constant.0 as f32 / span;
            of_span * of_span / 6.0
        });
        libm::sqrtf(variance.sum())
    }

    /// Standard deviation of the true mean over a span, as part of the power, by the ripple of the
    /// load.
    pub fn ripple(&self, span: Milliseconds) -> f32 {
        self.ripple * libm::sqrtf(RIPPLE_MS / span.0.max(1) as f32)
    }

    /// Energy in µJ since the first reading.
    pub fn energy_uj(&self) -> u64 {
        self.energy.max(0).unsigned_abs()
    }

    /// A step may be under way: another look soon tells.
    pub fn is_suspicious(&self) -> bool {
        // Whether the last innovations, from any look on, have a sum beyond chance.
        let (mut sum, mut looks) = (0.0, 0.0);
        self.looks.iter().rev().any(|look| {
            sum += look.deviations;
            looks += 1.0;
            sum * sum > SUSPICIOUS * SUSPICIOUS * looks
        })
    }

    fn power(&self) -> f32 {
        self.tracks.iter().map(|track| track.state.x).sum()
    }

    fn begin(&mut self, readings: [f32; MOST_CHIPS], now: Milliseconds) {
        for ((track, chip), reading) in self.tracks.iter_mut().zip(&self.chips).zip(readings) {
            *track = Track::at_rest(reading, chip.step.0 as f32);
        }
        self.looks.clear();
        self.energies.clear();
        let _ = self.energies.push_back((now, self.energy));
        (self.begun, self.since) = (Some(now), now);
    }

    /// One step of all filters. Returns the innovation of the total and its variance.
    fn filter(&mut self, readings: &[f32; MOST_CHIPS], ms: f32) -> (f32, f32) {
        let (mut innovation, mut variance) = (0.0, 1.0);
        for ((track, chip), reading) in self.tracks.iter_mut().zip(&self.chips).zip(readings) {
            let step = chip.step.0 as f32;
            // A chip that there is not.
            if *reading == 0.0 && track.state.y.abs() < step.max(1.0) {
                *track = Track::at_rest(0.0, 0.0);
                continue;
            }
            track.predict(ms, chip.time_constant.0 as f32, self.ripple);
            innovation += reading - track.state.y;
            variance += track.variance(step);
            track.correct(*reading, step);
        }
        (innovation, variance)
    }

    fn keep(&mut self, look: Look) {
        if self.looks.is_full() {
            self.looks.pop_front();
        }
        let _ = self.looks.push_back(look);
    }

    /// Tries a step after each of the last looks but the newest. Takes the likeliest one if there
    /// is evidence for it.
    fn find_step(&mut self) -> bool {
        let kept = self.tracks;
        let mut best = (STEP_EVIDENCE, None);
        for from in 0..self.looks.len().saturating_sub(1) {
            let without: f32 = self.looks.iter().skip(from + 1).map(|look| look.surprise).sum();
            for size in STEP_SIZES {
                let evidence = without - self.with_step(from, size, |_, _, _| {});
                if evidence > best.0 {
                    best = (evidence, Some((from, size)));
                }
            }
        }
        self.tracks = kept;
        let Some((from, size)) = best.1 else {
            return false;
        };
        let mut looks = self.looks.clone();
        let mut since = self.since;
        self.with_step(from, size, |at, tracks, surprise| {
            if let Some(look) = looks.iter_mut().find(|look| look.at == at) {
                (look.tracks, look.surprise) = (*tracks, surprise);
            }
        });
        if let Some(start) = looks.iter().nth(from) {
            since = start.at;
        }
        (self.looks, self.since) = (looks, since);
        true
    }

    /// Filters the looks after one of them again, with a step of about a size after that one. Calls
    /// `each` with their times, filters and surprises, and returns the sum of these.
    fn with_step(
        &mut self,
        from: usize,
        size: f32,
        mut each: impl FnMut(Milliseconds, &[Track; MOST_CHIPS], f32),
    ) -> f32 {
        let looks: Vec<(Milliseconds, [f32; MOST_CHIPS]), LOOKS> = {
            let rest = self.looks.iter().skip(from + 1);
            rest.map(|look| (look.at, look.readings)).collect()
        };
        let Some(start) = self.looks.iter().nth(from) else {
            return f32::MAX;
        };
        let mut last = start.at;
        self.tracks = start.tracks;
        let deviation = size * self.power();
        for track in &mut self.tracks {
            track.forget(track.state.x, deviation);
        }
        let mut sum = 0.0;
        for (at, readings) in looks {
            let (innovation, variance) = self.filter(&readings, at.since(last).0 as f32);
            let surprise = innovation * innovation / variance + libm::logf(variance);
            each(at, &self.tracks, surprise);
            sum += surprise;
            last = at;
        }
        sum
    }

    fn learn_ripple(&mut self, deviations: f32) {
        let excess = (deviations * deviations - 1.0).min(8.0);
        let (least, most) = RIPPLE_RANGE;
        self.ripple = (self.ripple * (1.0 + RIPPLE_RATE * excess / 2.0)).clamp(least, most);
    }

    /// Adds the energy since the last look.
    fn integrate(&mut self, before: &[Track; MOST_CHIPS], ms: f32, now: Milliseconds) {
        let mut energy = 0.0;
        for ((track, before), chip) in self.tracks.iter().zip(before).zip(&self.chips) {
            let (from, to) = (before.state.y, track.state.y);
            energy += (from + to) / 2.0 * ms + chip.time_constant.0 as f32 * (to - from);
        }
        self.energy = self.energy.saturating_add(energy as i64);
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
