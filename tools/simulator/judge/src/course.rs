//! What a holder knows of a run: its length, limits, model and sensor.

use std::path::{Path, PathBuf};
use std::time::Duration;

use wattgate_runtime::Milliwatts;
use wattgate_watchdog::config;

use crate::sensor::Sensor;

/// The limit applies to the power averaged over this time: the time constant of the sensor as L4T
/// sets it.
pub const LIMIT_WINDOW: Duration = Duration::from_millis(430);

/// A run as a holder sees it.
#[derive(Clone, Debug)]
pub struct Course {
    /// The length of the run.
    pub length: Duration,
    /// Each limit in mW with the time from which it holds, the first at zero.
    pub limits: Vec<(Duration, u32)>,
    /// The model's file.
    pub model: PathBuf,
    /// The setting of the power sensor.
    pub sensor: Sensor,
}

impl Course {
    /// The limit at a time, in mW.
    pub fn limit_mw(&self, at: Duration) -> u32 {
        let holding = self.limits.iter().rev().find(|(from, _)| *from <= at);
        holding.map_or(0, |(_, limit)| *limit)
    }

    /// The daemon's config file with the limit at a time and perhaps a model's file.
    pub fn config(&self, at: Duration, model: Option<&Path>) -> String {
        config::text(model, Milliwatts(self.limit_mw(at)))
    }
}
