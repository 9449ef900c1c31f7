//! What every mode of a front draws, as far as is known: predicted, and measured where it was.

use heapless::Vec;

use super::{LEAST_RATIO, MOST_RATIO, ONE, SURPRISE, Settings, distance, ratio, scaled};
use crate::front::{Front, Point};
use crate::grid::ModeId;
use crate::units::{Confidence, Milliseconds, Milliwatts};

/// A mode is left whose power is not below what is allowed by so many eighths of the noise: one in
/// thousands of its results is above.
const STAY_EIGHTHS: u32 = 25;

/// And one in millions is above by more than this part, which is less than the noise of a short
/// period.
const RARE_EIGHTHS: u32 = 36;
const FAR: u32 = ONE / 50;

/// A result that is above what was expected by so many times the noise is a rise.
const RISE: u32 = 4;

/// Results are averaged over this time, of so many at least and at most.
const AVERAGED_MS: u64 = 3_456;
const LEAST_AVERAGED: u64 = 8;
const MOST_AVERAGED: u64 = 64;

/// The noise is averaged over so many times more. At first it is taken to be that of white noise
/// of a hundredth over the [`LEAST_AVERAGED`] part of that time, as if from so many results.
const LONGER: u32 = 4;
const NOISE_AT_FIRST: u32 = ONE / 100;
const WORTH: u32 = 4;

/// The marks of a point that must not be set, and of one that could not be set lately.
const EXCLUDED: u16 = u16::MAX;
const FAILED: u16 = EXCLUDED - 1;

/// The powers of a front's modes. Points are named by their index.
#[derive(Clone, Debug)]
pub struct Knowledge<const N: usize> {
    front: Front<N>,
    confidence: Confidence,
    near_margin: u32,
    /// Measured over predicted power of each point in Q12, relative to `drift`; 0 where it was
    /// not measured, [`EXCLUDED`] or [`FAILED`] where it is not to be chosen.
    known: Vec<u16, N>,
    /// Common to all ratios, in Q16, and from how many results.
    drift: u32,
    drifted: u32,
    /// The last full result was a rise of the drift, from this one; perhaps a part of it, perhaps
    /// none.
    rose_from: Option<u32>,
    /// The point whose ratio is new, and from how many results.
    fresh: (usize, u32),
    /// The most results that are averaged.
    averaged: u32,
    /// Mean distance of two results without time in common, in Q16 of their size, and from how
    /// many.
    noise: u32,
    compared: u32,
}

impl<const N: usize> Knowledge<N> {
    /// Nothing measured.
    pub fn new(front: Front<N>, settings: &Settings) -> Self {
        let mut known = Vec::new();
        // A front has at most as many points.
        let _ = known.resize(front.points().len(), 0);
        Self {
            front,
            confidence: settings.confidence,
            near_margin: settings.near_margin,
            known,
            drift: ONE,
            drifted: 0,
            rose_from: None,
            fresh: (0, 0),
            averaged: averaged(settings.period),
            noise: noise_at_first(settings.period),
            compared: WORTH,
        }
    }

    /// The front.
    pub fn front(&self) -> &Front<N> {
        &self.front
    }

    pub fn point(&self, index: usize) -> Option<&Point> {
        self.front.points().get(index)
    }

    /// The predicted power of a point in mW, without measurements.
    fn predicted(&self, index: usize) -> u32 {
        self.point(index).map_or(u32::MAX, |point| point.power.0)
    }

    /// The sensor has another period: the noise is another one.
    pub fn set_period(&mut self, period: Milliseconds) {
        self.averaged = averaged(period);
        (self.noise, self.compared) = (noise_at_first(period), WORTH);
    }

    /// How many results of a mode it takes to leave it for a faster one.
    pub fn enough(&self) -> u32 {
        self.averaged / LEAST_AVERAGED as u32
    }

    /// The margin, in Q16, with which a mode is left.
    pub fn margin(&self) -> u32 {
        let rarely_far = (RARE_EIGHTHS * self.noise / 8).saturating_sub(FAR);
        rarely_far.max(STAY_EIGHTHS * self.noise / 8)
    }

