//! `corpus`: profiles a simulated board and writes the corpus.

use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};

use crate::failure::Failure;
use crate::help::{boards_and_workloads, print_help};
use crate::output::print;
use wattgate_board_tables::Board;
use wattgate_cli::output::AtomicFile;
use wattgate_simulated_board::corpus::{Modes, csv};
use wattgate_simulated_board::kernels::network;
use wattgate_simulated_board::profile::Profiler;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;

const USAGE: &str = "\
Profile a simulated board as PowerTrain's authors profiled real ones, and write the corpus.
Its rows have the kind `simulated`.

Usage: wattgate-simulator corpus --board NAME --workload NAME|FILE -o FILE.csv [options]
       wattgate-simulator corpus --board NAME --calls FILE -o FILE.csv [options]

Options:
  --board NAME          The board
  --workload NAME|FILE  The workload
  --calls FILE          A network: the file of `wattgate-trainer compose --calls`
  --minibatch N         Samples in a minibatch [the workload's]
  --modes WHICH         papers, all, or random:N [papers]
  --unit N              Draw this unit's differences from the seed N [the nominal unit]
  --seed S              Seed of noise and of random modes [0]
  -o, --output FILE     The corpus
  -h, --help            Print this
";

const EXAMPLE: &str = "\
Example:
  wattgate-simulator corpus --board orin-agx-64 --workload resnet18 --seed 1 -o resnet.csv
";

/// Runs the command with the arguments that follow its name.
pub fn run(mut arguments: Parser) -> Result<(), Failure> {
    let (mut board, mut workload, mut output) = (None, None, None);
    let mut calls = None;
    let (mut minibatch, mut unit, mut seed) = (None, Unit::NOMINAL, 0);
    let mut modes = Modes::Papers;
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("board") => board = Some(Board::named(&arguments.value()?.string()?)?),
            Arg::Long("workload") => {
                workload = Some(Workload::named(&arguments.value()?.string()?)?);
            }
            Arg::Long("calls") => calls = Some(PathBuf::from(arguments.value()?)),
            Arg::Long("minibatch") => minibatch = Some(arguments.value()?.parse()?),
            Arg::Long("modes") => modes = which(&arguments.value()?.string()?)?,
            Arg::Long("unit") => unit = Unit::drawn(arguments.value()?.parse()?),
            Arg::Long("seed") => seed = arguments.value()?.parse()?,
            Arg::Short('o') | Arg::Long("output") => {
                output = Some(PathBuf::from(arguments.value()?));
            }
            Arg::Short('h') | Arg::Long("help") => {
                return print_help(&[USAGE, &boards_and_workloads(), EXAMPLE]);
            }
            argument => return Err(argument.unexpected().into()),
        }
    }
    let board = board.ok_or(Failure::Missing("--board"))?;
    let output = output.ok_or(Failure::Missing("-o FILE"))?;
    let mut workload = match (workload, calls) {
        (Some(workload), None) => workload,
        (None, Some(calls)) if minibatch.is_none() => network(&calls, &board, &unit)?,
        (None, Some(_)) => return Err(Failure::Exclusive("--calls", "--minibatch")),
        (Some(_), Some(_)) => return Err(Failure::Exclusive("--calls", "--workload")),
        (None, None) => return Err(Failure::Missing("--workload")),
    };
    if let Some(minibatch) = minibatch {
        workload = workload.with_minibatch(minibatch)?;
    }
    let modes = modes.of(&board, seed)?;
    let file = AtomicFile::create(&output)?;
    let profiles = Profiler::new(&board, unit, &workload, seed).profile_all(&modes);
    file.commit(csv(&board, &workload, &profiles).as_bytes())?;
    let hours = profiles.iter().map(|profile| profile.seconds).sum::<f64>() / 3600.0;
    print(&format!(
        "{} on {}, simulated: {} modes, {hours:.1} h of profiling\n",
        workload.name,
        board.name,
        profiles.len()
    ))
}

fn which(text: &str) -> Result<Modes, Failure> {
    let number = text.strip_prefix("random:").map(str::parse);
    match (text, number) {
        ("papers", _) => Ok(Modes::Papers),
        ("all", _) => Ok(Modes::All),
        (_, Some(Ok(number))) => Ok(Modes::Random(number)),
        _ => Err(Failure::Value {
            option: "--modes",
            value: text.to_owned(),
            expected: "papers, all, or random:N",
        }),
    }
}
