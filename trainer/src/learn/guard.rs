//! The guard band of a model: quantiles of ln(measured / predicted) over the grid.
//!
//! A left-out mode i shows zᵢ, its residual in expected standard deviations. The band takes
//! these as what may happen in any mode x, where a standard deviation is sd(x): a mixture
//! of zᵢ·sd(x) over all i and x. Far from the modes trained on sd(x) is larger than near
//! them, so the band holds on the whole grid and not only where it was measured. Errors to
//! both sides are as likely: every zᵢ counts with both signs, which doubles what is known
//! of the tail.
//!
//! Queries choose modes of the front, and among those the ones that are underestimated, so
//! the front counts with [`FRONT_SHARE`] of the mixture. A dozen modes leave the sampled
//! hyperparameters too sure of themselves: n modes widen each zᵢ by 1 + 2/n. Both constants
//! were found on the measured corpora.

use wattgate_runtime::{Factor, GuardBand, Knot};

use crate::learn::teacher::LeftOut;

/// The confidences of the knots, in units of 1/10,000.
const CONFIDENCES: [u16; 6] = [5_000, 8_000, 9_000, 9_500, 9_800, 9_900];

/// A mode that was not measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unmeasured {
    /// The standard deviation of ln of a measurement.
    pub sd: f64,
    /// ln of what was expected over what the exported file predicts.
    pub offset: f64,
}

/// The part of the mixture that the modes of the front have.
pub const FRONT_SHARE: f64 = 0.25;

/// What n modes widen the band by, over n.
const WIDENED: f64 = 2.0;

/// The band from at least one mode that was left out, at least one not measured, and those
/// of the latter that are on the front, if any.
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
        // Weights sum to one up to rounding.
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
        // An eighth of the mixture is the front's upper half.
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
