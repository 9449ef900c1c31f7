//! A simulated Jetson.
//!
//! Nobody who tries wattgate has a lab of boards. This one has the tables, rails, files and
//! habits of real ones, and a physics of its own: a pipeline of loader, launches and
//! kernels for time, and C·V²·f, energy of operations and leakage for power. What it says is
//! simulated, and everything that it writes says so.
#![forbid(unsafe_code)]

pub mod anchors;
pub mod board;
pub mod cli;
pub mod corpus;
pub mod exit;
pub mod heat;
pub mod load;
pub mod machine;
pub mod output;
pub mod pipeline;
pub mod power;
pub mod profile;
pub mod replay;
pub mod sampling;
pub mod scenarios;
pub mod sensor;
pub mod steady;
pub mod tree;
pub mod unit;
pub mod workload;
