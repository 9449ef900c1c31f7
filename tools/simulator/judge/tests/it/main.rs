//! Integration tests of the program `wattgate-simulator`, and bounds on the figures of loads and scenarios.

#[path = "../../../tests/it/common.rs"]
mod common;
mod eventually;
#[path = "../../../../cli/tests/shared/every_program.rs"]
mod every_program;
#[path = "../../../../cli/tests/it/transcript.rs"]
mod transcript;

mod commands;
mod deadlines;
mod dynamics;
mod fleet;
mod help;
mod judge;
mod loads;
mod messages;
mod physics;
mod process;
mod recording;
mod replay;
mod running;
mod scenarios;
mod served;
mod truth;
mod workload;

/// The arguments `more`, and before them those pairs of option and value of `defaults` whose option is not among them.
fn with_defaults<'a>(defaults: &[[&'a str; 2]], more: &[&'a str]) -> Vec<&'a str> {
    let kept = defaults.iter().filter(|[option, _]| !more.contains(option));
    let defaults = kept.flatten().copied();
    defaults.chain(more.iter().copied()).collect()
}
