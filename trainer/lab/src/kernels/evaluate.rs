//! Scores models of kernels on rows or units that they were not trained on.

use indicatif::ProgressBar;
use serde::Serialize;
use thiserror::Error;
use wattgate_kernels::Kind;

use super::corpus::{KernelCorpus, Row};
use super::corrected::value;
use super::learner::{LearnError, Learner};
use super::score::Score;
use super::split::{HeldOut, LEAST_ROWS, parts};
use wattgate_trainer::score::Target;

/// Why models of kernels cannot be scored.
#[derive(Debug, Error)]
pub enum ScoreError {
    /// No unit has this name.
    #[error("no unit `{name}`; the corpus has {}", units.join(", "))]
    NoSuchUnit { name: String, units: Vec<String> },
    /// A test unit is named twice.
    #[error("unit `{name}` is named twice; name it once")]
    UnitTwice { name: String },
    /// No unit is left to train on.
    #[error("no unit is left to train on; name fewer with --test-units than the corpus has, which are {}", units.join(", "))]
    NoTraining { units: Vec<String> },
    /// No kernel has enough rows.
    #[error("no kernel has {LEAST_ROWS} rows to train on and one to score; measure more rows")]
    TooFewRows,
    /// A comparison of units needs several.
    #[error(
        "the corpus has {found} units; a comparison needs at least {needed}: two to score, the others train; measure more units"
    )]
    TooFewUnits { found: usize, needed: usize },
    /// How far a unit lies from others cannot be learned from one.
    #[error(
        "the corpus has one unit, expected two or more, which show how far units differ; measure another unit"
    )]
    OneUnit,
    /// Learning failed.
    #[error("{kernel}: {why}")]
    Learn {
        kernel: &'static str,
        why: LearnError,
    },
}

/// The scores of a corpus.
#[derive(Clone, Debug, Serialize)]
pub struct Evaluation {
    /// `measured`, `simulated` or `recorded`.
    pub kind: String,
    /// The board.
    pub device: String,
    /// The learner.
    pub learner: &'static str,
    /// One for each kernel and target.
    pub results: Vec<Score>,
    /// Kernels with too few rows to be scored.
    pub skipped: Vec<&'static str>,
}

/// Indices of units by their names.
pub fn units(corpus: &KernelCorpus, names: &[String]) -> Result<Vec<u16>, ScoreError> {
    let mut found = Vec::new();
    for name in names {
        let unit = corpus.unit(name).ok_or_else(|| ScoreError::NoSuchUnit {
            name: name.clone(),
            units: corpus.units.clone(),
        })?;
        if found.contains(&unit) {
            return Err(ScoreError::UnitTwice { name: name.clone() });
        }
        found.push(unit);
    }
    if found.len() >= corpus.units.len() {
        let units = corpus.units.clone();
        return Err(ScoreError::NoTraining { units });
    }
    Ok(found)
}

/// Trains and scores every kernel and target. Advances `progress` by at most [`steps`].
pub fn evaluate(
    corpus: &KernelCorpus,
    held_out: &HeldOut,
    learner: &Learner,
    seed: u64,
    progress: &ProgressBar,
) -> Result<Evaluation, ScoreError> {
    let mut evaluation = Evaluation {
        kind: corpus.kind.to_string(),
        device: corpus.device.clone(),
        learner: learner.name(),
        results: Vec::new(),
        skipped: Vec::new(),
    };
    for (kind, rows) in Kind::ALL.into_iter().zip(&corpus.rows) {
        if rows.is_empty() {
            continue;
        }
        let (part_of, folds) = parts(corpus, rows, held_out, seed);
        let mut is_scored = false;
        for target in Target::ALL {
            let mut pairs = Vec::new();
            for fold in 0..folds {
                let split = |is_test: bool| -> Vec<&Row> {
                    let pairs = rows.iter().zip(&part_of);
                    let pairs = pairs.filter(|(_, part)| (**part == fold) == is_test);
                    pairs.map(|(row, _)| row).collect()
                };
                let (training, mut test) = (split(false), split(true));
                test.retain(|row| value(row, target).is_some());
                let usable = training.iter().filter(|row| value(row, target).is_some());
                if usable.count() < LEAST_ROWS || test.is_empty() {
                    progress.inc(learner.steps(kind, target));
                    continue;
                }
                let fitted = learner.fit(&training, target, seed, progress);
                let fitted = fitted.map_err(|why| ScoreError::Learn {
                    kernel: kind.name(),
                    why,
                })?;
                let predicted = fitted.predict(&test);
                pairs.extend(predicted.into_iter().zip(test).filter_map(|(log, row)| {
                    Some((f64::from(log).exp(), f64::from(value(row, target)?)))
                }));
            }
            if !pairs.is_empty() {
                is_scored = true;
                let score = Score::from_pairs(kind.name(), target, &pairs);
                evaluation.results.push(score);
            }
        }
        if !is_scored {
            evaluation.skipped.push(kind.name());
        }
    }
    match evaluation.results.is_empty() {
        true => Err(ScoreError::TooFewRows),
        false => Ok(evaluation),
    }
}

/// The largest number of steps by which [`evaluate`] advances.
pub fn steps(corpus: &KernelCorpus, held_out: &HeldOut, learner: &Learner) -> u64 {
    let folds = match held_out {
        HeldOut::Units(_) => 1,
        HeldOut::Folds(folds) => *folds as u64,
    };
    folds * steps_of_fold(corpus, learner)
}

/// The steps of one training of each kernel and target.
pub(super) fn steps_of_fold(corpus: &KernelCorpus, learner: &Learner) -> u64 {
    let kernels = Kind::ALL.into_iter().zip(&corpus.rows);
    let kernels = kernels.filter(|(_, rows)| !rows.is_empty());
    let steps_of_kernel = |(kind, _)| Target::ALL.map(|target| learner.steps(kind, target));
    kernels.flat_map(steps_of_kernel).sum()
}
