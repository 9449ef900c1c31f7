//! The boards of the scenarios, each with its limits and its battery.

use crate::models::{ORIN_AGX, ORIN_NANO, XAVIER_AGX};
use crate::sensor::{SENSORS, Sensor};

/// A board with its limits.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The board's name.
    pub board: &'static str,
    /// The limit in mW, in scenarios with one limit.
    pub limit_mw: u32,
    /// The limits in mW, one after another, in scenarios whose limit changes.
    pub stepped_mw: [u32; 3],
    /// Whether the driver can set the sensor; JetPack 4's cannot.
    pub sets_sensor: bool,
    /// Whether the sensor limits the whole current, for the backstop in hardware.
    pub has_backstop: bool,
    /// Orders for a battery that drains in three steps: a little, much, and so much that OC1 events
    /// occur below the limit.
    pub battery: [&'static str; 3],
}

/// The boards.
pub const CASES: [Case; 3] = [
    Case {
        board: ORIN_AGX,
        limit_mw: 45_000,
        stepped_mw: [50_000, 20_000, 35_000],
        sets_sensor: true,
        has_backstop: true,
        battery: [
            "supply 12000 100",
            "at 60 supply 11700 120",
            "at 120 supply 11150 140",
        ],
    },
    Case {
        board: ORIN_NANO,
        limit_mw: 16_000,
        stepped_mw: [16_000, 8_000, 12_000],
        sets_sensor: true,
        has_backstop: true,
        battery: [
            "supply 5000 60",
            "at 60 supply 4850 60",
            "at 120 supply 4700 60",
        ],
    },
    Case {
        board: XAVIER_AGX,
        limit_mw: 27_000,
        stepped_mw: [27_000, 12_000, 20_000],
        sets_sensor: false,
        has_backstop: false,
        battery: [
            "supply 12000 100",
            "at 60 supply 11700 120",
            "at 120 supply 11000 80",
        ],
    },
];

impl Case {
    /// The settings of the sensor that the driver allows.
    pub fn sensors(&self) -> &'static [Sensor] {
        match self.sets_sensor {
            true => &SENSORS,
            false => &SENSORS[..1],
        }
    }
}
