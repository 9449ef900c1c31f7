//! Integration tests of the benches' cases.

mod case;
mod onnx;
mod sweep;
