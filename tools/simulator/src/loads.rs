//! `loads`: all built-in loads on all boards, as a table.

use std::fmt::Write;
use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};

use super::load::{named, names};
use super::replay::{governor, number_of_samples};
use crate::{EXIT_CODES, Failure, print};
use wattgate_scenarios::replay::table::{
    Bench, LIMITS_PCT, Row, Task, WRONGS, Wrong, boards, rows,
};
use wattgate_scenarios::{Holder, Spread};
use wattgate_simulated_board::load::{KINDS, Kind};
use wattgate_simulated_board::sampling::Sampling;

const USAGE: &str = "\
Replay built-in loads on simulated boards while somebody holds a limit

Usage: wattgate-simulator loads [options]

Options:
  --seeds N          Runs of each, with the seeds 1 ... N [4]
  --board NAME       One board [orin-agx-64, orin-nano-8-super and xavier-agx]
  --kind KIND        One kind of load [all]
  --limit-pct P,...  Limits in % of the board's span, which goes from the least to the highest
                     power that the model's front predicts [25,45,75]
  --samples N        As of `replay` [512]
  --governor G       Who holds the limit: wattgate, stepper, open-loop, once, preset or maxn
                     [wattgate]
  --weights FOLDER   Where the models are [weights]
  --json             Print JSON: an array of rows, each with kind, board, limit_pct, limit_mw,
                     samples, governor, seeds, and as {\"median\",\"worst\",\"seed\"} of the seeds the figures of
                     `replay` and longest_event_ms
  -h, --help         Print this

The figures are those of `replay`, each run with 300 s. The constant load is replayed on boards and
models that are wrong, too.
";

/// Runs the command with the arguments that follow its name.
pub fn run(mut arguments: Parser) -> Result<(), Failure> {
    let (mut json, mut seeds) = (false, 4);
    let (mut only_board, mut only_kind, mut holder) = (None, None, Holder::Wattgate);
    let mut limits = LIMITS_PCT.to_vec();
    let mut samples = Sampling::L4T.samples;
    let mut weights = PathBuf::from("weights");
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("json") => json = true,
            Arg::Long("seeds") => {
                let value = arguments.value()?.string()?;
                let number = value.parse().ok().filter(|number| *number > 0);
                seeds = number.ok_or(Failure::Value {
                    option: "--seeds",
                    value,
                    expected: "a number above 0",
                })?;
            }
            Arg::Long("board") => only_board = Some(arguments.value()?.string()?),
            Arg::Long("kind") => only_kind = Some(named(arguments.value()?.string()?)?),
            Arg::Long("limit-pct") => limits = percentages(arguments.value()?.string()?)?,
            Arg::Long("samples") => samples = number_of_samples(arguments.value()?.string()?)?,
            Arg::Long("governor") => holder = governor(arguments.value()?.string()?)?,
            Arg::Long("weights") => weights = PathBuf::from(arguments.value()?),
            Arg::Short('h') | Arg::Long("help") => {
                return print(&format!("{USAGE}\nKinds: {}\n\n{EXIT_CODES}", names()));
            }
            argument => return Err(argument.unexpected().into()),
        }
    }
    let names = match &only_board {
        Some(board) => vec![board.as_str()],
        None => boards().to_vec(),
    };
    let benches = names.iter().map(|board| Bench::of(board, &weights));
    let benches: Vec<Bench> = benches.collect::<Result<_, _>>()?;
    let kinds = KINDS.into_iter();
    let kinds = kinds.filter(|kind| only_kind.is_none_or(|only| only == *kind));
    let mut tasks = Vec::new();
    let right = kinds.map(|kind| (kind, Wrong::Nothing));
    let is_constant = only_kind.is_none_or(|only| only == Kind::Constant);
    let wrong = WRONGS.iter().filter(|_| is_constant);
    let wrong = wrong.map(|wrong| (Kind::Constant, *wrong));
    for (kind, wrong) in right.chain(wrong) {
        for bench in &benches {
            tasks.extend(limits.iter().map(|limit_pct| Task {
                kind,
                bench,
                limit_pct: *limit_pct,
                samples,
                holder,
                wrong,
            }));
        }
    }
    let rows = rows(&tasks, seeds)?;
    if json {
        let text = serde_json::to_string_pretty(&rows).map_err(std::io::Error::from)?;
        print(&format!("{text}\n"))
    } else {
        print(&table(&rows))
    }
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

