//! Learners of a kernel's time and power.
//!
//! Both learn logarithms. [`Learner::Wattgate`] corrects a [`Roofline`] with boosted [`Trees`];
//! [`Learner::Forust`] is the crate of that name, which grows trees as XGBoost does, on the same inputs.

use forust_ml::objective::ObjectiveType;
use forust_ml::{GradientBooster, Matrix};
use indicatif::ProgressBar;
use thiserror::Error;

use super::corpus::Row;
use super::demand::Demand;
use super::features::{Columns, columns};
use super::roofline::Roofline;
use super::trees::{Settings, Trees};
use crate::learn::predictions::Target;

/// How a kernel is learned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Learner {
    /// A roofline that boosted trees correct.
    Wattgate(Settings),
    /// The crate forust.
    Forust(Settings),
}

/// The names of the learners in arguments and results.
pub const NAMES: [&str; 2] = ["wattgate", "forust"];

/// Why a kernel could not be learned.
#[derive(Debug, Error)]
pub enum LearnError {
    /// Fewer than [`LEAST_ROWS`] rows have the target.
    #[error("{found} rows have a {target}; at least {LEAST_ROWS} are needed")]
    TooFewRows { target: Target, found: usize },
    /// The crate forust failed.
    #[error("forust: {0}")]
    Forust(String),
}

/// Least number of rows that a kernel is learned from.
pub const LEAST_ROWS: usize = 30;

/// What one target's trees have become.
enum Learned {
    Trees(Trees),
    Forust(Box<GradientBooster>),
}

/// A kernel's model of one target.
pub struct Fitted {
    roofline: Roofline,
    /// Whether the trees predict what the roofline leaves.
    is_residual: bool,
    learned: Learned,
}

impl Learner {
    /// The name in results.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Wattgate(_) => NAMES[0],
            Self::Forust(_) => NAMES[1],
        }
    }

    /// Number of steps by which `progress` advances in a fit.
    pub fn steps(&self) -> u64 {
        match self {
            Self::Wattgate(settings) => settings.n_estimators.into(),
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
        let roofline = roofline(rows);
        let rows: Vec<&Row> = rows
            .iter()
            .copied()
            .filter(|row| value(row, target).is_some())
            .collect();
        if rows.len() < LEAST_ROWS {
            let found = rows.len();
            return Err(LearnError::TooFewRows { target, found });
        }
        let inputs = inputs(&rows, &roofline);
        let logs = rows.iter().filter_map(|row| value(row, target));
        let mut logs: Vec<f32> = logs.map(f32::ln).collect();
        match self {
            Self::Wattgate(settings) => {
                let is_residual = target == Target::Time;
                if is_residual {
                    for (log, row) in logs.iter_mut().zip(&rows) {
                        *log -= roofline.predict(&Demand::of(&row.call), row.knobs).0 as f32;
                    }
                }
                Ok(Fitted {
                    roofline,
                    is_residual,
                    learned: Learned::Trees(Trees::fit(&inputs, &logs, settings, seed, progress)),
                })
            }
            Self::Forust(settings) => {
                let logs: Vec<f64> = logs.into_iter().map(f64::from).collect();
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
                Ok(Fitted {
                    roofline,
                    is_residual: false,
                    learned: Learned::Forust(Box::new(booster)),
                })
            }
        }
    }
}

impl Fitted {
    /// Predicts the logarithm of the target for some rows, whose measurements are not looked at.
    pub fn predict(&self, rows: &[&Row]) -> Vec<f32> {
        let inputs = inputs(rows, &self.roofline);
        match &self.learned {
            Learned::Trees(trees) => {
                let mut logs = trees.predict(&inputs);
                if self.is_residual {
                    for (log, row) in logs.iter_mut().zip(rows) {
                        *log += self.roofline.predict(&Demand::of(&row.call), row.knobs).0 as f32;
                    }
                }
                logs
            }
            Learned::Forust(booster) => {
                let flat = flat(&inputs);
                let matrix = Matrix::new(&flat, rows.len(), inputs.columns.len());
                let logs = booster.predict(&matrix, true);
                logs.into_iter().map(|log| log as f32).collect()
            }
        }
    }
}

/// Fits a roofline to the rows that have a time.
pub fn roofline(rows: &[&Row]) -> Roofline {
    let demands = rows
        .iter()
        .filter_map(|row| Some((Demand::of(&row.call), row.knobs, f64::from(row.time_ms?))));
    let demands: Vec<(Demand, [u32; 4], f64)> = demands.collect();
    Roofline::fit(
        demands
            .iter()
            .map(|(demand, knobs, time)| (demand, *knobs, *time)),
    )
}

fn inputs(rows: &[&Row], roofline: &Roofline) -> Columns {
    let demands: Vec<Demand> = rows.iter().map(|row| Demand::of(&row.call)).collect();
    let pairs = demands.iter().zip(rows.iter().map(|row| row.knobs));
    columns(pairs, |demand, knobs| roofline.predict(demand, knobs))
}

/// The measured target of a row, in ms or mW.
pub fn value(row: &Row, target: Target) -> Option<f32> {
    match target {
        Target::Time => row.time_ms,
        Target::Power => row.power_mw,
    }
}

/// All columns, one after the other.
fn flat(inputs: &Columns) -> Vec<f64> {
    let values = inputs.columns.iter().flatten();
    values.map(|value| f64::from(*value)).collect()
}
