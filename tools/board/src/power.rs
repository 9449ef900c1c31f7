//! Total power of the module from INA3221 rails, by label (`jetson-platform.md`, sections 6.1
//! to 6.3).
//!
//! The total is one rail where the board has an input rail, else the sum of all rails of a
//! board whose rails are known to add up. A rail that is missing or shows nonsense is an
//! error, never a smaller sum.

use std::io;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use thiserror::Error;
use wattgate_runtime::{MOST_CHIPS, Milliwatts, Sample};

use crate::cpu::numbers;
use crate::discover::{DiscoverError, Search};
use crate::files::{Files, Knob, KnobError, Refusal};

/// From JetPack 5 on, and up to JetPack 4.
const HWMON: &str = "/sys/class/hwmon";
const IIO: &str = "/sys/bus/i2c/drivers/ina3221x";

/// Rails that are the module's whole input (section 6.2).
const INPUTS: [&str; 2] = ["VDD_IN", "POM_5V_IN"];

/// Boards without such a rail, by the rails that add up to it: AGX Orin and AGX Xavier. On AGX Orin
/// VDDQ_VDD2_1V8AO is a part of VIN_SYS_5V0.
const SUMS: [&[&str]; 2] = [
    &["VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"],
    &["GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"],
];

/// Full scale of the bus voltage: 4095 steps of 8 mV (section 6.3).
const FULL_SCALE_MV: i64 = 32_760;

/// Full scale of the current at a shunt of 5 mΩ, 4095 steps of 40 µV. Shunts of other boards
/// are UNKNOWN or smaller, and no module draws a third of it.
const FULL_SCALE_MA: i64 = 32_760;

/// Step of a shunt's voltage. The offset is typically as large, and twice as large at most (section
/// 6.3).
const STEP_UV: i64 = 40;

/// Shunts that a board may have, in µΩ; what the driver shows beyond is nonsense.
const SHUNTS_UOHM: RangeInclusive<i64> = 100..=100_000;

/// The smallest shunt that is known, in mΩ. It has the greatest offset.
const SHUNT_MOHM: i64 = 2;

/// Steps of the current at shunts of 2, 4, 5 and 10 mΩ, in mA.
const STEPS_MA: [i64; 4] = [20, 10, 8, 4];

/// The least current that is a multiple of all [`STEPS_MA`].
const MULTIPLE_MA: u64 = 40;

/// Readings of a current at discovery, where its step is inferred.
const READINGS: usize = 8;

/// The highest input of a module. Taken where a rail's voltage cannot be read.
const HIGHEST_MV: i64 = 20_000;

/// A voltage is read in one sample of this number, and stands in between: voltages move little and
/// slowly, and reading a register takes 0.55 ms of the bus (section 6.3). Rails take turns, so that
/// all samples cost the same.
const VOLTAGE_EVERY: usize = 8;

/// A rail without load may show a current as low as the largest offset below zero.
const OFFSET_MA: i64 = 2 * STEP_UV / SHUNT_MOHM;

/// Why the power is not known now.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("power of rail {rail}: {fault}")]
pub struct SampleError {
    /// The label.
    pub rail: Arc<str>,
    /// What is wrong with it.
    pub fault: SampleFault,
}

/// What is wrong with a rail.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum SampleFault {
    /// The file is gone: the driver was unbound.
    #[error("it is not there")]
    Missing,
    /// EAGAIN: the driver has no reading now.
    #[error("no reading now")]
    NotReady,
    /// Another error of the system.
    #[error("cannot be read: {0}")]
    Unreadable(Refusal),
    /// The text is no whole number.
    #[error("no number")]
    NotANumber,
    /// The current in mA is below what an offset explains.
    #[error("{0} mA, a negative current")]
    Negative(i64),
    /// The voltage in mV of a rail that feeds the running board.
    #[error("{0} mV, no voltage")]
    NoVoltage(i64),
    /// The voltage in mV or the current in mA is at full scale.
    #[error("{millivolts} mV and {milliamperes} mA, full scale")]
    FullScale { millivolts: i64, milliamperes: i64 },
}

#[derive(Clone, Debug)]
struct Rail {
    label: Arc<str>,
    /// The chip that measures it, below [`MOST_CHIPS`].
    chip: usize,
    /// In mV.
    voltage: Knob,
    /// In mA.
    current: Knob,
    /// The last voltage in mV; zero where the next sample has to read it.
    millivolts: i64,
    step: Step,
}

/// What one step of the shunt's voltage makes of a rail's power.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// In µW, where the driver shows the shunt.
    Shown(i64),
    /// Inferred from the currents where it does not, at the voltage at discovery in mV.
    Inferred(Currents, i64),
}

