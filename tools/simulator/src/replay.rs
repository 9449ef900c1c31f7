//! `replay`: a load from a file on a simulated board, under a limit.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};
use wattgate_cli::quantity;

use crate::{EXIT_CODES, Failure, lists, print};
use wattgate_board_tables::Board;
use wattgate_scenarios::Holder;
use wattgate_scenarios::replay::report::Report;
use wattgate_scenarios::replay::{Run, modes, run as replay, workload_of};
use wattgate_simulated_board::load::Load;
use wattgate_simulated_board::sampling::{SAMPLES, Sampling};
use wattgate_simulated_board::workload::Workload;

const USAGE: &str = "\
Replay a load from a file on a simulated board while somebody holds a limit

Usage: wattgate-simulator replay --board NAME --weights FILE.wgt --limit POWER --load FILE.csv
                                 [options]

Options:
  --board NAME      The board
  --weights FILE    The model
  --limit POWER     The limit, such as 25W or 12500mW
  --load FILE       The load: a CSV with the columns t_ms,activity and optionally gpu_load.
                    Activity is 0 for idle and 1 for what the model was made of, 4 at most; gpu_load
                    is what the GPU's load file shows, 0 ... 1 [the activity, 1 at most]. Each row
                    holds up to the next one, the first is at 0, the last ends the run
  --workload W      What runs, by name or file [the workload that the model was made of]
  --samples N       Samples of which a result of the power sensor is the mean [512]
  --unit N          Draw how this unit differs, and its sensors, under a number [the nominal one]
  --seed S          Noise, and the numbers of hwmon devices [0]
  --governor G      Who holds the limit: wattgate, stepper, open-loop, once, preset or maxn
                    [wattgate]
  --json            Print one JSON object: seconds, over_430ms_pct, over_10ms_pct,
                    longest_430ms_ms, longest_10ms_ms, excess_430ms_pct, excess_10ms_pct, over_j,
                    events (each with at_ms, cause (load or limit), ms and excess_pct),
                    speed_vs_fixed_pct, speed_vs_clairvoyant_pct, changes_per_min, safe_pct,
                    energy_j
  -h, --help        Print this

Over the limit is the true mean power of 430 ms, and that of 10 ms without the simulated random
ripple. The excess is the highest mean above the limit, in % of it; over_j is the energy above it by
the mean of 10 ms. An event is a jump of the load or the limit after which the mean of 10 ms was over
the limit, with the time until it was back. Work counts while the activity is above 0.05. Speed is
against two oracles that know the truth and keep no margin: the fastest mode of the profiled grid
that fits into the load's worst 430 ms, and the fastest that fits into each second. The first second
counts only for seconds, energy_j, changes_per_min and safe_pct.
";

const EXAMPLE: &str = "\
Example:
  wattgate-simulator load --kind training --seconds 300 -o training.csv
  wattgate-simulator replay --board orin-agx-64 --weights weights/orin-agx-64-resnet18.wgt \\
    --limit 25W --load training.csv --json
";

/// Runs the command with the arguments that follow its name.
pub fn run(mut arguments: Parser) -> Result<(), Failure> {
    let (mut board, mut model, mut limit, mut load) = (None, None, None, None);
    let (mut workload, mut samples, mut unit, mut seed) = (None, Sampling::L4T.samples, None, 0);
    let (mut holder, mut json) = (Holder::Wattgate, false);
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("board") => board = Some(Board::named(&arguments.value()?.string()?)?),
            Arg::Long("weights") => model = Some(PathBuf::from(arguments.value()?)),
            Arg::Long("limit") => limit = Some(power(arguments.value()?.string()?)?),
            Arg::Long("load") => load = Some(PathBuf::from(arguments.value()?)),
            Arg::Long("workload") => {
                workload = Some(Workload::named(&arguments.value()?.string()?)?);
            }
            Arg::Long("samples") => samples = number_of_samples(arguments.value()?.string()?)?,
            Arg::Long("unit") => unit = Some(arguments.value()?.parse()?),
            Arg::Long("seed") => seed = arguments.value()?.parse()?,
            Arg::Long("governor") => holder = governor(arguments.value()?.string()?)?,
            Arg::Long("json") => json = true,
            Arg::Short('h') | Arg::Long("help") => {
                return print(&format!("{USAGE}\n{}\n{EXAMPLE}\n{EXIT_CODES}", lists()));
            }
            argument => return Err(argument.unexpected().into()),
        }
    }
    let board = board.ok_or(Failure::Missing("--board"))?;
    let model = model.ok_or(Failure::Missing("--weights"))?;
    let limit = limit.ok_or(Failure::Missing("--limit"))?;
    let load = Load::read(&load.ok_or(Failure::Missing("--load"))?)?;
    let workload = match workload {
        Some(workload) => workload,
        None => workload_of(&model)?,
    };
    let modes = modes(&board, &model, &workload)?;
    let asked = Run {
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
    let report = replay(&asked, &modes)?;
    if json {
        let text = serde_json::to_string_pretty(&report).map_err(std::io::Error::from)?;
        print(&format!("{text}\n"))
    } else {
        print(&lines(&report))
    }
}

/// A power in mW.
fn power(value: String) -> Result<u32, Failure> {
    let parsed = quantity::power(&value);
    parsed.map(|power| power.0).map_err(|_| Failure::Value {
        option: "--limit",
        value,
        expected: "a power above 0, such as 25W or 12500mW",
    })
}

pub(super) fn number_of_samples(value: String) -> Result<u32, Failure> {
    let number = value.parse().ok();
    let number = number.filter(|number| SAMPLES.contains(number));
    number.ok_or(Failure::Value {
        option: "--samples",
        value,
        expected: "1, 4, 16, 64, 128, 256, 512 or 1024, which the driver takes",
    })
}

/// Who holds the limit, by the name on the command line.
pub fn governor(value: String) -> Result<Holder, Failure> {
    let mut known = Holder::SIMULATED.into_iter().chain([Holder::Once]);
    let found = known.find(|holder| holder.name().replace(' ', "-") == value);
    found.ok_or(Failure::Value {
        option: "--governor",
        value,
        expected: "wattgate, stepper, open-loop, once, preset or maxn",
    })
}

fn lines(report: &Report) -> String {
    let mut text = String::from("simulated\n");
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
        // A text takes all.
        let _ = writeln!(text, "  {name:<42}{value:>12.2}");
    }
    text
}
