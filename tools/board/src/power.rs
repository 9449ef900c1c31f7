//! Total power from INA3221 rails, by label (`jetson-platform.md`, sections 6.1 to 6.3), or from an
//! INA238.
//!
//! The total is the module's input rail if the board has one, or else the sum of rails that are known
//! to add up to it, or else the input of the whole board. A rail that is missing or implausible is an
//! error, never a smaller sum.

use std::io;
use std::path::Path;
use std::sync::Arc;

use thiserror::Error;
use wattgate_runtime::estimator::MOST_CHIPS;
use wattgate_runtime::{Milliwatts, Sample};

use crate::files::{Files, Knob};
use crate::ina238::{Ina238, PowerError};
use crate::rail::{FULL_SCALE_MV, Rail, Reading, SampleFault, fault};
use crate::search::{DiscoverError, Search};
use crate::shunt::Step;

/// Directories of power sensors: from JetPack 5 on, and up to JetPack 4.
const HWMON: &str = "/sys/class/hwmon";
const IIO: &str = "/sys/bus/i2c/drivers/ina3221x";

/// Rails that are the module's whole input (section 6.2).
const MODULE_INPUTS: [&str; 2] = ["VDD_IN", "POM_5V_IN"];

/// Rails that add up to the input of a board without an input rail: AGX Orin and AGX Xavier
/// (section 6.2). On AGX Orin VIN_SYS_5V0 contains VDDQ_VDD2_1V8AO.
const SUMS: [&[&str]; 2] = [
    &["VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"],
    &["GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"],
];

/// The highest input voltage of a module, in mV. Assumed if a rail's voltage cannot be read.
const HIGHEST_INPUT_MV: i64 = 20_000;

/// Longest interval in samples between two reads of a rail's voltage. Rails take turns, so that all
/// samples cost the same.
const VOLTAGE_EVERY: usize = 8;

/// Number of readings of a current at discovery.
const READINGS: usize = 8;

/// Why the power cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("power of rail {rail}: {fault}")]
pub struct SampleError {
    /// The label.
    pub rail: Arc<str>,
    /// What is wrong with the rail.
    pub fault: SampleFault,
}

/// The rails that add up to the total power.
#[derive(Clone, Debug)]
pub(crate) struct Rails {
    rails: Vec<Rail>,
    /// The input of the whole board. If it is the total, there are no other rails.
    input: Option<Ina238>,
    /// The next sample reads the voltage of every [`VOLTAGE_EVERY`]th rail from this one on, at least.
    turn: usize,
    /// The number of samples that still read all voltages, after one has moved.
    moving: usize,
}

impl Rails {
    pub(crate) fn find<F: Files>(search: &mut Search<F>) -> Result<Self, DiscoverError> {
        let mut rails = hwmon(search);
        rails.extend(iio(search));
        let input = Ina238::find(search);
        if rails.is_empty() && input.is_none() {
            let hwmon = search.path(HWMON);
            search.miss("power sensor", hwmon, io::ErrorKind::NotFound);
        }
        let (rails, input) = match total(rails, search.root()) {
            Ok(rails) => (rails, None),
            Err(unknown) => (Vec::new(), Some(input.ok_or(unknown)?)),
        };
        Ok(Self {
            rails,
            input,
            turn: 0,
            moving: 0,
        })
    }

    /// No rails: the power is unknown.
    pub(crate) fn none() -> Self {
        Self {
            rails: Vec::new(),
            input: None,
            turn: 0,
            moving: 0,
        }
    }

    pub(crate) fn labels(&self) -> impl Iterator<Item = &str> {
        let rails = self.rails.iter().map(|rail| &*rail.label);
        rails.chain(self.input.iter().map(|input| &*input.label))
    }

    /// The input of the whole board, if it is the total.
    pub(crate) fn input(&self) -> Option<&Ina238> {
        self.input.as_ref()
    }

    /// The directory of each rail's INA3221, with the rail's label.
    pub(crate) fn devices(&self) -> impl Iterator<Item = (&Path, &str)> {
        let rails = self.rails.iter();
        rails.filter_map(|rail| Some((rail.voltage.0.parent()?, &*rail.label)))
    }

    /// The rail of a label.
    pub(crate) fn rail(&self, label: &str) -> Option<&Rail> {
        self.rails.iter().find(|rail| *rail.label == *label)
    }

    /// The rail that is the module's whole input.
    pub(crate) fn input_rail(&self) -> Option<&Rail> {
        MODULE_INPUTS.into_iter().find_map(|label| self.rail(label))
    }

    /// The number of chips that the total comes from.
    pub(crate) fn chips(&self) -> usize {
        let chips = self.rails.iter().map(|rail| rail.chip + 1).max();
        chips.unwrap_or(usize::from(self.input.is_some()))
    }

