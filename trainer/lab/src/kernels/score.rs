//! How good predictions of kernels are, by MIRAGE's measures.

use std::collections::BTreeMap;

use serde::Serialize;

use wattgate_trainer::score::Target;

/// Relative errors, in percent, within which predictions are counted.
pub const WITHIN: [u32; 4] = [5, 10, 15, 20];

/// Measures of the predictions of one target of one kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// The kernel's name.
    pub kernel: &'static str,
    /// Time or power.
    pub target: Target,
    /// Number of rows.
    pub rows: usize,
    /// Percentage of the rows whose relative error is at most that of the key, in percent.
    pub within_pct: BTreeMap<u32, f64>,
    /// Mean absolute percentage error.
    pub mape: f64,
    /// Root mean square error in ms or W.
    pub rmse: f64,
    /// Mean absolute error in ms or W.
    pub mae: f64,
}

impl Score {
    /// Of pairs of predicted and measured values, in ms or mW.
    pub fn from_pairs(kernel: &'static str, target: Target, pairs: &[(f64, f64)]) -> Self {
        let n = pairs.len() as f64;
        let relative =
            |(predicted, measured): &(f64, f64)| 100.0 * (predicted / measured - 1.0).abs();
        let factor = match target {
            Target::Time => 1.0,
            Target::Power => 1e-3,
        };
        let absolute = |(predicted, measured): &(f64, f64)| factor * (predicted - measured).abs();
        let within = |limit: u32| {
            let held = pairs
                .iter()
                .filter(|pair| relative(pair) <= f64::from(limit));
            (limit, 100.0 * held.count() as f64 / n)
        };
        let square: f64 = pairs.iter().map(|pair| absolute(pair).powi(2)).sum();
        Self {
            kernel,
            target,
            rows: pairs.len(),
            within_pct: WITHIN.map(within).into(),
            mape: pairs.iter().map(relative).sum::<f64>() / n,
            rmse: (square / n).sqrt(),
            mae: pairs.iter().map(absolute).sum::<f64>() / n,
        }
    }

    /// The mean of some scores of the same rows; `None` without scores.
    pub fn mean(scores: &[Self]) -> Option<Self> {
        let first = scores.first()?;
        let n = scores.len() as f64;
        let mean = |figure: &dyn Fn(&Self) -> f64| scores.iter().map(figure).sum::<f64>() / n;
        Some(Self {
            within_pct: WITHIN
                .map(|limit| (limit, mean(&|score| score.within(limit))))
                .into(),
            mape: mean(&|score| score.mape),
            rmse: mean(&|score| score.rmse),
            mae: mean(&|score| score.mae),
            ..first.clone()
        })
    }

    /// Percentage of the rows with at most this relative error, one of [`WITHIN`].
    pub fn within(&self, limit: u32) -> f64 {
        self.within_pct.get(&limit).copied().unwrap_or(f64::NAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measures_are_those_of_the_pairs() {
        let pairs = [(1_100.0, 1_000.0), (1_980.0, 2_000.0)];
        let score = Score::from_pairs("relu", Target::Power, &pairs);
        assert!((score.mape - 5.5).abs() < 1e-9 && (score.mae - 0.06).abs() < 1e-9);
        assert!((score.rmse - (0.0104_f64 / 2.0).sqrt()).abs() < 1e-9);
        assert_eq!(
            [5, 10, 15].map(|limit| score.within(limit)),
            [50.0, 50.0, 100.0]
        );
    }
}
