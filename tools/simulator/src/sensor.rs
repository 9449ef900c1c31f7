//! Models a channel of the power sensor INA3221: a register for the shunt voltage and one for the
//! bus voltage. Each register is a first-order low-pass; offset and gain depend on the unit.
//! Readings are quantised to 40 µV and 8 mV, the state of the low-pass is not. The module
//! [`sampling`](crate::sampling) has the timing of the conversions.
//!
//! Sources: `jetson-platform.md`, sections 6.1 (files), 6.3 (averaging, steps) and 6.4 (alarms).

use std::collections::VecDeque;
use std::time::Duration;

use wattgate_board_tables::Rail;

/// Time for which readings are kept.
pub const REMEMBERED: Duration = Duration::from_secs(60);

/// Quantisation step of the shunt voltage.
const SHUNT_LSB_UV: f64 = 40.0;

/// The step to which the driver rounds a channel's limit before it cuts to a step of the register.
const LIMIT_UV: f64 = 5.0;

/// The same for the limit on the sum, since the driver knows that register's layout.
const SUM_LIMIT_UV: f64 = 20.0;

/// How many times too high an older driver sets the limit on the sum.
const SUM_LIMIT_ERROR: f64 = 4.0;

/// Full scale of the limit on the sum, in steps: 14 bits.
const SUM_REGISTER: f64 = 16_383.0;

/// Quantisation step of the bus voltage.
const BUS_LSB_MV: f64 = 8.0;

/// Full scale of both registers in steps: 13 bits with a sign.
const REGISTER: f64 = 4095.0;

/// Assumed shunt of a rail whose shunt is UNKNOWN, in mΩ. One step is then 8 mA.
pub const ASSUMED_SHUNT_MOHM: f64 = 5.0;

/// A reading of a channel's registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Bus voltage.
    pub millivolts: i64,
    /// Current through the shunt.
    pub milliamperes: i64,
    /// Voltage across the shunt.
    pub shunt_microvolts: i64,
}

impl Reading {
    /// Power: voltage × current.
    pub fn milliwatts(&self) -> f64 {
        1e-3 * self.millivolts as f64 * self.milliamperes as f64
    }
}

/// Past readings of a channel, each with the time at which it appeared.
#[derive(Clone, Debug)]
pub struct History(VecDeque<(Duration, Reading)>);

impl History {
    /// Starts a history with the reading at time zero.
    pub fn from(first: Reading) -> Self {
        Self(VecDeque::from([(Duration::ZERO, first)]))
    }

    /// Records the current reading. Times must ascend.
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

    /// The reading at a time, or the oldest one that is kept.
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
    /// Low-pass of the shunt voltage as a current in mA, before quantisation.
    average_ma: f64,
    /// Low-pass of the bus voltage in mV, before quantisation.
    average_mv: f64,
    /// Time of the last conversion above the critical limit.
    over_critical: Option<Duration>,
    /// Warning limit in mA. The chip compares the shunt's register with it.
    pub warn_ma: i64,
    /// Critical limit in mA. The chip compares each conversion with it.
    pub crit_ma: i64,
}

impl Channel {
    /// Creates the channel of a rail. Both limits are at full scale, as after a reset of the chip.
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

    /// Applies gain and offset to a true current; both currents in mA, without quantisation.
    pub fn converted_ma(&self, ma: f64) -> f64 {
        ma * self.gain + self.shunt_offset_uv / self.shunt_mohm
    }

    /// Feeds conversions of a current in mA and a bus voltage in mV up to `now` into the
    /// low-passes. `left` is the weight of the registers' old values.
    pub fn convert(&mut self, ma: f64, bus_mv: f64, left: f64, now: Duration) {
        let ma = self.converted_ma(ma);
        self.average_ma = ma + (self.average_ma - ma) * left;
        self.average_mv = bus_mv + (self.average_mv - bus_mv) * left;
        if ma > self.crit_ma as f64 {
            self.over_critical = Some(now);
        }
    }

    /// Sets the registers to their steady state at a current in mA and a bus voltage in mV.
    pub fn settle(&mut self, ma: f64, bus_mv: f64) {
        self.average_ma = self.converted_ma(ma);
        self.average_mv = bus_mv;
    }

