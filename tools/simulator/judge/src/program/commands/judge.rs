//! `judge`: compares what was learned and measured on a simulated board with the truth.

use std::fmt::Write;
use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};

use crate::failure::Failure;
use crate::help::{TRUTH, boards_and_workloads, paragraphs};
use crate::options::{self, BoardOptions};
use crate::output::{print, print_json};
use wattgate_cli::arguments::number;
use wattgate_judge::judge::{Evidence, Quantiles, Subject, Verdict, judge};
use wattgate_judge::replay::warmth::Fan;
use wattgate_simulated_board::unit::Unit;

const USAGE: &str = "\
Compare a model, a measured corpus or a held limit with the truth of a simulated board

Usage: wattgate-simulator judge --board NAME --workload W [--model FILE.wgt] [--measured FILE.csv]
                                [--trace FILE.csv [--offset S] [--from S]] [options]
       wattgate-simulator judge --truth CORPUS.csv [--model FILE.wgt] [options]

Options:
  --board NAME      The board
  --workload W      The workload, by name or file
  --truth CORPUS    A recorded board: its time and power are those of a corpus
  --mode ID         The nvpmodel mode in which the board booted, which may gate parts of the GPU
                    [the board's default]
  --unit N          The board's unit, as for `board` [the nominal unit]
  --fan WHICH       automatic as on a living board, or full as in the rows of `corpus` [automatic]
  --limit POWER     The limit, such as 25W or 12500mW
  --model FILE      A model: its errors on all modes of its grid, without those that --measured has
  --measured FILE   A corpus: the errors of its rows that have a time and a power
  --trace FILE      The true power, as `board --trace` recorded it
  --offset S        Compare each row with the trace in the row's window, by its columns end_s and
                    window_ms; its session began at S seconds of the board's time
  --from S          How well the limit was held from S seconds of the board's time on
  --until S         The end of that part [the trace's]
  --json            Print one JSON object, with the figures below of all that is given
  -h, --help        Print this

--model     other_modes, time_mape, power_mape: their number, and mean absolute percentage errors.
            With --limit: other_modes_within, time_mape_within, power_mape_within, of the modes
            whose true power is within the limit; choice_speed_pct, choice_power_mw: true speed of
            the fastest mode that the model allows with its guard band of 95 %, against the fastest
            that is truly within the limit, and its true power; null if there is none
--measured  rows; row_time_error_pct, row_power_error_pct: {\"median\",\"p95\"} of absolute errors
--from      seconds, over_430ms_pct, over_10ms_pct, longest_430ms_ms, longest_10ms_ms,
            excess_430ms_pct, excess_10ms_pct, over_j, speed_vs_fixed_pct,
            speed_vs_clairvoyant_pct, energy_j: as for `replay`, but all of the time counts

The true time of a mode is that of an average minibatch; its true power is the mean after the
temperature has settled in that mode, in air of 25 °C. The oracles of --from choose from all modes of
the model's grid, without --model from all modes of the board. They begin as warm as the board is at
that time, by its recorded power since its start. The workload has to run without a pause there.
";

const EXAMPLE: &str = "\
Example:
  wattgate-simulator board --board orin-agx-64 --mode 0 --root /tmp/board --workload resnet18 \\
    --trace trace.csv
  wattgate-simulator judge --board orin-agx-64 --mode 0 --workload resnet18 --limit 30W \\
    --model weights/orin-agx-64-resnet18.wgt --trace trace.csv --from 10
";

/// The text of the help.
pub fn help() -> String {
    paragraphs(&[USAGE, TRUTH, &boards_and_workloads(), EXAMPLE])
}

/// Runs the command with the arguments that follow its name.
pub fn run(mut arguments: Parser) -> Result<(), Failure> {
    let (mut of_board, mut boot) = (BoardOptions::default(), None);
    let (mut unit, mut fan, mut json) = (Unit::NOMINAL, Fan::Automatic, false);
    let (mut from, mut until) = (None, None);
    let mut evidence = Evidence::default();
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("board") => of_board.board = Some(arguments.value()?.string()?),
            Arg::Long("workload") => of_board.workload = Some(arguments.value()?.string()?),
            Arg::Long("truth") => of_board.truth = Some(PathBuf::from(arguments.value()?)),
            Arg::Long("mode") => boot = Some(number(&mut arguments, "--mode")?),
            Arg::Long("unit") => unit = Unit::drawn(number(&mut arguments, "--unit")?),
            Arg::Long("fan") => fan = options::fan(arguments.value()?.string()?)?,
            Arg::Long("limit") => evidence.limit = Some(options::limit(&mut arguments)?),
            Arg::Long("model") => evidence.model = Some(PathBuf::from(arguments.value()?)),
            Arg::Long("measured") => evidence.measured = Some(PathBuf::from(arguments.value()?)),
            Arg::Long("trace") => evidence.trace = Some(PathBuf::from(arguments.value()?)),
            Arg::Long("offset") => {
                evidence.offset = Some(options::seconds("--offset", &mut arguments)?);
            }
            Arg::Long("from") => from = Some(options::seconds("--from", &mut arguments)?),
            Arg::Long("until") => until = Some(options::seconds("--until", &mut arguments)?),
            Arg::Long("json") => json = true,
            argument => return Err(argument.unexpected().into()),
        }
    }
    let (board, workload) = of_board.read()?;
    let workload = workload.ok_or(Failure::Missing("--workload, such as --workload resnet18"))?;
    evidence.part = from.map(|from| (from, until));
    let (measured, trace) = (evidence.measured.is_some(), evidence.trace.is_some());
    let offset = evidence.offset.is_some();
    let missing = match from {
        _ if until.is_some() && from.is_none() => Some("--from, which --until needs"),
        Some(_) if !trace => Some("--trace, which --from needs"),
        Some(_) if evidence.limit.is_none() => Some("--limit, which --from needs"),
        _ if offset && !trace => Some("--trace, which --offset needs"),
        _ if offset && !measured => Some("--measured, which --offset needs"),
        None if trace && !offset => Some("--from or --offset, for which --trace is"),
        None if evidence.model.is_none() && !measured => Some("--model, --measured or --from"),
        _ => None,
    };
    if let Some(missing) = missing {
        return Err(Failure::Missing(missing));
    }
    let subject = Subject::new(&board, &workload, unit, boot, fan)?;
    let verdict = judge(&subject, &evidence)?;
    if json {
        print_json(serde_json::to_string_pretty(&verdict))
    } else {
        print(&lines(board.figures(), &verdict))
    }
}

fn lines(kind: &str, verdict: &Verdict) -> String {
    let mut text = format!("{kind}\n");
    // Writing to a string cannot fail.
    let mut line = |name: &str, value: f64| {
        let _ = writeln!(text, "  {name:<42}{value:>12.2}");
    };
    if let Some(model) = &verdict.model {
        line("modes compared", model.other_modes as f64);
        line("time, mean absolute error, %", model.time_mape);
        line("power, mean absolute error, %", model.power_mape);
        if let Some(within) = &model.within {
            let figures = [
                (
                    "modes within the limit",
                    Some(within.other_modes_within as f64),
                ),
                ("time within it, %", within.time_mape_within),
                ("power within it, %", within.power_mape_within),
                (
                    "speed of the choice against the best, %",
                    within.choice_speed_pct,
                ),
                ("power of the choice, mW", within.choice_power_mw),
            ];
            for (name, value) in figures {
                // NaN is printed where there is no value.
                line(name, value.unwrap_or(f64::NAN));
            }
        }
    }
    if let Some(rows) = &verdict.rows {
        line("rows", rows.rows as f64);
        let Quantiles { median, p95 } = rows.row_time_error_pct;
        line("time of a row, median error, %", median);
        line("time of a row, 95th percentile, %", p95);
        let Quantiles { median, p95 } = rows.row_power_error_pct;
        line("power of a row, median error, %", median);
        line("power of a row, 95th percentile, %", p95);
    }
    if let Some(part) = &verdict.part {
        for (name, value) in [
            ("length, s", part.seconds),
            (
                "over the limit by 430 ms, % of the time",
                part.over_430ms_pct,
            ),
            ("over the limit by 10 ms, % of the time", part.over_10ms_pct),
            ("longest by 430 ms, ms", part.longest_430ms_ms),
            ("longest by 10 ms, ms", part.longest_10ms_ms),
            ("excess by 430 ms, %", part.excess_430ms_pct),
            ("excess by 10 ms, %", part.excess_10ms_pct),
            ("energy above the limit, J", part.over_j),
            ("speed against the fixed oracle, %", part.speed_vs_fixed_pct),
            (
                "speed against the clairvoyant oracle, %",
                part.speed_vs_clairvoyant_pct,
            ),
            ("energy, J", part.energy_j),
        ] {
            line(name, value);
        }
    }
    text
}
