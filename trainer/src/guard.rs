//! The guard band of a model: quantiles of ln(measured / predicted) on left-out modes.
//!
//! The quantile at confidence c is the ⌈(n + 1)·c⌉-th smallest of n left-out residuals,
//! which bounds a new residual with probability c whatever their distribution (split
//! conformal prediction, Vovk et al. 2005). Where n is too small for that rank, a Student
//! t bound of the residuals takes over, and is never below the largest residual: with
//! fewer modes the band widens instead of lying.

use statrs::distribution::{ContinuousCDF, StudentsT};
use wattgate_runtime::{Factor, GuardBand, Knot};

/// The confidences of the knots, in units of 1/10,000.
const CONFIDENCES: [u16; 6] = [5_000, 8_000, 9_000, 9_500, 9_800, 9_900];

/// The band of residuals ln(measured / predicted), at least two of them.
pub fn band(residuals: &[f64]) -> GuardBand {
    let mut sorted = residuals.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let mut least = Factor::ONE.q16();
    let knots = CONFIDENCES.map(|per_ten_thousand| {
        let bound = quantile(&sorted, f64::from(per_ten_thousand) / 1e4);
        let q16 = (bound.exp() * f64::from(Factor::ONE.q16())).ceil() as u32;
        least = least.max(q16);
        Knot {
            per_ten_thousand,
            q16: least,
        }
    });
    GuardBand::new(knots).expect("confidences ascend and ratios do not fall")
}

fn quantile(sorted: &[f64], confidence: f64) -> f64 {
    let n = sorted.len();
    let rank = ((n as f64 + 1.0) * confidence).ceil() as usize;
    if let Some(&bound) = sorted.get(rank.saturating_sub(1)) {
        return bound;
    }
    let mean = sorted.iter().sum::<f64>() / n as f64;
    let variance = sorted.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / (n as f64 - 1.0);
    let t = StudentsT::new(0.0, 1.0, n as f64 - 1.0).expect("at least two residuals");
    let spread = (variance * (1.0 + 1.0 / n as f64)).sqrt();
    let bound = mean + t.inverse_cdf(confidence) * spread;
    bound.max(sorted[n - 1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattgate_runtime::Confidence;

    fn factor(residuals: &[f64], per_ten_thousand: u16) -> f64 {
        let confidence = Confidence::new(per_ten_thousand).expect("in range");
        let factor = band(residuals).factor(confidence).expect("supported");
        f64::from(factor.q16()) / f64::from(Factor::ONE.q16())
    }

    #[test]
    fn the_rank_is_that_of_one_more_residual() {
        let residuals: Vec<f64> = (1..=99).map(|i| f64::from(i) / 1000.0).collect();
        assert!((factor(&residuals, 9_000) - 0.090_f64.exp()).abs() < 1e-4);
        assert!((factor(&residuals, 9_900) - 0.099_f64.exp()).abs() < 1e-4);
    }

    #[test]
    fn fewer_residuals_widen_the_band() {
        let few: Vec<f64> = (0..10).map(|i| 0.01 * f64::from(i % 5 - 2)).collect();
        let many: Vec<f64> = (0..1000).map(|i| 0.01 * f64::from(i % 5 - 2)).collect();
        assert!(factor(&few, 9_500) > factor(&many, 9_500));
        assert!(factor(&few, 9_900) > factor(&few, 9_500));
    }

    #[test]
    fn a_model_that_overestimates_gets_no_ratio_below_one() {
        assert_eq!(factor(&[-0.2; 200], 9_900), 1.0);
    }
}
