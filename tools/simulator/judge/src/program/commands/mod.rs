//! The commands, one file each. `run` takes the arguments that follow the command's name, `help` is the text of the help.

pub mod anchors;
pub mod board;
pub mod clocks;
pub mod corpus;
pub mod deadlines;
pub mod dynamics;
pub mod judge;
pub mod kernels;
pub mod load;
pub mod loads;
pub mod merge;
pub mod physics;
pub mod replay;
pub mod scenarios;
pub mod units;
pub mod workload;
