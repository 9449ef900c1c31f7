//! Resolution and offset of a rail: the step of its shunt's voltage (`jetson-platform.md`, section
//! 6.3). The driver shows the shunt, or the step is inferred from readings of the current.

use std::ops::RangeInclusive;

/// Step of a shunt's voltage, in µV. The offset is typically one step, and at most two (section
/// 6.3).
const STEP_UV: i64 = 40;

/// Plausible shunts, in µΩ. A value outside this range is ignored.
const SHUNTS_UOHM: RangeInclusive<i64> = 100..=100_000;

/// The smallest known shunt, in mΩ. It has the largest offset.
const SMALLEST_KNOWN_SHUNT_MOHM: i64 = 2;

/// Lowest plausible current in mA: the offset can make the current read negative down to this
/// value.
pub(crate) const LOWEST_MA: i64 = -2 * STEP_UV / SMALLEST_KNOWN_SHUNT_MOHM;

/// Steps of the current at shunts of 2, 4, 5 and 10 mΩ, in mA.
const STEPS_MA: [i64; 4] = [20, 10, 8, 4];

/// The least common multiple of [`STEPS_MA`].
const MULTIPLE_MA: u64 = 40;

/// The power of a rail that one step of its shunt's voltage stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// In µW and in mA, if the driver shows the shunt.
    Shown(i64, i64),
    /// Inferred from the currents otherwise, and the voltage at discovery in mV.
    Inferred(Currents, i64),
}

impl Step {
    /// From the shunt in µΩ as the driver shows it, the voltage in mV, and readings of the current
    /// in mA, which are taken only if the driver shows no plausible shunt.
    pub fn new(
        shunt_uohm: Option<i64>,
        millivolts: i64,
        readings_ma: impl Iterator<Item = i64>,
    ) -> Self {
        match shunt_uohm.filter(|uohm| SHUNTS_UOHM.contains(uohm)) {
            Some(uohm) => Self::Shown(
                (STEP_UV * 1_000 * millivolts + uohm - 1) / uohm,
                STEP_UV * 1_000 / uohm,
            ),
            None => Self::Inferred(Currents::from_readings(readings_ma), millivolts),
        }
    }

    /// Takes a reading of the current in mA into account.
    pub fn add(&mut self, reading_ma: i64) {
        if let Self::Inferred(currents, _) = self {
            currents.add(reading_ma);
        }
    }

    /// The step in µW.
    pub fn microwatts(self) -> i64 {
        match self {
            Self::Shown(microwatts, _) => microwatts,
            Self::Inferred(currents, millivolts) => currents.step_ma() * millivolts,
        }
    }

    /// The step in mA, rounded down.
    pub fn milliamperes(self) -> i64 {
        match self {
            Self::Shown(_, milliamperes) => milliamperes,
            Self::Inferred(currents, _) => currents.step_ma(),
        }
    }
}

/// The greatest common divisor, in mA, of all readings of a current so far and [`MULTIPLE_MA`]. It
/// tells which of [`STEPS_MA`] divide all readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Currents(u64);

impl Currents {
    fn from_readings(readings_ma: impl Iterator<Item = i64>) -> Self {
        let mut currents = Self(MULTIPLE_MA);
        readings_ma.for_each(|reading| currents.add(reading));
        currents
    }

    /// Takes a reading in mA into account, by Euclid's algorithm. Costs one modulo if the divisor
    /// does not change.
    fn add(&mut self, reading_ma: i64) {
        let (mut divisor, mut rest) = (self.0, reading_ma.unsigned_abs() % self.0);
        while rest != 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        self.0 = divisor;
    }

