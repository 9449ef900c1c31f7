//! The boards of the scenarios, each with its limits and its battery.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use wattgate_board_tables::{Board, BoardError};
use wattgate_simulated_board::workload::{Workload, WorkloadError};

use crate::models::{self, ORIN_AGX, ORIN_NANO, WORKLOAD, XAVIER_AGX};
use crate::replay::table::Bench;
use crate::sensor::{SENSORS, Sensor};

/// A board with its limits.
#[derive(Clone, Debug)]
pub struct Case {
    /// The board's name.
    pub board: Cow<'static, str>,
    /// The board and the workload if they are recorded.
    pub recorded: Option<Box<(Board, Workload)>>,
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

/// The limits of a recorded board in % of its span: the one, and the three of scenarios whose limit changes. About those of
/// the other boards.
const RECORDED_LIMITS_PCT: [f64; 4] = [75.0, 85.0, 20.0, 50.0];

/// The boards.
pub static CASES: [Case; 3] = [
    Case {
        board: Cow::Borrowed(ORIN_AGX),
        recorded: None,
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
        board: Cow::Borrowed(ORIN_NANO),
        recorded: None,
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
        board: Cow::Borrowed(XAVIER_AGX),
        recorded: None,
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
    /// A recorded board, its workload and its model.
    pub fn recorded(bench: Bench) -> Self {
        let [limit_mw, stepped_mw @ ..] = RECORDED_LIMITS_PCT.map(|pct| bench.limit_mw(pct));
        let Bench {
            board, workload, ..
        } = bench;
        let sets_sensor = board.release() >= 35;
        // The battery of a board with the same input.
        let volts = |board: &Board| {
            let rails = board.rails.iter().map(|rail| rail.millivolts);
            rails.fold(0.0, f64::max)
        };
        let is_12_v = volts(&board) > 6_000.0;
        let [of_12_v, of_5_v, _] = &CASES;
        Self {
            limit_mw,
            stepped_mw,
            sets_sensor,
            has_backstop: sets_sensor && board.soc == "tegra234",
            battery: if is_12_v { of_12_v } else { of_5_v }.battery,
            board: Cow::Owned(board.name.clone()),
            recorded: Some(Box::new((board, workload))),
        }
    }

    /// The board.
    pub fn described(&self) -> Result<Board, BoardError> {
        match &self.recorded {
            Some(recorded) => Ok(recorded.0.clone()),
            None => Board::named(&self.board),
        }
    }

    /// The workload that a scenario calls [`WORKLOAD`], or another one by its name.
    pub fn workload(&self, name: &str) -> Result<Workload, WorkloadError> {
        match &self.recorded {
            Some(recorded) if name == WORKLOAD => Ok(recorded.1.clone()),
            _ => Workload::named(name),
        }
    }

    /// The model: that of the board in a folder; of a recorded board the file itself.
    pub fn model(&self, weights: &Path) -> PathBuf {
        match self.recorded {
            Some(_) => weights.to_owned(),
            None => models::path(&self.board, weights),
        }
    }

    /// The settings of the sensor that the driver allows.
    pub fn sensors(&self) -> &'static [Sensor] {
        match self.sets_sensor {
            true => &SENSORS,
            false => &SENSORS[..1],
        }
    }
}
