//! `scenarios`: compares governors on simulated boards.

use std::fmt::Write;
use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};

use crate::failure::Failure;
use crate::help::{TRUTH, paragraphs};
use crate::options::{self, BoardOptions};
use crate::output::{print, print_json};
use crate::table::{Column, Table, cell, title};
use wattgate_judge::replay::table::Bench;
use wattgate_judge::scenario::{
    CASES, Case, SCENARIOS, Scenario, ScenarioRow, ScenarioTask, live, rows,
};
use wattgate_judge::{Holder, SENSORS, Spread};

const USAGE: &str = "\
Compare governors on simulated boards while limits step, faults occur and daemons restart

Usage: wattgate-simulator scenarios [options]

Options:
  --json            Print JSON: an array of rows, each with scenario, board, time_constant_ms of
                    the sensor, governor, seeds, final, and, as {\"median\",\"worst\",\"seed\"} over
                    the seeds, time_over_pct, longest_over_ms, excess_pct, peak_pct,
                    overshoot_j, speed_vs_oracle_pct, changes_per_min, over_current_events and
                    safe_after_ms, which is null if no run set the safe mode
  --seeds N         Runs for each row, with the seeds 1 ... N [10]
  --only SCENARIO   One scenario, by its name in the table
  --truth CORPUS    A recorded board instead: its time and power are those of a corpus. Scenarios
                    with another workload are left out
  --board NAME      The board of the corpus, if it does not name it
  --workload W      The workload of the corpus, if it has several
  --weights FOLDER  The folder with the models [weights]; with --truth the file of a model
  --live            Run shorter scenarios in real time: the daemon as a process beside a board
                    whose files are on a disk. The daemon's response time depends on this machine
  --wattgated PATH  The daemon for --live [the one beside this program]
  -h, --help        Print this

The true mean power of 430 ms is compared with the limit. The excess counts only stretches over the
limit that no change of limit, load or mode explains. The peak is the highest mean of 10 ms, from 20
ms after such a change on. Speed is relative to an oracle that is always
in the fastest mode of the front that holds the limit. Events are under-voltage and average
over-current events. Safe is the time from the loss of the sensor or the daemon to the safe mode.
";

/// The text of the help.
pub fn help() -> String {
    paragraphs(&[USAGE, TRUTH])
}

/// Runs the command with the arguments that follow its name.
pub fn run(mut arguments: Parser) -> Result<(), Failure> {
    let (mut json, mut seeds, mut only) = (false, 10, None);
    let (mut is_live, mut wattgated) = (false, None);
    let (mut weights, mut of_board) = (None, BoardOptions::default());
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("json") => json = true,
            Arg::Long("live") => is_live = true,
            Arg::Long("wattgated") => wattgated = Some(PathBuf::from(arguments.value()?)),
            Arg::Long("seeds") => seeds = options::seeds(arguments.value()?.string()?)?,
            Arg::Long("only") => only = Some(arguments.value()?.string()?),
            Arg::Long("board") => of_board.board = Some(arguments.value()?.string()?),
            Arg::Long("truth") => of_board.truth = Some(PathBuf::from(arguments.value()?)),
            Arg::Long("workload") => of_board.workload = Some(arguments.value()?.string()?),
            Arg::Long("weights") => weights = Some(PathBuf::from(arguments.value()?)),
            argument => return Err(argument.unexpected().into()),
        }
    }
    let chosen = |name: &str| only.as_ref().is_none_or(|only| only == name);
    let all = if is_live {
        live::LIVE_SCENARIOS
    } else {
        SCENARIOS
    };
    let scenarios: Vec<_> = all.iter().filter(|it| chosen(it.name)).collect();
    if let (true, Some(value)) = (scenarios.is_empty(), only) {
        return Err(Failure::Value {
            option: "--only",
            value,
            expected: "a scenario of the table",
        });
    }
    let (cases, weights) = cases(&of_board, weights)?;
    let figures = match of_board.truth {
        Some(_) => "recorded",
        None => "simulated",
    };
    let mut tasks = Vec::new();
    for scenario in scenarios {
        for case in cases.iter().filter(|case| scenario.suits(case)) {
            for sensor in case.sensors() {
                let task = |holder| ScenarioTask {
                    scenario,
                    case,
                    sensor,
                    holder,
                };
                match is_live {
                    true => tasks.push(task(Holder::Wattgated)),
                    false => tasks.extend(Holder::SIMULATED.map(task)),
                }
            }
        }
    }
    let rows = match is_live {
        true => live::rows(&tasks, &weights, &wattgated.unwrap_or_else(beside)),
        false => rows(&tasks, seeds, &weights),
    };
    let rows = rows.map_err(Failure::Scenario)?;
    if json {
        print_json(serde_json::to_string_pretty(&rows))
    } else {
        print(&(title(figures) + &table(&rows)))
    }
}

/// The boards, and where their models are.
fn cases(
    of_board: &BoardOptions,
    weights: Option<PathBuf>,
) -> Result<(Vec<Case>, PathBuf), Failure> {
    if of_board.truth.is_some() {
        let model = of_board.model(weights)?;
        let recorded = of_board.recorded()?.into_iter();
        let cases = recorded.map(|recorded| {
            let bench = Bench::new(recorded.board, recorded.workload, model.clone())?;
            Ok::<_, Failure>(Case::recorded(bench))
        });
        return Ok((cases.collect::<Result<_, _>>()?, model));
    }
    if of_board.board.is_some() || of_board.workload.is_some() {
        return Err(Failure::Missing(
            "--truth, which --board and --workload need",
        ));
    }
    let weights = weights.unwrap_or_else(|| PathBuf::from("weights"));
    Ok((CASES.to_vec(), weights))
}