    /// The shunt in µΩ.
    pub fn shunt_uohm(&self) -> i64 {
        (1_000.0 * self.shunt_mohm).round() as i64
    }

    /// The quantised registers.
    pub fn reading(&self) -> Reading {
        let steps = (self.average_ma * self.shunt_mohm / SHUNT_LSB_UV).round();
        let bus = (self.average_mv / BUS_LSB_MV).round().clamp(0.0, REGISTER);
        self.shown(steps.clamp(-REGISTER, REGISTER), bus)
    }

    /// The largest reading of the chip.
    pub fn full_scale(&self) -> Reading {
        self.shown(REGISTER, REGISTER)
    }

    /// Converts both registers from steps to a reading.
    fn shown(&self, shunt: f64, bus: f64) -> Reading {
        let shunt_uv = SHUNT_LSB_UV * shunt;
        Reading {
            millivolts: (BUS_LSB_MV * bus) as i64,
            milliamperes: (shunt_uv / self.shunt_mohm).round() as i64,
            shunt_microvolts: shunt_uv as i64,
        }
    }

    /// The limit in mA that the chip keeps when `ma` is written. Linux (`ina3221_write_curr`)
    /// clamps to full scale, rounds to 5 µV, and cuts the rest of a step off, downwards.
    pub fn limit_ma(&self, ma: i64) -> i64 {
        limit_ma(ma, self.shunt_mohm, LIMIT_UV)
    }

    /// The shunt in mΩ.
    pub fn shunt_mohm(&self) -> f64 {
        self.shunt_mohm
    }

    /// Whether the shunt's register is above the warning limit.
    pub fn warn_alarm(&self) -> bool {
        self.reading().milliamperes > self.warn_ma
    }

    /// Whether a conversion at this time or later was above the critical limit. The chip latches
    /// the alarm until it is read.
    pub fn was_critical_since(&self, time: Duration) -> bool {
        self.over_critical.is_some_and(|over| over >= time)
    }
}

/// The limit in mA that a chip keeps when `ma` is written, if the driver rounds to `step_uv`.
fn limit_ma(ma: i64, shunt_mohm: f64, step_uv: f64) -> i64 {
    let full = REGISTER * SHUNT_LSB_UV;
    let uv = (ma as f64 * shunt_mohm).round().clamp(-full, full);
    let steps = ((uv / step_uv).round() * step_uv / SHUNT_LSB_UV).floor();
    (steps * SHUNT_LSB_UV / shunt_mohm).round() as i64
}

/// A chip's limit on the sum of currents, `curr4_crit`.
///
/// Up to Linux 6.0 and 5.10.157 the driver shifts the value into the register as that of a single
/// channel, whose steps are three bits up instead of one. The chip then compares with four times the
/// limit that the file shows (commit "Fix shunt sum critical calculation"). Simplified: all of R35 has
/// that driver here, although its later revisions have a later Linux kernel.
#[derive(Clone, Copy, Debug)]
pub struct SumLimit {
    shunt_mohm: f64,
    is_mended: bool,
    /// What the file shows.
    pub shown_ma: i64,
}

impl SumLimit {
    /// At full scale, as after a reset of the chip.
    pub fn new(shunt_mohm: f64, release: u32) -> Self {
        let is_mended = release >= 36;
        let full = if is_mended { SUM_REGISTER } else { REGISTER };
        Self {
            shunt_mohm,
            is_mended,
            shown_ma: (full * SHUNT_LSB_UV / shunt_mohm).round() as i64,
        }
    }

    /// Writes a limit.
    pub fn write(&mut self, ma: i64) {
        let step_uv = if self.is_mended {
            SUM_LIMIT_UV
        } else {
            LIMIT_UV
        };
        self.shown_ma = limit_ma(ma, self.shunt_mohm, step_uv);
    }

    /// The sum in mA that the chip compares with.
    pub fn true_ma(&self) -> f64 {
        let error = if self.is_mended { 1.0 } else { SUM_LIMIT_ERROR };
        error * self.shown_ma as f64
    }
}
