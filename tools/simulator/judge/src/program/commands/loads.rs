//! `loads`: replays all built-in loads on all boards and prints a table.

use std::path::PathBuf;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};

use crate::failure::Failure;
use crate::help::{TRUTH, kinds, paragraphs};
use crate::options::{self, BoardOptions};
use crate::output::{print, print_json};
use crate::table::{Column, Table, cell, title};
use wattgate_cli::shard::{Jobs, Ran};
use wattgate_judge::models::BOARDS;
use wattgate_judge::parallel::{on_all_cores, rows, with_seeds};
use wattgate_judge::replay::table::{
    Bench, LENGTH, LIMITS_PCT, LoadRow, LoadTask, MISMATCHES, Mismatch,
};
use wattgate_judge::{Holder, Spread};
use wattgate_simulated_board::load::{KINDS, Kind};
use wattgate_simulated_board::sampling::Sampling;

const USAGE: &str = "\
Replay built-in loads on simulated boards while a governor holds a limit

Usage: wattgate-simulator loads [options]

Options:
  --seeds N          Runs for each row, with the seeds 1 ... N [4]
  --board NAME       One board [orin-agx-64, orin-nano-8-super and xavier-agx]
  --truth CORPUS     A recorded board instead: its time and power are those of a corpus
  --workload W       The workload of the corpus, if it has several
  --kind KIND        One kind of load [all]
  --minutes N        Length of a run in minutes [5]
  --limit-pct P,...  Limits in % of the board's span, from the lowest to the highest power that
                     the model's front predicts [25,45,75]
  --samples N        Number of samples that the power sensor averages, fixed [512]
  --governor G       Who holds the limit: wattgate, without-model, unknown-board, stepper,
                     open-loop, once, preset or maxn [wattgate]
  --weights FOLDER   The folder with the models [weights]; with --truth the file of a model
  --shard I/N        Run every N-th run from the I-th on, and print a part for `merge`
  --json             Print JSON: an array of rows, each with kind, board, limit_pct, limit_mw,
                     samples, governor, seeds, and, as {\"median\",\"worst\",\"seed\"} over the seeds,
                     the figures of `replay` and longest_event_ms
  -h, --help         Print this

The figures are those of `replay`. The constant load is replayed on boards that
differ from their model, too.
";

/// The text of the help.
pub fn help() -> String {
    paragraphs(&[USAGE, TRUTH, &kinds()])
}

/// Runs the command with the arguments that follow its name.
pub fn run(mut arguments: Parser, jobs: &Jobs) -> Result<(), Failure> {
    let (mut json, mut seeds, mut length) = (false, 4, LENGTH);
    let mut of_board = BoardOptions::default();
    let (mut only_kind, mut holder) = (None, Holder::Wattgate);
    let mut limits = LIMITS_PCT.to_vec();
    let mut samples = Sampling::L4T.samples;
    let mut weights = None;
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("json") => json = true,
            Arg::Long("seeds") => seeds = options::seeds(arguments.value()?.string()?)?,
            Arg::Long("board") => of_board.board = Some(arguments.value()?.string()?),
            Arg::Long("truth") => of_board.truth = Some(PathBuf::from(arguments.value()?)),
            Arg::Long("workload") => of_board.workload = Some(arguments.value()?.string()?),
            Arg::Long("minutes") => {
                length = Duration::from_secs(60 * options::number("--minutes", &mut arguments, 1)?);
            }
            Arg::Long("kind") => only_kind = Some(options::kind(arguments.value()?.string()?)?),
            Arg::Long("limit-pct") => limits = percentages(arguments.value()?.string()?)?,
            Arg::Long("samples") => samples = options::samples(arguments.value()?.string()?)?,
            Arg::Long("governor") => holder = options::governor(arguments.value()?.string()?)?,
            Arg::Long("weights") => weights = Some(PathBuf::from(arguments.value()?)),
            argument => return Err(argument.unexpected().into()),
        }
    }
    let benches = benches(&of_board, weights)?;
    let figures = benches.first().map_or("", |bench| bench.board.figures());
    let kinds = KINDS.into_iter();
    let kinds = kinds.filter(|kind| only_kind.is_none_or(|only| only == *kind));
    let mut tasks = Vec::new();
    let matching = kinds.map(|kind| (kind, Mismatch::None));
    let is_constant = only_kind.is_none_or(|only| only == Kind::Constant);
    let mismatched = MISMATCHES.iter().filter(|_| is_constant);
    let mismatched = mismatched.map(|mismatch| (Kind::Constant, *mismatch));
    for (kind, mismatch) in matching.chain(mismatched) {
        for bench in &benches {
            tasks.extend(limits.iter().map(|limit_pct| LoadTask {
                kind,
                bench,
                limit_pct: *limit_pct,
                samples,
                holder,
                mismatch,
                length,
            }));
        }
    }
    let run = |jobs: &[&(&LoadTask<'_>, u64)]| {
        let reports = on_all_cores(jobs, |(task, seed)| task.run(*seed));
        reports.map_err(Failure::from)
    };
    let rows = match jobs.run(&with_seeds(&tasks, seeds), run)? {
        Ran::Whole(reports) => rows(&tasks, seeds, reports, LoadRow::from_reports),
        Ran::Part(part) => return print(&part),
    };
    if json {
        print_json(serde_json::to_string_pretty(&rows))
    } else {
        print(&(title(figures) + &table(&rows)))
    }
}

