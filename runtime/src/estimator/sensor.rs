//! The power sensor: its chips and their readings.

use crate::units::Milliseconds;
use crate::units::Milliwatts;

/// Maximum number of chips: an INA3221 has four addresses on its bus.
pub const MOST_CHIPS: usize = 4;

/// A reading of the power sensor: for each chip, the sum of the rails that belong to the module's
/// total. Absent chips read 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The powers of the chips, in any constant order.
    pub chips: [Milliwatts; MOST_CHIPS],
}

impl Sample {
    /// The sample of a sensor with one chip.
    pub fn one(power: Milliwatts) -> Self {
        let mut sample = Self::default();
        let [first, ..] = &mut sample.chips;
        *first = power;
        sample
    }

    /// The power of the whole module, saturating.
    pub fn total(&self) -> Milliwatts {
        let powers = self.chips.iter().map(|chip| chip.0);
        Milliwatts(powers.fold(0, u32::saturating_add))
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
}

/// The step in mW. It is at least 1, because readings are in whole mW.
pub fn step(chip: &Chip) -> f32 {
    chip.step.0.clamp(1, 1 << 24) as f32
}
