//! The backstop: limits of the current at which a power sensor makes the SoC halve its clocks by
//! itself, within milliseconds and without any program (`jetson-platform.md`, section 6.4).
//!
//! An INA3221 compares each conversion with its critical limits (OC3), and the mean, its register,
//! with its warning limits (OC2). Where one rail is the whole input, both limits of that rail are
//! set. On an AGX Orin the critical limit on the sum of the two input rails is set, and that of the
//! 5 V rail, which the sum leaves out. Other boards have no limit of their whole current.
//!
//! Never is a limit set above what the board had.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use wattgate_runtime::Milliwatts;

use crate::files::{Files, Knob, KnobError};
use crate::journal::{Failures, read_back_at_most, with_retries};
use crate::power::Rails;
use crate::rail::Rail;
use crate::saved::Saved;

/// The rails of an AGX Orin whose sum a chip limits, and the one that the sum leaves out
/// (section 6.1).
const SUMMED: [&str; 2] = ["VDD_GPU_SOC", "VDD_CPU_CV"];
const NOT_SUMMED: &str = "VIN_SYS_5V0";

/// By how much the mean may exceed the limit before OC2, in percent. OC3 has the caller's margin.
const MEAN_MARGIN_PCT: u32 = 5;

/// A limit is written anew if it has to change by more than this part of it.
const TOLERANCE: i64 = 100;

/// A limit that shows less than it should by more than this, in mA, was set by another program: the
/// driver cuts off less than a step of the register.
const STEP_MA: i64 = STEP_UV / SMALLEST_SHUNT_MOHM;

/// The smallest shunt, in mΩ.
const SMALLEST_SHUNT_MOHM: i64 = 1;

/// The part by which the highest power of a rail falls from one call to the next.
const DECAY: i64 = 50;

/// Step of a shunt's voltage, in µV.
const STEP_UV: i64 = 40;

/// How many times too high the driver sets the limit on a sum up to Linux 6.0 and 5.10.157: it
/// shifts the value into the register as that of a single channel (commit "Fix shunt sum critical
/// calculation").
const SUM_ERROR: i64 = 4;

/// Maximum number of retries until a file shows what the driver made of a write, half a second in
/// all.
const WRITE_RETRIES: u32 = 250;

/// Why the backstop cannot be set.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BackstopError {
    /// Neither is one rail the whole input, nor does a chip sum the inputs.
    #[error("this board's power sensors have no limit of its whole current")]
    NoLimit,
    /// The driver shows no plausible shunt, from which the limit on a sum follows.
    #[error("{}: expected a shunt of 1 to 13 mΩ", path.display())]
    Shunt { path: Arc<Path> },
    /// A voltage is not positive.
    #[error("{}: shows {millivolts} mV", path.display())]
    NoVoltage { path: Arc<Path>, millivolts: i64 },
    /// A file cannot be read or written, or shows something else than what was written.
    #[error("{0}")]
    Knob(#[from] KnobError),
}

/// The limits of the current, and what they measure.
#[derive(Clone, Debug)]
pub(crate) enum Backstop {
    /// One rail is the whole input.
    Input {
        input: Measured,
        critical: CurrentLimit,
        mean: CurrentLimit,
    },
    /// A chip limits the sum of two rails; the third has a limit of its own.
    Sum {
        sum: CurrentLimit,
        shunt: Knob,
        driver: Option<Driver>,
        /// Voltage of the summed rails.
        voltage: Knob,
        rest: CurrentLimit,
        rest_power: Measured,
        /// The highest power of the rest, which decays, in mW.
        rest_mw: i64,
    },
    /// There is no limit of the whole current.
    None,
}

/// How the driver sets the limit on a sum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Driver {
    /// The shunt.
    uohm: i64,
    /// How many times too high the chip's limit is.
    error: i64,
}

/// The files that measure a rail.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// In mV.
    voltage: Knob,
    /// In mA.
    current: Knob,
}

/// A limit of the current.
#[derive(Clone, Debug)]
pub(crate) struct CurrentLimit {
    /// The name in a saved state. The number of a hwmon device changes from boot to boot.
    name: Arc<Path>,
    /// In mA.
    knob: Knob,
    /// What was last written.
    last: Option<i64>,
}

