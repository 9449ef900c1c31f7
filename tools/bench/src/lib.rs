//! The runtime's benchmark cases: models on the grids of boards, and the operations on them.
//!
//! The criterion benches and the program `sweep` share these cases. Only `sweep` depends on other
//! inference engines, so the benches build without them.
#![forbid(unsafe_code)]

pub mod case;
pub mod tasks;
#[path = "../../../trainer/src/export/wgt.rs"]
pub mod wgt;
