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

use crate::lab::evaluate::{Comparison, Evaluation, evaluation, scored};
use crate::lab::optimize::{Asked, Choosing, Optimization};
use crate::learn::split::SplitError;
use crate::methods::MethodError;

/// Why methods cannot be compared on a corpus.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum LabError {
    /// The corpus cannot be split as asked.
    #[error("{0}")]
    Split(#[from] SplitError),
    /// A method failed.
    #[error("{0}")]
    Method(#[from] MethodError),
}

/// Compares methods by their prediction errors and by their choices, as [`evaluate::evaluate`] and
/// [`optimize::optimize`] do, but trains each method once for both.
pub fn both(
    comparison: &Comparison<'_>,
    choosing: &Choosing,
    progress: &ProgressBar,
) -> Result<(Evaluation, Optimization), LabError> {
    let asked = Asked::of(comparison.corpus, choosing)?;
    let runs = comparison.run(progress, |learned| {
        Ok((scored(learned), asked.choices(learned)?))
    })?;
    let (scores, choices): (Vec<_>, Vec<_>) = runs.into_iter().unzip();
    let scores = scores.into_iter().flatten().collect();
    Ok((
        evaluation(comparison, scores),
        asked.optimization(comparison, &choices),
    ))
}
