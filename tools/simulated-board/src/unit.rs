//! Units of a board: nominally equal ones differ. MIRAGE found 13 Jetson AGX Xavier whose
//! median powers lie 20–30 % apart and whose run times up to 10 %.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, LogNormal, Normal};

use crate::sampling::MOST_CHIPS;

/// How a unit differs from the board's nominal one. Factors, 1 for none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// On switched capacitance.
    pub switching: f64,
    /// On leakage.
    pub leakage: f64,
    /// On what regulators and the rest of the module draw.
    pub system: f64,
    /// On the time of everything.
    pub time: f64,
    /// Offset of each power sensor's shunt in µV, by chip and channel in order.
    pub shunt_offset_uv: [f64; 6],
    /// Gain of each power sensor.
    pub gain: [f64; 6],
    /// On the time from one conversion to the next of each chip of power sensors.
    pub sensor_time: [f64; MOST_CHIPS],
}

impl Unit {
    /// The one that published measurements are compared with.
    pub const NOMINAL: Self = Self {
        switching: 1.0,
        leakage: 1.0,
        system: 1.0,
        time: 1.0,
        shunt_offset_uv: [0.0; 6],
        gain: [1.0; 6],
        sensor_time: [1.0; MOST_CHIPS],
    };

    /// A unit drawn under a seed.
    pub fn drawn(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut around_one = |spread| {
            let factor = LogNormal::new(0.0, spread).expect("a spread");
            factor.sample(&mut random)
        };
        let [switching, leakage, system] = [0.08, 0.35, 0.12].map(&mut around_one);
        let time = around_one(0.02);
        // INA3221: ±40 µV typically and ±80 at most; gain 0.1 % typically and 0.25 at most.
        let mut bounded = |typical: f64| {
            let offset = Normal::new(0.0, typical).expect("a spread");
            offset
                .sample(&mut random)
                .clamp(-2.0 * typical, 2.0 * typical)
        };
        Self {
            switching,
            leakage,
            system,
            time,
            shunt_offset_uv: std::array::from_fn(|_| bounded(40.0)),
            gain: std::array::from_fn(|_| 1.0 + bounded(0.001)),
            // A conversion of 140 µs takes 154 at most. That it may be as much shorter, and
            // the spread, are assumed.
            sensor_time: std::array::from_fn(|_| 1.0 + bounded(0.05)),
        }
    }
}
