//! The commands, one file each. `run` takes the arguments that follow the command's name.

pub mod anchors;
pub mod board;
pub mod clocks;
pub mod corpus;
pub mod deadlines;
pub mod judge;
pub mod kernels;
pub mod load;
pub mod loads;
pub mod replay;
pub mod scenarios;
pub mod units;
pub mod workload;