impl Step {
    fn microwatts(self) -> i64 {
        match self {
            Self::Shown(microwatts) => microwatts,
            Self::Inferred(currents, millivolts) => currents.step_ma() * millivolts,
        }
    }
}

/// The rails that add up to the module's power.
#[derive(Clone, Debug)]
pub(crate) struct Rails {
    rails: Vec<Rail>,
    /// The rails whose voltage the next sample reads: each [`VOLTAGE_EVERY`]th from this one on.
    turn: usize,
}

impl Rails {
    pub(crate) fn find<F: Files>(search: &mut Search<F>) -> Result<Self, DiscoverError> {
        let mut rails = hwmon(search);
        rails.extend(iio(search));
        if rails.is_empty() {
            let hwmon = search.path(HWMON);
            search.miss("power sensor", hwmon, io::ErrorKind::NotFound);
        }
        let rails = total(rails)?;
        Ok(Self { rails, turn: 0 })
    }

    pub(crate) fn labels(&self) -> impl Iterator<Item = &str> {
        self.rails.iter().map(|rail| &*rail.label)
    }

    /// The directory of each rail's chip, with the rail's label.
    pub(crate) fn devices(&self) -> impl Iterator<Item = (&Path, &str)> {
        let rails = self.rails.iter();
        rails.filter_map(|rail| Some((rail.voltage.0.parent()?, &*rail.label)))
    }

    /// Chips that the total comes from.
    pub(crate) fn chips(&self) -> usize {
        self.rails
            .iter()
            .map(|rail| rail.chip + 1)
            .max()
            .unwrap_or(0)
    }

    /// By how much the total is typically off for the offsets of the shunts' voltages, each of
    /// which is as it happens to be. Rounded up.
    pub(crate) fn offset(&self) -> Milliwatts {
        // An offset is typically as large as a step.
        root_of_squares(self.rails.iter())
    }

    /// The steps in which each chip shows the power: the root of the sum of the squares of its
    /// rails' steps. Rounded up.
    pub(crate) fn steps(&self) -> [Milliwatts; MOST_CHIPS] {
        std::array::from_fn(|chip| {
            root_of_squares(self.rails.iter().filter(|rail| rail.chip == chip))
        })
    }

    /// Reads the current of each rail, and the voltage of each [`VOLTAGE_EVERY`]th. A chip's power is
    /// rounded up to the next mW. Does not allocate on a disk.
    pub(crate) fn sample(&mut self, files: &impl Files) -> Result<Sample, SampleError> {
        let (mut sample, mut microwatts) = (Sample::default(), [0_i64; MOST_CHIPS]);
        let turn = self.turn;
        self.turn = (turn + 1) % VOLTAGE_EVERY;
        for (number, rail) in self.rails.iter_mut().enumerate() {
            let is_turn = number % VOLTAGE_EVERY == turn;
            let read = rail.read(files, is_turn);
            let (millivolts, milliamperes) = read.map_err(|fault| SampleError {
                rail: rail.label.clone(),
                fault,
            })?;
            // At most 32,760 each, so that no sum of rails overflows.
            microwatts[rail.chip] += millivolts * milliamperes.max(0);
            let milliwatts = u32::try_from((microwatts[rail.chip] + 999) / 1000);
            sample.chips[rail.chip] = Milliwatts(milliwatts.unwrap_or(u32::MAX));
        }
        Ok(sample)
    }
}

/// Of the steps of rails, as if each were off on its own. Rounded up; 0 without a rail.
fn root_of_squares<'a>(rails: impl Iterator<Item = &'a Rail>) -> Milliwatts {
    let squares = rails.map(|rail| rail.step.microwatts().saturating_pow(2));
    let microwatts = squares.fold(0, i64::saturating_add).isqrt();
    Milliwatts(u32::try_from((microwatts + 999) / 1_000).unwrap_or(u32::MAX))
}

impl Rail {
    /// The voltage in mV, read anew in its turn and after a fault, and the current in mA.
    fn read(&mut self, files: &impl Files, is_turn: bool) -> Result<(i64, i64), SampleFault> {
        let millivolts = match std::mem::take(&mut self.millivolts) {
            known if known == 0 || is_turn => self.voltage.read(files).map_err(fault)?,
            known => known,
        };
        let milliamperes = self.current.read(files).map_err(fault)?;
        if millivolts <= 0 {
            return Err(SampleFault::NoVoltage(millivolts));
        }
        if millivolts >= FULL_SCALE_MV || milliamperes >= FULL_SCALE_MA {
            return Err(SampleFault::FullScale {
                millivolts,
                milliamperes,
            });
        }
        if milliamperes < -OFFSET_MA {
            return Err(SampleFault::Negative(milliamperes));
        }
        self.millivolts = millivolts;
        if let Step::Inferred(currents, _) = &mut self.step {
            currents.add(milliamperes);
        }
        Ok((millivolts, milliamperes))
    }
}

