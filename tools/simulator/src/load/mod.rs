//! Time-varying loads: the activity of a workload over time.
//!
//! Activity 0 is idle: the workload's process exists and does nothing. Activity 1 is the workload
//! that the model was trained on. A [`Load`] comes from a file ([`csv`]) or is built in ([`kind`]).

pub mod csv;
pub mod kind;
mod steps;

pub use kind::{KINDS, Kind};
pub use steps::{Load, MOST_ACTIVITY, Step, WORKING};
