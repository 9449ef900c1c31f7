//! Integration tests of the benches' cases.

mod case;
mod command_line;
mod messages;
mod onnx;
mod sweep;

#[path = "../../../cli/tests/shared/every_program.rs"]
mod every_program;
#[path = "../../../cli/tests/it/transcript.rs"]
mod transcript;