impl Backstop {
    pub(crate) fn from_rails(rails: &Rails) -> Self {
        if let Some(rail) = rails.input_rail() {
            return Self::Input {
                input: Measured::from_rail(rail),
                critical: CurrentLimit::new(rail, "crit", rail.critical.clone()),
                mean: CurrentLimit::new(rail, "max", rail.mean.clone()),
            };
        }
        let summed = SUMMED.map(|label| rails.rail(label));
        let ([Some(first), Some(_)], Some(rest)) = (summed, rails.rail(NOT_SUMMED)) else {
            return Self::None;
        };
        let Some(device) = first.voltage.0.parent() else {
            return Self::None;
        };
        let file = |name| Knob(device.join(name).into());
        Self::Sum {
            sum: CurrentLimit::new(first, "sum_crit", file("curr4_crit")),
            shunt: file("shunt1_resistor"),
            driver: None,
            voltage: first.voltage.clone(),
            rest: CurrentLimit::new(rest, "crit", rest.critical.clone()),
            rest_power: Measured::from_rail(rest),
            rest_mw: 0,
        }
    }

    fn limits(&self) -> impl Iterator<Item = &CurrentLimit> {
        let limits = match self {
            Self::Input { critical, mean, .. } => [Some(critical), Some(mean)],
            Self::Sum { sum, rest, .. } => [Some(sum), Some(rest)],
            Self::None => [None, None],
        };
        limits.into_iter().flatten()
    }

    /// The names in a saved state.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<Path>> {
        self.limits().map(|limit| &limit.name)
    }

    /// Each limit by name. Limits that the driver does not show are left out.
    pub(crate) fn save(&self, files: &impl Files) -> impl Iterator<Item = (Arc<Path>, i64)> {
        self.limits()
            .filter_map(|limit| Some((limit.name.clone(), limit.knob.read(files).ok()?)))
    }

    /// Sets each limit to its saved value, or as high as the driver allows. Goes on after a failure. A
    /// limit whose file is gone is left out: a driver that is bound again resets the chip.
    pub(crate) fn restore(&mut self, files: &mut impl Files, saved: &Saved) -> Failures {
        let mut failures = Failures::default();
        for limit in self.limits() {
            let own = saved.named(&limit.name);
            let is_other = |own: &i64| match limit.knob.read(files) {
                Ok(shown) => shown != *own,
                Err(error) => !error.is_missing(),
            };
            if let Some(own) = own.filter(is_other)
                && let Err(error) = limit.write(files, own)
            {
                failures.add(error);
            }
        }
        self.forget();
        failures
    }

    /// Forgets what was written: other programs may have set the limits.
    fn forget(&mut self) {
        match self {
            Self::Input { critical, mean, .. } => (critical.last, mean.last) = (None, None),
            Self::Sum { sum, rest, .. } => (sum.last, rest.last) = (None, None),
            Self::None => {}
        }
    }

    /// Whether the board has a limit of its whole current that the driver shows.
    pub(crate) fn check(&self, files: &impl Files) -> Result<(), BackstopError> {
        match self {
            Self::None => Err(BackstopError::NoLimit),
            Self::Input { critical, .. } => Ok(critical.knob.read(files).map(|_| ())?),
            Self::Sum { sum, rest, .. } => {
                sum.knob.read(files)?;
                Ok(rest.knob.read(files).map(|_| ())?)
            }
        }
    }

    /// See [`Board::set_backstop`](crate::Board::set_backstop).
    pub(crate) fn set(
        &mut self,
        files: &mut impl Files,
        own: &Saved,
        offset: Milliwatts,
        [limit, margin]: [Milliwatts; 2],
    ) -> Result<bool, BackstopError> {
        let [limit_mw, margin_mw] = [limit, margin].map(|it| i64::from(it.0));
        // The sensor may show too little by twice its typical offset.
        let peak_mw = (limit_mw + margin_mw - 2 * i64::from(offset.0)).max(0);
        match self {
            Self::None => Err(BackstopError::NoLimit),
            Self::Input {
                input,
                critical,
                mean,
            } => {
                let millivolts = volts(&input.voltage, files)?;
                let mean_mw = limit_mw + limit_mw * i64::from(MEAN_MARGIN_PCT) / 100;
                let is_other = critical.put(files, own, peak_mw * 1_000 / millivolts)?;
                let mean_ma = mean_mw.min(peak_mw) * 1_000 / millivolts;
                Ok(mean.put(files, own, mean_ma)? || is_other)
            }
            Self::Sum {
                sum,
                shunt,
                driver,
                voltage,
                rest,
                rest_power,
                rest_mw,
            } => {
                let millivolts = volts(voltage, files)?;
                let rest_mv = volts(&rest_power.voltage, files)?;
                let rest_ma = rest_power.current.read(files)?.max(0);
                let decayed = *rest_mw - *rest_mw / DECAY;
                *rest_mw = (rest_mv * rest_ma / 1_000).max(decayed);
                // Each part of the current has its part of the margin.
                let of_rest_mw = *rest_mw + *rest_mw * margin_mw / limit_mw.max(1);
                let sum_ma = (peak_mw - of_rest_mw).max(0) * 1_000 / millivolts;
                let driver = match *driver {
                    Some(known) => known,
                    None => {
                        let trial_ma = sum_ma.min(sum.most(files, own)?);
                        let found = sum.driver(files, shunt, trial_ma)?;
                        *driver = Some(found);
                        found
                    }
                };
                let is_other = sum.put(files, own, driver.limit(sum_ma))?;
                Ok(rest.put(files, own, of_rest_mw * 1_000 / rest_mv)? || is_other)
            }
        }
    }
}