    /// The error of an average: so much more is the margin with which a mode is taken again, so
    /// that noise does not send the board to and fro. It falls with the root of their number.
    fn error_of_average(&self) -> u32 {
        let part = (u64::from(ONE) << 16) / u64::from(self.averaged.max(1));
        scaled(7 * self.noise / 2, part.isqrt() as u32)
    }

    /// A mode that is never to be chosen.
    pub fn exclude(&mut self, mode: ModeId) {
        let points = self.front.points().iter().zip(&mut self.known);
        for (_, known) in points.filter(|(point, _)| point.mode == mode) {
            *known = EXCLUDED;
        }
    }

    /// A point that could not be set. It is not to be chosen until it is forgiven.
    pub fn fail(&mut self, index: usize) {
        if let Some(known) = self.choosable_mut(index) {
            *known = FAILED;
        }
    }

    /// All points that could not be set may be chosen again.
    pub fn forgive(&mut self) {
        for known in self.known.iter_mut().filter(|known| **known == FAILED) {
            *known = 0;
        }
    }

    /// Whether a point may be chosen.
    pub fn is_choosable(&self, index: usize) -> bool {
        self.known.get(index).is_some_and(|known| *known < FAILED)
    }

    fn choosable_mut(&mut self, index: usize) -> Option<&mut u16> {
        self.known.get_mut(index).filter(|known| **known < FAILED)
    }

    /// How many points may be chosen.
    pub fn choosable(&self) -> usize {
        self.known.iter().filter(|known| **known < FAILED).count()
    }

    /// The point of least power that may be chosen.
    pub fn least(&self) -> Option<usize> {
        self.known.iter().position(|known| *known < FAILED)
    }

    /// The fastest point below a power that comes before another one.
    pub fn best(&self, power: Milliwatts, before: usize) -> Option<usize> {
        let mut points = (0..self.known.len().min(before)).rev();
        points.find(|&index| self.is_choosable(index) && self.bound(index) <= power.0)
    }

    /// Keeps the ratio of a point.
    pub fn remember(&mut self, at: usize, power: Milliwatts) {
        let found = ratio(power.0, self.predicted(at)).clamp(LEAST_RATIO, MOST_RATIO);
        let relative = (ratio(found, self.drift) >> 4).clamp(1, u32::from(FAILED) - 1);
        if let Some(known) = self.choosable_mut(at) {
            *known = relative as u16;
        }
    }

    /// Two results of a mode that have no time in common.
    pub fn compare(&mut self, power: Milliwatts, last: Milliwatts) {
        let size = distance(ratio(power.0, last.0)).min(ONE / 10);
        self.compared = (self.compared + 1).min(LONGER * self.averaged);
        self.noise = toward(self.noise, size, self.compared);
    }

    /// Takes a full result of a point over, which is within what is allowed or above. Returns how
    /// far it is from what was expected, in Q16.
    pub fn learn(&mut self, at: usize, power: Milliwatts, is_within: bool) -> u32 {
        let found = ratio(power.0, self.predicted(at)).clamp(LEAST_RATIO, MOST_RATIO);
        let knew = self.known.iter().any(|known| (1..FAILED).contains(known));
        let of_expected = ratio(found, self.ratio_of(at));
        let rose_from = self.rose_from.take();
        let surprise = if knew { distance(of_expected) } else { 0 };
        let is_known = self.known.get(at).is_some_and(|known| *known != 0);
        if !knew || surprise > SURPRISE {
            for known in self.known.iter_mut().filter(|known| **known < FAILED) {
                *known = 0;
            }
            self.set_drift(found);
            // It may hold some of the workload before, so that it is no knowledge of this mode.
            if surprise > SURPRISE {
                return surprise;
            }
        } else if let Some(before) = rose_from {
            // The result before held a part of the rise, or was noise: this one tells.
            self.set_drift(scaled(self.drift, of_expected).max(before));
            if is_known {
                return surprise;
            }
        } else if is_known && self.is_rise(of_expected) {
            self.rose_from = Some(self.drift);
            self.set_drift(scaled(self.drift, of_expected));
            return surprise;
        } else if is_known {
            self.average(at, power, of_expected);
            return surprise;
        }
        // The first one is a bound where it holds some of the mode before: the next one counts.
        let results = if knew && is_within { self.worth() } else { 0 };
        let power = toward(self.expected(at), power.0, results + 1);
        self.remember(at, Milliwatts(power));
        self.fresh = (at, results);
        surprise
    }