fn table(rows: &[Row]) -> String {
    let mut text = String::from("median / worst of the seeds; simulated\n");
    let mut heading = None;
    for row in rows {
        let of = (row.kind.as_str(), row.board.as_str());
        if heading.replace(of) != Some(of) {
            // A text takes all.
            let _ = writeln!(
                text,
                "{:<36}{:>13}{:>13}{:>12}{:>12}{:>13}{:>12}{:>12}{:>12}{:>13}{:>11}",
                format!("{}, {}", row.kind, row.board),
                "430 ms, %",
                "10 ms, %",
                "exc 430, %",
                "exc 10, %",
                "back, ms",
                "over, J",
                "fixed, %",
                "clairv, %",
                "changes/min",
                "safe, %"
            );
        }
        let of = |spread: Spread, digits: usize| {
            format!("{:.digits$}/{:.digits$}", spread.median, spread.worst)
        };
        let _ = writeln!(
            text,
            "  {:<34}{:>13}{:>13}{:>12}{:>12}{:>13}{:>12}{:>12}{:>12}{:>13}{:>11}",
            format!(
                "{}, {} % = {:.1} W",
                row.governor,
                row.limit_pct,
                f64::from(row.limit_mw) / 1e3
            ),
            of(row.over_430ms_pct, 2),
            of(row.over_10ms_pct, 2),
            of(row.excess_430ms_pct, 1),
            of(row.excess_10ms_pct, 1),
            of(row.longest_event_ms, 0),
            of(row.over_j, 1),
            of(row.speed_vs_fixed_pct, 1),
            of(row.speed_vs_clairvoyant_pct, 1),
            of(row.changes_per_min, 1),
            of(row.safe_pct, 1),
        );
    }
    text + &summary(rows)
}

/// One line for each kind of load. It has the worst of each figure over all boards, limits and seeds, and
/// the median over boards and limits of the median speed.
fn summary(rows: &[Row]) -> String {
    let mut kinds: Vec<&str> = rows.iter().map(|row| row.kind.as_str()).collect();
    kinds.dedup();
    let mut text = format!(
        "{:<36}{:>13}{:>13}{:>12}{:>12}{:>15}\n",
        "all boards and limits", "430 ms, %", "exc 430, %", "exc 10, %", "back, ms", "fixed, %"
    );
    for kind in kinds {
        let of_kind = || rows.iter().filter(|row| row.kind == kind);
        let most = |figure: fn(&Row) -> Spread| {
            let all = of_kind().map(|row| figure(row).worst);
            all.fold(f64::NEG_INFINITY, f64::max)
        };
        let speeds = || of_kind().map(|row| row.speed_vs_fixed_pct);
        let mut medians: Vec<f64> = speeds().map(|speed| speed.median).collect();
        medians.sort_by(f64::total_cmp);
        let median = medians.get(medians.len().saturating_sub(1) / 2);
        let worst = speeds()
            .map(|speed| speed.worst)
            .fold(f64::INFINITY, f64::min);
        // A text takes all.
        let _ = writeln!(
            text,
            "  {kind:<34}{:>13.2}{:>13.1}{:>12.1}{:>12.0}{:>15}",
            most(|row| row.over_430ms_pct),
            most(|row| row.excess_430ms_pct),
            most(|row| row.excess_10ms_pct),
            most(|row| row.longest_event_ms),
            format!("{:.1}/{worst:.1}", median.copied().unwrap_or(f64::NAN)),
        );
    }
    text
}
