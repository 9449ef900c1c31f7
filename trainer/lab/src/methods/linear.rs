//! `linear`: least squares on the four raw knobs (Prashanthi et al., SIGMETRICS 2023,
//! "Characterizing", section 5.7). `linear-4` trains on the best four of ten candidate modes,
//! found by exhaustive search. `linear-energy` predicts energy, with the predicted time as a fifth
//! input, and derives power from it.

use nalgebra::{DMatrix, DVector};

use super::{Method, MethodError, Predicted, Trained};
use wattgate_trainer::fit::Standard;
use wattgate_trainer::fit::Task;
use wattgate_trainer::read::Known;
use wattgate_trainer::read::Reference;
use wattgate_trainer::read::all_modes;
use wattgate_trainer::score::{Predictions, Target};

/// Number of candidate modes of `linear-4`.
const CANDIDATES: usize = 10;

/// Number of training modes of `linear-4`.
const CHOSEN: usize = 4;

/// The method `linear`.
pub struct Linear;

/// The method `linear-4`.
pub struct LinearOfFour;

/// The method `linear-energy`.
pub struct LinearEnergy;

impl Method for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn train(&self, task: &Task<'_>) -> Result<Box<dyn Trained>, MethodError> {
        predict(task, task.used)
    }
}

impl Method for LinearOfFour {
    fn name(&self) -> &'static str {
        "linear-4"
    }

    /// Chooses the four modes with the lowest relative RMSE on all candidates, summed over the
    /// targets.
    fn train(&self, task: &Task<'_>) -> Result<Box<dyn Trained>, MethodError> {
        let candidates = &task.used[..task.used.len().min(CANDIDATES)];
        let mut best = (f64::INFINITY, Vec::new());
        for four in fours(candidates.len()) {
            let modes: Vec<Known> = four.iter().map(|&at| candidates[at]).collect();
            let error = Target::ALL
                .into_iter()
                .filter_map(|target| relative_rmse(&modes, candidates, target))
                .sum::<f64>();
            if error < best.0 {
                best = (error, modes);
            }
        }
        predict(task, &best.1)
    }
}

impl Method for LinearEnergy {
    fn name(&self) -> &'static str {
        "linear-energy"
    }

    /// Pools the modes of references, if any, with those of the new workload: the paper fits one
    /// model to several networks.
    fn train(&self, task: &Task<'_>) -> Result<Box<dyn Trained>, MethodError> {
        let known = samples(task.used, Target::Time);
        let time = Regression::fit(&known).expect("every mode that is used has a time");
        let with_time = |knobs: [u32; 4], time_us: f64| {
            let mut row = row(knobs);
            row.push(time_us);
            row
        };
        let pooled = Reference::all_modes(task.references);
        let energies: Vec<(Vec<f64>, f64)> = pooled
            .iter()
            .chain(task.used)
            .filter_map(|mode| {
                let energy = mode.power_mw? * mode.time_us;
                Some((with_time(mode.knobs, mode.time_us), energy))
            })
            .collect();
        let energy = Regression::fit(&energies);
        let modes: Vec<[u32; 4]> = all_modes(&task.corpus.grid).collect();
        let time: Vec<f64> = modes.iter().map(|&knobs| time.at(&row(knobs))).collect();
        let has_power = task.used.iter().any(|mode| mode.power_mw.is_some());
        let power = energy.filter(|_| has_power).map(|energy| {
            let pairs = modes.iter().zip(&time);
            pairs
                .map(|(&knobs, &time)| energy.at(&with_time(knobs, time)) / time)
                .collect()
        });
        Ok(Box::new(Predicted(Predictions {
            time,
            power,
            spread: None,
            time_spread: None,
        })))
    }
}

fn predict(task: &Task<'_>, modes: &[Known]) -> Result<Box<dyn Trained>, MethodError> {
    let [time, power] = Target::ALL.map(|target| {
        let regression = Regression::fit(&samples(modes, target))?;
        let all = all_modes(&task.corpus.grid);
        Some(all.map(|knobs| regression.at(&row(knobs))).collect())
    });
    let time = time.expect("every mode that is used has a time");
    Ok(Box::new(Predicted(Predictions {
        time,
        power,
        spread: None,
        time_spread: None,
    })))
}

