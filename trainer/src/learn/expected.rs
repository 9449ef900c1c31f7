//! Summaries of predictive distributions, and what measurements deviate from them.

use crate::learn::gp::Normal;
use crate::learn::predictions::{Errors, Target};

/// Tolerance of a median, in ln units.
const MEDIAN_TOLERANCE: f64 = 1e-7;

/// A summary of the predictive distribution of a logarithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// The median, as a few outlying samples hardly move it.
    pub median: f64,
    /// Root mean square deviation from the median.
    pub sd: f64,
}

impl From<Normal> for Expected {
    fn from(normal: Normal) -> Self {
        Self {
            median: normal.mean,
            sd: normal.variance.sqrt(),
        }
    }
}

impl Expected {
    /// The error of this prediction of a logarithm.
    pub fn residual(&self, target: f64) -> Residual {
        Residual {
            log: target - self.median,
            sd: self.sd,
        }
    }

    /// Summarises a mixture of normal distributions whose weights sum to one.
    pub fn from_mixture(parts: &[(f64, Normal)]) -> Self {
        let median = median(parts);
        let square = |(weight, part): &(f64, Normal)| {
            weight * (part.variance + (part.mean - median).powi(2))
        };
        Self {
            median,
            sd: parts.iter().map(square).sum::<f64>().sqrt(),
        }
    }
}

/// The median of a mixture of normal distributions whose weights sum to one, by Newton's method within
/// a bracket.
fn median(parts: &[(f64, Normal)]) -> f64 {
    let means = parts.iter().map(|(_, part)| part.mean);
    let mut low = means.clone().fold(f64::INFINITY, f64::min);
    let mut high = means.fold(f64::NEG_INFINITY, f64::max);
    let mut at: f64 = parts.iter().map(|(weight, part)| weight * part.mean).sum();
    while high - low > MEDIAN_TOLERANCE {
        let (mut below, mut density) = (0.0, 0.0);
        for (weight, part) in parts {
            below += weight * part.below(at);
            density += weight * part.density(at);
        }
        if below < 0.5 {
            low = at;
        } else {
            high = at;
        }
        let next = at + (0.5 - below) / density;
        let step = (next - at).abs();
        if step < MEDIAN_TOLERANCE {
            return next.clamp(low, high);
        }
        at = match (low..high).contains(&next) {
            true => next,
            false => f64::midpoint(low, high),
        };
    }
    f64::midpoint(low, high)
}

/// The error of a prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residual {
    /// ln(measured / predicted).
    pub log: f64,
    /// The predictive standard deviation of `log`.
    pub sd: f64,
}

/// The errors of teachers on a training mode that they did not see.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeftOut {
    /// Of the time.
    pub time: Residual,
    /// Of the power, where it was measured.
    pub power: Option<Residual>,
}

impl LeftOut {
    /// Of a target.
    pub fn for_target(&self, target: Target) -> Option<Residual> {
        match target {
            Target::Time => Some(self.time),
            Target::Power => self.power,
        }
    }
}

/// Estimates the mean absolute errors of predictions over a board, in percent (of logarithms): the mean predicted
/// deviation over the board, times the mean of |error| / predicted deviation over the measured modes, each predicted
/// without itself. The mean error of the measured modes alone says less, since a plan measures where a board is hardest
/// to predict. `board` has one list for time, and one for power if it is known.
pub fn expected_errors(left_out: &[LeftOut], board: &[Vec<Expected>]) -> Errors {
    let mape = |target: Target| {
        let residuals = left_out
            .iter()
            .filter_map(|left_out| left_out.for_target(target));
        let deviations: Vec<f64> = residuals
            .map(|residual| residual.log.abs() / residual.sd)
            .collect();
        let board = board.get(target as usize)?;
        let sd = board.iter().map(|expected| expected.sd).sum::<f64>() / board.len() as f64;
        let mean = deviations.iter().sum::<f64>() / deviations.len() as f64;
        (!deviations.is_empty()).then_some(100.0 * sd * mean)
    };
    Errors {
        time_mape: mape(Target::Time),
        power_mape: mape(Target::Power),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Residuals of one and of three deviations; the board is half as uncertain as those modes.
    #[test]
    fn expected_errors_are_those_of_the_board() {
        let left_out = [0.1, -0.3].map(|log| LeftOut {
            time: Residual { log, sd: 0.1 },
            power: None,
        });
        let expected = Expected {
            median: 7.0,
            sd: 0.05,
        };
        let errors = expected_errors(&left_out, &[vec![expected; 3]]);
        assert!(errors.time_mape.is_some_and(|it| (it - 10.0).abs() < 1e-9));
        assert_eq!(errors.power_mape, None);
        assert_eq!(
            expected_errors(&[], &[vec![expected; 3]]),
            Errors::default()
        );
    }

    #[test]
    fn a_mixture_is_as_wide_as_its_parts_lie_apart() {
        let part = |mean| Normal {
            mean,
            variance: 1.0,
        };
        let of_two = Expected::from_mixture(&[(0.5, part(-2.0)), (0.5, part(2.0))]);
        assert!(of_two.median.abs() < 1e-6 && (of_two.sd - 5_f64.sqrt()).abs() < 1e-6);
        let far_off = Expected::from_mixture(&[(0.9, part(0.0)), (0.1, part(100.0))]);
        // Φ(0.1397) is 0.5 / 0.9.
        assert!((far_off.median - 0.139_710).abs() < 1e-5 && far_off.sd > 30.0);
    }
}
