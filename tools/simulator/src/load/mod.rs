//! Time-varying loads: the activity of a workload over time.
//!
//! Activity 0 is idle: the workload's process exists and does nothing. Activity 1 is the workload
//! that the model was trained on. Built-in loads are in [`kind`].

pub mod kind;
mod steps;

pub use kind::{KINDS, Kind};
pub use steps::{Load, MOST_ACTIVITY, Step, WORKING};