pub(crate) fn row(knobs: [u32; 4]) -> Vec<f64> {
    knobs.into_iter().map(f64::from).collect()
}

fn samples(modes: &[Known], target: Target) -> Vec<(Vec<f64>, f64)> {
    let known = modes
        .iter()
        .filter_map(|mode| Some((row(mode.knobs), target.measured(mode)?)));
    known.collect()
}

fn relative_rmse(modes: &[Known], candidates: &[Known], target: Target) -> Option<f64> {
    let regression = Regression::fit(&samples(modes, target))?;
    let known = samples(candidates, target);
    let mean = known.iter().map(|(_, y)| y).sum::<f64>() / known.len() as f64;
    let squares = known.iter().map(|(x, y)| (regression.at(x) - y).powi(2));
    Some((squares.sum::<f64>() / known.len() as f64).sqrt() / mean)
}

/// All subsets of four indices below `n`; for `n` < 4 the one set of all indices.
pub(crate) fn fours(n: usize) -> Vec<Vec<usize>> {
    if n < CHOSEN {
        return vec![(0..n).collect()];
    }
    let mut all = Vec::new();
    for a in 0..n {
        for b in a + 1..n {
            for c in b + 1..n {
                all.extend((c + 1..n).map(|d| vec![a, b, c, d]));
            }
        }
    }
    all
}

/// Least squares with an intercept on standardised inputs; the minimum-norm solution if the
/// samples are too few.
#[derive(Clone, Debug)]
pub(crate) struct Regression {
    inputs: Vec<Standard>,
    mean: f64,
    weights: DVector<f64>,
}

impl Regression {
    pub fn fit(samples: &[(Vec<f64>, f64)]) -> Option<Self> {
        let width = samples.first()?.0.len();
        let column = |i: usize| samples.iter().map(move |(x, _)| x[i]);
        let inputs: Vec<Standard> = (0..width)
            .map(|i| Standard::from_values(column(i)))
            .collect();
        let mean = samples.iter().map(|(_, y)| y).sum::<f64>() / samples.len() as f64;
        let matrix = DMatrix::from_fn(samples.len(), width, |r, c| {
            inputs[c].apply(samples[r].0[c])
        });
        let centred = DVector::from_iterator(samples.len(), samples.iter().map(|(_, y)| y - mean));
        let weights = matrix.svd(true, true).solve(&centred, 1e-9).ok()?;
        Some(Self {
            inputs,
            mean,
            weights,
        })
    }

    /// The intercept and the coefficients of the inputs as they are, not standardised.
    pub fn coefficients(&self) -> Vec<f64> {
        let pairs = || self.inputs.iter().zip(self.weights.iter());
        let slopes = pairs().map(|(scale, weight)| weight / scale.sd);
        let at_mean = pairs().map(|(scale, weight)| weight * scale.mean / scale.sd);
        [self.mean - at_mean.sum::<f64>()]
            .into_iter()
            .chain(slopes)
            .collect()
    }

    pub fn at(&self, x: &[f64]) -> f64 {
        let terms = x.iter().zip(&self.inputs).zip(self.weights.iter());
        self.mean
            + terms
                .map(|((&x, scale), w)| w * scale.apply(x))
                .sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plane_is_recovered() {
        let plane = |x: &[f64]| 5.0 + 2.0 * x[0] - 0.5 * x[1];
        let samples: Vec<(Vec<f64>, f64)> = [[1.0, 2.0], [3.0, 1.0], [4.0, 7.0], [0.0, 5.0]]
            .iter()
            .map(|x| (x.to_vec(), plane(x)))
            .collect();
        let regression = Regression::fit(&samples).expect("samples");
        assert!((regression.at(&[10.0, -3.0]) - plane(&[10.0, -3.0])).abs() < 1e-9);
        let pairs = regression.coefficients().into_iter().zip([5.0, 2.0, -0.5]);
        assert!(
            pairs
                .into_iter()
                .all(|(found, planted)| (found - planted).abs() < 1e-9)
        );
    }

    #[test]
    fn there_are_210_fours_of_ten() {
        assert_eq!(fours(10).len(), 210);
        assert_eq!(fours(3), [[0, 1, 2]]);
    }
}
