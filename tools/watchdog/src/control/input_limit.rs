//! A limit of the current at the module's input.

use wattgate_runtime::Milliwatts;

use crate::quantity::Milliamperes;

/// Step in mV by which the voltage that counts rises. With smaller steps the limit would change all
/// the time.
const VOLTAGE_STEP: u32 = 32;

/// A limit of the current at the module's input, whose voltage moves.
#[derive(Clone, Copy, Debug)]
pub struct InputLimit {
    current: Milliamperes,
    /// The voltage in mV that counts. It falls with the readings at once, and rises by a step each.
    millivolts: u32,
}

impl InputLimit {
    /// A limit whose voltage is not known yet.
    pub fn new(current: Milliamperes) -> Self {
        Self {
            current,
            millivolts: u32::MAX,
        }
    }

    /// The power at which the current is reached.
    pub fn power(&self) -> Milliwatts {
        self.current.at(self.millivolts)
    }

    /// Takes a reading of the voltage, and returns whether another voltage counts now. A lower reading
    /// counts at once, with half a [`VOLTAGE_STEP`] of reserve. A reading more than two steps higher
    /// raises the voltage by one step.
    pub fn take(&mut self, millivolts: u32) -> bool {
        let before = self.millivolts;
        if millivolts < before {
            self.millivolts = millivolts.saturating_sub(VOLTAGE_STEP / 2);
        } else if millivolts > before + 2 * VOLTAGE_STEP {
            self.millivolts = before + VOLTAGE_STEP;
        }
        self.millivolts != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_voltage_counts_at_once_and_a_higher_one_step_by_step() {
        let mut limit = InputLimit::new(Milliamperes(2_000));
        for (reading, counts) in [
            (5_000, 4_984),
            // Noise of a step of the sensor, 8 mV, changes nothing.
            (4_992, 4_984),
            (5_008, 4_984),
            (4_800, 4_784),
            (5_000, 4_816),
            (5_000, 4_848),
        ] {
            let before = limit.power();
            let has_changed = limit.take(reading);
            assert_eq!(limit.power(), Milliwatts(2 * counts), "{reading} mV");
            assert_eq!(has_changed, limit.power() != before, "{reading} mV");
        }
    }
}