/// The boards with their models.
fn benches(of_board: &BoardOptions, weights: Option<PathBuf>) -> Result<Vec<Bench>, Failure> {
    if of_board.truth.is_some() {
        let model = of_board.model(weights)?;
        let recorded = of_board.recorded()?.into_iter();
        let benches = recorded.map(|it| Bench::new(it.board, it.workload, model.clone()));
        return Ok(benches.collect::<Result<_, _>>()?);
    }
    if of_board.workload.is_some() {
        return Err(Failure::Missing("--truth, which --workload needs"));
    }
    let weights = weights.unwrap_or_else(|| PathBuf::from("weights"));
    let names = match &of_board.board {
        Some(board) => vec![board.as_str()],
        None => BOARDS.to_vec(),
    };
    let benches = names.iter().map(|board| Bench::load(board, &weights));
    Ok(benches.collect::<Result<_, _>>()?)
}

/// Numbers from 0 to 100.
fn percentages(value: String) -> Result<Vec<f64>, Failure> {
    let numbers = value.split(',').map(|number| {
        let number = number.trim().parse().ok();
        number.filter(|number| (0.0..=100.0).contains(number))
    });
    numbers.collect::<Option<_>>().ok_or(Failure::Value {
        option: "--limit-pct",
        value,
        expected: "numbers from 0 to 100, with commas between them",
    })
}

/// The columns after the name of a row.
const COLUMNS: &[Column<LoadRow>] = &[
    ("430 ms, %", 13, |row| cell(row.over_430ms_pct, 2)),
    ("10 ms, %", 13, |row| cell(row.over_10ms_pct, 2)),
    ("exc 430, %", 12, |row| cell(row.excess_430ms_pct, 1)),
    ("exc 10, %", 12, |row| cell(row.excess_10ms_pct, 1)),
    ("back, ms", 13, |row| cell(row.longest_event_ms, 0)),
    ("over, J", 12, |row| cell(row.over_j, 1)),
    ("fixed, %", 12, |row| cell(row.speed_vs_fixed_pct, 1)),
    ("clairv, %", 12, |row| cell(row.speed_vs_clairvoyant_pct, 1)),
    ("changes/min", 13, |row| cell(row.changes_per_min, 1)),
    ("safe, %", 11, |row| cell(row.safe_pct, 1)),
];

/// Width of the names of groups and rows.
const NAME_WIDTH_OF_LOADS: usize = 36;

fn table(rows: &[LoadRow]) -> String {
    let mut table = Table::new(NAME_WIDTH_OF_LOADS, COLUMNS);
    for row in rows {
        let limit_w = f64::from(row.limit_mw) / 1e3;
        table.row(
            &format!("{}, {}", row.kind, row.board),
            &format!("{}, {} % = {limit_w:.1} W", row.governor, row.limit_pct),
            row,
        );
    }
    table.text() + &summary(rows)
}

/// The columns of the summary after the kind of load, over all rows of that kind.
const SUMMARY_COLUMNS: &[Column<[LoadRow]>] = &[
    ("430 ms, %", 13, |rows| {
        highest(rows, 2, |row| row.over_430ms_pct)
    }),
    ("exc 430, %", 13, |rows| {
        highest(rows, 1, |row| row.excess_430ms_pct)
    }),
    ("exc 10, %", 12, |rows| {
        highest(rows, 1, |row| row.excess_10ms_pct)
    }),
    ("back, ms", 12, |rows| {
        highest(rows, 0, |row| row.longest_event_ms)
    }),
    ("fixed, %", 15, speed),
];

/// The highest of a figure over all rows and seeds.
fn highest(rows: &[LoadRow], digits: usize, figure: fn(&LoadRow) -> Spread) -> String {
    let worst = rows.iter().map(|row| figure(row).worst);
    let highest = worst.fold(f64::NEG_INFINITY, f64::max);
    format!("{highest:.digits$}")
}

/// The median of the median speeds, and the worst speed.
fn speed(rows: &[LoadRow]) -> String {
    let speeds = rows.iter().map(|row| row.speed_vs_fixed_pct);
    let mut medians: Vec<f64> = speeds.clone().map(|speed| speed.median).collect();
    medians.sort_by(f64::total_cmp);
    let median = medians.get(medians.len().saturating_sub(1) / 2);
    let median = median.copied().unwrap_or(f64::NAN);
    let worst = speeds
        .map(|speed| speed.worst)
        .fold(f64::INFINITY, f64::min);
    format!("{median:.1}/{worst:.1}")
}

/// One line for each kind of load, over all boards, limits and seeds.
fn summary(rows: &[LoadRow]) -> String {
    let mut table = Table::new(NAME_WIDTH_OF_LOADS, SUMMARY_COLUMNS);
    for of_kind in rows.chunk_by(|a, b| a.kind == b.kind) {
        table.row("all boards and limits", &of_kind[0].kind, of_kind);
    }
    table.text()
}