fn fault(error: KnobError) -> SampleFault {
    match error {
        KnobError::Unreadable { why, .. } => match why.kind() {
            io::ErrorKind::NotFound => SampleFault::Missing,
            io::ErrorKind::WouldBlock => SampleFault::NotReady,
            _ => SampleFault::Unreadable(why),
        },
        _ => SampleFault::NotANumber,
    }
}

/// The rails to add up (section 6.2).
fn total(rails: Vec<Rail>) -> Result<Vec<Rail>, DiscoverError> {
    let has = |label: &str| rails.iter().any(|rail| *rail.label == *label);
    let input = INPUTS.into_iter().find(|label| has(label));
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
            labels: rails.iter().map(|rail| rail.label.to_string()).collect(),
        }),
    }
}

/// Numbers the chips anew, in the order of their rails: chips that are not in the total do not count.
fn numbered(mut rails: Vec<Rail>) -> Vec<Rail> {
    let (mut next, mut before) = (0, None);
    for rail in &mut rails {
        let chip = rail.chip;
        next += usize::from(before.replace(chip).is_some_and(|before| before != chip));
        rail.chip = next;
    }
    rails
}

/// Channels of hwmon devices with this name, whatever their numbers.
fn hwmon<F: Files>(search: &Search<F>) -> Vec<Rail> {
    let directory = search.path(HWMON);
    let mut rails = Vec::new();
    for number in numbers(&search.list(&directory), "hwmon") {
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
            ]
        });
        rails.extend(channels.filter_map(|files| rail(search, &device, chip, &files)));
    }
    rails
}

/// Chips without a rail do not count, and those beyond the most there are share a number.
fn next_chip(rails: &[Rail]) -> usize {
    let next = rails.last().map_or(0, |rail| rail.chip + 1);
    next.min(MOST_CHIPS - 1)
}

/// The same of the driver of JetPack 4.
fn iio<F: Files>(search: &Search<F>) -> Vec<Rail> {
    let driver = search.path(IIO);
    let mut rails = Vec::new();
    for chip in search.list(&driver) {
        let chip = driver.join(chip);
        for number in numbers(&search.list(&chip), "iio:device") {
            let device = chip.join(format!("iio:device{number}"));
            let chip = next_chip(&rails);
            let channels = (0..3).map(|channel| {
                [
                    format!("rail_name_{channel}"),
                    format!("in_voltage{channel}_input"),
                    format!("in_current{channel}_input"),
                    // That driver does not show the shunt.
                    String::new(),
                ]
            });
            rails.extend(channels.filter_map(|files| rail(search, &device, chip, &files)));
        }
    }
    rails
}

/// A channel with a name. `NC` is not connected.
fn rail<F: Files>(
    search: &Search<F>,
    device: &Path,
    chip: usize,
    [label, voltage, current, shunt]: &[String; 4],
) -> Option<Rail> {
    let text = search.text(&device.join(label)).ok()?;
    let label = text.trim();
    if label.is_empty() || label == "NC" {
        return None;
    }
    let number = |name| search.word(&device.join(name)).ok()?.parse::<i64>().ok();
    let millivolts = number(voltage).filter(|mv| (1..FULL_SCALE_MV).contains(mv));
    let millivolts = millivolts.unwrap_or(HIGHEST_MV);
    let step = match number(shunt).filter(|uohm| SHUNTS_UOHM.contains(uohm)) {
        Some(uohm) => Step::Shown((STEP_UV * 1_000 * millivolts + uohm - 1) / uohm),
        None => {
            let readings = (0..READINGS).filter_map(|_| number(current));
            Step::Inferred(Currents::of(readings), millivolts)
        }
    };
    Some(Rail {
        label: label.into(),
        chip,
        voltage: Knob(device.join(voltage).into()),
        current: Knob(device.join(current).into()),
        millivolts: 0,
        step,
    })
}

/// All readings of a current so far: the greatest number of mA that divides them and [`MULTIPLE_MA`].
/// It tells which of [`STEPS_MA`] divide all readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Currents(u64);

impl Currents {
    fn of(readings_ma: impl Iterator<Item = i64>) -> Self {
        let mut currents = Self(MULTIPLE_MA);
        readings_ma.for_each(|reading| currents.add(reading));
        currents
    }

