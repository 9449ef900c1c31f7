//! How well methods do, on modes that they were not trained on.
//!
//! | question | module |
//! |---|---|
//! | errors of predictions | [`evaluate`] |
//! | what is chosen under power limits | [`optimize`] |
//! | transfers from each corpus to each other | [`matrix`] |
//! | the figures as pictures | [`plots`] |

pub mod evaluate;
pub mod matrix;
pub mod optimize;
pub mod plots;

use thiserror::Error;

use crate::learn::split::SplitError;
use crate::methods::MethodError;

/// Why methods cannot be compared on a corpus.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum LabError {
    /// The modes cannot be chosen as asked.
    #[error("{0}")]
    Split(#[from] SplitError),
    /// Nothing can be learned from them.
    #[error("{0}")]
    Method(#[from] MethodError),
}
