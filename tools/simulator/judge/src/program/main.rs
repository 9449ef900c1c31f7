//! Simulated Jetsons on the command line: `wattgate-simulator COMMAND`. Exit codes are those of the
//! trainer.
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

use lexopt::{Arg, Parser};
use wattgate_cli::exit::end;
use wattgate_cli::shard::Jobs;

use commands::{
    anchors, board, clocks, corpus, deadlines, judge, kernels, load, loads, replay, scenarios,
    units, workload,
};
use failure::Failure;
use help::print_help;

const USAGE: &str = "\
A simulated Jetson. Everything that it says is simulated, nothing is measured.

Usage: wattgate-simulator COMMAND

Commands:
  board      Keep the files of a simulated board alive in a directory
  workload   Run a workload on a living board and report its steps
  corpus     Profile a simulated board and write the corpus
  kernels    Measure kernels one by one on several units of a board and write the corpus
  judge      Compare a model, measured rows or a held limit with the truth
  anchors    Compare simulated boards with published measurements of real ones
  load       Write a built-in load to a file
  replay     Replay a load from a file while a governor holds a limit
  loads      Replay all built-in loads on several boards
  units      Choose modes on units of a board that the model was not made of
  clocks     Set modes with pinned and with capped clocks, and compare
  deadlines  Give the daemon random deadlines, and compare with the truth
  scenarios  Compare governors while limits step, faults occur and daemons restart
  merge      Print what `loads` or `units` prints, from the parts that --shard has printed

`loads` and `units` take --shard I/N, on as many machines as you like: each shard runs every N-th job from the I-th
on and prints a part; `wattgate-simulator merge PART...` prints the whole.

`wattgate-simulator COMMAND --help` tells more.
";

/// The commands that run in shards.
const SHARDED: [&str; 2] = ["loads", "units"];

fn main() -> ExitCode {
    end(run())
}

fn run() -> Result<(), Failure> {
    let (jobs, arguments) = Jobs::take(std::env::args_os().skip(1).collect(), &SHARDED)?;
    dispatch(Parser::from_args(arguments), &jobs)
}

fn dispatch(mut arguments: Parser, jobs: &Jobs) -> Result<(), Failure> {
    match arguments.next()? {
        Some(Arg::Value(command)) if command == "board" => board::run(arguments),
        Some(Arg::Value(command)) if command == "workload" => workload::run(arguments),
        Some(Arg::Value(command)) if command == "corpus" => corpus::run(arguments),
        Some(Arg::Value(command)) if command == "kernels" => kernels::run(arguments),
        Some(Arg::Value(command)) if command == "judge" => judge::run(arguments),
        Some(Arg::Value(command)) if command == "anchors" => anchors::run(arguments),
        Some(Arg::Value(command)) if command == "load" => load::run(arguments),
        Some(Arg::Value(command)) if command == "replay" => replay::run(arguments),
        Some(Arg::Value(command)) if command == "loads" => loads::run(arguments, jobs),
        Some(Arg::Value(command)) if command == "scenarios" => scenarios::run(arguments),
        Some(Arg::Value(command)) if command == "clocks" => clocks::run(arguments),
        Some(Arg::Value(command)) if command == "deadlines" => deadlines::run(arguments),
        Some(Arg::Value(command)) if command == "units" => units::run(arguments, jobs),
        Some(Arg::Short('h') | Arg::Long("help")) => print_help(&[USAGE]),
        Some(argument) => Err(argument.unexpected().into()),
        None => Err(Failure::Missing("a command; try --help")),
    }
}
