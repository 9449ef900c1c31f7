//! Every corpus as the reference of every other.

use std::path::Path;

use indicatif::ProgressBar;
use serde::Serialize;
use wattgate_runtime::Shape;

use crate::corpus::Corpus;
use crate::evaluate::{Comparison, Quartiles, evaluate};
use crate::fit::FitError;
use crate::methods::Method;
use crate::predictions::Target;
use crate::reference::Reference;
use crate::split::{Amount, Sampling};

/// One reference for one corpus.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The reference's file; `None` for a training from scratch.
    pub reference: Option<String>,
    /// The corpus file.
    pub corpus: String,
    /// `measured` or `simulated`.
    pub kind: String,
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
    /// The method.
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

/// Trains on every corpus from scratch and from every other; one step of progress for each
/// cell's runs.
pub fn matrix(
    corpora: &[(String, Corpus)],
    references: &[Reference],
    options: &Options<'_>,
    progress: &ProgressBar,
) -> Result<Matrix, (String, FitError)> {
    let mut cells = Vec::new();
    let mut name = "";
    for (at, (file, corpus)) in corpora.iter().enumerate() {
        let others = references
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != at);
        let others = others.map(|(_, reference)| Some(reference));
        for reference in [None].into_iter().chain(others) {
            // A method may keep what it learned of a reference.
            let methods = [(options.method)()];
            if reference.is_none() && methods[0].needs_reference() {
                continue;
            }
            name = methods[0].name();
            let comparison = Comparison {
                corpus,
                name: file,
                reference,
                methods: &methods,
                amounts: &[options.amount],
                samplings: &[options.sampling],
                runs: options.runs,
                seed: options.seed,
                shape: Shape::Wide32,
            };
            let evaluation = evaluate(&comparison, progress).map_err(|why| (file.clone(), why))?;
            cells.extend(evaluation.results.into_iter().map(|row| Cell {
                reference: evaluation.reference.clone(),
                corpus: file.clone(),
                kind: evaluation.kind.clone(),
                target: row.target,
                mape: row.mape,
            }));
        }
    }
    Ok(Matrix {
        method: name,
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
