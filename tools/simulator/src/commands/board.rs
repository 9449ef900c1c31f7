//! `board`: keeps the files of a board alive in a directory.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process;

use lexopt::{Arg, Parser, ValueExt};

use crate::failure::Failure;
use crate::help::{boards_and_workloads, print_help};
use crate::signals;
use wattgate_board_tables::Board;
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::tree::control;
use wattgate_simulated_board::tree::mirror::{End, Mirror};
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;

const USAGE: &str = "\
Keep the files of a simulated board alive in a directory, until SIGINT or SIGTERM

Usage: wattgate-simulator board --board NAME --root DIR [options]

Options:
  --board NAME     The board
  --root DIR       A directory that is empty or does not exist
  --workload W     A workload that runs from the start, by name or file [none]
  --mode ID        The nvpmodel mode in which the board boots [the board's default]
  --unit N         Draw this unit's differences from the seed N [the nominal unit]
  --seed S         Seed of noise and of the numbers of hwmon devices [0]
  --speed X        Simulated time per real time, such as 10x; 0.01x ... 100x [1x]
  --trace FILE     Record the true power in a CSV: seconds,watts,calm_watts,minibatches. Each line
                   is a stretch of constant power, with its end and the minibatches up to then;
                   calm_watts is the power without the random ripple. `judge` reads it
  -h, --help       Print this

DIR/progress shows the board's time in s and the minibatches of its workloads since the start.
Append commands to DIR/control, one in a line; DIR/control.log has their results:
";

const EXAMPLE: &str = "\
Example:
  wattgate-simulator board --board orin-nano-8-super --root /tmp/board --workload resnet18
  echo load off >> /tmp/board/control

The command `crash` ends the program by SIGABRT. If the board shuts down from heat, the program
ends with exit code 0.
";

#[derive(Debug)]
struct Arguments {
    board: String,
    root: PathBuf,
    workload: Option<String>,
    mode: Option<u32>,
    unit: Option<u64>,
    seed: u64,
    speed: f64,
    trace: Option<PathBuf>,
}

/// Runs the command with the arguments that follow its name.
pub fn run(arguments: Parser) -> Result<(), Failure> {
    let Some(arguments) = parse(arguments)? else {
        let usage = format!("{USAGE}{}", control::HELP);
        return print_help(&[&usage, EXAMPLE, &boards_and_workloads()]);
    };
    let board = Board::named(&arguments.board)?;
    let unit = arguments.unit.map_or(Unit::NOMINAL, Unit::drawn);
    let workload = arguments.workload.as_deref().map(Workload::named);
    let mut tree = Tree::new(board, unit, arguments.seed, arguments.mode)?;
    tree.jetson_mut().set_workload(workload.transpose()?);
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

/// The arguments, or none if the user asks for help.
fn parse(mut parser: Parser) -> Result<Option<Arguments>, Failure> {
    let (mut board, mut root, mut trace) = (None, None, None);
    let (mut workload, mut mode, mut unit, mut seed, mut speed) = (None, None, None, 0, 1.0);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("board") => board = Some(parser.value()?.string()?),
            Arg::Long("root") => root = Some(PathBuf::from(parser.value()?)),
            Arg::Long("workload") => workload = Some(parser.value()?.string()?),
            Arg::Long("mode") => mode = Some(parser.value()?.parse()?),
            Arg::Long("unit") => unit = Some(parser.value()?.parse()?),
            Arg::Long("seed") => seed = parser.value()?.parse()?,
            Arg::Long("speed") => speed = factor(parser.value()?)?,
            Arg::Long("trace") => trace = Some(PathBuf::from(parser.value()?)),
            Arg::Short('h') | Arg::Long("help") => return Ok(None),
            argument => return Err(argument.unexpected().into()),
        }
    }
    Ok(Some(Arguments {
        board: board.ok_or(Failure::Missing("--board"))?,
        root: root.ok_or(Failure::Missing("--root"))?,
        workload,
        mode,
        unit,
        seed,
        speed,
        trace,
    }))
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
