//! How much the mean power over the limit's time span varies while the load stays the same.

/// Standard deviation before anything was measured, as if from [`COUNTS`] pairs of means. Steady LLM
/// inference on an AGX Orin has 0.5 to 1.6 % in readings (platform reference, addendum), whose
/// low-pass averages over twice the span.
const AT_FIRST: f32 = 0.007;
const COUNTS: f32 = 16.0;

/// Pairs of means that count at most.
const MOST: f32 = 64.0;

/// The noise of means that follow each other, as part of the power.
#[derive(Clone, Debug)]
pub struct Noise {
    variance: f32,
    pairs: f32,
    /// Of what the steps of the sensor hide.
    hidden: f32,
}

impl Noise {
    pub fn new() -> Self {
        Self {
            variance: AT_FIRST * AT_FIRST,
            pairs: COUNTS,
            hidden: AT_FIRST * AT_FIRST,
        }
    }

    /// Two means of the same load that follow each other without time in common, and the standard
    /// deviation that the sensor's steps alone give each of them, all in mW.
    pub fn compare(&mut self, one: f32, other: f32, resolution: f32) {
        let size = other.max(1.0);
        let (part, resolution) = ((one - other) / size, resolution / size);
        // A step of the load that was not seen is no noise.
        let square = (part * part / 2.0).min(9.0 * self.variance);
        self.pairs = (self.pairs + 1.0).min(MOST);
        self.variance += (square - self.variance) / self.pairs;
        self.hidden += (resolution * resolution - self.hidden) / self.pairs;
    }

    /// Standard deviation of a true mean. What is finer than the steps of the sensor does not show, so
    /// that no less is believed than they hide, up to the first value. Where means vary more than that,
    /// the steps have their part in it.
    pub fn deviation(&self) -> f32 {
        let first = AT_FIRST * AT_FIRST;
        let least = match self.variance > first {
            true => first,
            false => self.variance.max(self.hidden.min(first)),
        };
        libm::sqrtf((self.variance - self.hidden).max(least))
    }
}

/// The highest of so many standard normal deviates, in the mean (Blom's approximation of order
/// statistics is within 0.1 of this).
pub fn highest_of(number: f32) -> f32 {
    (libm::sqrtf(2.0 * libm::logf(number + 1.0)) - 0.5).max(0.0)
}
