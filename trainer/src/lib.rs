//! Learns time and power of a workload for every power mode of a Jetson from a few
//! profiled modes, and writes a model file for the runtime.
//!
//! corpus → [teacher] → [student] → [quantise] → [wgt], then read back and scored
//! through the runtime: [fit].
#![forbid(unsafe_code)]

pub mod check;
pub mod cli;
pub mod corpus;
pub mod demo;
pub mod evaluate;
pub mod fit;
pub mod gp;
pub mod guard;
pub mod inputs;
pub mod matrix;
pub mod mean;
pub mod methods;
pub mod optimize;
pub mod order;
pub mod plan;
pub mod plots;
pub mod predictions;
pub mod quantise;
pub mod quantity;
pub mod reference;
pub mod split;
pub mod standard;
pub mod student;
pub mod teacher;
pub mod wgt;
