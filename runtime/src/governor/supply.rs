//! The supply that feeds the module: what it draws beside what the sensor shows.

use core::num::{NonZeroU32, NonZeroU64};

use crate::quantities::Milliwatts;

/// Parts of an efficiency of 1.
const ONE: u64 = 1_000_000;

/// A supply that draws the module's power divided by an efficiency, and an offset: `module / efficiency + offset`. With
/// [`Governor::set_supply`](super::Governor::set_supply), limit, average and budget are the supply's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supply {
    /// In ppm.
    efficiency: NonZeroU32,
    offset: Milliwatts,
}

impl Supply {
    /// No loss and nothing else to feed: limits are the module's.
    pub const NONE: Self = Self {
        efficiency: match NonZeroU32::new(ONE as u32) {
            Some(one) => one,
            None => NonZeroU32::MIN,
        },
        offset: Milliwatts(0),
    };

    /// A supply with an efficiency in ppm, 1 … 1,000,000, and an offset; `None` outside this range.
    pub const fn new(efficiency: u32, offset: Milliwatts) -> Option<Self> {
        match NonZeroU32::new(efficiency) {
            Some(efficiency) if efficiency.get() as u64 <= ONE => Some(Self { efficiency, offset }),
            _ => None,
        }
    }

    /// The same with a further draw, such as that of a fan.
    #[must_use]
    pub const fn with(self, more: Milliwatts) -> Self {
        let offset = Milliwatts(self.offset.0.saturating_add(more.0));
        Self { offset, ..self }
    }

    /// What the module may draw while the supply draws this. Rounded down; 0 if the offset alone is more.
    pub const fn module(self, supply: Milliwatts) -> Milliwatts {
        let left = supply.0.saturating_sub(self.offset.0);
        match self.efficiency.get() as u64 {
            ONE => Milliwatts(left),
            efficiency => arrived(left, efficiency),
        }
    }

    /// What the supply draws while the module draws this. Rounded up.
    pub fn supply(self, module: Milliwatts) -> Milliwatts {
        let fed = self.fed(u64::from(module.0));
        let fed = u32::try_from(fed).unwrap_or(u32::MAX);
        Milliwatts(fed.saturating_add(self.offset.0))
    }

    /// The energy in µJ that the supply draws while the module draws this energy in a time in ms.
    pub(super) fn energy(self, microjoules: u64, milliseconds: u64) -> u64 {
        let offset = u64::from(self.offset.0).saturating_mul(milliseconds);
        self.fed(microjoules).saturating_add(offset)
    }

    /// An amount divided by the efficiency, rounded up.
    fn fed(self, amount: u64) -> u64 {
        match self.efficiency == Self::NONE.efficiency {
            true => amount,
            false => divided(amount, self.efficiency),
        }
    }
}

// Divisions of 64 bits are long on processors of 32 bits: once in the code, and only with a supply.

#[cold]
#[inline(never)]
const fn arrived(left: u32, efficiency: u64) -> Milliwatts {
    Milliwatts((left as u64 * efficiency / ONE) as u32)
}

#[cold]
#[inline(never)]
fn divided(amount: u64, efficiency: NonZeroU32) -> u64 {
    let efficiency = NonZeroU64::from(efficiency);
    let (whole, rest) = (amount / efficiency, amount % efficiency * ONE);
    let up = u64::from(rest % efficiency > 0);
    whole
        .saturating_mul(ONE)
        .saturating_add(rest / efficiency + up)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn supply(efficiency: u32, offset: u32) -> Supply {
        let efficiency = NonZeroU32::new(efficiency).unwrap_or(NonZeroU32::MIN);
        let offset = Milliwatts(offset);
        Supply { efficiency, offset }
    }

    #[test]
    fn without_a_supply_nothing_changes() {
        for value in [0, 1, 15_000, u32::MAX] {
            assert_eq!(Supply::NONE.module(Milliwatts(value)), Milliwatts(value));
            assert_eq!(Supply::NONE.supply(Milliwatts(value)), Milliwatts(value));
        }
        for value in [0, 1, 123_456_789, u64::MAX / 2_000_000 * 1_000_000] {
            assert_eq!(Supply::NONE.energy(value, 1_000), value);
        }
    }

    #[test]
    fn what_the_module_may_draw_never_takes_the_supply_over_its_limit() {
        for (efficiency, offset) in [(900_000, 2_500), (333_333, 1), (1, 0), (1_000_000, 7_000)] {
            let fed = supply(efficiency, offset);
            for limit in [offset, offset + 1, 15_000, 20_001, 1_000_000] {
                let limit = Milliwatts(limit);
                let module = fed.module(limit);
                assert!(fed.supply(module) <= limit, "{fed:?}, {limit}");
                assert!(
                    fed.supply(Milliwatts(module.0 + 1)) > limit,
                    "{fed:?}, {limit}"
                );
                // mW for a second are mJ.
                let energy = fed.energy(u64::from(module.0) * 1_000, 1_000);
                assert!(energy <= u64::from(limit.0) * 1_000, "{fed:?}, {limit}");
            }
        }
        let fed = supply(900_000, 2_500);
        assert_eq!(fed.module(Milliwatts(20_000)), Milliwatts(15_750));
        assert_eq!(fed.supply(Milliwatts(15_750)), Milliwatts(20_000));
        assert_eq!(fed.module(Milliwatts(2_000)), Milliwatts(0));
        assert_eq!(
            fed.with(Milliwatts(500)).module(Milliwatts(3_000)),
            Milliwatts(0)
        );
    }

    #[test]
    fn an_efficiency_is_above_nothing_and_at_most_one() {
        assert_eq!(Supply::new(0, Milliwatts(0)), None);
        assert_eq!(Supply::new(1_000_001, Milliwatts(0)), None);
        assert_eq!(Supply::new(1_000_000, Milliwatts(0)), Some(Supply::NONE));
    }
}
