//! `replay`: replays a load from a file on a simulated board under a limit.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};

use crate::failure::Failure;
use crate::help::{TRUTH, boards_and_workloads, paragraphs};
use crate::options::{self, BoardOptions};
use crate::output::{print, print_json};
use wattgate_cli::arguments::number;
use wattgate_judge::replay::report::LoadReport;
use wattgate_judge::replay::{LoadRun, run as replay, timed_modes, workload_of};
use wattgate_judge::{Holder, files};
use wattgate_simulated_board::sampling::Sampling;
use wattgate_simulated_board::unit::Unit;

const USAGE: &str = "\
Replay a load from a file on a simulated board while a governor holds a limit

Usage: wattgate-simulator replay --board NAME --weights FILE.wgt --limit POWER --load FILE.csv
                                 [options]
       wattgate-simulator replay --truth CORPUS.csv --weights FILE.wgt --limit POWER --load FILE.csv
                                 [options]

Options:
  --board NAME      The board
  --truth CORPUS    A recorded board: its time and power are those of a corpus
  --weights FILE    The model
  --limit POWER     The limit, such as 25W or 12500mW
  --load FILE       The load: a CSV with the columns t_ms,activity and optionally gpu_load.
                    Activity is 0 for idle and 1 for the model's workload, 4 at most; gpu_load is
                    the value in the GPU's load file, 0 ... 1 [the activity, 1 at most]. Each row
                    holds until the next one. The first row is at 0 ms, the last ends the run
  --workload W      The workload, by name or file [the model's]
  --calls FILE      In place of it a network: the file of `wattgate-lab compose --calls`
  --samples N       Number of samples that the power sensor averages, fixed [512]
  --unit N          Draw this unit's differences from the seed N [the nominal unit]
  --seed S          Seed of noise and of the numbers of hwmon devices [0]
  --governor G      Who holds the limit: wattgate, without-model, unknown-board, stepper,
                    open-loop, once, preset or maxn [wattgate]
  --json            Print one JSON object: seconds, over_430ms_pct, over_10ms_pct,
                    longest_430ms_ms, longest_10ms_ms, excess_430ms_pct, excess_10ms_pct, over_j,
                    events (each with at_ms, cause (load or limit), ms and excess_pct),
                    speed_vs_fixed_pct, speed_vs_clairvoyant_pct, changes_per_min, safe_pct,
                    energy_j
  -h, --help        Print this

Two true mean powers are compared with the limit: that of 430 ms, and that of 10 ms without the
simulated random ripple. The excess is the greatest difference of a mean above the limit, in % of the
limit; over_j is the energy above the limit by the mean of 10 ms. An event is a jump of the load or
the limit after which the mean of 10 ms was over the limit; its ms is the time until that mean was
back at the limit. Work counts while the activity is above 0.05. Speed is relative to two oracles
that know the true power and keep no margin. The fixed oracle runs in the fastest mode of the
profiled grid that is within the limit in the load's worst 430 ms, the clairvoyant one in the fastest
mode for each second. The first second counts only for seconds, energy_j, changes_per_min and
safe_pct.
";

const EXAMPLE: &str = "\
Example:
  wattgate-simulator load --kind training --seconds 300 -o training.csv
  wattgate-simulator replay --board orin-agx-64 --weights weights/orin-agx-64-resnet18.wgt \\
    --limit 25W --load training.csv --json
  wattgate-trainer fit trainer/corpora/tx1-image5000.csv --modes 15 -o tx1.wgt
  wattgate-simulator replay --truth trainer/corpora/tx1-image5000.csv --weights tx1.wgt \\
    --limit 6W --load training.csv
";

/// The text of the help.
pub fn help() -> String {
    paragraphs(&[USAGE, TRUTH, &boards_and_workloads(), EXAMPLE])
}

/// Runs the command with the arguments that follow its name.
pub fn run(mut arguments: Parser) -> Result<(), Failure> {
    let mut of_board = BoardOptions::default();
    let (mut model, mut limit, mut load) = (None, None, None);
    let (mut samples, mut unit, mut seed) = (Sampling::L4T.samples, None, 0);
    let (mut calls, mut holder, mut json) = (None, Holder::Wattgate, false);
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("board") => of_board.board = Some(arguments.value()?.string()?),
            Arg::Long("workload") => of_board.workload = Some(arguments.value()?.string()?),
            Arg::Long("truth") => of_board.truth = Some(PathBuf::from(arguments.value()?)),
            Arg::Long("weights") => model = Some(PathBuf::from(arguments.value()?)),
            Arg::Long("limit") => limit = Some(options::limit(&mut arguments)?),
            Arg::Long("load") => load = Some(PathBuf::from(arguments.value()?)),
            Arg::Long("calls") => calls = Some(PathBuf::from(arguments.value()?)),
            Arg::Long("samples") => samples = options::samples(arguments.value()?.string()?)?,
            Arg::Long("unit") => unit = Some(number(&mut arguments, "--unit")?),
            Arg::Long("seed") => seed = number(&mut arguments, "--seed")?,
            Arg::Long("governor") => holder = options::governor(arguments.value()?.string()?)?,
            Arg::Long("json") => json = true,
            argument => return Err(argument.unexpected().into()),
        }
    }
    let model = of_board.model(model)?;
    let limit = limit.ok_or(Failure::Missing("--limit, such as --limit 25W"))?;
    let load = files::load::read(&load.ok_or(Failure::Missing(
        "--load, a file that `wattgate-simulator load` writes",
    ))?)?;
    let of_unit = unit.map_or(Unit::NOMINAL, Unit::drawn);
    if of_board.truth.is_some() && calls.is_some() {
        return Err(Failure::Exclusive("--calls", "--truth"));
    }
    let (board, workload) = of_board.read()?;
    let workload = options::workload(workload, calls.as_deref(), &board, &of_unit)?;
    let workload = match workload {
        Some(workload) => workload,
        None => workload_of(&model)?,
    };
    let modes = timed_modes(&board, &model, &workload)?;
    let load_run = LoadRun {
        board: &board,
        model: &model,
        limits: vec![(Duration::ZERO, limit)],
        load,
        workload: &workload,
        samples,
        unit,
        seed,
        holder,
        errors: None,
    };
    let report = replay(&load_run, &modes)?;
    if json {
        print_json(serde_json::to_string_pretty(&report))
    } else {
        print(&lines(board.figures(), &report))
    }
}

fn lines(kind: &str, report: &LoadReport) -> String {
    let mut text = format!("{kind}\n");
    let figures = [
        ("length, s", report.seconds),
        (
            "over the limit by 430 ms, % of the time",
            report.over_430ms_pct,
        ),
        (
            "over the limit by 10 ms, % of the time",
            report.over_10ms_pct,
        ),
        ("longest by 430 ms, ms", report.longest_430ms_ms),
        ("longest by 10 ms, ms", report.longest_10ms_ms),
        ("excess by 430 ms, %", report.excess_430ms_pct),
        ("excess by 10 ms, %", report.excess_10ms_pct),
        ("energy above the limit, J", report.over_j),
        ("jumps over the limit", report.events.len() as f64),
        ("longest until back, ms", report.longest_event_ms()),
        (
            "speed against the fixed oracle, %",
            report.speed_vs_fixed_pct,
        ),
        (
            "speed against the clairvoyant oracle, %",
            report.speed_vs_clairvoyant_pct,
        ),
        ("changes a minute", report.changes_per_min),
        ("in a state of safety, % of the time", report.safe_pct),
        ("energy, J", report.energy_j),
    ];
    for (name, value) in figures {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {name:<42}{value:>12.2}");
    }
    text
}
