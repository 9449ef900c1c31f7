//! Readings that contradict all others: a sensor that was read while the workload stood, or a time of two steps.
//!
//! The teachers say of each training mode what they expect of it without having seen it, and how sure they are
//! ([`LeftOut`]). With 15 modes, a power that was halved deviates by 4 standard deviations and more in nine of
//! ten cases, measured on five corpora; of the sound readings of a corpus, the largest deviation is 2 in the
//! median.

use serde::Serialize;

use crate::corpus::modes::{AGREEMENT, Known};
use crate::learn::expected::{LeftOut, Residual};
use crate::learn::predictions::Target;

/// Deviations from which a reading is suspect.
pub const SUSPECT_DEVIATIONS: f64 = 4.0;

/// Least ratio to the expected value, or of it. Smaller errors spoil no model.
pub const SUSPECT_RATIO: f64 = AGREEMENT;

/// Deviations from which a reading is named as in doubt. The largest deviation of sound readings is about 2, and
/// that of a halved power among nine or twelve modes was above 2.5 in four of six files.
const DOUBTFUL_DEVIATIONS: f64 = 2.5;

/// Fewest training modes from which one can be judged.
const LEAST_JUDGED_MODES: usize = 10;

/// A reading that contradicts the others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Suspect {
    /// Index of the training mode.
    #[serde(skip)]
    pub at: usize,
    /// What was read.
    pub target: Target,
    /// The reading, divided by what the other modes make expect.
    pub ratio: f64,
}

/// The reading that contradicts the others most; `None` if none does. `measured` are the modes that
/// `left_out` is of. A reading that a second run confirms is no error, whatever the others say.
pub fn suspect(measured: &[Known], left_out: &[LeftOut]) -> Option<Suspect> {
    if left_out.len() < LEAST_JUDGED_MODES {
        return None;
    }
    let open = left_out.iter().zip(measured).enumerate();
    let open = open.filter(|(_, (_, mode))| !mode.is_confirmed);
    let all = open.flat_map(|(at, (left_out, _))| {
        Target::ALL.into_iter().filter_map(move |target| {
            let residual = left_out.for_target(target)?;
            let deviations = (residual.log / residual.sd).abs();
            let is_suspect =
                deviations > SUSPECT_DEVIATIONS && residual.log.abs() > SUSPECT_RATIO.ln();
            let suspect = Suspect {
                at,
                target,
                ratio: residual.log.exp(),
            };
            is_suspect.then_some((deviations, suspect))
        })
    });
    let most = all.max_by(|a, b| a.0.total_cmp(&b.0));
    most.map(|(_, suspect)| suspect)
}

/// What is thought of a reading of one run, by what the others say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Doubt {
    /// The others say the same, or are unsure.
    None,
    /// They say something else.
    Some,
    /// They say something else, and the reading is farther from it than two runs of a mode are from each other.
    Much,
}

/// The doubt about a reading.
pub fn doubt(mode: &Known, residual: Residual) -> Doubt {
    let difference = residual.log.abs();
    if mode.is_confirmed || difference <= residual.sd {
        return Doubt::None;
    }
    match difference > SUSPECT_RATIO.ln() {
        true => Doubt::Much,
        false => Doubt::Some,
    }
}

/// The readings in doubt, of any number of modes.
pub fn doubtful(measured: &[Known], left_out: &[LeftOut]) -> Vec<Suspect> {
    let each = left_out.iter().zip(measured).enumerate();
    let each = each.flat_map(|(at, (left_out, mode))| {
        Target::ALL.into_iter().filter_map(move |target| {
            let residual = left_out.for_target(target)?;
            let deviations = (residual.log / residual.sd).abs();
            let suspect = Suspect {
                at,
                target,
                ratio: residual.log.exp(),
            };
            let is_doubtful = doubt(mode, residual) == Doubt::Much;
            (is_doubtful && deviations > DOUBTFUL_DEVIATIONS).then_some(suspect)
        })
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::{Known, LeftOut, Residual, Suspect, Target, doubtful};

    fn left_out(time: f64, power: f64) -> LeftOut {
        let residual = |log| Residual { log, sd: 0.05 };
        LeftOut {
            time: residual(time),
            power: Some(residual(power)),
        }
    }

    fn suspect(left_out: &[LeftOut]) -> Option<Suspect> {
        super::suspect(&read_once(left_out.len()), left_out)
    }

    fn read_once(modes: usize) -> Vec<Known> {
        let one = Known {
            id: 0,
            knobs: [1; 4],
            time_us: 1.0,
            power_mw: Some(1.0),
            is_confirmed: false,
        };
        vec![one; modes]
    }

    #[test]
    fn the_reading_that_deviates_most_is_suspect() {
        let mut all = vec![left_out(0.1, -0.1); 10];
        assert_eq!(suspect(&all), None);
        all[3] = left_out(0.4, 0.0);
        all[7] = left_out(0.0, 0.5_f64.ln());
        let found = suspect(&all).expect("one");
        assert_eq!((found.at, found.target), (7, Target::Power));
        assert!((found.ratio - 0.5).abs() < 1e-12);
        // Few modes cannot judge one of them, but doubt it.
        assert_eq!(suspect(&all[..9]), None);
        let found = doubtful(&read_once(9), &all[..9]);
        let found: Vec<_> = found
            .iter()
            .map(|suspect| (suspect.at, suspect.target))
            .collect();
        assert_eq!(found, [(3, Target::Time), (7, Target::Power)]);
        let mut again = read_once(9);
        again[3].is_confirmed = true;
        assert_eq!(doubtful(&again, &all[..9]).len(), 1);
    }

    /// A deviation counts in deviations and as a ratio.
    #[test]
    fn small_and_uncertain_deviations_are_not_suspect() {
        let mut all = vec![left_out(0.01, 0.01); 10];
        all[2] = left_out(0.0, 0.29);
        assert_eq!(suspect(&all), None);
        all[2].power = Some(Residual { log: 0.7, sd: 0.2 });
        assert_eq!(suspect(&all), None);
    }

    #[test]
    fn a_reading_that_a_second_run_confirms_is_not_suspect() {
        let mut all = vec![left_out(0.0, 0.0); 10];
        all[7] = left_out(0.0, 0.5_f64.ln());
        let mut measured = read_once(10);
        assert!(super::suspect(&measured, &all).is_some());
        measured[7].is_confirmed = true;
        assert_eq!(super::suspect(&measured, &all), None);
    }
}
