//! The power sensors of a board and their inputs, currents and voltages
//! (`jetson-platform.md`, sections 6.1 to 6.4).

use std::time::Duration;

use wattgate_board_tables::{Board, Rail};

use super::supply::{Supply, is_low};
use crate::power::Watts;
use crate::sampling::{Chip, MOST_CHIPS};
use crate::sensor::{ASSUMED_SHUNT_MOHM, Channel, History, SumLimit};
use crate::unit::Unit;

/// The rail that a chip's sum of currents excludes (section 6.1).
pub const NOT_SUMMED: &str = "VIN_SYS_5V0";

/// Chips, channels and rails. Each call passes the power, which is constant between two events.
#[derive(Clone, Debug)]
pub struct Sensors {
    /// The supply of the board, if its voltage differs from that of the rails.
    pub supply: Option<Supply>,
    /// Current offset of each rail's sensor in mA; a positive offset reads too high.
    pub offset_ma: Vec<f64>,
    /// Chips of power sensors, in the order of their first rails.
    pub chips: Vec<Chip>,
    /// The chip of each rail.
    chip_of: Vec<usize>,
    pub channels: Vec<Channel>,
    /// Relative error of each rail's bus voltage in this slice.
    bus_noise: Vec<f64>,
    /// Readings of each channel in the last minute.
    pub history: Vec<History>,
    /// The limit on the sum of each chip's currents.
    pub sum_limits: Vec<SumLimit>,
    /// Whether the alarms of the first chip throttle the board.
    is_protected: bool,
}

/// The chip of the first rail, whose critical alarm is wired to the board's protection.
const PROTECTED: usize = 0;

impl Sensors {
    /// The sensors of a unit; noise depends on `seed`.
    pub fn new(board: &Board, unit: &Unit, seed: u64) -> Self {
        let rails = board.rails.iter().enumerate();
        let mut channels: Vec<Channel> = rails
            .map(|(at, rail)| Channel::new(rail, unit.shunt_offset_uv[at], unit.gain[at]))
            .collect();
        if let Some(first) = channels.first_mut() {
            let limits = &board.over_current;
            let limit = |ma: Option<f64>, full| ma.map_or(full, |ma| ma.round() as i64);
            first.warn_ma = limit(limits.warn_ma, first.warn_ma);
            first.crit_ma = limit(limits.crit_ma, first.crit_ma);
        }
        let chip_of = board.chip_of();
        let chips = chip_of.iter().max().map_or(0, |last| last + 1);
        let limits = &board.over_current;
        let sum_limits = (0..chips).map(|chip| {
            let first = chip_of.iter().position(|of_rail| *of_rail == chip);
            let shunt_mohm = first.map_or(ASSUMED_SHUNT_MOHM, |rail| channels[rail].shunt_mohm());
            let mut limit = SumLimit::new(shunt_mohm, board.release());
            if let Some(ma) = limits.sum_crit_ma.filter(|_| chip == PROTECTED) {
                limit.write(ma.round() as i64);
            }
            limit
        });
        let sum_limits = sum_limits.collect();
        let chips = unit.sensor_time.into_iter().take(chips).enumerate();
        let chips = chips.map(|(number, slowness)| Chip::new(number, slowness, seed));
        Self {
            supply: None,
            offset_ma: vec![0.0; board.rails.len()],
            chips: chips.collect(),
            chip_of,
            bus_noise: vec![0.0; channels.len()],
            channels,
            history: Vec::new(),
            sum_limits,
            is_protected: limits.crit_ma.is_some() || limits.sum_crit_ma.is_some(),
        }
    }

    /// Sets all registers to their steady state at this power.
    pub fn settle(&mut self, board: &Board, watts: &Watts) {
        for rail in 0..self.channels.len() {
            let ma = self.rail_ma(board, watts, rail);
            let mv = self.rail_mv(board, watts, rail);
            self.channels[rail].settle(ma, mv);
            self.history
                .push(History::from(self.channels[rail].reading()));
        }
    }

