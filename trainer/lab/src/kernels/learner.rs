//! Learners of a kernel's time and power.
//!
//! Both learn logarithms. [`Learner::Wattgate`] is [`Corrected`], the one that ships;
//! [`Learner::Forust`] is the crate of that name, which grows trees as XGBoost does, on the same inputs.

use forust_ml::objective::ObjectiveType;
use forust_ml::{GradientBooster, Matrix};
use indicatif::ProgressBar;
use thiserror::Error;
use wattgate_kernels::Kind;

use super::corpus::Row;
use super::corrected::{Corrected, roofline, value, with_target};
use super::demand::Demand;
use super::features::{Columns, columns};
use super::roofline::Roofline;
use super::split::LEAST_ROWS;
use super::tuned::Tuned;
use wattgate_trainer::score::Target;

/// How a kernel is learned.
#[derive(Clone, Debug, PartialEq)]
pub enum Learner {
    /// A roofline that boosted trees correct.
    Wattgate(Tuned),
    /// The crate forust.
    Forust(Tuned),
}

/// The names of the learners in arguments and results.
pub const NAMES: [&str; 2] = ["wattgate", "forust"];

/// Why a kernel could not be learned.
#[derive(Debug, Error)]
pub enum LearnError {
    /// Fewer than [`LEAST_ROWS`] rows have the target.
    #[error("{found} rows have a {target}; at least {LEAST_ROWS} are needed; measure more")]
    TooFewRows { target: Target, found: usize },
    /// The crate forust failed.
    #[error("forust: {0}")]
    Forust(String),
}

/// A kernel's model of one target.
pub enum Fitted {
    /// Of [`Learner::Wattgate`].
    Corrected(Corrected),
    /// Of [`Learner::Forust`].
    Forust {
        /// Gives some of the inputs.
        roofline: Roofline,
        /// Boosted trees.
        booster: Box<GradientBooster>,
    },
}

impl Learner {
    /// The name in results.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Wattgate(_) => NAMES[0],
            Self::Forust(_) => NAMES[1],
        }
    }

    /// Number of steps by which `progress` advances in a fit of a kernel's target.
    pub fn steps(&self, kind: Kind, target: Target) -> u64 {
        match self {
            Self::Wattgate(tuned) => tuned.for_kernel(kind, target).n_estimators.into(),
            Self::Forust(_) => 1,
        }
    }

    /// Learns a target of the rows that have it. The roofline is fitted to all times.
    pub fn fit(
        &self,
        rows: &[&Row],
        target: Target,
        seed: u64,
        progress: &ProgressBar,
    ) -> Result<Fitted, LearnError> {
        let found = rows.iter().filter(|row| value(row, target).is_some());
        let found = found.count();
        if found < LEAST_ROWS {
            return Err(LearnError::TooFewRows { target, found });
        }
        let kind = rows[0].call.kind();
        let settings = match self {
            Self::Wattgate(tuned) => {
                let settings = tuned.for_kernel(kind, target);
                let corrected = Corrected::fit(rows, target, settings, seed, progress);
                return Ok(Fitted::Corrected(corrected));
            }
            Self::Forust(tuned) => tuned.for_kernel(kind, target),
        };
        let roofline = roofline(rows);
        let rows: Vec<(&Row, f32)> = with_target(rows, target).collect();
        let demands: Vec<Demand> = rows
            .iter()
            .map(|(row, _)| Demand::from_call(&row.call))
            .collect();
        let pairs = demands.iter().zip(rows.iter().map(|(row, _)| row.knobs));
        let inputs = columns(pairs, &roofline);
        let logs: Vec<f64> = rows.iter().map(|(_, value)| value.ln().into()).collect();
        let mut booster = GradientBooster::default()
            .set_objective_type(ObjectiveType::SquaredLoss)
            .set_iterations(settings.n_estimators as usize)
            .set_learning_rate(settings.learning_rate as f32)
            .set_max_depth(settings.max_depth as usize)
            .set_max_leaves(1 << settings.max_depth)
            .set_min_leaf_weight(settings.min_child_weight as f32)
            .set_l1(settings.reg_alpha as f32)
            .set_l2(settings.reg_lambda as f32)
            .set_seed(seed);
        let flat = flat(&inputs);
        let matrix = Matrix::new(&flat, rows.len(), inputs.columns.len());
        booster
            .fit_unweighted(&matrix, &logs, None)
            .map_err(|why| LearnError::Forust(why.to_string()))?;
        progress.inc(1);
        Ok(Fitted::Forust {
            roofline,
            booster: Box::new(booster),
        })
    }
}

/// The inputs of some rows, column by column, with a roofline that was fitted to the training rows: what both learners get.
pub fn inputs(training: &[&Row], rows: &[&Row]) -> Columns {
    let demands: Vec<Demand> = rows
        .iter()
        .map(|row| Demand::from_call(&row.call))
        .collect();
    let pairs = demands.iter().zip(rows.iter().map(|row| row.knobs));
    columns(pairs, &roofline(training))
}

impl Fitted {
    /// Predicts the logarithm of the target for some rows, whose measurements are not looked at.
    pub fn predict(&self, rows: &[&Row]) -> Vec<f32> {
        match self {
            Self::Corrected(corrected) => corrected.predict_rows(rows),
            Self::Forust { roofline, booster } => {
                let demands: Vec<Demand> = rows
                    .iter()
                    .map(|row| Demand::from_call(&row.call))
                    .collect();
                let pairs = demands.iter().zip(rows.iter().map(|row| row.knobs));
                let inputs = columns(pairs, roofline);
                let flat = flat(&inputs);
                let matrix = Matrix::new(&flat, rows.len(), inputs.columns.len());
                let logs = booster.predict(&matrix, true);
                logs.into_iter().map(|log| log as f32).collect()
            }
        }
    }
}

/// All columns, one after the other.
fn flat(inputs: &Columns) -> Vec<f64> {
    let values = inputs.columns.iter().flatten();
    values.map(|value| f64::from(*value)).collect()
}
