//! A channel of the power sensor INA3221: the mean current since its last result, in steps of
//! 40 µV over the shunt and of 8 mV on the bus, with the offset and the gain of a unit. When
//! there are results is in [`sampling`](crate::sampling).
//!
//! Sources: `jetson-platform.md`, sections 6.1 (files), 6.3 (timing, steps) and 6.4 (alarms).

use std::collections::VecDeque;
use std::time::Duration;

use crate::board::Rail;
use crate::sampling::Sampling;

/// From one result to the next of a nominal unit as L4T sets it: 3 channels × 512 samples × 2 ×
/// 140 µs, in whole ms.
pub const UPDATE: Duration = Duration::from_millis(Sampling::L4T.interval_ms() as u64);

/// Results are remembered for so long.
pub const REMEMBERED: Duration = Duration::from_secs(60);

/// Room for the results of this time as L4T sets the sensor, of the fastest unit.
const RESULTS: usize = 160;

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

/// What a channel has shown.
#[derive(Clone, Debug)]
pub struct Results(VecDeque<(Duration, Reading)>);

impl Results {
    /// From this one on, at time zero.
    pub fn from(first: Reading) -> Self {
        let mut results = VecDeque::with_capacity(RESULTS);
        results.push_back((Duration::ZERO, first));
        Self(results)
    }

    /// A result is ready.
    pub fn push(&mut self, now: Duration, reading: Reading) {
        let ended = |results: &VecDeque<(Duration, Reading)>| {
            let next = results.get(1);
            next.is_some_and(|(from, _)| *from + REMEMBERED < now)
        };
        while ended(&self.0) {
            self.0.pop_front();
        }
        self.0.push_back((now, reading));
    }

    /// The result that was shown at a time, or the oldest that is remembered.
    pub fn at(&self, time: Duration) -> Reading {
        let after = self.0.partition_point(|(from, _)| *from <= time);
        self.0[after.saturating_sub(1)].1
    }
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
    result: Reading,
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
            result: Reading::default(),
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
        self.result = Reading {
            millivolts: (BUS_LSB_MV * bus) as i64,
            milliamperes: (shunt_uv / self.shunt_mohm).round() as i64,
            shunt_microvolts: shunt_uv as i64,
        };
        self.crit_alarm = self.peak_ma > self.crit_ma as f64;
        self.begin();
    }

    /// What has flowed until now is no part of the next result.
    pub fn begin(&mut self) {
        (self.charge_ma_s, self.time_s, self.peak_ma) = (0.0, 0.0, 0.0);
    }

    /// The shunt in µΩ.
    pub fn shunt_uohm(&self) -> i64 {
        (1_000.0 * self.shunt_mohm).round() as i64
    }

    /// The newest result.
    pub fn reading(&self) -> Reading {
        self.result
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
