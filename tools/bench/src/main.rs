//! `sweep`: how fast the runtime is, beside general-purpose inference of the same networks.
//!
//! | step | module |
//! |---|---|
//! | arguments, table, JSON | [`cli`] |
//! | what must be reached | [`bounds`] |
//! | all figures of a case | [`measure`] |
//! | who is timed when | [`turns`] |
//! | the network for other engines | [`onnx`], [`peers`] |
//! | what no implementation can beat | [`floor`] |
#![forbid(unsafe_code)]

mod bounds;
mod cli;
mod floor;
mod measure;
mod onnx;
mod peers;
mod turns;

fn main() -> std::process::ExitCode {
    cli::run()
}