    /// Whether a power over what was expected, in Q16, is more than noise explains.
    pub fn is_rise(&self, of_expected: u32) -> bool {
        of_expected > ONE + RISE * self.noise.max(NOISE_AT_FIRST)
    }

    /// What is expected of a mode from its neighbours is worth so many results.
    fn worth(&self) -> u32 {
        let noises = u64::from(2 * ratio(self.noise, self.near_margin.max(1)));
        ((noises * noises) >> 32).min(u64::from(self.averaged) / 2) as u32
    }

    fn set_drift(&mut self, drift: u32) {
        (self.drift, self.drifted) = (drift.clamp(LEAST_RATIO, MOST_RATIO), 1);
    }

    /// A result of a point as it was expected but for noise: it belongs to the point while that
    /// is new, and later to the drift.
    fn average(&mut self, at: usize, power: Milliwatts, of_expected: u32) {
        match self.fresh {
            (fresh, results) if fresh == at && results < self.averaged => {
                self.fresh = (at, results + 1);
                let power = toward(self.expected(at), power.0, results + 1);
                self.remember(at, Milliwatts(power));
            }
            _ => {
                self.drifted = (self.drifted + 1).min(self.averaged);
                let found = scaled(self.drift, of_expected);
                let drift = toward(self.drift, found, self.drifted);
                self.drift = drift.clamp(LEAST_RATIO, MOST_RATIO);
            }
        }
    }

    /// Measured over predicted power of a point in Q16, by the nearest that was measured.
    pub fn ratio_of(&self, index: usize) -> u32 {
        self.nearest(index).map_or(self.drift, |(_, ratio)| ratio)
    }

    /// The nearest point that was measured, with its ratio.
    fn nearest(&self, index: usize) -> Option<(usize, u32)> {
        let known = self.known.iter().enumerate();
        let measured = known.filter(|(_, known)| (1..FAILED).contains(*known));
        let (at, known) = measured.min_by_key(|(at, _)| at.abs_diff(index))?;
        Some((at, scaled(u32::from(*known) << 4, self.drift)))
    }

    /// The power of a point without any margin, in mW.
    pub fn expected(&self, index: usize) -> u32 {
        scaled(self.predicted(index), self.ratio_of(index))
    }

    /// The power that a point stays below, in mW.
    pub fn bound(&self, index: usize) -> u32 {
        let predicted = self.predicted(index);
        let (ratio_near, doubt) = match self.nearest(index) {
            Some((near, known)) if near == index => (known, self.error_of_average()),
            Some((near, known)) => {
                let away = distance(ratio(predicted, self.predicted(near)));
                let growth = scaled(2 * self.guard(), away.min(ONE / 2));
                (known, self.near_margin + growth)
            }
            None => (self.drift, self.near_margin + self.guard()),
        };
        let margin = self.margin() + doubt;
        scaled(scaled(predicted, ratio_near), ONE + margin)
    }

    /// The margin of the model's guard band, in Q16.
    fn guard(&self) -> u32 {
        let band = self.front.power_guard();
        let factor = band.and_then(|band| band.factor(self.confidence).ok());
        factor.map_or(ONE, |factor| (factor.q16() - ONE).min(ONE))
    }
}

/// How many results are averaged.
fn averaged(period: Milliseconds) -> u32 {
    let results = AVERAGED_MS.checked_div(period.0).unwrap_or(0);
    results.clamp(LEAST_AVERAGED, MOST_AVERAGED) as u32
}

/// By the root of how much shorter a period is.
fn noise_at_first(period: Milliseconds) -> u32 {
    let shorter = (u64::from(averaged(period)) << 32) / LEAST_AVERAGED;
    scaled(NOISE_AT_FIRST, shorter.isqrt() as u32)
}

/// A mean with another value, of so many values then.
fn toward(mean: u32, value: u32, values: u32) -> u32 {
    let (mean, values) = (u64::from(mean), u64::from(values.max(1)));
    let sum = mean * (values - 1) + u64::from(value);
    sum.checked_div(values).map_or(value, |mean| mean as u32)
}
