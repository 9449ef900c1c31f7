//! Replay: a board under a load that moves, while a holder holds a limit.
//!
//! Modules from the bottom to the top:
//!
//! | question | module |
//! |---|---|
//! | why a load cannot be replayed | `error`: [`ReplayError`] |
//! | the mean power of a sliding window | [`sliding`] |
//! | how long and how far the power was over the limit | [`account`] |
//! | how warm the board is | [`warmth`] |
//! | the true speed and power of a mode | [`truth`] |
//! | how fast the load could have run | [`oracle`] |
//! | a model's workload, and the true times of its modes | [`workload_of`], [`timed_modes`] |
//! | the figures of one run | [`report`] |
//! | one run | `run`: [`LoadRun`], [`run`], [`traced`] |
//! | all built-in loads on all boards | [`table`] |
//!
//! How a holder works is in [`holders`](crate::holders).

pub mod account;
mod error;
pub(crate) mod model;
pub mod oracle;
pub mod report;
mod run;
pub mod sliding;
pub mod table;
pub mod truth;
pub mod warmth;

pub use error::ReplayError;
pub use model::{timed_modes, workload_of};
pub use run::{LoadRun, START, run, traced};
