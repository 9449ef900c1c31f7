//! Learns the time and power of a workload in every power mode of a Jetson from a few profiled
//! modes, and writes a model file for the runtime.
//!
//! ```text
//! corpus ──► learn ──► export ──► model file ──► fit: reads the file back and scores it
//! ```
//!
//! The program is [`cli`]. Other programs use it through four steps:
//!
//! | question | module |
//! |---|---|
//! | Which modes were profiled, and what was measured? | [`read`] |
//! | Which modes are profiled next, and which are held out? | [`plan`] |
//! | How do measured modes become a model file? | [`fit`](mod@fit) |
//! | How far are its predictions off? | [`score`] |
//! | What is in a model file? | [`file`](mod@file) |
#![forbid(unsafe_code)]
// For those who work on it: cargo doc --document-private-items.
#![allow(rustdoc::private_intra_doc_links)]

mod ask_tell;
mod check;
pub mod cli;
mod corpus;
mod export;
pub mod fit;
mod learn;
mod train;

pub mod read {
    //! Corpora and references.

    pub use crate::corpus::fed::{self, Feeding};
    pub use crate::corpus::modes::{Known, all_modes, profiled};
    pub use crate::corpus::units::Units;
    pub use crate::corpus::{
        AXIS_COLUMNS, Blank, Corpus, CorpusError, IdleReading, MAX_TIME_MS, POWERS_MW, Problem,
        Profile, Reading, is_name,
    };
    pub use crate::learn::reference::{OwnReference, Reference, ReferenceError};
}

pub mod plan {
    //! Which modes are profiled, trained on and held out.

    pub use crate::ask_tell::{Next, Planner, Task};
    pub use crate::learn::plan::promise;
    pub use crate::learn::split::{Amount, Sampling, Split, SplitError};
}

pub mod score {
    //! Predictions, and how far they are off.

    pub use crate::fit::{Coverage, coverage};
    pub use crate::learn::predictions::{Accuracy, Errors, Predictions, Target};
}

pub mod file {
    //! The parts of a model file, before it is encoded.

    pub use crate::export::idle::OfModes;
    pub use crate::export::inputs::GridInputs;
    pub use crate::export::quantise::{Dense, Plan, forward};
    pub use crate::export::wgt::{FirstRow, HiddenRow, Layers, ModelFile, OutputRow, Spreads};
}
