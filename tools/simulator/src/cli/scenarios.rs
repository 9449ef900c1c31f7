//! `scenarios`: governors beside each other on simulated boards.

use std::fmt::Write;
use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};

use super::{EXIT_CODES, Failure, print};
use crate::scenarios::{CASES, Holder, Row, SCENARIOS, row};

const USAGE: &str = "\
Let wattgate and others hold a limit on simulated boards in simulated time

Usage: wattgate-simulator scenarios [options]

Options:
  --json            Print JSON: [{\"scenario\",\"board\",\"governor\",\"seeds\",\"time_over_pct\",
                    \"longest_over_ms\",\"overshoot_j\",\"speed_vs_oracle_pct\",\"changes_per_min\",
                    \"final\"}], each figure as {\"median\",\"worst\"} of the seeds
  --seeds N         Runs of each [10]
  --only SCENARIO   One scenario, by its name in the table
  --weights FOLDER  Where the models are [weights]
  -h, --help        Print this

Over the limit is the true mean power of one period of the sensor, 430 ms. Speed is against an
oracle that is always in the fastest mode of the front that holds the limit.
";

/// Runs the command with the arguments that follow its name.
pub fn run(mut arguments: Parser) -> Result<(), Failure> {
    let (mut json, mut seeds, mut only) = (false, 10, None);
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
            Arg::Long("only") => only = Some(arguments.value()?.string()?),
            Arg::Long("weights") => weights = PathBuf::from(arguments.value()?),
            Arg::Short('h') | Arg::Long("help") => return print(&format!("{USAGE}\n{EXIT_CODES}")),
            argument => return Err(argument.unexpected().into()),
        }
    }
    let chosen = |name: &str| only.as_ref().is_none_or(|only| only == name);
    let scenarios: Vec<_> = SCENARIOS.iter().filter(|it| chosen(it.name)).collect();
    if let (true, Some(value)) = (scenarios.is_empty(), only) {
        return Err(Failure::Value {
            option: "--only",
            value,
            expected: "a scenario of the table",
        });
    }
    let mut rows = Vec::new();
    for scenario in scenarios {
        for case in &CASES {
            for holder in Holder::ALL {
                let row = row(scenario, case, holder, seeds, &weights);
                rows.push(row.map_err(Failure::Scenario)?);
            }
        }
    }
    if json {
        let text = serde_json::to_string_pretty(&rows).map_err(std::io::Error::from)?;
        print(&format!("{text}\n"))
    } else {
        print(&table(&rows))
    }
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from("median / worst of the seeds; simulated\n");
    let mut heading = ("", "");
    for row in rows {
        if heading != (row.scenario, row.board) {
            heading = (row.scenario, row.board);
            writeln!(
                text,
                "{:<44}over, %   longest, ms  overshoot, J  speed, %  changes/min  final",
                format!("{}, {}", row.scenario, row.board)
            )
            .expect("text");
        }
        let of = |spread: crate::scenarios::Spread, digits: usize| {
            format!("{:.digits$}/{:.digits$}", spread.median, spread.worst)
        };
        writeln!(
            text,
            "  {:<36}{:>14}{:>14}{:>14}{:>12}{:>11}  {}",
            row.governor,
            of(row.time_over_pct, 2),
            of(row.longest_over_ms, 0),
            of(row.overshoot_j, 1),
            of(row.speed_vs_oracle_pct, 1),
            of(row.changes_per_min, 1),
            row.r#final
        )
        .expect("text");
    }
    text
}
