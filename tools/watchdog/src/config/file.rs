//! The keys of a config file, and the checks of single values.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, Unexpected};
use wattgate_board::Clocks;
use wattgate_runtime::governor::Budget;

use crate::quantity::{
    Aimed, Cores, Deadline, Duration, Energy, Margin, Memory, Power, PowerOrCurrent, Probability,
    Temperature, Text, Window,
};
use crate::schedule::Schedule;
use crate::supply::Supply;

/// Where metrics for Prometheus are exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metrics {
    /// HTTP at a loopback address.
    Address(SocketAddr),
    /// A file for the node exporter's textfile collector.
    File(PathBuf),
}

/// The keys of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub version: u32,
    pub model: Option<PathBuf>,
    pub limit: PowerOrCurrent,
    pub max_limit: Option<Power>,
    pub supply: Option<Supply>,
    pub backstop: Option<Backstop>,
    pub backstop_margin: Option<Margin>,
    pub schedule: Option<Schedule>,
    pub average: Option<FileAverage>,
    pub budget: Option<FileBudget>,
    pub confidence: Option<Probability>,
    pub too_hot: Option<Temperature>,
    pub cores: Option<Cores>,
    pub objective: Option<Aimed>,
    pub deadline: Option<Deadline>,
    pub clocks: Option<FileClocks>,
    pub memory: Option<Memory>,
    pub group: Option<String>,
    pub metrics: Option<Metrics>,
    pub hardware_watchdog: Option<PathBuf>,
    pub observe: Option<bool>,
    /// Keys of earlier versions that have no effect.
    pub on_stop: Option<IgnoredAny>,
    pub state_dir: Option<IgnoredAny>,
    pub sensor_samples: Option<IgnoredAny>,
}

impl File {
    /// The keys of earlier versions that the file has, and why they have no effect.
    pub fn gone(&self) -> Vec<&'static str> {
        let gone = [
            (
                &self.on_stop,
                "on_stop has no effect: a stop never raises the power; `wattgated restore` restores the settings \
                 from before the start",
            ),
            (
                &self.state_dir,
                "state_dir has no effect: the settings from before the start are in /var/lib/wattgate",
            ),
            (
                &self.sensor_samples,
                "sensor_samples has no effect: the daemon chooses the averaging of the power sensor, and restores it",
            ),
        ];
        let gone = gone.into_iter().filter(|(key, _)| key.is_some());
        gone.map(|(_, why)| why).collect()
    }
}

/// What keeps the limit without the daemon.
#[derive(Clone, Copy, Debug)]
pub(super) enum Backstop {
    /// The over-current protection of the board.
    Hardware,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum FileClocks {
    Pin,
    Cap,
}

/// One of a few words; `expected` names them in an error.
fn word<'de, D: Deserializer<'de>, T>(
    from: D,
    expected: &'static str,
    known: impl Fn(&str) -> Option<T>,
) -> Result<T, D::Error> {
    let text = from.deserialize_any(Text(expected))?;
    known(&text).ok_or_else(|| D::Error::invalid_value(Unexpected::Str(&text), &expected))
}

impl<'de> Deserialize<'de> for Backstop {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        word(from, "\"hardware\"", |text| {
            (text == "hardware").then_some(Self::Hardware)
        })
    }
}

impl<'de> Deserialize<'de> for FileClocks {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        word(from, "\"pin\" or \"cap\"", |text| match text {
            "pin" => Some(Self::Pin),
            "cap" => Some(Self::Cap),
            _ => None,
        })
    }
}

impl<'de> Deserialize<'de> for Metrics {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let expected = "an address such as \"127.0.0.1:9753\", or a path that ends in .prom";
        let text = from.deserialize_any(Text(expected))?;
        Self::try_from(text).map_err(D::Error::custom)
    }
}

impl From<FileClocks> for Clocks {
    fn from(clocks: FileClocks) -> Self {
        match clocks {
            FileClocks::Pin => Self::Pin,
            FileClocks::Cap => Self::Cap,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table such as { power = \"12W\", window = \"60s\" }"
)]
pub(super) struct FileAverage {
    pub power: Power,
    pub window: Window,
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "BudgetTable")]
pub(super) struct FileBudget(pub Budget);

#[derive(Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table such as { energy = \"10Wh\", time = \"2h\" }"
)]
struct BudgetTable {
    energy: Energy,
    time: Duration,
}

impl TryFrom<BudgetTable> for FileBudget {
    type Error = &'static str;

    fn try_from(table: BudgetTable) -> Result<Self, Self::Error> {
        let (Energy(millijoules), Duration(time)) = (table.energy, table.time);
        // mJ/s = mW.
        let mean_mw = millijoules * 1_000 / time.0.max(1);
        match (1..=1_000_000).contains(&mean_mw) {
            true => Ok(Self(Budget { millijoules, time })),
            false => Err(
                "the budget's energy divided by its time must be 1mW to 1000W; change one of them",
            ),
        }
    }
}

impl TryFrom<String> for Metrics {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.starts_with('/') {
            return match text.ends_with(".prom") {
                true => Ok(Self::File(text.into())),
                // The textfile collector ignores other files.
                false => Err(format!("`{text}`: the file name must end in .prom")),
            };
        }
        match text.parse::<SocketAddr>() {
            Ok(address) if !address.ip().is_loopback() => Err(format!(
                "`{text}`: expected a loopback address, such as \"127.0.0.1:9753\""
            )),
            Ok(address) => Ok(Self::Address(address)),
            Err(_) => Err(format!(
                "`{text}`: expected a loopback address with its port, such as \"127.0.0.1:9753\", \
                 or an absolute path that ends in .prom"
            )),
        }
    }
}