/// The daemon beside this program.
fn beside() -> PathBuf {
    let this = std::env::current_exe().unwrap_or_default();
    this.with_file_name("wattgated")
}

/// The columns after the name of a row. The last one is as wide as its cells, which begin with two
/// spaces.
const COLUMNS: &[Column<ScenarioRow>] = &[
    ("over, %", 13, |row| cell(row.time_over_pct, 2)),
    ("longest, ms", 15, |row| cell(row.longest_over_ms, 0)),
    ("excess, %", 13, |row| cell(row.excess_pct, 1)),
    ("peak, %", 12, |row| cell(row.peak_pct, 1)),
    ("overshoot, J", 16, |row| cell(row.overshoot_j, 1)),
    ("speed, %", 14, |row| cell(row.speed_vs_oracle_pct, 1)),
    ("changes/min", 13, |row| cell(row.changes_per_min, 1)),
    ("events", 12, |row| cell(row.over_current_events, 0)),
    ("safe, ms", 11, |row| {
        row.safe_after_ms
            .map_or("-".to_owned(), |spread| cell(spread, 0))
    }),
    ("  final", 0, |row| format!("  {}", row.r#final)),
];

/// Width of the names of groups and rows.
const NAME_WIDTH_OF_SCENARIOS: usize = 45;

fn table(rows: &[ScenarioRow]) -> String {
    let mut table = Table::new(NAME_WIDTH_OF_SCENARIOS, COLUMNS);
    for row in rows {
        let (scenario, board, ms) = (row.scenario, &row.board, row.time_constant_ms);
        let group = format!("{scenario}, {board}, {ms} ms");
        table.row(&group, row.governor, row);
    }
    table.text() + &worst(rows) + "\n" + &governors(rows)
}

/// The worst figures of each governor over all rows without a backstop, and its median speed, as Markdown.
fn governors(rows: &[ScenarioRow]) -> String {
    let has_none = |row: &&ScenarioRow| {
        Scenario::named(row.scenario).is_some_and(|scenario| !scenario.backstop)
    };
    let rows: Vec<&ScenarioRow> = rows.iter().filter(has_none).collect();
    let mut names: Vec<&str> = Vec::new();
    for row in &rows {
        if !names.contains(&row.governor) {
            names.push(row.governor);
        }
    }
    let mut text =
        "| governor | longest over | time over | excess | speed, median |\n|---|---|---|---|---|\n"
            .to_owned();
    for name in names {
        let own: Vec<&&ScenarioRow> = rows.iter().filter(|row| row.governor == name).collect();
        let highest = |figure: fn(&ScenarioRow) -> Spread| {
            let worst = own.iter().map(|row| figure(row).worst);
            worst.fold(f64::NEG_INFINITY, f64::max)
        };
        let mut speeds: Vec<f64> = own
            .iter()
            .map(|row| row.speed_vs_oracle_pct.median)
            .collect();
        speeds.sort_by(f64::total_cmp);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {name} | {:.2} s | {:.1} % | {:.1} % | {:.0} % |",
            highest(|row| row.longest_over_ms) / 1e3,
            highest(|row| row.time_over_pct),
            highest(|row| row.excess_pct),
            speeds[speeds.len().saturating_sub(1) / 2],
        );
    }
    text
}

/// For each setting of the sensor, the worst figures of all rows of wattgate.
fn worst(rows: &[ScenarioRow]) -> String {
    let steady = |row: &ScenarioRow| row.scenario == "steady";
    let nominal = |row: &ScenarioRow| Scenario::named(row.scenario).is_some_and(|it| it.nominal);
    let mut text = String::new();
    for sensor in &SENSORS {
        let period = sensor.time_constant.as_millis() as u64;
        let highest = |is: &dyn Fn(&ScenarioRow) -> bool,
                       figure: fn(&ScenarioRow) -> Option<f64>| {
            let rows = rows.iter().filter(|row| row.governor == "wattgate");
            let rows = rows.filter(|row| row.time_constant_ms == period && is(row));
            rows.filter_map(figure).max_by(f64::total_cmp)
        };
        let all = |_: &ScenarioRow| true;
        let longest = |row: &ScenarioRow| Some(row.longest_over_ms.worst);
        let excess = |row: &ScenarioRow| Some(row.excess_pct.worst);
        let safe = |row: &ScenarioRow| Some(row.safe_after_ms?.worst);
        let slow = |row: &ScenarioRow| Some(-row.speed_vs_oracle_pct.worst);
        let over = |row: &ScenarioRow| Some(row.time_over_pct.worst);
        let changes = |row: &ScenarioRow| Some(row.changes_per_min.worst);
        let lines = [
            ("longest, ms", highest(&all, longest), 0),
            ("over, %, steady", highest(&steady, over), 3),
            ("speed, %, steady", highest(&steady, slow).map(|it| -it), 1),
            ("changes/min, steady", highest(&steady, changes), 1),
            (
                "speed, %, nominal",
                highest(&nominal, slow).map(|it| -it),
                1,
            ),
            ("excess, %, nominal", highest(&nominal, excess), 1),
            ("safe, ms", highest(&all, safe), 0),
        ];
        for (name, value, digits) in lines {
            if let Some(value) = value {
                let name = format!("worst of wattgate, {period} ms: {name}");
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{name:<45}{value:>13.digits$}");
            }
        }
    }
    text
}