    /// Takes a reading in mA into account, by Euclid's algorithm. One modulo where nothing changes.
    fn add(&mut self, reading_ma: i64) {
        let (mut divisor, mut rest) = (self.0, reading_ma.unsigned_abs() % self.0);
        while rest != 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        self.0 = divisor;
    }

    /// The step of a rail's current in mA where the driver does not show the shunt, as that of
    /// JetPack 4: the largest of [`STEPS_MA`] that divides all readings so far; 20 mA, that of the
    /// smallest shunt, where none does. A rail that has read nothing but 0 has 20 mA too. So the step
    /// becomes finer with the readings, and coarser only where no step divides them any more.
    ///
    /// That is an upper bound of the step: each reading is a multiple of the step, so that the step is
    /// one of those that divide all readings. It holds for all shunts of whole mΩ from 2 mΩ on, the
    /// only ones that this driver takes, to the half mA to which it rounds, and after any number of
    /// readings (a test tries them). Rails are judged one by one, as their shunts may differ. It is no
    /// bound where the device tree has `shunt-volt-offset-uv`: the driver then takes a calibrated offset
    /// from each reading, which leaves less than the typical one.
    fn step_ma(self) -> i64 {
        let divides = |step: &i64| self.0.is_multiple_of(step.unsigned_abs());
        let step = STEPS_MA.into_iter().find(divides);
        step.unwrap_or(STEP_UV / SHUNT_MOHM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the driver of JetPack 4 converts a register: to the nearest whole mA, the same below zero.
    fn shown_ma(steps: i64, shunt_mohm: i64) -> i64 {
        steps.signum() * ((2 * STEP_UV * steps.abs() / shunt_mohm + 1) / 2)
    }

    /// All that readings in any number and order can leave of the currents at a shunt.
    fn reachable(shunt_mohm: i64) -> Vec<Currents> {
        let mut all = vec![Currents::of([].into_iter())];
        let mut next = 0;
        while let Some(&before) = all.get(next) {
            next += 1;
            // Their remainders by 40 mA repeat after as many steps as the shunt has mΩ.
            for steps in 0..=shunt_mohm {
                let mut after = before;
                after.add(shown_ma(steps, shunt_mohm));
                if !all.contains(&after) {
                    all.push(after);
                }
            }
        }
        all
    }

    #[test]
    fn the_step_that_is_inferred_is_never_below_that_of_the_shunt() {
        for shunt_mohm in SHUNT_MOHM..=100 {
            for currents in reachable(shunt_mohm) {
                let step = currents.step_ma();
                // Within the half mA by which the driver rounds.
                let is_bound = (2 * step + 1) * shunt_mohm > 2 * STEP_UV;
                assert!(is_bound, "{currents:?}: {step} mA at {shunt_mohm} mΩ");
            }
        }
    }

    #[test]
    fn the_step_is_the_largest_that_divides_all_readings_so_far() {
        for shunt_mohm in SHUNT_MOHM..=100 {
            for first in 0..200 {
                for spread in [1, 2, 3, 7] {
                    let readings = [0, 0, spread, -spread];
                    let readings = readings.map(|it| shown_ma(first + it, shunt_mohm));
                    let mut currents = Currents::of([].into_iter());
                    for (last, reading) in readings.into_iter().enumerate() {
                        currents.add(reading);
                        let divides =
                            |step: &i64| readings[..=last].iter().all(|ma| ma % step == 0);
                        let expected = STEPS_MA.into_iter().find(divides).unwrap_or(20);
                        assert_eq!(currents.step_ma(), expected, "{:?}", &readings[..=last]);
                    }
                }
            }
        }
    }

    #[test]
    fn neighbouring_readings_tell_the_step() {
        for (shunt_mohm, expected) in [(2, 20), (4, 10), (5, 8), (10, 4)] {
            for steps in 1..100 {
                let readings = [steps, steps + 1].map(|it| shown_ma(it, shunt_mohm));
                let currents = Currents::of(readings.into_iter());
                assert_eq!(currents.step_ma(), expected, "{readings:?}");
            }
        }
        let step_ma = |readings: &[i64]| Currents::of(readings.iter().copied()).step_ma();
        // Nothing was read, or nothing but zero, or an offset below zero.
        assert_eq!(step_ma(&[]), 20);
        assert_eq!(step_ma(&[0, 0]), 20);
        assert_eq!(step_ma(&[-8, 0, 8]), 8);
        // No step divides them, whatever comes afterwards.
        assert_eq!(step_ma(&[8, 10]), 20);
        assert_eq!(step_ma(&[8, 10, 8, 4]), 20);
        assert_eq!(step_ma(&[i64::MIN, i64::MAX]), 20);
    }
}
