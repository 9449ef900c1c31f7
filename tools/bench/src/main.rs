//! `sweep`: times the runtime and general-purpose inference of the same networks.
//!
//! | part | module |
//! |---|---|
//! | arguments, table, JSON | [`cli`] |
//! | required times and ratios | [`bounds`] |
//! | all measurements of a case | [`measure`] |
//! | interleaving of the timed functions | [`turns`] |
//! | the network in other engines | [`peers`] |
//! | lower bound of a sweep's time | [`floor`] |
#![forbid(unsafe_code)]

mod bounds;
mod cli;
mod floor;
mod measure;
mod peers;
mod turns;

fn main() -> std::process::ExitCode {
    cli::run()
}
