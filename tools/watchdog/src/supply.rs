//! The supply in front of the module, as a config describes it: what it loses, what else it feeds, and a meter that
//! shows its power. A config with a supply means the supply by all its limits.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, Unexpected};
use wattgate_runtime::Milliwatts;
use wattgate_runtime::governor;

use crate::quantity::{Efficiency, Power, Text, Thousandths, Watts};

/// The config's `supply`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Table")]
pub struct Supply {
    efficiency: Efficiency,
    offset: Milliwatts,
    pub meter: Option<MeterFile>,
}

/// A file that shows the power of the supply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterFile {
    /// An absolute path.
    pub path: PathBuf,
    pub unit: MeterUnit,
}

/// The unit of measure of a meter's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeterUnit {
    Microwatts,
    Milliwatts,
    Watts,
}

impl MeterUnit {
    /// The unit in mW.
    pub fn milliwatts(self) -> f64 {
        match self {
            Self::Microwatts => 1e-3,
            Self::Milliwatts => 1.0,
            Self::Watts => 1e3,
        }
    }
}

impl<'de> Deserialize<'de> for MeterUnit {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let expected = "\"W\", \"mW\" or \"uW\"";
        match from.deserialize_any(Text(expected))?.as_str() {
            "uW" => Ok(Self::Microwatts),
            "mW" => Ok(Self::Milliwatts),
            "W" => Ok(Self::Watts),
            other => Err(D::Error::invalid_value(Unexpected::Str(other), &expected)),
        }
    }
}

#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table such as { efficiency = 0.9, offset = \"2.5W\" }"
)]
struct Table {
    efficiency: Option<Efficiency>,
    offset: Option<Power>,
    meter: Option<PathBuf>,
    meter_unit: Option<MeterUnit>,
}

impl TryFrom<Table> for Supply {
    type Error = String;

    fn try_from(table: Table) -> Result<Self, String> {
        let meter = match (table.meter, table.meter_unit) {
            (Some(path), unit) => Some(MeterFile::new(path, unit)?),
            (None, Some(_)) => return Err("meter_unit needs a meter; name its file".to_owned()),
            (None, None) if table.efficiency.is_none() && table.offset.is_none() => {
                return Err(
                    "the supply has neither efficiency nor offset nor meter; give one of them"
                        .to_owned(),
                );
            }
            (None, None) => None,
        };
        Ok(Self {
            efficiency: table.efficiency.unwrap_or(Efficiency(1_000_000)),
            offset: table.offset.map_or(Milliwatts(0), |it| it.0),
            meter,
        })
    }
}

impl MeterFile {
    /// Linux shows powers in µW, in hwmon and of batteries. Of any other file the unit must be told.
    fn new(path: PathBuf, unit: Option<MeterUnit>) -> Result<Self, String> {
        let shown = path.display();
        if !path.is_absolute() {
            return Err(format!(
                "meter is `{shown}`, expected an absolute path, such as \"/sys/class/hwmon/hwmon3/power1_input\""
            ));
        }
        let unit = match (is_linux_power(&path), unit) {
            (true, None | Some(MeterUnit::Microwatts)) => MeterUnit::Microwatts,
            (true, Some(_)) => {
                return Err(format!("Linux shows {shown} in uW; take meter_unit out"));
            }
            (false, Some(unit)) => unit,
            (false, None) => {
                return Err(format!(
                    "the unit of {shown} is not known; add meter_unit = \"W\", \"mW\" or \"uW\""
                ));
            }
        };
        Ok(Self { path, unit })
    }
}

/// Whether a file has a name by which Linux shows a power in µW: `power1_input` and `power1_average` of hwmon, and
/// `power_now` of a battery (Documentation/hwmon/sysfs-interface.rst, Documentation/ABI/testing/sysfs-class-power).
fn is_linux_power(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let channel = name.strip_prefix("power").and_then(|rest| {
        rest.strip_suffix("_input")
            .or(rest.strip_suffix("_average"))
    });
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    name == "power_now" || channel.is_some_and(is_number)
}

impl Supply {
    /// What the governor needs to know of it.
    pub fn draw(&self) -> governor::Supply {
        // Neither is out of range in a config.
        governor::Supply::new(self.efficiency.0, self.offset).unwrap_or(governor::Supply::NONE)
    }

    /// The same, for a program that does not read the meter.
    #[must_use]
    pub fn without_meter(self) -> Self {
        let meter = None;
        Self { meter, ..self }
    }

    /// The efficiency in ppm.
    pub fn efficiency_ppm(&self) -> u32 {
        self.efficiency.0
    }

    /// What it feeds beside the module.
    pub fn offset(&self) -> Milliwatts {
        self.offset
    }
}

/// As `the module's power / 0.9 + 2.5 W`.
impl fmt::Display for Supply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the module's power")?;
        match self.efficiency.0 {
            1_000_000 => {}
            ppm if ppm % 1_000 == 0 => write!(f, " / {}", Thousandths(u64::from(ppm / 1_000)))?,
            ppm => write!(f, " / {}", f64::from(ppm) / 1e6)?,
        }
        match self.offset {
            Milliwatts(0) => Ok(()),
            offset => write!(f, " + {}", Watts(offset)),
        }
    }
}
