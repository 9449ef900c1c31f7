//! `corpus`: profiles a simulated board and writes the corpus.

use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};

use crate::failure::Failure;
use crate::help::{TRUTH, boards_and_workloads, paragraphs};
use crate::options::{self, BoardOptions};
use crate::output::print;
use wattgate_cli::arguments::number;
use wattgate_cli::output::AtomicFile;
use wattgate_cli::planning::idle_modes;
use wattgate_simulated_board::corpus::{Feeding, Modes, csv, fed_csv, with_idle};
use wattgate_simulated_board::profile::Profiler;
use wattgate_simulated_board::storage::{Epoch, Storage, storage};
use wattgate_simulated_board::unit::Unit;

const USAGE: &str = "\
Profile a simulated board as PowerTrain's authors profiled real ones, and write the corpus

Usage: wattgate-simulator corpus --board NAME --workload NAME|FILE -o FILE.csv [options]
       wattgate-simulator corpus --board NAME --calls FILE -o FILE.csv [options]
       wattgate-simulator corpus --truth CORPUS.csv -o FILE.csv [options]

Options:
  --board NAME          The board
  --workload NAME|FILE  The workload
  --calls FILE          A network: the file of `wattgate-lab compose --calls`
  --truth CORPUS        A recorded board: its time and power are those of a corpus. Nothing can feed
                        its workload otherwise than it was fed
  --minibatch N,…       Samples in a minibatch [the workload's]
  --workers N,…         Loader workers [the workload's]
  --storage KIND,…      Storage of the data set: ssd, hdd or sd [the page cache]
  --epoch WHICH,…       first, in which the page cache is empty, or later [later]
  --columns             Add the columns fetch_ms, compute_ms, workers, storage and epoch; workers,
                        storage, epoch and several sizes add them by themselves
  --modes WHICH         papers (PowerTrain's), characterizing, all, random:N, or one as
                        mode:CORES,CPU,GPU,EMC with the clocks in kHz [papers; with --truth
                        the measured ones]
  --idle                Add the idle power of five modes, in the column idle_mw
  --unit N              Draw this unit's differences from the seed N [the nominal unit]
  --seed S              Seed of noise and of random modes [0]
  -o, --output FILE     The corpus
  -h, --help            Print this

The rows have the kind `simulated`, with --truth `recorded`.
";

const EXAMPLE: &str = "\
Example:
  wattgate-simulator corpus --board orin-agx-64 --workload resnet18 --seed 1 -o resnet.csv
  wattgate-simulator corpus --board xavier-agx --workload mobilenetv3 --modes characterizing \\
    --workers 0,1,4 --storage ssd,hdd --epoch first,later -o fed.csv
  wattgate-simulator corpus --truth trainer/corpora/tx1-image5000.csv --seed 1 -o noisy.csv

A corpus of several sizes, workers, storages or epochs has the modes with each combination.
";

/// The text of the help.
pub fn help() -> String {
    paragraphs(&[USAGE, TRUTH, &boards_and_workloads(), EXAMPLE])
}

/// Runs the command with the arguments that follow its name.
pub fn run(mut arguments: Parser) -> Result<(), Failure> {
    let mut of_board = BoardOptions::default();
    let (mut calls, mut output) = (None, None);
    let (mut unit, mut seed) = (Unit::NOMINAL, 0);
    let mut modes = None;
    let (mut minibatches, mut workers) = (Vec::new(), Vec::new());
    let (mut storages, mut epochs, mut columns) = (Vec::new(), Vec::new(), false);
    let mut idle = false;
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("board") => of_board.board = Some(arguments.value()?.string()?),
            Arg::Long("workload") => of_board.workload = Some(arguments.value()?.string()?),
            Arg::Long("truth") => of_board.truth = Some(PathBuf::from(arguments.value()?)),
            Arg::Long("calls") => calls = Some(PathBuf::from(arguments.value()?)),
            Arg::Long("minibatch") => minibatches = numbers("--minibatch", &mut arguments)?,
            Arg::Long("workers") => workers = numbers("--workers", &mut arguments)?,
            Arg::Long("storage") => {
                storages = list("--storage", "ssd, hdd or sd", &mut arguments, storage)?;
            }
            Arg::Long("epoch") => {
                epochs = list("--epoch", "first or later", &mut arguments, epoch)?;
            }
            Arg::Long("columns") => columns = true,
            Arg::Long("idle") => idle = true,
            Arg::Long("modes") => modes = Some(which(&arguments.value()?.string()?)?),
            Arg::Long("unit") => unit = Unit::drawn(number(&mut arguments, "--unit")?),
            Arg::Long("seed") => seed = number(&mut arguments, "--seed")?,
            Arg::Short('o') | Arg::Long("output") => {
                output = Some(PathBuf::from(arguments.value()?));
            }
            argument => return Err(argument.unexpected().into()),
        }
    }
    let output = output.ok_or(Failure::Missing("-o, the file to write"))?;
    let is_fed = columns
        || ![minibatches.len(), workers.len(), storages.len()]
            .iter()
            .all(|n| *n == 0);
    let is_recorded = of_board.truth.is_some();
    if is_recorded && (is_fed || calls.is_some()) {
        let other = if is_fed {
            "what feeds a training"
        } else {
            "--calls"
        };
        return Err(Failure::Exclusive("--truth", other));
    }
    // A network is run on data that are there.
    if is_fed && calls.is_some() {
        return Err(Failure::Exclusive("--calls", "what feeds a training"));
    }
    let (board, workload, measured) = match of_board.recorded()? {
        Some(recorded) => (
            recorded.board,
            Some(recorded.workload),
            Some(recorded.measured),
        ),
        None => {
            let (board, workload) = of_board.read()?;
            (board, workload, None)
        }
    };
    let workload = options::workload(workload, calls.as_deref(), &board, &unit)?;
    let workload = workload.ok_or(Failure::Missing("--workload, such as --workload resnet18"))?;
    if storages.is_empty() && !epochs.is_empty() {
        return Err(Failure::Missing("--storage, which --epoch needs"));
    }
    let columns = columns || minibatches.len() > 1 || !workers.is_empty() || !storages.is_empty();
    if columns && idle {
        return Err(Failure::Exclusive("--idle", "several feedings"));
    }
    or(&mut minibatches, workload.minibatch);
    or(&mut workers, workload.loader.workers);
    or(&mut epochs, Epoch::Later);
    let mut stored: Vec<Option<(Storage, Epoch)>> = Vec::new();
    for storage in storages {
        stored.extend(epochs.iter().map(|epoch| Some((storage, *epoch))));
    }
    or(&mut stored, None);

    let modes = match (modes, measured) {
        (None, Some(measured)) => measured,
        (modes, _) => modes.unwrap_or(Modes::Papers).select(&board, seed)?,
    };
    let mut fed = Vec::new();
    for &minibatch in &minibatches {
        for &workers in &workers {
            for &storage in &stored {
                let feeding = Feeding {
                    minibatch,
                    workers,
                    storage,
                };
                fed.push((feeding, feeding.apply(&workload, &board)?));
            }
        }
    }
    let file = AtomicFile::create(&output)?;
    let runs: Vec<_> = fed
        .iter()
        .map(|(feeding, workload)| {
            let profiles = Profiler::new(&board, unit, workload, seed).profile_all(&modes);
            (*feeding, profiles)
        })
        .collect();
    let text = match (&fed[..], &runs[..]) {
        ([(_, workload)], [(_, profiles)]) if !columns => {
            let text = csv(&board, &unit, workload, profiles);
            match idle {
                true => {
                    let mut profiler = Profiler::new(&board, unit, workload, seed);
                    let modes = idle_modes(board.axes().each_ref().map(|axis| &axis[..]));
                    let idle = modes.map(|mode| (mode, profiler.idle(mode)));
                    with_idle(&text, &board, &unit, workload, &idle)
                }
                false => text,
            }
        }
        _ => fed_csv(&board, &unit, &workload.name, &runs),
    };
    file.commit(text.as_bytes())?;
    let profiles = || runs.iter().flat_map(|(_, profiles)| profiles);
    let hours = profiles().map(|profile| profile.seconds).sum::<f64>() / 3600.0;
    print(&format!(
        "{} on {}, {}: {} modes, {hours:.1} h of profiling\n",
        workload.name,
        board.name,
        board.figures(),
        profiles().count()
    ))
}

/// Fills an empty list with the default.
fn or<T>(list: &mut Vec<T>, default: T) {
    if list.is_empty() {
        list.push(default);
    }
}

fn epoch(text: &str) -> Option<Epoch> {
    match text {
        "first" => Some(Epoch::First),
        "later" => Some(Epoch::Later),
        _ => None,
    }
}

fn numbers(option: &'static str, arguments: &mut Parser) -> Result<Vec<u32>, Failure> {
    list(option, "whole numbers", arguments, |text| text.parse().ok())
}

/// The values of an option, separated by commas, each once.
fn list<T: PartialEq>(
    option: &'static str,
    expected: &'static str,
    arguments: &mut Parser,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, Failure> {
    let value = arguments.value()?.string()?;
    let mut list = Vec::new();
    for text in value.split(',') {
        let parsed = parse(text).filter(|parsed| !list.contains(parsed));
        list.push(parsed.ok_or_else(|| Failure::Value {
            option,
            value: value.clone(),
            expected,
        })?);
    }
    Ok(list)
}

fn which(text: &str) -> Result<Modes, Failure> {
    let number = text.strip_prefix("random:").map(str::parse);
    let mode = text.strip_prefix("mode:").map(|mode| {
        let knobs: Option<Vec<u32>> = mode.split(',').map(|knob| knob.parse().ok()).collect();
        knobs.and_then(|knobs| knobs.try_into().ok())
    });
    if let Some(Some(mode)) = mode {
        return Ok(Modes::One(mode));
    }
    match (text, number) {
        ("papers", _) => Ok(Modes::Papers),
        ("characterizing", _) => Ok(Modes::Characterizing),
        ("all", _) => Ok(Modes::All),
        (_, Some(Ok(number))) => Ok(Modes::Random(number)),
        _ => Err(Failure::Value {
            option: "--modes",
            value: text.to_owned(),
            expected: "papers, characterizing, all, random:N or mode:CORES,CPU,GPU,EMC",
        }),
    }
}
