//! Learns time and power of a workload for every power mode of a Jetson from a few
//! profiled modes, and writes a model file for the runtime.
//!
//! ```text
//! corpus ──► learn ──► export ──► model file, read back and scored through the runtime: fit
//! ```
//!
//! | question | module |
//! |---|---|
//! | which modes were profiled, and whether the figures can be true | [`corpus`] |
//! | time and power of all modes from those of a few | [`learn`] |
//! | from there to a network of integers, and to the bytes of a file | [`export`] |
//! | from measured modes to a model file, in one call | [`train`](mod@train) |
//! | the same from a corpus, scored on the modes held out | [`fit`](mod@fit) |
//! | what in a corpus is suspect | [`check`](mod@check) |
//! | what it is compared with | [`methods`] |
//! | how well each does | [`lab`] |
#![forbid(unsafe_code)]

pub mod check;
pub mod cli;
pub mod corpus;
pub mod export;
pub mod fit;
pub mod lab;
pub mod learn;
pub mod methods;
pub mod train;
