//! When the registers of an INA3221 are renewed: after each cycle of conversions, by an
//! oscillator of its own.
//!
//! A cycle converts shunt and bus of all three channels. Each conversion moves its register by
//! one part in `samples` of the way to the converted value, so that a register is a low-pass of
//! first order whose time constant is `samples` cycles (`jetson-platform.md`, section 6.3).
//!
//! Sources: section 6.3 (L4T's setting, the averaging, the formula), and Linux, for how the
//! driver rounds: `Documentation/hwmon/ina3221.rst`, `drivers/hwmon/ina3221.c`. Assumptions:
//! channels without a rail are enabled too; all registers of a chip are renewed at the end of
//! its cycle; and a write to the configuration begins a cycle and leaves the registers as they
//! are, as the data sheet does not say that it clears them.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// Maximum number of chips on a board.
pub const MOST_CHIPS: usize = 2;

/// Numbers of samples that a chip can be set to.
pub const SAMPLES: [u32; 8] = [1, 4, 16, 64, 128, 256, 512, 1024];

/// Times that a conversion can take, in µs.
const CONVERSION_US: [u32; 8] = [140, 204, 332, 588, 1100, 2116, 4156, 8244];

/// Enabled channels.
const CHANNELS: u32 = 3;

/// Spread of a bus voltage from one slice of the machine's time to the next, as a part of the
/// voltage. Derived from the idle AGX Orins in `PROVENANCE.md`: with 512 samples it becomes a
/// spread of 1.7 mV in a register of 19.86 V, which is enough for the changes by one step that
/// the 19.86 V rails show in each minute, and too little for any on the 5 V rail.
const BUS_NOISE: f64 = 8e-4;

/// How a chip is set.
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

    /// L4T's conversion time with another number of samples.
    pub const fn of_samples(samples: u32) -> Self {
        Self {
            samples,
            ..Self::L4T
        }
    }

    /// The time constant of the registers in whole ms, as the driver shows it in
    /// `update_interval`.
    pub const fn interval_ms(self) -> u32 {
        (self.samples * self.cycle_us() + 500) / 1000
    }

    /// From one conversion of a register to the next, in µs.
    const fn cycle_us(self) -> u32 {
        CHANNELS * 2 * self.conversion_us
    }

    /// The part of a register that is left of its old value after so many conversions.
    fn left_after(self, conversions: u64) -> f64 {
        let left = 1.0 - 1.0 / f64::from(self.samples);
        match i32::try_from(conversions) {
            Ok(conversions) => left.powi(conversions),
            Err(_) => 0.0,
        }
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
    cycle: Duration,
    /// When the cycle that is under way ends.
    due: Duration,
    random: ChaCha8Rng,
}

impl Chip {
    /// The chip of this number as L4T sets it. Its first cycle ends at a time that depends on
    /// the seed.
    pub fn new(number: usize, slowness: f64, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        // Stream 0 is that of the board.
        random.set_stream(1 + number as u64);
        let phase = random.random_range(0.0..1.0);
        let mut chip = Self {
            sampling: Sampling::L4T,
            slowness,
            cycle: Duration::ZERO,
            due: Duration::ZERO,
            random,
        };
        chip.set(Duration::ZERO, Sampling::L4T);
        chip.due = chip.cycle.mul_f64(1.0 - phase);
        chip
    }

    /// How it is set.
    pub fn sampling(&self) -> Sampling {
        self.sampling
    }

    /// The time constant of its registers by its own oscillator.
    pub fn time_constant(&self) -> Duration {
        self.cycle * self.sampling.samples
    }

    /// A write to the configuration: a cycle begins anew.
    pub fn set(&mut self, now: Duration, sampling: Sampling) {
        let nominal = Duration::from_micros(sampling.cycle_us().into());
        self.sampling = sampling;
        self.cycle = nominal.mul_f64(self.slowness);
        self.due = now + self.cycle;
    }

    /// Lets time pass up to `now`. Gives the part that is left of the registers' old values, the
    /// rest being what was converted; nothing where no cycle has ended.
    pub fn pass(&mut self, now: Duration) -> Option<f64> {
        let beyond = now.checked_sub(self.due)?;
        let cycle = self.cycle.as_nanos() as u64;
        let conversions = 1 + beyond.as_nanos() as u64 / cycle;
        self.due += Duration::from_nanos(conversions * cycle);
        Some(self.sampling.left_after(conversions))
    }

    /// What a bus voltage is off by in the next slice, as a part of it.
    pub fn bus_noise(&mut self) -> f64 {
        let noise: f64 = StandardNormal.sample(&mut self.random);
        BUS_NOISE * noise.clamp(-3.0, 3.0)
    }
}
