//! The runtime's benchmark cases: models on the grids of boards, and the operations on them.
//!
//! The criterion benches and the program `sweep` share these cases.
#![forbid(unsafe_code)]

pub mod case;
pub mod onnx;
pub mod tasks;
#[path = "../../../trainer/src/export/wgt.rs"]
pub mod wgt;
