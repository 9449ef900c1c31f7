//! `scenarios`: governors beside each other on simulated boards.

use std::fmt::Write;
use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};

use crate::{EXIT_CODES, Failure, print};
use wattgate_scenarios::{
    CASES, Holder, Row, SCENARIOS, SENSORS, Scenario, Spread, Task, live, rows,
};

const USAGE: &str = "\
Let wattgate and others hold a limit on simulated boards in simulated time

Usage: wattgate-simulator scenarios [options]

Options:
  --json            Print JSON: an array of rows, each with scenario, board, time_constant_ms of
                    the sensor, governor, seeds, final, and as {\"median\",\"worst\",\"seed\"} of the seeds
                    time_over_pct, longest_over_ms, excess_pct, overshoot_j,
                    speed_vs_oracle_pct, changes_per_min, over_current_events and
                    safe_after_ms, which is null where nobody had to be safe
  --seeds N         Runs of each [10]
  --only SCENARIO   One scenario, by its name in the table
  --weights FOLDER  Where the models are [weights]
  --live            Shorter scenarios in real time: the daemon as a process beside a board whose
                    files are on a disk. How soon it answers depends on this machine
  --wattgated PATH  The daemon for --live [the one beside this program]
  -h, --help        Print this

Over the limit is the true mean power of 430 ms. The excess is that of stretches
which no change of limit, load or mode explains. Speed is against an oracle that is always in the
fastest mode of the front that holds the limit. Events are those of too little voltage and of too
much current on average. Safe is the time from the loss of all knowledge to the safe mode.
";

/// Runs the command with the arguments that follow its name.
pub fn run(mut arguments: Parser) -> Result<(), Failure> {
    let (mut json, mut seeds, mut only) = (false, 10, None);
    let (mut is_live, mut wattgated) = (false, None);
    let mut weights = PathBuf::from("weights");
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("json") => json = true,
            Arg::Long("live") => is_live = true,
            Arg::Long("wattgated") => wattgated = Some(PathBuf::from(arguments.value()?)),
            Arg::Long("seeds") => {
                let value = arguments.value()?.string()?;
                let number = value.parse().ok().filter(|number| *number > 0);
                seeds = number.ok_or(Failure::Value {
                    option: "--seeds",
                    value,
                    expected: "a number above 0",
                })?;
            }
            Arg::Long("only") => only = Some(arguments.value()?.string()?),
            Arg::Long("weights") => weights = PathBuf::from(arguments.value()?),
            Arg::Short('h') | Arg::Long("help") => return print(&format!("{USAGE}\n{EXIT_CODES}")),
            argument => return Err(argument.unexpected().into()),
        }
    }
    let chosen = |name: &str| only.as_ref().is_none_or(|only| only == name);
    let all = if is_live { live::SCENARIOS } else { SCENARIOS };
    let scenarios: Vec<_> = all.iter().filter(|it| chosen(it.name)).collect();
    if let (true, Some(value)) = (scenarios.is_empty(), only) {
        return Err(Failure::Value {
            option: "--only",
            value,
            expected: "a scenario of the table",
        });
    }
    let mut tasks = Vec::new();
    for scenario in scenarios {
        for case in &CASES {
            for sensor in case.sensors() {
                let task = |holder| Task {
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
        let text = serde_json::to_string_pretty(&rows).map_err(std::io::Error::from)?;
        print(&format!("{text}\n"))
    } else {
        print(&table(&rows))
    }
}

/// The daemon beside this program.
fn beside() -> PathBuf {
    let this = std::env::current_exe().unwrap_or_default();
    this.with_file_name("wattgated")
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from("median / worst of the seeds; simulated\n");
    let mut heading = None;
    for row in rows {
        let of = (row.scenario, row.board, row.time_constant_ms);
        if heading.replace(of) != Some(of) {
            let (scenario, board, period) = of;
            // A text takes all.
            let _ = writeln!(
                text,
                "{:<45}{:>13}{:>15}{:>13}{:>16}{:>14}{:>13}{:>12}{:>11}  final",
                format!("{scenario}, {board}, {period} ms"),
                "over, %",
                "longest, ms",
                "excess, %",
                "overshoot, J",
                "speed, %",
                "changes/min",
                "events",
                "safe, ms"
            );
        }
        let of = |spread: Spread, digits: usize| {
            format!("{:.digits$}/{:.digits$}", spread.median, spread.worst)
        };
        let _ = writeln!(
            text,
            "  {:<43}{:>13}{:>15}{:>13}{:>16}{:>14}{:>13}{:>12}{:>11}  {}",
            row.governor,
            of(row.time_over_pct, 2),
            of(row.longest_over_ms, 0),
            of(row.excess_pct, 1),
            of(row.overshoot_j, 1),
            of(row.speed_vs_oracle_pct, 1),
            of(row.changes_per_min, 1),
            of(row.over_current_events, 0),
            row.safe_after_ms
                .map_or_else(|| "-".to_owned(), |spread| of(spread, 0)),
            row.r#final
        );
    }
    text + &worst(rows)
}

/// Of all rows of wattgate, the worst of all seeds for each setting of the sensor.
fn worst(rows: &[Row]) -> String {
    let steady = |row: &Row| row.scenario == "steady";
    let nominal = |row: &Row| Scenario::named(row.scenario).is_some_and(|it| it.nominal);
    let mut text = String::new();
    for sensor in &SENSORS {
        let period = sensor.time_constant.as_millis() as u64;
        let of = |is: &dyn Fn(&Row) -> bool, figure: fn(&Row) -> Option<f64>| {
            let rows = rows.iter().filter(|row| row.governor == "wattgate");
            let rows = rows.filter(|row| row.time_constant_ms == period && is(row));
            rows.filter_map(figure).max_by(f64::total_cmp)
        };
        let all = |_: &Row| true;
        let slow = |row: &Row| Some(-row.speed_vs_oracle_pct.worst);
        let over = |row: &Row| Some(row.time_over_pct.worst);
        let changes = |row: &Row| Some(row.changes_per_min.worst);
        let lines = [
            (
                "longest, ms",
                of(&all, |row| Some(row.longest_over_ms.worst)),
                0,
            ),
            ("over, %, steady", of(&steady, over), 3),
            ("speed, %, steady", of(&steady, slow).map(|it| -it), 1),
            ("changes/min, steady", of(&steady, changes), 1),
            ("speed, %, nominal", of(&nominal, slow).map(|it| -it), 1),
            (
                "excess, %, nominal",
                of(&nominal, |row| Some(row.excess_pct.worst)),
                1,
            ),
            (
                "safe, ms",
                of(&all, |row| Some(row.safe_after_ms?.worst)),
                0,
            ),
        ];
        for (name, value, digits) in lines {
            if let Some(value) = value {
                let name = format!("worst of wattgate, {period} ms: {name}");
                // A text takes all.
                let _ = writeln!(text, "{name:<45}{value:>13.digits$}");
            }
        }
    }
    text
}
