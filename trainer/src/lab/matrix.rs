//! Every corpus as the reference of every other.

use std::path::Path;

use indicatif::ProgressBar;
use serde::Serialize;
use wattgate_runtime::Shape;

use crate::corpus::Corpus;
use crate::lab::LabError;
use crate::lab::evaluate::{Comparison, Quartiles, Subject, evaluate};
use crate::learn::predictions::Target;
use crate::learn::reference::Reference;
use crate::learn::split::{Amount, Sampling};
use crate::methods::Method;

/// One reference for one corpus.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// Its reference is `None` for a training from scratch.
    #[serde(flatten)]
    pub subject: Subject,
    /// `time` or `power`.
    pub target: Target,
    /// Mean absolute percentage error on held-out modes over the runs.
    pub mape: Quartiles,
}

/// All cells.
#[derive(Clone, Debug, Serialize)]
pub struct Matrix {
    /// The method.
    pub method: &'static str,
    /// Modes of the corpus to train on.
    pub modes: String,
    /// Runs of each cell.
    pub runs: u64,
    /// One for each reference or none, corpus, and target that the corpus has.
    pub cells: Vec<Cell>,
}

/// How to fill the matrix.
pub struct Options<'a> {
    /// Makes the method; one for each reference, which it may keep what it learned of.
    pub method: &'a dyn Fn() -> Box<dyn Method>,
    /// Modes of the corpus to train on.
    pub amount: Amount,
    /// How they are chosen.
    pub sampling: Sampling,
    /// Runs of each cell.
    pub runs: u64,
    /// The first seed.
    pub seed: u64,
}

/// Trains on every corpus from scratch and from every other, by ascending corpus; one step
/// of progress for each run.
pub fn matrix(
    corpora: &[(String, Corpus)],
    references: &[Reference],
    options: &Options<'_>,
    progress: &ProgressBar,
) -> Result<Matrix, (String, LabError)> {
    let starts: Vec<Option<&Reference>> = [None]
        .into_iter()
        .chain(references.iter().map(Some))
        .collect();
    let methods: Vec<[Box<dyn Method>; 1]> = starts.iter().map(|_| [(options.method)()]).collect();
    let mut cells = Vec::new();
    for (file, corpus) in corpora {
        for (&reference, methods) in starts.iter().zip(&methods) {
            let itself = reference.is_some_and(|reference| reference.name() == file);
            if itself || reference.is_none() && methods[0].needs_reference() {
                continue;
            }
            let comparison = Comparison {
                corpus,
                name: file,
                reference,
                methods,
                amounts: &[options.amount],
                samplings: &[options.sampling],
                runs: options.runs,
                seed: options.seed,
                shape: Shape::Wide32,
            };
            let evaluation = evaluate(&comparison, progress).map_err(|why| (file.clone(), why))?;
            cells.extend(evaluation.results.into_iter().map(|row| Cell {
                subject: evaluation.subject.clone(),
                target: row.target,
                mape: row.mape,
            }));
        }
    }
    Ok(Matrix {
        method: methods[0][0].name(),
        modes: options.amount.to_string(),
        runs: options.runs,
        cells,
    })
}

/// A file's name without folders and ending.
pub fn short(file: &str) -> String {
    let stem = Path::new(file).file_stem();
    stem.map_or(file.to_owned(), |stem| stem.to_string_lossy().into_owned())
}
