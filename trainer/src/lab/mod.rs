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

use thiserror::Error;

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
