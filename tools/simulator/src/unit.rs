//! Variation between units of one board type. MIRAGE measured 13 Jetson AGX Xavier: their median
//! powers differ by 20–30 %, their run times by up to 10 %.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, LogNormal, Normal};

use crate::sampling::MOST_CHIPS;
use crate::sensor::Channel;
use wattgate_board_tables::Board;

/// Deviations of a unit from the nominal one. Fields are factors unless they name a unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// The seed that it was drawn from; `None` for the nominal unit.
    pub seed: Option<u64>,
    /// Factor on the switched capacitance.
    pub switching: f64,
    /// Factor on the leakage.
    pub leakage: f64,
    /// Factor on the power of the regulators and the rest of the module.
    pub system: f64,
    /// Factor on all powers of the module.
    pub module: f64,
    /// Factor on all execution times.
    pub time: f64,
    /// Factor on the CPU's work for a launch, where kernels are timed one by one.
    pub launch: f64,
    /// Offset of the shunt voltage in µV, ordered by chip, then by channel.
    pub shunt_offset_uv: [f64; 6],
    /// Gain of each power sensor, in the same order.
    pub gain: [f64; 6],
    /// Factor on the conversion time of each power sensor chip.
    pub sensor_time: [f64; MOST_CHIPS],
}

/// How units differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Multiple of the usual spreads of switching, leakage and the rest.
    pub parts: f64,
    /// Deviation of ln of the factor on all powers.
    pub module: f64,
    /// Multiple of the usual spread of the times.
    pub time: f64,
}

impl Spread {
    /// That of [`Unit::drawn`].
    pub const USUAL: Self = Self {
        parts: 1.0,
        module: 0.0,
        time: 1.0,
    };

    /// All spreads times a factor.
    pub fn times(self, factor: f64) -> Self {
        Self {
            parts: factor * self.parts,
            module: factor * self.module,
            time: factor * self.time,
        }
    }
}

impl Unit {
    /// The nominal unit, which published measurements are compared with.
    pub const NOMINAL: Self = Self {
        seed: None,
        switching: 1.0,
        leakage: 1.0,
        system: 1.0,
        module: 1.0,
        time: 1.0,
        launch: 1.0,
        shunt_offset_uv: [0.0; 6],
        gain: [1.0; 6],
        sensor_time: [1.0; MOST_CHIPS],
    };

    /// The channels of the unit's power sensors, one for each rail.
    pub fn channels(&self, board: &Board) -> Vec<Channel> {
        let rails = board.rails.iter().enumerate();
        rails
            .map(|(at, rail)| Channel::new(rail, self.shunt_offset_uv[at], self.gain[at]))
            .collect()
    }

    /// The serial number in the device tree. That of a Jetson has 13 digits; this one cannot be mistaken for it.
    pub fn serial_number(&self) -> String {
        match self.seed {
            None => "simulated".to_owned(),
            Some(seed) => format!("simulated-{seed}"),
        }
    }

    /// The id that a corpus has: a CRC-32 of the serial number, as 8 hexadecimal digits.
    pub fn id(&self) -> String {
        format!("{:08x}", crc32fast::hash(self.serial_number().as_bytes()))
    }

    /// Draws a unit at random. Equal seeds give equal units.
    pub fn drawn(seed: u64) -> Self {
        Self::drawn_with(seed, Spread::USUAL)
    }

    /// As [`Unit::drawn`], with another spread.
    pub fn drawn_with(seed: u64, spread: Spread) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut around_one = |spread: f64| {
            let factor = LogNormal::new(0.0, spread).expect("a spread");
            factor.sample(&mut random)
        };
        let [switching, leakage, system] =
            [0.08, 0.35, 0.12].map(|usual| around_one(spread.parts * usual));
        let time = around_one(spread.time * 0.02);
        // INA3221: offset typically ±40 µV, at most ±80 µV; gain error typically 0.1 %, at most
        // 0.25 %.
        let mut bounded = |typical: f64| {
            let offset = Normal::new(0.0, typical).expect("a spread");
            offset
                .sample(&mut random)
                .clamp(-2.0 * typical, 2.0 * typical)
        };
        let shunt_offset_uv = std::array::from_fn(|_| bounded(40.0));
        let gain = std::array::from_fn(|_| 1.0 + bounded(0.001));
        // A conversion of 140 µs takes 154 µs at most. Assumed: it can be shorter by the same
        // amount, and the spread.
        let sensor_time = std::array::from_fn(|_| 1.0 + bounded(0.05));
        // The times of ShuffleNetV2, mostly launches, differ by 10 % at the upper quartile, 25 % at the
        // upper decile (MIRAGE, figure 2).
        let launch = LogNormal::new(0.0, 0.15).expect("a spread");
        let launch = launch.sample(&mut random);
        let module = LogNormal::new(0.0, spread.module).expect("a spread");
        Self {
            seed: Some(seed),
            switching,
            leakage,
            system,
            module: module.sample(&mut random),
            time,
            launch,
            shunt_offset_uv,
            gain,
            sensor_time,
        }
    }
}
