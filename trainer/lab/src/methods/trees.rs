//! Ensembles of trees on the four knobs for the logarithm of each target.
//!
//! `gbt`: gradient-boosted trees, the learner of MIRAGE (Abdelhafez et al., SEC 2021). The hyperparameters
//! lie within its ranges as far as a few training modes permit. `random-forest`: a hundred trees, each grown
//! to its end on a bootstrap sample, as scikit-learn's default is.

use smartcore::ensemble::random_forest_regressor::{
    RandomForestRegressor, RandomForestRegressorParameters,
};
use smartcore::error::Failed;
use smartcore::linalg::basic::matrix::DenseMatrix;
use smartcore::xgboost::{XGRegressor, XGRegressorParameters};

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
        let predict = |target| {
            let predicted = self.predict(task, target);
            predicted.map_err(|why| MethodError::Trees(why.to_string()))
        };
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
    fn predict(self, task: &Task<'_>, target: Target) -> Result<Option<Vec<f64>>, Failed> {
        let known = task
            .used
            .iter()
            .filter_map(|mode| Some((mode.knobs, target.measured(mode)?.ln())));
        let (knobs, logs): (Vec<[u32; 4]>, Vec<f64>) = known.unzip();
        if logs.is_empty() {
            return Ok(None);
        }
        // The base score is zero, so centre the targets.
        let standard = Standard::from_values(logs.iter().copied());
        let centred: Vec<f64> = logs.iter().map(|log| log - standard.mean).collect();
        let modes: Vec<[u32; 4]> = all_modes(&task.corpus.grid).collect();
        let (knobs, modes) = (matrix(&knobs)?, matrix(&modes)?);
        let predicted: Vec<f64> = match self {
            Self::Boosted => {
                let parameters = XGRegressorParameters::default()
                    .with_base_score(0.0)
                    .with_n_estimators(400)
                    .with_max_depth(5)
                    .with_learning_rate(0.05)
                    .with_subsample(0.9)
                    .with_seed(task.seed);
                XGRegressor::fit(&knobs, &centred, parameters)?.predict(&modes)?
            }
            Self::Forest => {
                let parameters = RandomForestRegressorParameters::default()
                    .with_n_trees(100)
                    .with_m(4)
                    .with_seed(task.seed);
                RandomForestRegressor::fit(&knobs, &centred, parameters)?.predict(&modes)?
            }
        };
        let of_log = |log: f64| (log + standard.mean).exp();
        Ok(Some(predicted.into_iter().map(of_log).collect()))
    }
}

fn matrix(modes: &[[u32; 4]]) -> Result<DenseMatrix<f64>, Failed> {
    let values = modes
        .iter()
        .flatten()
        .map(|&knob| f64::from(knob))
        .collect();
    DenseMatrix::new(modes.len(), 4, values, false)
}