    /// The voltage in mV of the rail that is the module's whole input; `None` without such a rail, or
    /// if it cannot be read.
    pub fn input_mv(&self, files: &impl Files) -> Option<u32> {
        let millivolts = self.input_rail()?.voltage.read(files).ok()?;
        let millivolts = Some(millivolts).filter(|mv| (1..FULL_SCALE_MV).contains(mv))?;
        u32::try_from(millivolts).ok()
    }

    /// The current in mA through that rail, at least 0.
    pub fn input_ma(&self, files: &impl Files) -> Option<u32> {
        let milliamperes = self.input_rail()?.current.read(files).ok()?;
        u32::try_from(milliamperes.max(0)).ok()
    }

    /// See [`Board::least_warning`](crate::Board::least_warning).
    pub(crate) fn least_warning(&self, files: &impl Files) -> Option<Milliwatts> {
        let warnings = self.rails.iter().filter_map(|rail| {
            let milliamperes = rail.mean.read(files).ok().filter(|ma| *ma > 0)?;
            Some(milliwatts(milliamperes * rail.reading.millivolts()?))
        });
        warnings.min()
    }

    /// Typical error of the total from the offsets of the shunts' voltages, which are independent.
    /// Rounded up.
    pub(crate) fn offset(&self) -> Milliwatts {
        // A typical offset is one step.
        let rails = self.rails.iter().map(|rail| rail.step.microwatts());
        root_of_squares(rails.chain(self.input.iter().map(|input| input.step_uw)))
    }

    /// Resolution of each chip's power: the root of the sum of the squares of its rails' steps.
    /// Rounded up.
    pub(crate) fn steps(&self) -> [Milliwatts; MOST_CHIPS] {
        std::array::from_fn(|chip| {
            let rails = self.rails.iter().filter(|rail| rail.chip == chip);
            let rails = rails.map(|rail| rail.step.microwatts());
            let input = self.input.iter().filter(|_| chip == 0);
            root_of_squares(rails.chain(input.map(|input| input.step_uw)))
        })
    }

    /// Reads the power of the whole board, or the current of each rail and the voltages that may have
    /// changed. A chip's power is rounded up to the next mW. Does not allocate on a disk.
    pub(crate) fn sample(&mut self, files: &impl Files) -> Result<Sample, SampleError> {
        if let Some(input) = &self.input {
            let microwatts = input.read(files).map_err(|error| SampleError {
                rail: input.label.clone(),
                fault: error.into(),
            })?;
            return Ok(Sample::one(milliwatts(microwatts)));
        }
        if self.rails.is_empty() {
            return Err(SampleError {
                rail: "(none)".into(),
                fault: SampleFault::Missing,
            });
        }
        for rail in &mut self.rails {
            read(rail, |rail| rail.read_current(files))?;
        }
        self.read_voltages(files)?;
        let (mut powers, mut microwatts) = ([Milliwatts(0); MOST_CHIPS], [0_i64; MOST_CHIPS]);
        for rail in &self.rails {
            microwatts[rail.chip] += rail.reading.microwatts();
            powers[rail.chip] = milliwatts(microwatts[rail.chip]);
        }
        Ok(Sample::from_chips(powers))
    }

    /// Reads the voltages that are unknown or whose turn it is, and that of the rail whose current has
    /// moved the power most. If one of them moves, reads all, now and for a while: the registers follow
    /// a supply that sags slowly.
    fn read_voltages(&mut self, files: &impl Files) -> Result<(), SampleError> {
        let turn = self.turn;
        self.turn = (turn + 1) % VOLTAGE_EVERY;
        let most = self.rails.iter().map(Rail::moved).max().unwrap_or(0);
        let all = self.moving > 0;
        self.moving = self.moving.saturating_sub(1);
        let mut has_moved = false;
        for (number, rail) in self.rails.iter_mut().enumerate() {
            let is_turn = number % VOLTAGE_EVERY == turn;
            let is_most = most > 0 && rail.moved() == most;
            if all || is_turn || is_most || rail.lacks_voltage() {
                has_moved |= read(rail, |rail| rail.read_voltage(files))?;
            }
        }
        if has_moved {
            self.moving = VOLTAGE_EVERY;
        }
        for rail in self.rails.iter_mut().filter(|_| has_moved) {
            read(rail, |rail| rail.read_voltage(files))?;
        }
        Ok(())
    }
}

/// Reads of a rail, and names it in an error.
fn read<T>(
    rail: &mut Rail,
    what: impl FnOnce(&mut Rail) -> Result<T, SampleFault>,
) -> Result<T, SampleError> {
    what(rail).map_err(|fault| SampleError {
        rail: rail.label.clone(),
        fault,
    })
}

/// The root of the sum of the squares of steps in µW. Rounded up; 0 without a step.
fn root_of_squares(steps: impl Iterator<Item = i64>) -> Milliwatts {
    let squares = steps.map(|step| step.saturating_pow(2));
    milliwatts(squares.fold(0, i64::saturating_add).isqrt())
}

/// A power in µW, rounded up.
fn milliwatts(microwatts: i64) -> Milliwatts {
    Milliwatts(u32::try_from((microwatts + 999) / 1_000).unwrap_or(u32::MAX))
}

