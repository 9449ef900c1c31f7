//! The power of a whole board from a chip of the INA2xx family: an INA238, as on Jetson Thor (`jetson-platform.md`,
//! section 6.3 and addendum), or a relative of it on a carrier that the device tree names.
//!
//! The chip multiplies voltage and current itself; the driver shows the power in µW. It averages whole
//! blocks of conversions: a reading is the mean of a block, and stays until the next block is complete
//! (data sheet SLYS026A, section 7.1). The files, the settings of the driver and its steps are those of
//! Linux 6.8, `drivers/hwmon/ina238.c`. That driver cannot change the averaging, and it does not show
//! the shunt.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wattgate_runtime::Milliseconds;

use crate::files::{Files, Knob, KnobError};
use crate::search::Search;

/// Directory of the sensors.
const HWMON: &str = "/sys/class/hwmon";

/// A kind of chip, by the name that its driver shows.
struct Kind {
    name: &'static str,
    /// Step of the shunt's voltage in nV.
    step_nv: i64,
    /// Step of the power in µW that the driver adds to it.
    power_step_uw: i64,
    /// Time of a block of conversions as the driver sets it. A reading is the mean of a block, which is half a block
    /// old when it is complete, and is shown for another block: a low-pass with this time constant lags as much.
    block: Milliseconds,
}

impl Kind {
    const fn new(name: &'static str, step_nv: i64, power_step_uw: i64, block_ms: u64) -> Self {
        let block = Milliseconds(block_ms);
        Self {
            name,
            step_nv,
            power_step_uw,
            block,
        }
    }
}

/// `drivers/hwmon/ina2xx.c`: two conversions of 0.53 ms, or 16 of 2.2 ms, with steps of 20 and 25 mW.
/// `drivers/hwmon/ina238.c`: 16 × 3 conversions of 1,052 µs. Steps of the shunts: data sheets. The INA260 has its
/// shunt inside, and its step is smaller; that its driver is as that of the INA226 is ASSUMED.
const KINDS: [Kind; 8] = [
    Kind::new("ina219", 10_000, 20_000, 1),
    Kind::new("ina220", 10_000, 20_000, 1),
    Kind::new("ina226", 2_500, 25_000, 35),
    Kind::new("ina230", 2_500, 25_000, 35),
    Kind::new("ina231", 2_500, 25_000, 35),
    Kind::new("ina237", 5_000, 0, 51),
    Kind::new("ina238", 5_000, 0, 51),
    Kind::new("ina260", 2_500, 25_000, 35),
];

/// The chip that Thor has, in some releases without a name.
const THORS: &str = "ina238";

/// Names of the rail at the input of the whole board; the first one is shown.
const BOARD_INPUTS: [&str; 2] = ["VIN", "VDD_IN"];

/// Files that may show the name of a rail. hwmon has `label` if the device tree has that property.
const LABELS: [&str; 2] = ["label", "in1_label"];

/// The longest block: 1,024 × 2 conversions of 8.244 ms (INA226).
const LONGEST_BLOCK_MS: i64 = 17_000;

/// The smallest shunt, in µΩ, where the driver does not show it. Thor's is UNKNOWN; ASSUMED to be no smaller than this.
const SHUNT_UOHM: i64 = 1_000;

/// The highest voltage that the chip can measure, in mV. Assumed if the voltage cannot be read.
const HIGHEST_MEASURABLE_MV: i64 = 85_000;

/// Power that no board draws, in µW: six times the cap of Thor's developer kit.
const ABSURD_UW: i64 = 1_000_000_000;

/// A board's power is not plausible, or cannot be read.
#[derive(Clone, Debug)]
pub(crate) enum PowerError {
    Unreadable(KnobError),
    /// The power in µW is zero or negative, although the board runs.
    NoPower(i64),
    /// The power in µW is more than any board draws.
    Absurd(i64),
}

