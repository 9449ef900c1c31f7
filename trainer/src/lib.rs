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
//! | all of it in one call | [`fit`] |
//! | what it is compared with | [`methods`] |
//! | how well each does | [`lab`] |
#![forbid(unsafe_code)]

pub mod cli;
pub mod corpus;
pub mod export;
pub mod fit;
pub mod lab;
pub mod learn;
pub mod methods;
pub mod quantity;
