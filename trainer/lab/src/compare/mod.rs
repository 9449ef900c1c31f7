//! Compares methods on measured modes.
//!
//! | result | module |
//! |---|---|
//! | prediction errors on held-out modes | [`evaluate`] |
//! | choices under power limits | [`optimize`] |
//! | prediction errors after a transfer between any two corpora | [`matrix`] |
//! | plots | [`plots`] |

pub mod evaluate;
pub mod matrix;
pub mod optimize;
pub mod plots;

use indicatif::ProgressBar;
use thiserror::Error;
use wattgate_cli::shard::ShardError;

use crate::compare::evaluate::{Comparison, Evaluation, evaluation, scored};
use crate::compare::optimize::{Asked, Choosing, LimitRun, Optimization};
use crate::methods::MethodError;
use wattgate_trainer::plan::SplitError;
use wattgate_trainer::read::OwnReference;

/// Why methods cannot be compared on a corpus.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum CompareError {
    /// The corpus cannot be split as asked.
    #[error("{0}")]
    Split(#[from] SplitError),
    /// A reference knows the corpus already, so a method would be scored on what it has seen.
    #[error("{0}")]
    Reference(#[from] OwnReference),
    /// A method failed.
    #[error("{0}")]
    Method(#[from] MethodError),
    /// Parts cannot be merged.
    #[error("{0}")]
    Shard(String),
}

impl From<ShardError> for CompareError {
    fn from(why: ShardError) -> Self {
        Self::Shard(why.to_string())
    }
}

/// Compares methods by their prediction errors and by their choices, as [`evaluate::evaluate`] and
/// [`optimize::optimize`] do with each of `choosing`, but trains each method once for all. A model whose few modes do
/// not support a confidence leaves all limits unserved.
pub fn both(
    comparison: &Comparison<'_>,
    choosing: &[Choosing],
    progress: &ProgressBar,
) -> Result<(Evaluation, Vec<Optimization>), CompareError> {
    let asked: Result<Vec<Asked<'_>>, CompareError> = choosing
        .iter()
        .map(|choosing| Asked::from_corpus(comparison.corpus, choosing))
        .collect();
    let asked = asked?;
    let runs = comparison.run(progress, |learned| {
        let choices: Result<Vec<LimitRun>, CompareError> = asked
            .iter()
            .map(|asked| asked.choices_if_supported(learned))
            .collect();
        Ok((scored(learned), choices?))
    })?;
    let mut scores = Vec::new();
    let mut choices: Vec<Vec<LimitRun>> = asked.iter().map(|_| Vec::new()).collect();
    for (score, chosen) in runs {
        scores.extend(score);
        for (all, run) in choices.iter_mut().zip(chosen) {
            all.push(run);
        }
    }
    let optimizations = asked.into_iter().zip(&choices);
    Ok((
        evaluation(comparison, scores),
        optimizations
            .map(|(asked, runs)| asked.optimization(comparison, runs))
            .collect(),
    ))
}
