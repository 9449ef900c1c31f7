//! The boards, each with its model, its limits and its supply; and the settings of the sensor.

use std::time::Duration;

use wattgate_simulated_board::sampling::Sampling;

/// What runs at first; the models are of it.
pub const WORKLOAD: &str = "resnet18";

/// A board with its model and limits.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The board, and the model's file is named after it.
    pub board: &'static str,
    /// The mode of nvpmodel without caps, which is set before.
    pub maxn: Option<u32>,
    /// The limit in mW.
    pub limit_mw: u32,
    /// The limits of scenarios in which it changes, one after another.
    pub stepped_mw: [u32; 3],
    /// The driver lets the sensor be set: that of JetPack 4 does not.
    pub sets_sensor: bool,
    /// Orders for a battery that empties in three steps: a little, much, and so far that OC1
    /// events come under the limit.
    pub battery: [&'static str; 3],
}

/// The boards.
pub const CASES: [Case; 3] = [
    Case {
        board: "orin-agx-64",
        maxn: Some(0),
        limit_mw: 45_000,
        stepped_mw: [50_000, 20_000, 35_000],
        sets_sensor: true,
        battery: [
            "supply 12000 100",
            "at 60 supply 11700 120",
            "at 120 supply 11150 140",
        ],
    },
    Case {
        board: "orin-nano-8-super",
        maxn: Some(2),
        limit_mw: 16_000,
        stepped_mw: [16_000, 8_000, 12_000],
        sets_sensor: true,
        battery: [
            "supply 5000 60",
            "at 60 supply 4850 60",
            "at 120 supply 4700 60",
        ],
    },
    Case {
        board: "xavier-agx",
        maxn: Some(0),
        limit_mw: 27_000,
        stepped_mw: [27_000, 12_000, 20_000],
        sets_sensor: false,
        battery: [
            "supply 12000 100",
            "at 60 supply 11700 120",
            "at 120 supply 11000 80",
        ],
    },
];

impl Case {
    /// The settings that there are.
    pub fn sensors(&self) -> &'static [Sensor] {
        match self.sets_sensor {
            true => &SENSORS,
            false => &SENSORS[..1],
        }
    }
}

/// How the power sensor is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sensor {
    /// Its number of samples.
    pub samples: u32,
    /// The time constant of its registers, as the driver shows it.
    pub time_constant: Duration,
}

/// As L4T sets it, and as fast as a step should be seen.
pub const SENSORS: [Sensor; 2] = [Sensor::L4T, Sensor::of(Sampling::of_samples(64))];

impl Sensor {
    /// As L4T leaves it.
    pub const L4T: Self = Self::of(Sampling::L4T);

    const fn of(sampling: Sampling) -> Self {
        Self {
            samples: sampling.samples,
            time_constant: Duration::from_millis(sampling.interval_ms() as u64),
        }
    }
}
