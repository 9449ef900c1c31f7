//! A board's temperatures and its automatic fan over time, from the power that it draws.

use std::time::Duration;

use wattgate_board_tables::Thermal;
use wattgate_simulated_board::heat::Heat;
use wattgate_simulated_board::machine::automatic_fan;
use wattgate_simulated_board::machine::trace::Segment;
use wattgate_simulated_board::steady::AMBIENT_C;

/// Maximum time step of the heat flow. The die's time constants are some seconds.
pub const HEAT_STEP: Duration = Duration::from_millis(100);

/// The fan follows the temperature at this interval, as in the machine.
const FAN_EVERY: Duration = Duration::from_secs(1);

/// What the fan does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fan {
    /// It follows the die's temperature, as on a board that nobody has changed.
    Automatic,
    /// It runs at full speed, as when a corpus is profiled.
    Full,
}

impl Fan {
    /// The speed at a die temperature in °C, as a part of the highest.
    pub fn speed(self, die_c: f64) -> f64 {
        match self {
            Self::Automatic => f64::from(automatic_fan(die_c)) / 255.0,
            Self::Full => 1.0,
        }
    }
}

/// Temperatures and fan at a time.
#[derive(Clone, Copy, Debug)]
pub struct Warmth {
    /// Time up to which the heat has flowed.
    pub now: Duration,
    pub heat: Heat,
    fan: Fan,
    /// Speed of the fan, as a part of the highest.
    speed: f64,
}

impl Warmth {
    /// A board at time zero. An automatic fan stands still until it first looks at the temperature.
    pub fn new(heat: Heat, fan: Fan) -> Self {
        Self {
            now: Duration::ZERO,
            heat,
            fan,
            speed: match fan {
                Fan::Automatic => 0.0,
                Fan::Full => 1.0,
            },
        }
    }

    /// Draws a power in W up to a time, at most [`HEAT_STEP`] away.
    pub fn draw(&mut self, thermal: &Thermal, watts: f64, until: Duration) {
        let seconds = (until - self.now).as_secs_f64();
        self.heat
            .flow(thermal, watts, AMBIENT_C, self.speed, seconds);
        let polls = |at: Duration| at.as_nanos() / FAN_EVERY.as_nanos();
        if polls(until) > polls(self.now) {
            self.speed = self.fan.speed(self.heat.die_c);
        }
        self.now = until;
    }

    /// Draws the power of a trace up to a time.
    pub fn follow(&mut self, thermal: &Thermal, trace: &[Segment], until: Duration) {
        for segment in trace {
            let end = segment.until.min(until);
            while self.now < end {
                self.draw(thermal, segment.watts, end.min(self.now + HEAT_STEP));
            }
        }
    }
}
