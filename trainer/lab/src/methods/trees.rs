//! Ensembles of trees on the four knobs for the logarithm of each target.
//!
//! `gbt`: gradient-boosted trees, the learner of MIRAGE (Abdelhafez et al., SEC 2021). The hyperparameters
//! lie within its ranges as far as a few training modes permit. `random-forest`: a hundred trees, each grown
//! to its end on a bootstrap sample, as scikit-learn's default is.

use forust_ml::objective::ObjectiveType;
use forust_ml::sampler::SampleMethod;
use forust_ml::{GradientBooster, Matrix};
use smartcore::ensemble::random_forest_regressor::{
    RandomForestRegressor, RandomForestRegressorParameters,
};
use smartcore::linalg::basic::matrix::DenseMatrix;

use super::{Method, MethodError, Predicted, Trained};
use wattgate_trainer::fit::Standard;
use wattgate_trainer::fit::Task;
use wattgate_trainer::read::all_modes;
use wattgate_trainer::score::{Predictions, Target};

/// A method with trees.
#[derive(Clone, Copy)]
pub enum Trees {
    /// `gbt`.
    Boosted,
    /// `random-forest`.
    Forest,
}

impl Method for Trees {
    fn name(&self) -> &'static str {
        match self {
            Self::Boosted => "gbt",
            Self::Forest => "random-forest",
        }
    }

    fn train(&self, task: &Task<'_>) -> Result<Box<dyn Trained>, MethodError> {
        let predict = |target| self.predict(task, target).map_err(MethodError::Trees);
        let time = predict(Target::Time)?.expect("every mode that is used has a time");
        Ok(Box::new(Predicted(Predictions {
            time,
            power: predict(Target::Power)?,
            spread: None,
            time_spread: None,
        })))
    }
}

impl Trees {
    /// The predictions of a target for the whole grid; `None` without a measured one.
    fn predict(self, task: &Task<'_>, target: Target) -> Result<Option<Vec<f64>>, String> {
        let known = task
            .used
            .iter()
            .filter_map(|mode| Some((mode.knobs, target.measured(mode)?.ln())));
        let (knobs, logs): (Vec<[u32; 4]>, Vec<f64>) = known.unzip();
        if logs.is_empty() {
            return Ok(None);
        }
        let standard = Standard::from_values(logs.iter().copied());
        let centred: Vec<f64> = logs.iter().map(|log| log - standard.mean).collect();
        let modes: Vec<[u32; 4]> = all_modes(&task.corpus.grid).collect();
        let predicted = match self {
            Self::Boosted => boosted(&knobs, &centred, &modes, task.seed),
            Self::Forest => forest(&knobs, &centred, &modes, task.seed),
        };
        let of_log = |log: f64| (log + standard.mean).exp();
        Ok(Some(predicted?.into_iter().map(of_log).collect()))
    }
}

fn boosted(
    knobs: &[[u32; 4]],
    logs: &[f64],
    modes: &[[u32; 4]],
    seed: u64,
) -> Result<Vec<f64>, String> {
    // Column by column.
    let flat = |modes: &[[u32; 4]]| -> Vec<f64> {
        let columns = (0..4).flat_map(|axis| modes.iter().map(move |mode| f64::from(mode[axis])));
        columns.collect()
    };
    let mut booster = GradientBooster::default()
        .set_objective_type(ObjectiveType::SquaredLoss)
        .set_iterations(400)
        .set_max_depth(5)
        .set_max_leaves(1 << 5)
        .set_learning_rate(0.05)
        .set_sample_method(SampleMethod::Random)
        .set_subsample(0.9)
        .set_seed(seed);
    let known = flat(knobs);
    let known = Matrix::new(&known, knobs.len(), 4);
    let fitted = booster.fit_unweighted(&known, logs, None);
    fitted.map_err(|why| why.to_string())?;
    Ok(booster.predict(&Matrix::new(&flat(modes), modes.len(), 4), true))
}

fn forest(
    knobs: &[[u32; 4]],
    logs: &Vec<f64>,
    modes: &[[u32; 4]],
    seed: u64,
) -> Result<Vec<f64>, String> {
    let matrix = |modes: &[[u32; 4]]| {
        let values = modes
            .iter()
            .flatten()
            .map(|&knob| f64::from(knob))
            .collect();
        DenseMatrix::new(modes.len(), 4, values, false)
    };
    let parameters = RandomForestRegressorParameters::default()
        .with_n_trees(100)
        .with_m(4)
        .with_seed(seed);
    let predict =
        || RandomForestRegressor::fit(&matrix(knobs)?, logs, parameters)?.predict(&matrix(modes)?);
    predict().map_err(|why| why.to_string())
}
