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
//! | How are the kernels of networks predicted? | [`kernels`] |
//! | How is a network predicted that nobody profiled? | [`networks`] |
//! | Where do time and energy of a training go? | [`characterize`] |
//! | Which methods are compared? | [`methods`] |
//! | How well does each method do? | [`lab`] |
#![forbid(unsafe_code)]

pub mod ask_tell;
pub mod characterize;
pub mod check;
pub mod cli;
pub mod corpus;
pub mod export;
pub mod fit;
pub mod kernels;
pub mod lab;
pub mod learn;
pub mod methods;
pub mod networks;
mod palette;
pub mod train;
