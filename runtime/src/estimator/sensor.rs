//! The power sensor: its chips and their readings.

use super::LONGEST_TIME_CONSTANT;
use crate::quantities::{Milliseconds, Milliwatts};

/// Maximum number of chips: an INA3221 has four addresses on its bus.
pub const MOST_CHIPS: usize = 4;

/// A reading of the power sensor: for each chip, the sum of the rails that belong to the module's
/// total. Absent chips read 0; a chip that could not be read is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The powers of the chips, in any constant order.
    pub chips: [Option<Milliwatts>; MOST_CHIPS],
}

impl Sample {
    /// The sample of a sensor with one chip.
    pub fn one(power: Milliwatts) -> Self {
        Self::from_chips([power, Milliwatts(0), Milliwatts(0), Milliwatts(0)])
    }

    /// The sample of a sensor whose chips could all be read.
    pub fn from_chips(chips: [Milliwatts; MOST_CHIPS]) -> Self {
        Self {
            chips: chips.map(Some),
        }
    }

    /// The power of the whole module, saturating; `None` if a chip could not be read.
    pub fn total(&self) -> Option<Milliwatts> {
        let mut chips = self.chips.iter();
        let total = chips.try_fold(0_u32, |sum, chip| Some(sum.saturating_add((*chip)?.0)));
        total.map(Milliwatts)
    }

    /// The powers of the chips; `None` if a chip could not be read.
    pub fn powers(&self) -> Option<[Milliwatts; MOST_CHIPS]> {
        let mut powers = [Milliwatts(0); MOST_CHIPS];
        for (power, chip) in powers.iter_mut().zip(self.chips) {
            *power = chip?;
        }
        Some(powers)
    }
}

/// How a chip of the sensor measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chip {
    /// The time constant of its low-pass: samples × the time of one conversion of all channels.
    /// 0 … 60,000 ms.
    pub time_constant: Milliseconds,
    /// The step of the sum of its rails: the root of the sum of their squared steps. A rail's step
    /// is one step of its shunt voltage.
    pub step: Milliwatts,
}

impl Chip {
    /// An INA3221 as L4T sets it: 512 samples. The step is that of a 5 mΩ shunt at 5 V.
    pub const L4T: Self = Self {
        time_constant: Milliseconds(430),
        step: Milliwatts(40),
    };

    /// Whether its time constant is within the range.
    pub(crate) const fn is_sound(&self) -> bool {
        self.time_constant.0 <= LONGEST_TIME_CONSTANT.0
    }
}

/// The step in mW. It is at least 1, because readings are in whole mW.
pub fn step(chip: &Chip) -> f32 {
    chip.step.0.clamp(1, 1 << 24) as f32
}
