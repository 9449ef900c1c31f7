//! A channel of the power sensor INA3221: a register for the shunt's voltage and one for the bus
//! voltage, each a low-pass of first order with the offset and the gain of a unit. What is shown
//! is rounded to 40 µV and 8 mV, what the low-pass works on is not. When conversions renew the
//! registers is in [`sampling`](crate::sampling).
//!
//! Sources: `jetson-platform.md`, sections 6.1 (files), 6.3 (averaging, steps) and 6.4 (alarms).

use std::collections::VecDeque;
use std::time::Duration;

use wattgate_board_tables::Rail;

/// Readings are remembered for so long.
pub const REMEMBERED: Duration = Duration::from_secs(60);

/// Step of the shunt's voltage.
const SHUNT_LSB_UV: f64 = 40.0;

/// Step of the bus voltage.
const BUS_LSB_MV: f64 = 8.0;

/// The largest value of both registers, of 13 bits with a sign.
const REGISTER: f64 = 4095.0;

/// The shunt that is taken where it is UNKNOWN; it gives steps of 8 mA.
const ASSUMED_SHUNT_MOHM: f64 = 5.0;

/// What the registers of a channel show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Of the bus.
    pub millivolts: i64,
    /// Through the shunt.
    pub milliamperes: i64,
    /// Over the shunt.
    pub shunt_microvolts: i64,
}

/// What a channel has shown, each reading with the time from which on it was there.
#[derive(Clone, Debug)]
pub struct History(VecDeque<(Duration, Reading)>);

impl History {
    /// From this reading on, at time zero.
    pub fn from(first: Reading) -> Self {
        Self(VecDeque::from([(Duration::ZERO, first)]))
    }

    /// What is shown now. Times ascend.
    pub fn note(&mut self, now: Duration, reading: Reading) {
        if self.0.back().is_some_and(|(_, last)| *last == reading) {
            return;
        }
        let ended = |history: &VecDeque<(Duration, Reading)>| {
            let next = history.get(1);
            next.is_some_and(|(from, _)| *from + REMEMBERED < now)
        };
        while ended(&self.0) {
            self.0.pop_front();
        }
        self.0.push_back((now, reading));
    }

    /// What was shown at a time, or the oldest reading that is remembered.
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
    /// The shunt's register as a current in mA, before rounding.
    average_ma: f64,
    /// The bus register in mV, before rounding.
    average_mv: f64,
    /// When a conversion was last over the critical limit.
    over_critical: Option<Duration>,
    /// The warning alarm compares the shunt's register with this, in mA.
    pub warn_ma: i64,
    /// The critical alarm compares each conversion with this, in mA.
    pub crit_ma: i64,
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
            average_ma: 0.0,
            average_mv: 0.0,
            over_critical: None,
            warn_ma: full_ma,
            crit_ma: full_ma,
        }
    }

    /// What the chip makes of a true current, both in mA, before it is rounded.
    pub fn converted_ma(&self, ma: f64) -> f64 {
        ma * self.gain + self.shunt_offset_uv / self.shunt_mohm
    }

    /// A current in mA and a bus voltage in mV were converted until `now`, so often that this
    /// part is left of the registers' old values.
    pub fn convert(&mut self, ma: f64, bus_mv: f64, left: f64, now: Duration) {
        let ma = self.converted_ma(ma);
        self.average_ma = ma + (self.average_ma - ma) * left;
        self.average_mv = bus_mv + (self.average_mv - bus_mv) * left;
        if ma > self.crit_ma as f64 {
            self.over_critical = Some(now);
        }
    }

    /// A current in mA and a bus voltage in mV were there for long.
    pub fn settle(&mut self, ma: f64, bus_mv: f64) {
        self.average_ma = self.converted_ma(ma);
        self.average_mv = bus_mv;
    }

    /// The shunt in µΩ.
    pub fn shunt_uohm(&self) -> i64 {
        (1_000.0 * self.shunt_mohm).round() as i64
    }

    /// What the registers show.
    pub fn reading(&self) -> Reading {
        let steps = (self.average_ma * self.shunt_mohm / SHUNT_LSB_UV).round();
        let bus = (self.average_mv / BUS_LSB_MV).round().clamp(0.0, REGISTER);
        self.shown(steps.clamp(-REGISTER, REGISTER), bus)
    }

    /// The largest value that the chip can give.
    pub fn full_scale(&self) -> Reading {
        self.shown(REGISTER, REGISTER)
    }

    /// Both registers in steps.
    fn shown(&self, shunt: f64, bus: f64) -> Reading {
        let shunt_uv = SHUNT_LSB_UV * shunt;
        Reading {
            millivolts: (BUS_LSB_MV * bus) as i64,
            milliamperes: (shunt_uv / self.shunt_mohm).round() as i64,
            shunt_microvolts: shunt_uv as i64,
        }
    }

    /// A limit in mA as the chip holds it: whole steps from zero to full scale.
    pub fn limit_ma(&self, ma: i64) -> i64 {
        let steps = (ma as f64 * self.shunt_mohm / SHUNT_LSB_UV).round();
        (steps.clamp(0.0, REGISTER) * SHUNT_LSB_UV / self.shunt_mohm).round() as i64
    }

    /// The shunt's register is over the warning limit.
    pub fn warn_alarm(&self) -> bool {
        self.reading().milliamperes > self.warn_ma
    }

    /// A conversion was over the critical limit at this time or later. The chip holds the alarm
    /// until it is read.
    pub fn was_critical_since(&self, time: Duration) -> bool {
        self.over_critical.is_some_and(|over| over >= time)
    }
}
