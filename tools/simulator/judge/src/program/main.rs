//! Simulated Jetsons on the command line: `wattgate-simulator COMMAND`.
#![forbid(unsafe_code)]

mod chart;
mod commands;
mod failure;
mod help;
mod options;
mod output;
mod served;
mod signals;
mod table;

use std::process::ExitCode;

use lexopt::Parser;
use wattgate_cli::arguments::Given;
use wattgate_cli::exit::end;
use wattgate_cli::program::{Command, Does, Program};
use wattgate_cli::shard::Jobs;

use commands::{
    anchors, board, clocks, corpus, deadlines, dynamics, judge, kernels, load, loads, merge,
    physics, replay, scenarios, units, workload,
};
use failure::Failure;

/// Runs a command with the arguments that follow its name.
enum Run {
    Whole(fn(Parser) -> Result<(), Failure>),
    /// It may run in shards.
    Sharded(fn(Parser, &Jobs) -> Result<(), Failure>),
}

const COMMANDS: &[Command<Run>] = &[
    Command::new("board", board::help, Run::Whole(board::run)),
    Command::new("workload", workload::help, Run::Whole(workload::run)),
    Command::new("corpus", corpus::help, Run::Whole(corpus::run)),
    Command::new("kernels", kernels::help, Run::Whole(kernels::run)),
    Command::new("judge", judge::help, Run::Whole(judge::run)),
    Command::new("anchors", anchors::help, Run::Whole(anchors::run)),
    Command::new("physics", physics::help, Run::Whole(physics::run)),
    Command::new("load", load::help, Run::Whole(load::run)),
    Command::new("replay", replay::help, Run::Whole(replay::run)),
    Command::new("loads", loads::help, Run::Sharded(loads::run)),
    Command::new("units", units::help, Run::Sharded(units::run)),
    Command::new("clocks", clocks::help, Run::Whole(clocks::run)),
    Command::new("deadlines", deadlines::help, Run::Whole(deadlines::run)),
    Command::new("dynamics", dynamics::help, Run::Whole(dynamics::run)),
    Command::new("scenarios", scenarios::help, Run::Whole(scenarios::run)),
    Command::new("merge", merge::help, Run::Whole(merge::run)),
];

const PROGRAM: Program<Run> = Program {
    name: "wattgate-simulator",
    version: env!("CARGO_PKG_VERSION"),
    does: Does::Commands {
        about: "A simulated Jetson. Everything that it says is simulated, nothing is measured.",
        notes: "`wattgate-simulator COMMAND --help` tells more.\n",
        commands: COMMANDS,
    },
};

fn main() -> ExitCode {
    end(run())
}

fn run() -> Result<(), Failure> {
    let sharded = COMMANDS
        .iter()
        .filter(|it| matches!(it.run, Run::Sharded(_)));
    let sharded: Vec<&str> = sharded.map(|command| command.name).collect();
    let (jobs, arguments) = Jobs::take(std::env::args_os().skip(1).collect(), &sharded)?;
    PROGRAM.run(arguments, |run, arguments| {
        Given::check(arguments.clone())?;
        match run {
            Run::Whole(run) => run(arguments),
            Run::Sharded(run) => run(arguments, &jobs),
        }
    })
}
