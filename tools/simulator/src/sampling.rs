//! Sampling of an INA3221: its own oscillator clocks the conversions, and each conversion cycle
//! updates the registers.
//!
//! A cycle converts shunt voltage and bus voltage of all three channels. Each conversion moves its
//! register by 1/`samples` of the difference to the converted value. A register is therefore a
//! first-order low-pass with a time constant of `samples` cycles (`jetson-platform.md`, section
//! 6.3).
//!
//! Sources: section 6.3 (L4T's setting, the averaging, the formula), and Linux for the rounding in
//! the driver: `Documentation/hwmon/ina3221.rst`, `drivers/hwmon/ina3221.c`. Assumptions:
//! - Channels without a rail are enabled too.
//! - All registers of a chip are updated at the end of its cycle.
//! - A write to the configuration starts a new cycle and keeps the registers: the data sheet does
//!   not say that it clears them.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// Maximum number of chips on a board.
pub const MOST_CHIPS: usize = 2;

/// Numbers of samples that a chip can average.
pub const SAMPLES: [u32; 8] = [1, 4, 16, 64, 128, 256, 512, 1024];

/// Selectable conversion times in µs.
const CONVERSION_US: [u32; 8] = [140, 204, 332, 588, 1100, 2116, 4156, 8244];

/// Number of enabled channels.
const ENABLED_CHANNELS: u32 = 3;

/// Relative noise of a bus voltage, drawn for each time slice of the machine.
///
/// Derived from the idle AGX Orins in `PROVENANCE.md`: with 512 samples the noise of a register at
/// 19.86 V is 1.7 mV. It explains the changes by one step that the 19.86 V rails show every minute,
/// and that the 5 V rail shows none.
const BUS_NOISE: f64 = 8e-4;

/// Configuration of a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// One of [`SAMPLES`].
    pub samples: u32,
    /// Conversion time of the shunt voltage, in µs; the bus voltage has the same.
    conversion_us: u32,
}

impl Sampling {
    /// L4T's setting.
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

    /// The time constant of the registers in whole ms.
    pub const fn time_constant_ms(self) -> u32 {
        (self.samples * self.cycle_us() + 500) / 1000
    }

    /// What `update_interval` shows: the time constant up to R35 (Linux 5.10), since R36 the time of
    /// one cycle (Linux 5.14, commit "use CVRF only for single-shot conversion").
    pub const fn interval_ms(self, release: u32) -> u32 {
        match release {
            ..36 => self.time_constant_ms(),
            _ => (self.cycle_us() + 500) / 1000,
        }
    }

    /// Time between two conversions for the same register, in µs.
    const fn cycle_us(self) -> u32 {
        ENABLED_CHANNELS * 2 * self.conversion_us
    }

    /// Weight of a register's old value after a number of conversions.
    fn left_after(self, conversions: u64) -> f64 {
        let left = 1.0 - 1.0 / f64::from(self.samples);
        match i32::try_from(conversions) {
            Ok(conversions) => left.powi(conversions),
            Err(_) => 0.0,
        }
    }

    /// Changes the number of samples to the closest one of [`SAMPLES`].
    pub fn with_samples(self, wanted: i64) -> Self {
        Self {
            samples: closest(&SAMPLES, wanted),
            ..self
        }
    }

    /// Changes the conversion time to the one whose interval is closest.
    pub fn with_interval_ms(self, wanted: i64) -> Self {
        let conversions = i64::from(ENABLED_CHANNELS * self.samples);
        let us = wanted.clamp(0, i64::from(u32::MAX)) * 1000 / 2;
        let each_us = (us + conversions / 2) / conversions;
        Self {
            conversion_us: closest(&CONVERSION_US, each_us),
            ..self
        }
    }
}

/// The closest entry of a table; the lower one if two are equally close.
fn closest(table: &[u32], wanted: i64) -> u32 {
    let far = |entry: &&u32| i64::from(**entry).abs_diff(wanted);
    *table.iter().min_by_key(far).expect("a table")
}

/// The conversion cycles of a chip over time.
#[derive(Clone, Debug)]
pub struct Chip {
    sampling: Sampling,
    /// Period of the chip's oscillator, relative to the nominal one.
    slowness: f64,
    cycle: Duration,
    /// End of the current cycle.
    due: Duration,
    random: ChaCha8Rng,
}

impl Chip {
    /// Creates a chip with L4T's setting. `seed` determines the phase of its first cycle.
    pub fn new(number: usize, slowness: f64, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        // The board uses stream 0.
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

    /// The end of the present cycle.
    pub fn due(&self) -> Duration {
        self.due
    }

    /// The chip's configuration.
    pub fn sampling(&self) -> Sampling {
        self.sampling
    }

    /// The true time constant of the registers, with the tolerance of the oscillator.
    pub fn time_constant(&self) -> Duration {
        self.cycle * self.sampling.samples
    }

    /// Writes the configuration, which starts a new cycle.
    pub fn set(&mut self, now: Duration, sampling: Sampling) {
        let nominal = Duration::from_micros(sampling.cycle_us().into());
        self.sampling = sampling;
        self.cycle = nominal.mul_f64(self.slowness);
        self.due = now + self.cycle;
    }

    /// Advances to `now`. Returns the weight w of the old values, 0 … 1: a register becomes
    /// w · old + (1 − w) · converted. Returns `None` if no cycle has ended.
    pub fn pass(&mut self, now: Duration) -> Option<f64> {
        let beyond = now.checked_sub(self.due)?;
        let cycle = self.cycle.as_nanos() as u64;
        let conversions = 1 + beyond.as_nanos() as u64 / cycle;
        self.due += Duration::from_nanos(conversions * cycle);
        Some(self.sampling.left_after(conversions))
    }

    /// Draws the relative error of a bus voltage in the next time slice.
    pub fn bus_noise(&mut self) -> f64 {
        let noise: f64 = StandardNormal.sample(&mut self.random);
        BUS_NOISE * noise.clamp(-3.0, 3.0)
    }
}
