//! From a corpus to a model file, scored on the modes that were held out.

use std::time::Instant;

use indicatif::ProgressBar;
use serde::Serialize;
use thiserror::Error;
use wattgate_runtime::{GuardBand, Knot, Shape};

use crate::corpus::Corpus;
use crate::corpus::modes::Known;
use crate::learn::predictions::{Errors, Target};
use crate::learn::reference::Reference;
use crate::learn::split::{Amount, Sampling, Split, SplitError};
use crate::train::{Exported, Task, TrainError, train};

/// How to fit.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Modes to train on. The others are held out.
    pub amount: Amount,
    /// How they are chosen.
    pub sampling: Sampling,
    /// What to transfer from.
    pub reference: Option<&'a Reference>,
    /// Decides the drawing and the training.
    pub seed: u64,
    /// The shape of the exported network.
    pub shape: Shape,
}

/// Why a corpus gives no model.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum FitError {
    /// The modes cannot be chosen as asked.
    #[error("{0}")]
    Split(#[from] SplitError),
    /// Nothing can be learned from them.
    #[error("{0}")]
    Train(#[from] TrainError),
}

/// The share of held-out modes whose measured value lies within the guard band.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Coverage {
    /// What the band promises.
    pub confidence: f64,
    /// What the held-out modes show of the time.
    pub time: Option<f64>,
    /// What they show of the power.
    pub power: Option<f64>,
    /// Measured over predicted time that the band allows.
    pub time_ratio: f64,
    /// Measured over predicted power that the band allows.
    pub power_ratio: Option<f64>,
}

/// What a fit reports.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// `measured` or `simulated`.
    pub kind: String,
    /// The board.
    pub device: String,
    /// The workload.
    pub workload: String,
    /// What was transferred from.
    pub reference: Option<String>,
    /// The seed of the drawing and the training.
    pub seed: u64,
    /// Modes trained on.
    pub modes_used: usize,
    /// Modes held out.
    pub modes_held_out: usize,
    /// How the modes were chosen.
    pub sampling: Sampling,
    /// Modes of the grid that the corpus spans.
    pub modes_in_grid: u32,
    /// The widths of the exported network's hidden layers.
    pub shape: String,
    /// Errors of the teacher on the held-out modes.
    pub teacher: Errors,
    /// Errors of the student before rounding on the held-out modes.
    pub student: Errors,
    /// Errors of the exported file, read back through the runtime, on the held-out modes.
    pub exported: Errors,
    /// Errors of the exported file on the modes trained on, each left out in turn.
    pub left_out: Errors,
    /// How well the guard bands hold on the held-out modes.
    pub coverage: Vec<Coverage>,
    /// The length of the file.
    pub bytes: usize,
    /// Wall-clock time of the fit.
    pub seconds: f64,
}

/// A model file and what is known of it.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The file.
    pub bytes: Vec<u8>,
    /// What is known of it.
    pub report: Report,
}

/// Trains on modes of a corpus and scores what it exports. The progress bar advances by
/// [`PROGRESS`](crate::train::PROGRESS).
pub fn fit(
    corpus: &Corpus,
    options: &Options<'_>,
    progress: &ProgressBar,
) -> Result<Fit, FitError> {
    let start = Instant::now();
    let Split { used, held_out } =
        Split::new(corpus, options.amount, options.sampling, options.seed)?;
    let task = Task {
        corpus,
        used: &used,
        reference: options.reference,
        seed: options.seed,
        shape: options.shape,
        progress,
    };
    let exported = train(&task)?;
    let errors = exported.predictions.errors(&held_out);
    let bytes = exported.encode(&task, held_out.len(), &errors);
    let left_out = |target: Target| {
        exported.left_out[target as usize]
            .as_deref()
            .map(mape_of_residuals)
    };
    let report = Report {
        kind: corpus.kind.to_string(),
        device: corpus.device.clone(),
        workload: corpus.workload.clone(),
        reference: options
            .reference
            .map(|reference| reference.name().to_owned()),
        seed: options.seed,
        modes_used: used.len(),
        modes_held_out: held_out.len(),
        sampling: options.sampling,
        modes_in_grid: corpus.grid.modes(),
        shape: options.shape.to_string(),
        teacher: exported.teacher.errors(&held_out),
        student: exported.student.errors(&held_out),
        exported: errors,
        left_out: Errors {
            time_mape: left_out(Target::Time),
            power_mape: left_out(Target::Power),
        },
        coverage: coverage(&exported, &held_out),
        bytes: bytes.len(),
        seconds: start.elapsed().as_secs_f64(),
    };
    Ok(Fit { bytes, report })
}

fn mape_of_residuals(residuals: &[f64]) -> f64 {
    let errors = residuals
        .iter()
        .map(|residual| 100.0 * ((-residual).exp() - 1.0).abs());
    errors.sum::<f64>() / residuals.len() as f64
}

/// The share of modes within the guard bands at each of their knots.
pub fn coverage(exported: &Exported, modes: &[Known]) -> Vec<Coverage> {
    let within = |target: Target, ratio: f64| {
        let predicted = target.predicted(&exported.predictions)?;
        let known: Vec<bool> = modes
            .iter()
            .filter_map(|mode| Some(target.measured(mode)? <= predicted[mode.id] * ratio))
            .collect();
        let count = known.iter().filter(|within| **within).count();
        (!known.is_empty()).then(|| count as f64 / known.len() as f64)
    };
    let knots = |target| exported.guard(target).map_or(&[][..], GuardBand::knots);
    let ratio = |knot: &Knot| f64::from(knot.q16) / 65_536.0;
    let times = knots(Target::Time).iter();
    let of = |knot: &Knot| {
        let same = |power: &&Knot| power.per_ten_thousand == knot.per_ten_thousand;
        let power = knots(Target::Power).iter().find(same);
        Coverage {
            confidence: f64::from(knot.per_ten_thousand) / 1e4,
            time: within(Target::Time, ratio(knot)),
            power: power.and_then(|knot| within(Target::Power, ratio(knot))),
            time_ratio: ratio(knot),
            power_ratio: power.map(ratio),
        }
    };
    times.map(of).collect()
}
