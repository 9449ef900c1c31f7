//! The supply of the board: its voltage falls with the load, as a battery's does.

/// Threshold of OC1 as a part of the input's nominal voltage: about 4.5 V of 5 on an Orin Nano
/// (`jetson-platform.md`, section 6.4). Assumed for other boards, where it is unknown.
const UNDER_VOLTAGE: f64 = 0.9;

/// A voltage source with an internal resistance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Supply {
    /// Open-circuit voltage.
    pub millivolts: f64,
    /// Resistance of the source and the cable.
    pub milliohms: f64,
}

impl Supply {
    /// The voltage in mV at which a load takes this power in W. Half the voltage without load if
    /// the source cannot deliver this power.
    pub fn loaded_mv(&self, watts: f64) -> f64 {
        // U = E − R·P/U; 1 mΩ × 1 W is 1000 mV².
        let square = self.millivolts.powi(2) - 4.0 * 1e3 * self.milliohms * watts;
        f64::midpoint(self.millivolts, square.max(0.0).sqrt())
    }
}

/// Whether the voltage is below the threshold of OC1.
pub fn is_low(millivolts: f64, nominal_mv: f64) -> bool {
    millivolts < UNDER_VOLTAGE * nominal_mv
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn current_times_resistance_is_missing() {
        let supply = Supply {
            millivolts: 5000.0,
            milliohms: 100.0,
        };
        assert_eq!(supply.loaded_mv(0.0), 5000.0);
        let loaded = supply.loaded_mv(16.0);
        let amperes = 16.0 / (loaded / 1e3);
        assert!((5000.0 - 100.0 * amperes - loaded).abs() < 1e-6, "{loaded}");
    }
}
