//! The guard band of a model: quantiles of ln(measured / predicted) over the grid.
//!
//! Leave-one-out gives zᵢ, the standardised residual of training mode i. The error of any mode x
//! is modelled as the mixture of zᵢ·sd(x) over all i and x, with the predicted standard deviation
//! sd(x). It grows with the distance from the training modes, so the band holds on the whole grid
//! and not only near them. Errors are taken as symmetric: every zᵢ counts with both signs, which
//! doubles the samples of the tail.
//!
//! Queries select modes of the Pareto front, and prefer those whose power or time is
//! underestimated. The front therefore has the weight [`FRONT_SHARE`] in the mixture. With few
//! modes the sampled hyperparameters are overconfident: each zᵢ is scaled by 1 + 2/n for n modes.
//! Both constants were tuned on the measured corpora.

use wattgate_runtime::{Factor, GuardBand, Knot};

use crate::learn::teacher::LeftOut;

/// Confidences of the band's knots, in units of 1/10,000.
const CONFIDENCES: [u16; 6] = [5_000, 8_000, 9_000, 9_500, 9_800, 9_900];

/// The prediction of a mode without a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unmeasured {
    /// The teacher's predictive standard deviation of ln(measured).
    pub sd: f64,
    /// ln(teacher's prediction / exported file's prediction).
    pub offset: f64,
}

/// Weight of the Pareto front's modes in the mixture.
pub const FRONT_SHARE: f64 = 0.25;

/// Residuals of n modes are scaled by 1 + `WIDENED` / n.
const WIDENED: f64 = 2.0;

/// Computes the band from the leave-one-out residuals and the unmeasured modes (at least one
/// each), and from the unmeasured modes on the Pareto front, if any.
pub fn band(left_out: &[LeftOut], unmeasured: &[Unmeasured], front: &[Unmeasured]) -> GuardBand {
    let widened = 1.0 + WIDENED / left_out.len() as f64;
    let z: Vec<f64> = left_out
        .iter()
        .map(|left_out| widened * left_out.residual / left_out.sd)
        .collect();
    let share = if front.is_empty() { 0.0 } else { FRONT_SHARE };
    let mut errors = Vec::new();
    for (modes, share) in [(unmeasured, 1.0 - share), (front, share)] {
        let weight = share / (2 * z.len() * modes.len()) as f64;
        let both = |mode: &Unmeasured, z: f64| [z, -z].map(|z| z * mode.sd + mode.offset);
        for mode in modes {
            errors.extend(
                z.iter()
                    .flat_map(|&z| both(mode, z))
                    .map(|error| (error, weight)),
            );
        }
    }
    errors.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));

    let mut knots = Vec::new();
    let mut least = Factor::ONE.q16();
    let mut below = 0.0;
    let mut bounds = errors.iter();
    let mut bound = f64::NEG_INFINITY;
    for per_ten_thousand in CONFIDENCES {
        // The tolerance allows for rounding: the weights sum to one only nearly.
        while below < f64::from(per_ten_thousand) / 1e4 - 1e-9 {
            let Some(&(error, weight)) = bounds.next() else {
                break;
            };
            (bound, below) = (error, below + weight);
        }
        let q16 = (bound.exp() * f64::from(Factor::ONE.q16())).ceil();
        least = least.max(q16 as u32);
        knots.push(Knot {
            per_ten_thousand,
            q16: least,
        });
    }
    GuardBand::new(knots).expect("confidences ascend and ratios do not fall")
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattgate_runtime::Confidence;

    fn left_out(z: &[f64]) -> Vec<LeftOut> {
        let one = |&z: &f64| LeftOut {
            residual: 0.02 * z,
            sd: 0.02,
        };
        z.iter().map(one).collect()
    }

    fn ln_factor(z: &[f64], unmeasured: &[Unmeasured], per_ten_thousand: u16) -> f64 {
        let confidence = Confidence::new(per_ten_thousand).expect("in range");
        let band = band(&left_out(z), unmeasured, &[]);
        let factor = band.factor(confidence).expect("supported");
        (f64::from(factor.q16()) / f64::from(Factor::ONE.q16())).ln()
    }

    #[test]
    fn the_band_is_the_quantile_of_both_signs() {
        // |z| of 1 … 100 with both signs: 95 % lie below 90.
        let z: Vec<f64> = (1..=100).map(|z| f64::from(z) / 100.0).collect();
        let near = Unmeasured {
            sd: 0.1,
            offset: 0.0,
        };
        let widened = 1.0 + WIDENED / 100.0;
        assert!((ln_factor(&z, &[near], 9_500) - 0.09 * widened).abs() < 1e-4);
        assert!(ln_factor(&z, &[near], 5_000).abs() < 2e-3);
    }

    #[test]
    fn modes_far_from_the_measured_ones_widen_it() {
        let z = [0.5, -1.0, 1.5, -0.2];
        let mode = |sd, offset| Unmeasured { sd, offset };
        let near = ln_factor(&z, &[mode(0.01, 0.0); 2], 9_900);
        let far = ln_factor(&z, &[mode(0.01, 0.0), mode(0.05, 0.0)], 9_900);
        let shifted = ln_factor(&z, &[mode(0.01, 0.02); 2], 9_900);
        assert!(far > 4.0 * near);
        assert!((shifted - near - 0.02).abs() < 1e-4);
    }

    #[test]
    fn the_front_counts_with_its_share() {
        let mode = |sd| Unmeasured { sd, offset: 0.0 };
        let z = left_out(&[1.0; 50]);
        let at = |per_ten_thousand| {
            let band = band(&z, &[mode(0.01); 10], &[mode(0.05)]);
            let confidence = Confidence::new(per_ten_thousand).expect("in range");
            f64::from(band.factor(confidence).expect("supported").q16()) / 65_536.0
        };
        // The front's positive errors have a weight of 1/8, above the quantile of 0.875.
        assert!((at(8_000).ln() - 0.01).abs() < 1e-3 && (at(9_000).ln() - 0.05).abs() < 3e-3);
    }

    #[test]
    fn fewer_modes_widen_it() {
        let z = [1.0, -1.0, 0.3];
        let mode = [Unmeasured {
            sd: 0.02,
            offset: 0.0,
        }];
        let many = [z, z, z, z].concat();
        assert!(ln_factor(&z, &mode, 9_500) > ln_factor(&many, &mode, 9_500));
    }

    #[test]
    fn a_model_that_overestimates_gets_no_ratio_below_one() {
        let low = [Unmeasured {
            sd: 0.001,
            offset: -0.2,
        }];
        assert_eq!(ln_factor(&[1.0; 20], &low, 9_900), 0.0);
    }
}
