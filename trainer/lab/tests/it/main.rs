//! The laboratory's integration tests: one program, since each links burn anew.

mod advise;
mod advised;
mod characterize;
#[path = "../../../tests/it/common.rs"]
mod common;
mod compared;
mod figures;
mod help;
mod joint;
mod kernels;
mod measured;
mod messages;
mod networks;
mod onnx;
mod refusals;
mod shards;
#[path = "../../../tests/it/sized.rs"]
mod sized;
#[path = "../../../../tools/cli/tests/it/transcript.rs"]
mod transcript;

/// The program, and the project's root from the package's folder.
const PROGRAM: &str = env!("CARGO_BIN_EXE_wattgate-lab");
const ROOT: &str = "../..";
