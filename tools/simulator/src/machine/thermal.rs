//! Temperatures, and the reactions to them: fan, passive trip and throttling
//! (`jetson-platform.md`, section 7).

use crate::heat::Heat;
use wattgate_board_tables::{Board, Thermal};

/// Die temperature in °C from which Linux lowers the CPU clocks (section 7).
pub const PASSIVE_C: f64 = 99.0;
/// Die temperatures in °C from which the BPMP throttles to a half and to a quarter. The depths are
/// assumed.
pub const BPMP_C: [f64; 2] = [101.0, 103.0];
/// Die temperature in °C at which the board shuts down (section 7).
pub const CRITICAL_C: f64 = 104.5;

/// Speeds of the fan, of 255, from these die temperatures in °C on. The temperatures are those of
/// the module's device tree (section 7), the speeds are assumed.
const FAN: [(f64, u8); 3] = [(80.0, 255), (65.0, 170), (50.0, 85)];

/// The speed of a fan that follows a die temperature in °C, of 255.
pub fn automatic_fan(die_c: f64) -> u8 {
    let step = FAN.iter().find(|(from_c, _)| die_c >= *from_c);
    step.map_or(0, |(_, pwm)| *pwm)
}

/// Highest clocks in kHz that Linux's cooling devices allow now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    pub cpu_khz: u32,
    pub gpu_khz: u32,
}

/// Die, heat sink, air and fan of a board.
#[derive(Clone, Debug)]
pub struct Cooling {
    pub heat: Heat,
    /// Ambient temperature in °C.
    pub ambient_c: f64,
    /// The speed of the fan, of 255.
    pub fan_pwm: u8,
    /// Number of table entries by which the passive trip lowers the CPU clocks.
    pub passive: usize,
    /// Caps that hold whatever the temperature; `u32::MAX` is none.
    pub fixed: Caps,
}

impl Cooling {
    /// A board as warm as the air, in °C.
    pub fn of_air(ambient_c: f64) -> Self {
        Self {
            heat: Heat::of_air(ambient_c),
            ambient_c,
            fan_pwm: 0,
            passive: 0,
            fixed: Caps {
                cpu_khz: u32::MAX,
                gpu_khz: u32::MAX,
            },
        }
    }

    /// Linux's poll: moves the passive trip by one entry of the CPU's table, which has
    /// `clocks` entries, and sets the fan, unless software has fixed its speed.
    pub fn poll(&mut self, clocks: usize, fixed_fan: Option<u8>) {
        if self.heat.die_c >= PASSIVE_C {
            self.passive = (self.passive + 1).min(clocks - 1);
        } else {
            self.passive = self.passive.saturating_sub(1);
        }
        let automatic = automatic_fan(self.heat.die_c);
        self.fan_pwm = fixed_fan.unwrap_or(automatic);
    }

    /// The caps of all cooling devices.
    pub fn caps(&self, board: &Board) -> Caps {
        let passive_khz = board.cpu_khz[board.cpu_khz.len() - 1 - self.passive];
        Caps {
            cpu_khz: passive_khz.min(self.fixed.cpu_khz),
            ..self.fixed
        }
    }

    /// The divisor of the BPMP's throttling of CPU and GPU: 1, 2 or 4.
    pub fn divisor(&self) -> u32 {
        match self.heat.die_c {
            c if c >= BPMP_C[1] => 4,
            c if c >= BPMP_C[0] => 2,
            _ => 1,
        }
    }

    /// Advances the temperatures by some seconds at a constant power in W.
    pub fn flow(&mut self, thermal: &Thermal, watts: f64, seconds: f64) {
        let fan = f64::from(self.fan_pwm) / 255.0;
        self.heat.flow(thermal, watts, self.ambient_c, fan, seconds);
    }
}