    /// Records the readings, and draws the noise of the next time slice.
    pub fn next_slice(&mut self, now: Duration) {
        for (channel, history) in self.channels.iter().zip(&mut self.history) {
            history.note(now, channel.reading());
        }
        for (noise, &chip) in self.bus_noise.iter_mut().zip(&self.chip_of) {
            *noise = self.chips[chip].bus_noise();
        }
    }

    /// Converts this power until `end`.
    pub fn convert(&mut self, board: &Board, watts: &Watts, end: Duration) {
        let mut left = [None; MOST_CHIPS];
        for (left, chip) in left.iter_mut().zip(&mut self.chips) {
            *left = chip.pass(end);
        }
        for rail in 0..self.channels.len() {
            if let Some(left) = left[self.chip_of[rail]] {
                let mv = self.rail_mv(board, watts, rail);
                let ma = 1e6 * rail_watts(board, watts, rail) / mv + self.offset_ma[rail];
                let mv = mv * (1.0 + self.bus_noise[rail]);
                self.channels[rail].convert(ma, mv, left, end);
            }
        }
    }

    /// The warning of the first channel, which the over-current protection watches.
    pub fn warn_alarm(&self) -> bool {
        self.channels.first().is_some_and(Channel::warn_alarm)
    }

    /// Whether a conversion of the sensor of a rail was over the critical limit. The chip holds
    /// this alarm until it is read; here it is held for one time constant of the registers.
    pub fn crit_alarm(&self, rail: usize, now: Duration) -> bool {
        let held = self.chips[self.chip_of[rail]].time_constant();
        self.channels[rail].was_critical_since(now.saturating_sub(held))
    }

    /// Whether a conversion of this power exceeds a critical limit of the protected chip. The chip
    /// compares each channel, and the sum of some.
    pub fn is_over_critical(&self, board: &Board, watts: &Watts) -> bool {
        if !self.is_protected {
            return false;
        }
        let (mut sum_ma, mut is_over) = (0.0, false);
        for (at, rail) in board.rails.iter().enumerate() {
            if self.chip_of[at] == PROTECTED {
                let channel = &self.channels[at];
                let ma = channel.converted_ma(self.rail_ma(board, watts, at));
                is_over |= ma > channel.crit_ma as f64;
                sum_ma += if rail.label == NOT_SUMMED { 0.0 } else { ma };
            }
        }
        is_over || sum_ma > self.sum_limits[PROTECTED].true_ma()
    }

    /// The end of the present conversion cycle of the protected chip.
    pub fn next_protected_cycle(&self) -> Duration {
        self.chips[PROTECTED].due()
    }

    /// Whether the voltage of the supply is too low.
    pub fn is_under_voltage(&self, board: &Board, watts: &Watts) -> bool {
        self.supply.is_some() && is_low(self.rail_mv(board, watts, 0), board.rails[0].millivolts)
    }

    /// The true current through the sensor of a rail in mA.
    fn rail_ma(&self, board: &Board, watts: &Watts, rail: usize) -> f64 {
        1e6 * rail_watts(board, watts, rail) / self.rail_mv(board, watts, rail)
            + self.offset_ma[rail]
    }

    /// The voltage of a rail, in mV. Rails at the voltage of the first one are the input
    /// (`jetson-platform.md`, fact 3); the others are behind regulators.
    fn rail_mv(&self, board: &Board, watts: &Watts, rail: usize) -> f64 {
        let rails = &board.rails;
        let is_input = |rail: &Rail| rail.millivolts == rails[0].millivolts;
        match self.supply {
            Some(supply) if is_input(&rails[rail]) => {
                let inputs =
                    (0..rails.len()).filter(|at| rails[*at].total && is_input(&rails[*at]));
                supply.loaded_mv(inputs.map(|at| rail_watts(board, watts, at)).sum())
            }
            _ => rails[rail].millivolts,
        }
    }
}

fn rail_watts(board: &Board, watts: &Watts, rail: usize) -> f64 {
    let domains = board.rails[rail].domains.iter();
    domains.map(|&domain| watts.get(domain)).sum()
}