/// A chip at the input of a board.
#[derive(Clone, Debug)]
pub(crate) struct Ina238 {
    pub label: Arc<str>,
    /// Power in µW.
    power: Knob,
    /// Power in µW that a step of the shunt's voltage stands for.
    pub step_uw: i64,
    /// How far its readings lag.
    pub time_constant: Milliseconds,
}

impl Ina238 {
    /// The chip at the board's input: the one that is called so, or Thor's if it is the only one and has no name. Any
    /// other chip without a name may measure a motor.
    pub fn find<F: Files>(search: &Search<F>) -> Option<Self> {
        let directory = search.path(HWMON);
        let numbers = search.numbers(&directory, "hwmon").into_iter();
        let devices = numbers.map(|number| directory.join(format!("hwmon{number}")));
        let devices: Vec<PathBuf> = devices
            .filter(|device| kind(search, device).is_some())
            .collect();
        let labels = devices.iter().map(|device| label(search, device));
        let labels: Vec<Option<String>> = labels.collect();
        let is_input =
            |it: &Option<String>| it.as_deref().is_some_and(|it| BOARD_INPUTS.contains(&it));
        let named = labels.iter().position(is_input);
        let is_thors = |device: &PathBuf| search.word(&device.join("name")).as_deref() == Ok(THORS);
        let only = (labels == [None] && devices.first().is_some_and(is_thors)).then_some(0);
        Self::from_device(search, devices.get(named.or(only)?)?)
    }

    fn from_device<F: Files>(search: &Search<F>, device: &Path) -> Option<Self> {
        let power = device.join("power1_input");
        let refusal = search.text(&power).err();
        if refusal.is_some_and(|why| why.kind() == io::ErrorKind::NotFound) {
            return None;
        }
        let voltage = search.word(&device.join("in1_input")).ok();
        let millivolts = voltage.and_then(|text| text.parse().ok());
        let millivolts = millivolts.filter(|mv| (1..HIGHEST_MEASURABLE_MV).contains(mv));
        let kind = kind(search, device)?;
        let number = |name: &str| search.word(&device.join(name)).ok()?.parse::<i64>().ok();
        let shunt_uohm = number("shunt_resistor").filter(|uohm| *uohm > 0);
        let step_uw = kind.step_nv * millivolts.unwrap_or(HIGHEST_MEASURABLE_MV);
        // What later drivers of the INA237 and INA238 show there is not settled.
        let block_ms = number("update_interval").filter(|_| kind.power_step_uw > 0);
        let block_ms = block_ms.filter(|ms| (1..=LONGEST_BLOCK_MS).contains(ms));
        let block_ms = block_ms.and_then(|ms| u64::try_from(ms).ok());
        Some(Self {
            label: BOARD_INPUTS[0].into(),
            power: Knob(power.into()),
            step_uw: (step_uw / shunt_uohm.unwrap_or(SHUNT_UOHM)).max(kind.power_step_uw),
            time_constant: block_ms.map_or(kind.block, Milliseconds),
        })
    }

    /// The chip's directory.
    pub fn device(&self) -> &Path {
        self.power.0.parent().unwrap_or(&self.power.0)
    }

    /// Reads the power in µW.
    pub fn read(&self, files: &impl Files) -> Result<i64, PowerError> {
        match self.power.read(files).map_err(PowerError::Unreadable)? {
            none if none <= 0 => Err(PowerError::NoPower(none)),
            absurd if absurd >= ABSURD_UW => Err(PowerError::Absurd(absurd)),
            microwatts => Ok(microwatts),
        }
    }
}

/// The kind of a device; `None` for one that is none of [`KINDS`].
fn kind<F: Files>(search: &Search<F>, device: &Path) -> Option<&'static Kind> {
    let name = search.word(&device.join("name")).ok()?;
    KINDS.iter().find(|kind| kind.name == name)
}

fn label<F: Files>(search: &Search<F>, device: &Path) -> Option<String> {
    let labels = LABELS.iter();
    let mut labels = labels.filter_map(|file| search.text(&device.join(file)).ok());
    labels.next().map(|text| text.trim().to_owned())
}
