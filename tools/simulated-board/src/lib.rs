//! A simulated Jetson.
//!
//! It lets people try wattgate without a lab of boards. It has the tables, rails, files and habits of
//! real boards, and models of its own: a pipeline of loader, launches and kernels for time, and
//! C·V²·f, energy of operations and leakage for power. Its figures are simulated, and everything that
//! it writes says so.
//!
//! | question | module |
//! |---|---|
//! | how long a minibatch takes, and what it draws | [`workload`], [`pipeline`], [`power`], [`heat`], [`steady`] |
//! | how one unit differs from another | [`mod@unit`] |
//! | what the workload does over time | [`load`] |
//! | what the sensor shows | [`sampling`], [`sensor`] |
//! | the board over time | [`machine`] |
//! | its files, with faults | [`tree`] |
//! | profiled modes as a corpus | [`profile`], [`corpus`] |
//! | published measurements beside it | [`anchors`] |
#![forbid(unsafe_code)]

pub mod anchors;
pub mod corpus;
pub mod heat;
pub mod load;
pub mod machine;
pub mod pipeline;
pub mod power;
pub mod profile;
pub mod sampling;
pub mod sensor;
pub mod steady;
pub mod tree;
pub mod unit;
pub mod workload;
