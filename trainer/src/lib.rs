//! Learns the time and power of a workload in every power mode of a Jetson from a few profiled
//! modes, and writes a model file for the runtime.
//!
//! ```text
//! corpus ──► learn ──► export ──► model file ──► fit: reads the file back and scores it
//! ```
//!
//! | question | module |
//! |---|---|
//! | Which modes were profiled, and what was measured? | [`corpus`] |
//! | How are all modes predicted from a few? | [`learn`] |
//! | How do predictions become a quantised network and a file? | [`export`] |
//! | Which call turns measured modes into a model file? | [`train`](mod@train) |
//! | Which call does so from a corpus and scores the held-out modes? | [`fit`](mod@fit) |
//! | Which call plans, learns and trains while a board is profiled? | [`ask_tell`] |
//! | Which values of a corpus are suspect? | [`check`](mod@check) |
#![forbid(unsafe_code)]

pub mod ask_tell;
pub mod check;
pub mod cli;
pub mod corpus;
pub mod export;
pub mod fit;
pub mod learn;
pub mod train;
