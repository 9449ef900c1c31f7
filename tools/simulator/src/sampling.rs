//! When an INA3221 has results: after so many samples of all channels, by an oscillator of its
//! own.
//!
//! Sources: `jetson-platform.md`, section 6.3 (L4T's setting, the formula), and Linux, for how the
//! driver rounds: `Documentation/hwmon/ina3221.rst`, `drivers/hwmon/ina3221.c`. Assumed is that
//! channels without a rail are enabled too, and that all channels of a chip have their results
//! at once.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// Chips that a board has at most.
pub const MOST_CHIPS: usize = 2;

/// Numbers of samples that a result can be the mean of.
pub const SAMPLES: [u32; 8] = [1, 4, 16, 64, 128, 256, 512, 1024];

/// Times that a conversion can take, in µs.
const CONVERSION_US: [u32; 8] = [140, 204, 332, 588, 1100, 2116, 4156, 8244];

/// Enabled channels.
const CHANNELS: u32 = 3;

/// Spread of a bus voltage in mV from one result to the next. Assumed, for any number of samples.
const BUS_SPREAD_MV: f64 = 8.0;

/// What a result is the mean of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// One of [`SAMPLES`].
    pub samples: u32,
    /// Of the shunt's voltage, and the same of the bus voltage.
    conversion_us: u32,
}

impl Sampling {
    /// As L4T sets it.
    pub const L4T: Self = Self {
        samples: 512,
        conversion_us: 140,
    };

    /// From one result to the next, in whole ms as the driver shows it.
    pub const fn interval_ms(self) -> u32 {
        let us = CHANNELS * self.samples * 2 * self.conversion_us;
        (us + 500) / 1000
    }

    /// With the number of samples that is closest.
    pub fn with_samples(self, wanted: i64) -> Self {
        Self {
            samples: closest(&SAMPLES, wanted),
            ..self
        }
    }

    /// With the conversion time whose interval is closest.
    pub fn with_interval_ms(self, wanted: i64) -> Self {
        let conversions = i64::from(CHANNELS * self.samples);
        let us = wanted.clamp(0, i64::from(u32::MAX)) * 1000 / 2;
        let each_us = (us + conversions / 2) / conversions;
        Self {
            conversion_us: closest(&CONVERSION_US, each_us),
            ..self
        }
    }
}

/// The entry that is closest, the lower one of two.
fn closest(table: &[u32], wanted: i64) -> u32 {
    let far = |entry: &&u32| i64::from(**entry).abs_diff(wanted);
    *table.iter().min_by_key(far).expect("a table")
}

/// A chip in time.
#[derive(Clone, Debug)]
pub struct Chip {
    sampling: Sampling,
    /// The time of everything against the nominal one.
    slowness: f64,
    due: Duration,
    random: ChaCha8Rng,
}

impl Chip {
    /// The chip of this number as L4T sets it. Its first result comes within a period, at a time
    /// that depends on the seed.
    pub fn new(number: usize, slowness: f64, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        // Stream 0 is that of the board.
        random.set_stream(1 + number as u64);
        let phase = random.random_range(0.0..1.0);
        let mut chip = Self {
            sampling: Sampling::L4T,
            slowness,
            due: Duration::ZERO,
            random,
        };
        chip.due = chip.period().mul_f64(1.0 - phase);
        chip
    }

    /// What its results are the mean of.
    pub fn sampling(&self) -> Sampling {
        self.sampling
    }

    /// From one result to the next.
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.sampling.interval_ms().into()).mul_f64(self.slowness)
    }

    /// When the next result is ready.
    pub fn due(&self) -> Duration {
        self.due
    }

    /// A result begins anew: so a write to the chip's configuration ends (TI's data sheet).
    pub fn begin(&mut self, now: Duration, sampling: Sampling) {
        self.sampling = sampling;
        self.due = now + self.period();
    }

    /// A result was taken; the next one follows at once.
    pub fn go_on(&mut self) {
        self.due += self.period();
    }

    /// A bus voltage in mV as it is at the next result.
    pub fn bus_mv(&mut self, nominal_mv: f64) -> f64 {
        let spread: f64 = StandardNormal.sample(&mut self.random);
        nominal_mv + BUS_SPREAD_MV * spread.clamp(-2.0, 2.0)
    }
}