impl From<PowerError> for SampleFault {
    fn from(error: PowerError) -> Self {
        match error {
            PowerError::Unreadable(error) => fault(error),
            PowerError::NoPower(microwatts) => Self::NoPower(microwatts),
            PowerError::Absurd(microwatts) => Self::AbsurdPower(microwatts),
        }
    }
}

/// The rails to add up (section 6.2).
fn total(rails: Vec<Rail>, root: &Path) -> Result<Vec<Rail>, DiscoverError> {
    let has = |label: &str| rails.iter().any(|rail| *rail.label == *label);
    let input = MODULE_INPUTS.into_iter().find(|label| has(label));
    let sum = SUMS
        .iter()
        .find(|labels| labels.iter().all(|label| has(label)));
    match input {
        Some(input) => {
            let found = rails.into_iter().find(|rail| *rail.label == *input);
            Ok(numbered(found.into_iter().collect()))
        }
        None if let Some(sum) = sum => {
            let is_part = |rail: &Rail| sum.contains(&&*rail.label);
            Ok(numbered(rails.into_iter().filter(is_part).collect()))
        }
        None => Err(DiscoverError::PowerUnknown {
            root: root.to_owned(),
            labels: rails.iter().map(|rail| rail.label.to_string()).collect(),
        }),
    }
}

/// Renumbers the chips in the order of their rails, without the chips that are not in the total.
fn numbered(mut rails: Vec<Rail>) -> Vec<Rail> {
    let (mut next, mut before) = (0, None);
    for rail in &mut rails {
        let chip = rail.chip;
        next += usize::from(before.replace(chip).is_some_and(|before| before != chip));
        rail.chip = next;
    }
    rails
}

/// Channels of the hwmon devices named `ina3221`.
fn hwmon<F: Files>(search: &Search<F>) -> Vec<Rail> {
    let directory = search.path(HWMON);
    let mut rails = Vec::new();
    for number in search.numbers(&directory, "hwmon") {
        let device = directory.join(format!("hwmon{number}"));
        if search.word(&device.join("name")).as_deref() != Ok("ina3221") {
            continue;
        }
        let chip = next_chip(&rails);
        // Channel 7 is a sum of shunt voltages.
        let channels = (1..=3).map(|channel| {
            [
                format!("in{channel}_label"),
                format!("in{channel}_input"),
                format!("curr{channel}_input"),
                format!("shunt{channel}_resistor"),
                format!("curr{channel}_crit"),
                format!("curr{channel}_max"),
            ]
        });
        rails.extend(channels.filter_map(|files| rail(search, &device, chip, &files)));
    }
    rails
}

/// The number of the next chip. Chips without a rail do not count; chips beyond [`MOST_CHIPS`]
/// share the last number.
fn next_chip(rails: &[Rail]) -> usize {
    let next = rails.last().map_or(0, |rail| rail.chip + 1);
    next.min(MOST_CHIPS - 1)
}

/// Channels of the driver of JetPack 4.
fn iio<F: Files>(search: &Search<F>) -> Vec<Rail> {
    let driver = search.path(IIO);
    let mut rails = Vec::new();
    for chip in search.list(&driver) {
        let chip = driver.join(chip);
        for number in search.numbers(&chip, "iio:device") {
            let device = chip.join(format!("iio:device{number}"));
            let chip = next_chip(&rails);
            let channels = (0..3).map(|channel| {
                [
                    format!("rail_name_{channel}"),
                    format!("in_voltage{channel}_input"),
                    format!("in_current{channel}_input"),
                    // This driver does not show the shunt.
                    String::new(),
                    format!("crit_current_limit_{channel}"),
                    format!("warn_current_limit_{channel}"),
                ]
            });
            rails.extend(channels.filter_map(|files| rail(search, &device, chip, &files)));
        }
    }
    rails
}

/// A channel as a rail; `None` for a channel that has no label or is not connected (`NC`).
fn rail<F: Files>(
    search: &Search<F>,
    device: &Path,
    chip: usize,
    [label, voltage, current, shunt, critical, mean]: &[String; 6],
) -> Option<Rail> {
    let text = search.text(&device.join(label)).ok()?;
    let label = text.trim();
    if label.is_empty() || label == "NC" {
        return None;
    }
    let number = |name| search.word(&device.join(name)).ok()?.parse::<i64>().ok();
    let millivolts = number(voltage).filter(|mv| (1..FULL_SCALE_MV).contains(mv));
    let millivolts = millivolts.unwrap_or(HIGHEST_INPUT_MV);
    let readings_ma = (0..READINGS).filter_map(|_| number(current));
    let step = Step::new(number(shunt), millivolts, readings_ma);
    Some(Rail {
        label: label.into(),
        chip,
        voltage: Knob(device.join(voltage).into()),
        current: Knob(device.join(current).into()),
        critical: Knob(device.join(critical).into()),
        mean: Knob(device.join(mean).into()),
        step,
        reading: Reading::default(),
    })
}
