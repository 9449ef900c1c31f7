//! The transfer matrix: every corpus as the reference of every other.

use std::path::Path;
use std::slice;

use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use wattgate_cli::shard::{Jobs, Ran, ShardError};
use wattgate_runtime::shape::Shape;

use crate::compare::CompareError;
use crate::compare::evaluate::{Comparison, Quartiles, Subject, evaluate};
use crate::methods::Method;
use wattgate_trainer::fit::Priors;
use wattgate_trainer::plan::{Amount, Sampling};
use wattgate_trainer::read::Corpus;
use wattgate_trainer::read::Reference;
use wattgate_trainer::score::Target;

/// The error of one target of a corpus with one reference.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Cell {
    /// The corpus and the reference; the reference is `None` for training from scratch.
    #[serde(flatten)]
    pub subject: Subject,
    /// `time` or `power`.
    pub target: Target,
    /// Quartiles over runs of the mean absolute percentage error on held-out modes.
    pub mape: Quartiles,
}

/// The transfer matrix.
#[derive(Clone, Debug, Serialize)]
pub struct Matrix {
    /// The method.
    pub method: &'static str,
    /// Number of training modes.
    pub modes: String,
    /// Number of runs per cell.
    pub runs: u64,
    /// One cell per corpus, reference (or none) and target.
    pub cells: Vec<Cell>,
}

/// How the methods of a [`matrix`] are run.
pub struct MatrixOptions<'a> {
    /// Creates one method per reference, so that it can cache the reference's training.
    pub method: &'a dyn Fn() -> Box<dyn Method>,
    /// Number of training modes.
    pub amount: Amount,
    /// How the training modes are chosen.
    pub sampling: Sampling,
    /// Number of runs per cell.
    pub runs: u64,
    /// The first seed.
    pub seed: u64,
}

/// Why the cells of a corpus cannot be computed, and its name.
#[derive(Debug)]
pub struct MatrixError(pub String, pub CompareError);

impl From<ShardError> for MatrixError {
    fn from(why: ShardError) -> Self {
        Self("the parts".to_owned(), why.into())
    }
}

/// The name of a corpus, the corpus, its references and the method.
type CellJob<'a> = (
    &'a String,
    &'a Corpus,
    &'a [Reference],
    &'a [Box<dyn Method>; 1],
);

/// Trains on every corpus from scratch and with every other corpus as the reference, or gives the part of a shard. Cells are
/// ordered by corpus. Advances `progress` by one per run. An error names the corpus.
pub fn matrix(
    corpora: &[(String, Corpus)],
    references: &[Reference],
    options: &MatrixOptions<'_>,
    jobs: &Jobs,
    progress: &ProgressBar,
) -> Result<Ran<Matrix>, MatrixError> {
    let starts: Vec<&[Reference]> = [&[][..]]
        .into_iter()
        .chain(references.iter().map(slice::from_ref))
        .collect();
    let methods: Vec<[Box<dyn Method>; 1]> = starts.iter().map(|_| [(options.method)()]).collect();
    let mut all = Vec::new();
    for (file, corpus) in corpora {
        for (&references, methods) in starts.iter().zip(&methods) {
            let itself = references.iter().any(|reference| reference.name() == file);
            let is_unfit = itself || references.is_empty() && methods[0].needs_reference();
            if !is_unfit {
                all.push((file, corpus, references, methods));
            }
        }
    }
    let run = |jobs: &[&CellJob<'_>]| {
        let cells = jobs.iter().map(|&&(file, corpus, references, methods)| {
            let comparison = Comparison {
                priors: Priors::shipped(),
                corpus,
                name: file,
                references,
                methods,
                amounts: &[options.amount],
                samplings: &[options.sampling],
                runs: options.runs,
                seed: options.seed,
                shape: Shape::Wide32,
            };
            let evaluation = evaluate(&comparison, progress);
            let evaluation = evaluation.map_err(|why| MatrixError(file.clone(), why))?;
            let cells = evaluation.results.into_iter().map(|row| Cell {
                subject: evaluation.subject.clone(),
                target: row.target,
                mape: row.mape,
            });
            Ok::<Vec<Cell>, MatrixError>(cells.collect())
        });
        cells.collect()
    };
    let ran = jobs.run(&all, run)?;
    Ok(ran.map(|cells: Vec<Vec<Cell>>| Matrix {
        method: methods[0][0].name(),
        modes: options.amount.to_string(),
        runs: options.runs,
        cells: cells.into_iter().flatten().collect(),
    }))
}

/// A file's name without folders and extension.
pub fn short(file: &str) -> String {
    let stem = Path::new(file).file_stem();
    stem.map_or(file.to_owned(), |stem| stem.to_string_lossy().into_owned())
}
