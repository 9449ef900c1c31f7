//! A simulated Jetson.
//!
//! It lets users try wattgate without hardware. It reproduces the tables, rails, files and quirks
//! of real boards. Its own models compute time (a pipeline of loader, launches and kernels) and
//! power (C·V²·f, energy per operation, leakage). All its figures are simulated, and its output is
//! marked as simulated. A recorded board instead plays back what a real one did, and its output is
//! marked as recorded.
//!
//! | question | module |
//! |---|---|
//! | time and power of a minibatch | [`workload`], [`pipeline`], [`power`], [`heat`], [`steady`] |
//! | what a real board did with a workload | [`recording`] |
//! | storage, page cache and memory of a training | [`storage`] |
//! | where the time of a step goes | [`shares`] |
//! | variation between units | [`mod@unit`] |
//! | activity of the workload over time | [`load`] |
//! | readings of the power sensor | [`sampling`], [`sensor`] |
//! | the board over time | [`machine`] |
//! | the board's files, with faults | [`tree`] |
//! | profiled modes as a corpus | [`profile`], [`corpus`] |
//! | kernels one by one, and their corpora | [`kernels`] |
//! | comparison with published measurements | [`anchors`] |
#![forbid(unsafe_code)]

pub mod anchors;
pub mod corpus;
pub mod heat;
pub mod kernels;
pub mod load;
pub mod machine;
mod noise;
pub mod pipeline;
pub mod power;
pub mod profile;
pub mod recording;
pub mod sampling;
pub mod sensor;
pub mod shares;
pub mod steady;
pub mod storage;
pub mod tree;
pub mod unit;
pub mod workload;
