//! `board`: keeps the files of a board alive in a directory: a simulated one, or one from a probe.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process;

use lexopt::{Arg, Parser, ValueExt};

use crate::failure::Failure;
use crate::help::{TRUTH, boards_and_workloads, paragraphs};
use crate::options::BoardOptions;
use crate::served::Served;
use crate::signals;
use wattgate_cli::arguments::number;
use wattgate_probe::format::Probe;
use wattgate_probe::recorded::Recorded;
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::tree::control;
use wattgate_simulated_board::tree::mirror::{End, Mirror};
use wattgate_simulated_board::unit::Unit;

const USAGE: &str = "\
Keep the files of a simulated board alive in a directory, until SIGINT or SIGTERM

Usage: wattgate-simulator board --board NAME --root DIR [options]
       wattgate-simulator board --truth CORPUS.csv --root DIR [options]
       wattgate-simulator board --from FILE --root DIR [--speed X]

Options:
  --board NAME     The board
  --truth CORPUS   A recorded board: its time and power are those of a corpus. It can run the
                   workload of the corpus alone
  --from FILE      A real board instead, from a file of `wattgate probe`: its files with the recorded
                   values. The power sensors replay their readings in a loop, and files that
                   wattgate writes can be written. Files that could not be read give EIO
  --root DIR       A directory that is empty or does not exist
  --workload W     A workload that runs from the start, by name or file; with --truth the
                   corpus's [none]
  --mode ID        The nvpmodel mode in which the board boots [the board's default]
  --unit N         Draw this unit's differences from the seed N [the nominal unit]
  --seed S         Seed of noise and of the numbers of hwmon devices [0]
  --speed X        Simulated time per real time, such as 10x; 0.01x ... 100x [1x]
  --trace FILE     Record the true power in a CSV: seconds,watts,calm_watts,minibatches. Each line
                   is a stretch of constant power, with its end and the minibatches up to then;
                   calm_watts is the power without the random ripple. `judge` reads it
  -h, --help       Print this

DIR/progress shows the board's time in s and, since the start, the minibatches of its workloads and
the time in which they waited for the loader and computed.
Append commands to DIR/control, one in a line; DIR/control.log has their results. A board of a probe
has neither. The commands:
";

const EXAMPLE: &str = "\
Example:
  wattgate-simulator board --board orin-nano-8-super --root /tmp/board --workload resnet18
  echo load off >> /tmp/board/control

The command `crash` ends the program by SIGABRT. If the board shuts down from heat, the program
ends with exit code 0.
";

/// Where a board's files come from.
#[derive(Debug)]
enum Source {
    Simulated(BoardOptions),
    Probe(PathBuf),
}

#[derive(Debug)]
struct Arguments {
    source: Source,
    root: PathBuf,
    mode: Option<u32>,
    unit: Option<u64>,
    seed: u64,
    speed: f64,
    trace: Option<PathBuf>,
}

/// The text of the help.
pub fn help() -> String {
    let usage = format!("{USAGE}{}", control::HELP);
    paragraphs(&[&usage, TRUTH, EXAMPLE, &boards_and_workloads()])
}

/// Runs the command with the arguments that follow its name.
pub fn run(arguments: Parser) -> Result<(), Failure> {
    let arguments = parse(arguments)?;
    match &arguments.source {
        Source::Simulated(board) => simulate(board, &arguments),
        Source::Probe(probe) => {
            let files = Recorded::new(Probe::open(probe)?);
            let stop = signals::stop()?;
            let mut served = Served::create(&arguments.root, files)?;
            Ok(served.run(&stop, arguments.speed)?)
        }
    }
}

fn simulate(of_board: &BoardOptions, arguments: &Arguments) -> Result<(), Failure> {
    let unit = arguments.unit.map_or(Unit::NOMINAL, Unit::drawn);
    let (board, workload) = of_board.read()?;
    let mut tree = Tree::new(board, unit, arguments.seed, arguments.mode)?;
    if let (Some(workload), true) = (&workload, of_board.truth.is_some()) {
        tree.play_back(workload.clone());
    }
    // That of a corpus has a name, whether it is to run or not.
    let from_start = workload.filter(|_| of_board.workload.is_some());
    tree.jetson_mut().set_workload(from_start);
    let stop = signals::stop()?;
    let mut mirror = Mirror::create(&arguments.root, tree)?;
    if let Some(trace) = &arguments.trace {
        mirror.record(trace)?;
    }
    match mirror.run(&stop, arguments.speed)? {
        End::Stopped => Ok(()),
        End::ShutDown => {
            eprintln!("the board has shut down from heat");
            Ok(())
        }
        End::Crashed => process::abort(),
    }
}

fn parse(mut parser: Parser) -> Result<Arguments, Failure> {
    let mut of_board = BoardOptions::default();
    let (mut from, mut root, mut trace) = (None, None, None);
    let (mut mode, mut unit, mut seed, mut speed) = (None, None, None, 1.0);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("board") => of_board.board = Some(parser.value()?.string()?),
            Arg::Long("truth") => of_board.truth = Some(PathBuf::from(parser.value()?)),
            Arg::Long("from") => from = Some(PathBuf::from(parser.value()?)),
            Arg::Long("root") => root = Some(PathBuf::from(parser.value()?)),
            Arg::Long("workload") => of_board.workload = Some(parser.value()?.string()?),
            Arg::Long("mode") => mode = Some(number(&mut parser, "--mode")?),
            Arg::Long("unit") => unit = Some(number(&mut parser, "--unit")?),
            Arg::Long("seed") => seed = Some(number(&mut parser, "--seed")?),
            Arg::Long("speed") => speed = factor(parser.value()?)?,
            Arg::Long("trace") => trace = Some(PathBuf::from(parser.value()?)),
            argument => return Err(argument.unexpected().into()),
        }
    }
    let of_simulated = [
        ("--board", of_board.board.is_some()),
        ("--truth", of_board.truth.is_some()),
        ("--workload", of_board.workload.is_some()),
        ("--mode", mode.is_some()),
        ("--unit", unit.is_some()),
        ("--seed", seed.is_some()),
        ("--trace", trace.is_some()),
    ];
    let given = of_simulated.into_iter().find(|(_, is_given)| *is_given);
    let has_board = of_board.board.is_some() || of_board.truth.is_some();
    let source = match (from, given) {
        (Some(_), Some((option, _))) => return Err(Failure::Exclusive("--from", option)),
        (Some(probe), None) => Source::Probe(probe),
        (None, _) if has_board => Source::Simulated(of_board),
        (None, _) => {
            return Err(Failure::Missing(
                "--board, such as --board orin-agx-64, --truth or --from",
            ));
        }
    };
    Ok(Arguments {
        source,
        root: root.ok_or(Failure::Missing(
            "--root, a directory for the files of the board",
        ))?,
        mode,
        unit,
        seed: seed.unwrap_or(0),
        speed,
        trace,
    })
}

fn factor(value: OsString) -> Result<f64, Failure> {
    let text = value.string()?;
    let number = text.strip_suffix('x').unwrap_or(&text).parse();
    match number {
        Ok(number) if (0.01..=100.0).contains(&number) => Ok(number),
        _ => Err(Failure::Value {
            option: "--speed",
            value: text,
            expected: "0.01x … 100x",
        }),
    }
}
