//! What is measured of the runtime: models on the grids of boards, and what is asked of them.
//!
//! The criterion benches and the program `sweep` measure the same. Only the program knows other
//! engines, so that the benches build without them.
#![forbid(unsafe_code)]

pub mod case;
pub mod tasks;
#[path = "../../../trainer/src/export/wgt.rs"]
pub mod wgt;
