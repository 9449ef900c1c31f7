//! Thermal model: heat flows from the die through a heat sink into the air. Die and sink are two
//! thermal capacitances in series.

use wattgate_board_tables::Thermal;

/// Temperatures of die and heat sink in °C.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heat {
    pub die_c: f64,
    pub sink_c: f64,
}

impl Heat {
    /// A board at the temperature of the air.
    pub fn of_air(air_c: f64) -> Self {
        Self {
            die_c: air_c,
            sink_c: air_c,
        }
    }

    /// Steady-state temperatures at a constant power in W. `fan` is the fan's speed, relative to
    /// its highest speed.
    pub fn settled(thermal: &Thermal, watts: f64, air_c: f64, fan: f64) -> Self {
        let sink_c = air_c + watts * sink_k_per_w(thermal, fan);
        Self {
            die_c: sink_c + watts * thermal.die_k_per_w,
            sink_c,
        }
    }

    /// Advances by a time step at constant power in W: explicit Euler. The step must be short
    /// compared with the time constant of the die.
    pub fn flow(&mut self, thermal: &Thermal, watts: f64, air_c: f64, fan: f64, seconds: f64) {
        let to_sink_w = (self.die_c - self.sink_c) / thermal.die_k_per_w;
        let to_air_w = (self.sink_c - air_c) / sink_k_per_w(thermal, fan);
        self.die_c += seconds * (watts - to_sink_w) / thermal.die_j_per_k;
        self.sink_c += seconds * (to_sink_w - to_air_w) / thermal.sink_j_per_k;
    }

    /// Advances by a time that is long compared with the time constant of the die: the die is in
    /// equilibrium with the sink.
    pub fn rest(&mut self, thermal: &Thermal, watts: f64, air_c: f64, fan: f64, seconds: f64) {
        let settled = Self::settled(thermal, watts, air_c, fan);
        let time_constant = sink_k_per_w(thermal, fan) * thermal.sink_j_per_k;
        let left = (-seconds / time_constant).exp();
        self.sink_c = settled.sink_c + (self.sink_c - settled.sink_c) * left;
        self.die_c = self.sink_c + watts * thermal.die_k_per_w;
    }
}

/// Thermal resistance from the sink to the air, in K/W.
fn sink_k_per_w(thermal: &Thermal, fan: f64) -> f64 {
    thermal.sink_k_per_w + fan * (thermal.sink_fan_k_per_w - thermal.sink_k_per_w)
}

#[cfg(test)]
mod tests {
    use super::*;

    const THERMAL: Thermal = Thermal {
        die_k_per_w: 0.5,
        die_j_per_k: 10.0,
        sink_k_per_w: 2.0,
        sink_fan_k_per_w: 1.0,
        sink_j_per_k: 200.0,
    };

    #[test]
    fn short_and_long_steps_lead_to_the_same_temperatures() {
        let settled = Heat::settled(&THERMAL, 20.0, 25.0, 1.0);
        assert_eq!((settled.sink_c, settled.die_c), (45.0, 55.0));
        let [mut short, mut long] = [Heat::of_air(25.0); 2];
        for _ in 0..300_000 {
            short.flow(&THERMAL, 20.0, 25.0, 1.0, 0.01);
        }
        long.rest(&THERMAL, 20.0, 25.0, 1.0, 3000.0);
        for heat in [short, long] {
            assert!((heat.sink_c - 45.0).abs() < 0.01 && (heat.die_c - 55.0).abs() < 0.01);
        }
    }

    #[test]
    fn the_sink_takes_its_time_constant() {
        let mut heat = Heat::of_air(25.0);
        heat.rest(&THERMAL, 20.0, 25.0, 0.0, 400.0);
        let expected = 65.0 - 40.0 * (-1.0f64).exp();
        assert!((heat.sink_c - expected).abs() < 1e-9);
    }
}
