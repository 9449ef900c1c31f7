//! The power sensor INA3221 as L4T sets it: a mean over 512 samples every 430 ms, in steps of
//! 40 µV over the shunt and of 8 mV on the bus, with the offset and the gain of a unit.
//!
//! Sources: `jetson-platform.md`, sections 6.1 (files), 6.3 (timing, steps) and 6.4 (alarms).

use std::collections::VecDeque;
use std::time::Duration;

use crate::board::Rail;

/// From one result to the next: 3 channels × 512 samples × 2 × 140 µs.
pub const UPDATE: Duration = Duration::from_millis(430);

/// Results that a channel remembers, of a minute.
pub const REMEMBERED: usize = 140;

/// Step of the shunt's voltage.
const SHUNT_LSB_UV: f64 = 40.0;

/// Step of the bus voltage.
const BUS_LSB_MV: f64 = 8.0;

/// The largest value of both registers, of 13 bits with a sign.
const REGISTER: f64 = 4095.0;

/// The shunt that is taken where it is UNKNOWN; it gives steps of 8 mA.
const ASSUMED_SHUNT_MOHM: f64 = 5.0;

/// A result of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Of the bus.
    pub millivolts: i64,
    /// Through the shunt.
    pub milliamperes: i64,
    /// Over the shunt.
    pub shunt_microvolts: i64,
}

/// A channel of an INA3221.
#[derive(Clone, Debug)]
pub struct Channel {
    shunt_mohm: f64,
    shunt_offset_uv: f64,
    gain: f64,
    /// Current times time since the last result, in mA·s.
    charge_ma_s: f64,
    /// Time since the last result, in s.
    time_s: f64,
    /// The largest current of a conversion since then, in mA.
    peak_ma: f64,
    /// Results, the newest at the back.
    results: VecDeque<Reading>,
    /// The warning compares the mean with this, in mA.
    pub warn_ma: i64,
    /// The critical alarm compares each conversion with this, in mA.
    pub crit_ma: i64,
    crit_alarm: bool,
}

impl Channel {
    /// The channel of a rail. Both limits are those of the chip after a reset: full scale.
    pub fn new(rail: &Rail, shunt_offset_uv: f64, gain: f64) -> Self {
        let shunt_mohm = rail.shunt_mohm.unwrap_or(ASSUMED_SHUNT_MOHM);
        let full_ma = (REGISTER * SHUNT_LSB_UV / shunt_mohm).round() as i64;
        Self {
            shunt_mohm,
            shunt_offset_uv,
            gain,
            charge_ma_s: 0.0,
            time_s: 0.0,
            peak_ma: 0.0,
            results: VecDeque::with_capacity(REMEMBERED),
            warn_ma: full_ma,
            crit_ma: full_ma,
            crit_alarm: false,
        }
    }

    /// What the chip makes of a true current, both in mA, before it is rounded.
    pub fn converted_ma(&self, ma: f64) -> f64 {
        ma * self.gain + self.shunt_offset_uv / self.shunt_mohm
    }

    /// A current in mA flows for some seconds.
    pub fn flow(&mut self, ma: f64, seconds: f64) {
        self.charge_ma_s += ma * seconds;
        self.time_s += seconds;
        self.peak_ma = self.peak_ma.max(self.converted_ma(ma));
    }

    /// A result is ready: the mean since the last one, at this bus voltage in mV.
    pub fn finish(&mut self, bus_mv: f64) {
        let mean = self.converted_ma(self.charge_ma_s / self.time_s.max(1e-9));
        let steps = (mean * self.shunt_mohm / SHUNT_LSB_UV).round();
        let shunt_uv = SHUNT_LSB_UV * steps.clamp(-REGISTER, REGISTER);
        let bus = (bus_mv / BUS_LSB_MV).round().clamp(0.0, REGISTER);
        if self.results.len() == REMEMBERED {
            self.results.pop_front();
        }
        self.results.push_back(Reading {
            millivolts: (BUS_LSB_MV * bus) as i64,
            milliamperes: (shunt_uv / self.shunt_mohm).round() as i64,
            shunt_microvolts: shunt_uv as i64,
        });
        self.crit_alarm = self.peak_ma > self.crit_ma as f64;
        (self.charge_ma_s, self.time_s, self.peak_ma) = (0.0, 0.0, 0.0);
    }

    /// The newest result.
    pub fn reading(&self) -> Reading {
        self.reading_before(0)
    }

    /// The result so many updates ago, or the oldest that is remembered.
    pub fn reading_before(&self, updates: usize) -> Reading {
        let newest = self.results.len().saturating_sub(1);
        let at = newest.saturating_sub(updates);
        self.results.get(at).copied().unwrap_or_default()
    }

    /// The largest value that the chip can give.
    pub fn full_scale(&self) -> Reading {
        let shunt_uv = REGISTER * SHUNT_LSB_UV;
        Reading {
            millivolts: (BUS_LSB_MV * REGISTER) as i64,
            milliamperes: (shunt_uv / self.shunt_mohm).round() as i64,
            shunt_microvolts: shunt_uv as i64,
        }
    }

    /// A limit in mA as the chip holds it: whole steps from zero to full scale.
    pub fn limit_ma(&self, ma: i64) -> i64 {
        let steps = (ma as f64 * self.shunt_mohm / SHUNT_LSB_UV).round();
        (steps.clamp(0.0, REGISTER) * SHUNT_LSB_UV / self.shunt_mohm).round() as i64
    }

    /// The mean is over the warning limit.
    pub fn warn_alarm(&self) -> bool {
        self.reading().milliamperes > self.warn_ma
    }

    /// A conversion of the newest result was over the critical limit.
    pub fn crit_alarm(&self) -> bool {
        self.crit_alarm
    }
}
