//! One rail: its current, read in each sample, and its voltage, read when it may have changed.
//!
//! A voltage changes little and seldom, and reading a register takes 0.55 ms of the bus
//! (`jetson-platform.md`, section 6.3). But a supply that sags raises the current at once, and with a
//! stale voltage that looks like a step of the power. So a current that moves asks for the voltage.

use std::io;
use std::sync::Arc;

use thiserror::Error;

use crate::files::{Files, Knob, KnobError, Refusal};
use crate::shunt::{LOWEST_MA, Step};

/// Full scale of the bus voltage: 4095 steps of 8 mV (section 6.3).
pub(crate) const FULL_SCALE_MV: i64 = 32_760;

/// Step of the bus voltage (section 6.3).
const STEP_MV: i64 = 8;

/// Full scale of the current at a shunt of 5 mΩ, in mA: 4095 steps of 40 µV. Smaller shunts have a
/// higher full scale, and the shunts of some boards are unknown. No module draws a third of this
/// current.
const FULL_SCALE_MA: i64 = 32_760;

/// The part of a current whose change is taken for the load's ripple. A voltage that is older errs by
/// less than this part, and reads of the voltage take little of the bus.
const RIPPLE: i64 = 128;

/// What is wrong with a rail.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum SampleFault {
    /// The file is gone: the driver was unbound.
    #[error("the sensor's file is missing")]
    Missing,
    /// EAGAIN: the driver has no reading now.
    #[error("no reading now")]
    NotReady,
    /// Another error of the system.
    #[error("cannot be read: {0}")]
    Unreadable(Refusal),
    /// The text is not a whole number.
    #[error("the sensor's file holds no number")]
    NotANumber,
    /// The current in mA is lower than an offset explains.
    #[error("negative current of {0} mA")]
    Negative(i64),
    /// The voltage in mV is zero or negative, although the rail feeds the running board.
    #[error("no voltage: {0} mV")]
    NoVoltage(i64),
    /// The power in µW of the whole board is zero or negative, although the board runs.
    #[error("no power: {0} µW")]
    NoPower(i64),
    /// The power in µW is more than any board draws.
    #[error("absurd power: {0} µW")]
    AbsurdPower(i64),
    /// The voltage in mV or the current in mA is at full scale.
    #[error("at full scale: {millivolts} mV, {milliamperes} mA")]
    FullScale { millivolts: i64, milliamperes: i64 },
}

/// What an error of a sensor's file means for the rail.
pub(crate) fn fault(error: KnobError) -> SampleFault {
    match error {
        KnobError::Unreadable { why, .. } => match why.kind() {
            io::ErrorKind::NotFound => SampleFault::Missing,
            io::ErrorKind::WouldBlock => SampleFault::NotReady,
            _ => SampleFault::Unreadable(why),
        },
        _ => SampleFault::NotANumber,
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Rail {
    pub label: Arc<str>,
    /// The chip that measures it, below [`MOST_CHIPS`](wattgate_runtime::estimator::MOST_CHIPS).
    pub chip: usize,
    /// Bus voltage in mV.
    pub voltage: Knob,
    /// Current in mA.
    pub current: Knob,
    /// The limits of each conversion and of the mean, in mA. The driver may lack them.
    pub critical: Knob,
    pub mean: Knob,
    pub step: Step,
    /// What the present sample knows.
    pub reading: Reading,
}

/// The last reading of a rail.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    /// In mA.
    milliamperes: i64,
    /// In mV; zero if the next sample must read it.
    millivolts: i64,
    /// The current when the voltage was read, in mA.
    then_ma: i64,
    /// Whether the present sample has read the voltage.
    is_fresh: bool,
}

impl Reading {
    /// The power in µW. At most 32,760 mV times as many mA, so that no sum of rails overflows.
    pub fn microwatts(&self) -> i64 {
        self.millivolts * self.milliamperes.max(0)
    }

    /// The last voltage, if it is known.
    pub fn millivolts(&self) -> Option<i64> {
        Some(self.millivolts).filter(|millivolts| *millivolts > 0)
    }
}

impl Rail {
    /// Reads the current, with which a sample begins.
    pub fn read_current(&mut self, files: &impl Files) -> Result<(), SampleFault> {
        // After a fault the voltage is read again.
        let before = std::mem::take(&mut self.reading);
        let milliamperes = self.current.read(files).map_err(fault)?;
        if milliamperes >= FULL_SCALE_MA {
            return Err(SampleFault::FullScale {
                millivolts: self.voltage.read(files).map_err(fault)?,
                milliamperes,
            });
        }
        if milliamperes < LOWEST_MA {
            return Err(SampleFault::Negative(milliamperes));
        }
        self.step.add(milliamperes);
        self.reading = Reading {
            milliamperes,
            is_fresh: false,
            ..before
        };
        Ok(())
    }

    /// Reads the voltage, unless this sample has. Returns whether it has moved by more than a step.
    pub fn read_voltage(&mut self, files: &impl Files) -> Result<bool, SampleFault> {
        let Reading {
            milliamperes,
            millivolts: before,
            is_fresh,
            ..
        } = self.reading;
        if is_fresh {
            return Ok(false);
        }
        self.reading.millivolts = 0;
        let millivolts = self.voltage.read(files).map_err(fault)?;
        if millivolts <= 0 {
            return Err(SampleFault::NoVoltage(millivolts));
        }
        if millivolts >= FULL_SCALE_MV {
            return Err(SampleFault::FullScale {
                millivolts,
                milliamperes,
            });
        }
        self.reading = Reading {
            milliamperes,
            millivolts,
            then_ma: milliamperes,
            is_fresh: true,
        };
        Ok(before != 0 && millivolts.abs_diff(before) > STEP_MV.unsigned_abs())
    }

    /// Whether the voltage is unknown.
    pub fn lacks_voltage(&self) -> bool {
        self.reading.millivolts().is_none()
    }

    /// The power in µW by which the current has moved since the voltage was read; 0 if that may be
    /// noise.
    pub fn moved(&self) -> i64 {
        let Reading {
            milliamperes,
            millivolts,
            then_ma,
            ..
        } = self.reading;
        let moved = (milliamperes - then_ma).abs();
        let noise = self.step.milliamperes().max(then_ma.abs() / RIPPLE);
        match moved > noise {
            true => moved * millivolts,
            false => 0,
        }
    }
}