    /// Upper bound of the current's step in mA: the largest of [`STEPS_MA`] that divides all
    /// readings so far. 20 mA, the step of the smallest shunt, if none divides them, or if all
    /// readings were 0. More readings make the bound finer; it becomes coarser only when no step
    /// divides all readings any more.
    ///
    /// It is a bound because each reading is a multiple of the true step. A test holds it for any
    /// number of readings and all shunts of whole mΩ from 2 mΩ on, which are the only ones that the
    /// driver of JetPack 4 accepts, up to the half mA to which that driver rounds. Each rail has
    /// its own step, as shunts may differ. It is no bound if the device tree has
    /// `shunt-volt-offset-uv`: the driver then subtracts a calibrated offset from each reading.
    /// What remains is less than the typical offset.
    fn step_ma(self) -> i64 {
        let divides = |step: &i64| self.0.is_multiple_of(step.unsigned_abs());
        let step = STEPS_MA.into_iter().find(divides);
        step.unwrap_or(STEP_UV / SMALLEST_KNOWN_SHUNT_MOHM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Converts a register as the driver of JetPack 4 does: rounds to the nearest mA, and half a mA
    /// away from zero.
    fn shown_ma(steps: i64, shunt_mohm: i64) -> i64 {
        steps.signum() * ((2 * STEP_UV * steps.abs() / shunt_mohm + 1) / 2)
    }

    /// All states of [`Currents`] that readings at a shunt can lead to.
    fn reachable(shunt_mohm: i64) -> Vec<Currents> {
        let mut all = vec![Currents::from_readings([].into_iter())];
        let mut next = 0;
        while let Some(&before) = all.get(next) {
            next += 1;
            // Readings modulo 40 mA repeat after as many steps as the shunt has mΩ.
            for steps in 0..=shunt_mohm {
                let mut after = before;
                after.add(shown_ma(steps, shunt_mohm));
                if !all.contains(&after) {
                    all.push(after);
                }
            }
        }
        all
    }

    #[test]
    fn the_inferred_step_is_never_below_the_shunt_s() {
        for shunt_mohm in SMALLEST_KNOWN_SHUNT_MOHM..=100 {
            for currents in reachable(shunt_mohm) {
                let step = currents.step_ma();
                // Within the half mA by which the driver rounds.
                let is_bound = (2 * step + 1) * shunt_mohm > 2 * STEP_UV;
                assert!(is_bound, "{currents:?}: {step} mA at {shunt_mohm} mΩ");
            }
        }
    }

    #[test]
    fn the_step_is_the_largest_that_divides_all_readings_so_far() {
        for shunt_mohm in SMALLEST_KNOWN_SHUNT_MOHM..=100 {
            for first in 0..200 {
                for spread in [1, 2, 3, 7] {
                    let readings = [0, 0, spread, -spread];
                    let readings = readings.map(|it| shown_ma(first + it, shunt_mohm));
                    let mut currents = Currents::from_readings([].into_iter());
                    for (last, reading) in readings.into_iter().enumerate() {
                        currents.add(reading);
                        let divides =
                            |step: &i64| readings[..=last].iter().all(|ma| ma % step == 0);
                        let expected = STEPS_MA.into_iter().find(divides).unwrap_or(20);
                        assert_eq!(currents.step_ma(), expected, "{:?}", &readings[..=last]);
                    }
                }
            }
        }
    }

    #[test]
    fn neighbouring_readings_reveal_the_step() {
        for (shunt_mohm, expected) in [(2, 20), (4, 10), (5, 8), (10, 4)] {
            for steps in 1..100 {
                let readings = [steps, steps + 1].map(|it| shown_ma(it, shunt_mohm));
                let currents = Currents::from_readings(readings.into_iter());
                assert_eq!(currents.step_ma(), expected, "{readings:?}");
            }
        }
        let step_ma =
            |readings: &[i64]| Currents::from_readings(readings.iter().copied()).step_ma();
        // No reading; zeros only; an offset below zero.
        assert_eq!(step_ma(&[]), 20);
        assert_eq!(step_ma(&[0, 0]), 20);
        assert_eq!(step_ma(&[-8, 0, 8]), 8);
        // No step divides all readings; later ones do not change that.
        assert_eq!(step_ma(&[8, 10]), 20);
        assert_eq!(step_ma(&[8, 10, 8, 4]), 20);
        assert_eq!(step_ma(&[i64::MIN, i64::MAX]), 20);
    }
}
