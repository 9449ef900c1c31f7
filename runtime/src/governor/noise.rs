//! Noise: the variation of the mean power over the limit's time span under a steady load.

/// Standard deviation before the first measurement, and its weight in pairs of means. Under steady
/// LLM inference, the readings of an AGX Orin have a standard deviation of 0.5 to 1.6 % (platform
/// reference, addendum). A reading averages over twice the limit's time span.
const INITIAL_DEVIATION: f32 = 0.007;
const INITIAL_WEIGHT: f32 = 16.0;

/// Maximum weight of the past, in pairs of means.
const MOST_WEIGHT: f32 = 64.0;

/// The noise of successive means, as part of the power.
#[derive(Clone, Debug)]
pub struct Noise {
    variance: f32,
    pairs: f32,
    /// Variance due to the sensor's steps.
    hidden: f32,
}

impl Noise {
    pub const fn new() -> Self {
        Self {
            variance: INITIAL_DEVIATION * INITIAL_DEVIATION,
            pairs: INITIAL_WEIGHT,
            hidden: INITIAL_DEVIATION * INITIAL_DEVIATION,
        }
    }

    /// Compares two successive means of the same load that do not overlap. `resolution` is the
    /// standard deviation of each due to the sensor's steps alone. All in mW.
    pub fn compare(&mut self, one: f32, other: f32, resolution: f32) {
        let size = other.max(1.0);
        let (part, resolution) = ((one - other) / size, resolution / size);
        // Limits the effect of an undetected step of the load.
        let square = (part * part / 2.0).min(9.0 * self.variance);
        self.pairs = (self.pairs + 1.0).min(MOST_WEIGHT);
        self.variance += (square - self.variance) / self.pairs;
        self.hidden += (resolution * resolution - self.hidden) / self.pairs;
    }

    /// Standard deviation of a true mean. Noise finer than the sensor's steps does not show, so the
    /// result is at least the deviation that the steps can hide, up to [`INITIAL_DEVIATION`]. The
    /// steps' own variance is subtracted from a larger one.
    pub fn deviation(&self) -> f32 {
        let first = INITIAL_DEVIATION * INITIAL_DEVIATION;
        let least = match self.variance > first {
            true => first,
            false => self.variance.max(self.hidden.min(first)),
        };
        libm::sqrtf((self.variance - self.hidden).max(least))
    }
}

/// Expected maximum of `number` standard normal deviates (Blom's approximation of order statistics
/// is within 0.1 of this).
pub fn highest_of(number: f32) -> f32 {
    (libm::sqrtf(2.0 * libm::logf(number + 1.0)) - 0.5).max(0.0)
}
