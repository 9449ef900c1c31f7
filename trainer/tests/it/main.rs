//! The trainer's integration tests: one program, since each links burn anew.

mod ask_tell;
mod bad_corpus;
mod bad_request;
mod bench;
mod commands;
mod common;
mod help;
mod idle;
mod learned;
mod measured;
mod messages;
mod plans;
mod quantise;
mod safe_plan;
mod simulated;
mod sized;
mod sizes;
mod units;
mod variants;

#[path = "../../../tools/cli/tests/it/transcript.rs"]
mod transcript;

/// The program, and the project's root from the package's folder.
const PROGRAM: &str = env!("CARGO_BIN_EXE_wattgate-trainer");
const ROOT: &str = "..";
