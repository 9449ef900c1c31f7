//! How much the mean power over the limit's time span varies while the load stays the same.

/// Variances before anything was measured, as if from so many pairs of means: what is measured has
/// a standard deviation of 0.9 %, of which the ripple of the load has 0.7 %.
const MEASURED: f32 = 0.009 * 0.009;
const TRUE: f32 = 0.007 * 0.007;
const COUNTS: f32 = 16.0;

/// Pairs of means that count at most.
const MOST: f32 = 64.0;

/// The least standard deviation, as part of the power.
const LEAST: f32 = 0.002;

/// The noise of means that follow each other, as part of the power.
#[derive(Clone, Debug)]
pub struct Noise {
    measured: f32,
    truth: f32,
    pairs: f32,
}

impl Noise {
    pub fn new() -> Self {
        Self {
            measured: MEASURED,
            truth: TRUE,
            pairs: COUNTS,
        }
    }

    /// Two means of the same load that follow each other without time in common, and the standard
    /// deviation that the sensor's steps alone give each of them, all in mW.
    pub fn compare(&mut self, one: f32, other: f32, resolution: f32) {
        let size = other.max(1.0);
        let (part, resolution) = ((one - other) / size, resolution / size);
        // A step of the load that was not seen is no noise.
        let square = (part * part / 2.0).min(9.0 * self.measured);
        self.pairs = (self.pairs + 1.0).min(MOST);
        self.measured += (square - self.measured) / self.pairs;
        self.truth += (square - resolution * resolution - self.truth) / self.pairs;
    }

    /// Standard deviation of a mean as it is measured.
    pub fn measured(&self) -> f32 {
        libm::sqrtf(self.measured.max(LEAST * LEAST))
    }

    /// Standard deviation of the true mean: without what the sensor's steps add.
    pub fn true_mean(&self) -> f32 {
        // An estimate of a small difference may be too low by chance.
        let least = (self.measured / 4.0).max(LEAST * LEAST);
        libm::sqrtf(self.truth.max(least))
    }
}

/// The highest of so many standard normal deviates, in the mean (Blom's approximation of order
/// statistics is within 0.1 of this).
pub fn highest_of(number: f32) -> f32 {
    (libm::sqrtf(2.0 * libm::logf(number + 1.0)) - 0.5).max(0.0)
}
