//! Random factors.

use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, LogNormal};

/// A log-normal factor with the median 1 and a relative spread.
pub fn around_one(spread: f64, random: &mut ChaCha8Rng) -> f64 {
    let factor = LogNormal::new(0.0, spread).expect("a spread");
    factor.sample(random)
}
