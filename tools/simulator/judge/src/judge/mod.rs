//! The judge: compares what was learned and measured on a simulated board with the truth.
//!
//! Modules from the bottom to the top:
//!
//! | question | module |
//! |---|---|
//! | why nothing can be judged | `error`: [`JudgeError`] |
//! | the board, and the true speed and power of its modes | `subject`: [`Subject`] |
//! | how far a model's predictions are from the truth | `model`: [`ModelFigures`] |
//! | the true power of a run, from a file | `recording`: [`Recording`] |
//! | how far measured rows are from the truth | `rows`: [`Rows`] |
//! | how well a limit was held | `stretch`: [`StretchFigures`] |
//! | all of it | `verdict`: [`judge`], [`Evidence`], [`Verdict`] |
//!
//! The true time of a mode is that of an average minibatch. Its true power is that of the working
//! board after its temperature has settled in that mode, with the fan that the [`Subject`] has.
//! Neither has noise.

mod error;
mod model;
mod recording;
mod rows;
mod stretch;
mod subject;
mod verdict;

pub use error::JudgeError;
pub use model::{ModelFigures, WithinFigures};
pub use recording::Recording;
pub use rows::{Quantiles, RowFigures, Rows};
pub use stretch::StretchFigures;
pub use subject::{Subject, TrueMode};
pub use verdict::{Evidence, Verdict, judge};
