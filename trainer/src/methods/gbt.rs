//! `gbt`: gradient-boosted trees on the four knobs for the logarithm of each target. This is the
//! learner of MIRAGE (Abdelhafez et al., SEC 2021). The hyperparameters lie within its ranges as
//! far as a few training modes permit.

use smartcore::linalg::basic::matrix::DenseMatrix;
use smartcore::xgboost::{XGRegressor, XGRegressorParameters};

use super::{Method, MethodError, Predicted, Trained};
use crate::corpus::modes::all_modes;
use crate::learn::predictions::{Predictions, Target};
use crate::learn::standard::Standard;
use crate::train::Task;

/// The method `gbt`.
pub struct Gbt;

impl Method for Gbt {
    fn name(&self) -> &'static str {
        "gbt"
    }

    fn train(&self, task: &Task<'_>) -> Result<Box<dyn Trained>, MethodError> {
        let time = boosted(task, Target::Time)?;
        let power = boosted(task, Target::Power)?;
        let time = time.expect("every mode that is used has a time");
        Ok(Box::new(Predicted(Predictions {
            time,
            power,
            spread: None,
        })))
    }
}

fn boosted(task: &Task<'_>, target: Target) -> Result<Option<Vec<f64>>, MethodError> {
    let known = task
        .used
        .iter()
        .filter_map(|mode| Some((mode.knobs, target.measured(mode)?.ln())));
    let (knobs, logs): (Vec<[u32; 4]>, Vec<f64>) = known.unzip();
    if logs.is_empty() {
        return Ok(None);
    }
    // The base score is zero, so centre the targets.
    let standard = Standard::of(logs.iter().copied());
    let centred: Vec<f64> = logs.iter().map(|log| log - standard.mean).collect();
    let parameters = XGRegressorParameters::default()
        .with_base_score(0.0)
        .with_n_estimators(400)
        .with_max_depth(5)
        .with_learning_rate(0.05)
        .with_subsample(0.9)
        .with_seed(task.seed);
    let failed = |why: smartcore::error::Failed| MethodError::Trees(why.to_string());
    let trees =
        XGRegressor::fit(&matrix(&knobs).map_err(failed)?, &centred, parameters).map_err(failed)?;
    let modes: Vec<[u32; 4]> = all_modes(&task.corpus.grid).collect();
    let predicted = trees
        .predict(&matrix(&modes).map_err(failed)?)
        .map_err(failed)?;
    Ok(Some(
        predicted
            .iter()
            .map(|log| (log + standard.mean).exp())
            .collect(),
    ))
}

fn matrix(modes: &[[u32; 4]]) -> Result<DenseMatrix<f64>, smartcore::error::Failed> {
    let values = modes
        .iter()
        .flatten()
        .map(|&knob| f64::from(knob))
        .collect();
    DenseMatrix::new(modes.len(), 4, values, false)
}