impl Driver {
    /// What to write for a limit in mA: the step below, which no driver rounds up.
    fn limit(self, ma: i64) -> i64 {
        let Self { uohm, error } = self;
        ma * uohm / (1_000 * STEP_UV * error) * STEP_UV * 1_000 / uohm
    }
}

impl Measured {
    fn from_rail(rail: &Rail) -> Self {
        Self {
            voltage: rail.voltage.clone(),
            current: rail.current.clone(),
        }
    }
}

/// A voltage in mV, which is positive.
fn volts(knob: &Knob, files: &impl Files) -> Result<i64, BackstopError> {
    match knob.read(files)? {
        millivolts @ 1.. => Ok(millivolts),
        millivolts => Err(BackstopError::NoVoltage {
            path: knob.0.clone(),
            millivolts,
        }),
    }
}

impl CurrentLimit {
    fn new(rail: &Rail, file: &str, knob: Knob) -> Self {
        Self {
            name: PathBuf::from(format!("ina3221/{}/{file}", rail.label)).into(),
            knob,
            last: None,
        }
    }

    /// Writes the limit. The driver cuts to a step of the register, downwards.
    fn write(&self, files: &mut impl Files, wanted: i64) -> Result<(), KnobError> {
        self.knob.write(files, wanted)?;
        read_back_at_most(files, &self.knob, wanted)
    }

    /// The highest limit that may be set: the board's own, or else the present one.
    fn most(&self, files: &impl Files, own: &Saved) -> Result<i64, KnobError> {
        match own.named(&self.name) {
            Some(own) => Ok(own),
            None => self.knob.read(files),
        }
    }

    /// Sets the limit in mA, at most to the board's own. Returns whether another program had changed
    /// it.
    fn put(
        &mut self,
        files: &mut impl Files,
        own: &Saved,
        wanted: i64,
    ) -> Result<bool, BackstopError> {
        let wanted = wanted.min(self.most(files, own)?);
        let shown = self.knob.read(files)?;
        let is_kept = |last: i64| (last - STEP_MA..=last).contains(&shown);
        let is_other = self.last.is_some_and(|last| !is_kept(last));
        let is_near = |last: i64| (wanted - last).abs() <= last / TOLERANCE;
        if !is_other && self.last.is_some_and(is_near) {
            return Ok(false);
        }
        if shown != wanted {
            self.write(files, wanted)?;
        }
        self.last = Some(wanted);
        Ok(is_other)
    }

    /// Finds which driver sets this limit on a sum. Writes a limit a little below `wanted` mA that
    /// the two drivers round to different steps: one rounds it to 5 µV, the other to 20, before they
    /// cut to a step.
    fn driver(
        &self,
        files: &mut impl Files,
        shunt: &Knob,
        wanted: i64,
    ) -> Result<Driver, BackstopError> {
        let uohm = shunt.read(files)?;
        let microvolts = |ma: i64| (ma * uohm + 500) / 1_000;
        let below = (microvolts(wanted) / STEP_UV - 1).max(0) * STEP_UV;
        // 30 to 37 µV above a step.
        let ma = (below + 34) * 1_000 / uohm.max(1);
        if !(1_000..=13_000).contains(&uohm) || !(30..38).contains(&(microvolts(ma) - below)) {
            let path = shunt.0.clone();
            return Err(BackstopError::Shunt { path });
        }
        self.knob.write(files, ma)?;
        let driver = |error| Ok(Driver { uohm, error });
        let found = with_retries(files, WRITE_RETRIES, |files| {
            let found = self.knob.read(files)?;
            match microvolts(found) - below {
                0 => driver(SUM_ERROR),
                STEP_UV => driver(1),
                _ => Err(KnobError::Differs {
                    path: self.knob.0.clone(),
                    wanted: ma,
                    found,
                }),
            }
        });
        Ok(found?)
    }
}
