//! `check`: checks a config, its model and the board, and prints the result. Writes nothing.

use std::fmt::Write as _;
use std::path::Path;

use lexopt::{Arg, Parser};
use serde_json::{Value, json};
use wattgate_board::Missing;
use wattgate_cli::aim::Wanted;
use wattgate_cli::exit::note;
use wattgate_runtime::{Milliwatts, PowerMode, SelectError};

use super::{Failure, below, check_writable, parse, print, unwritable};
use crate::aim::Shown;
use crate::client::Client;
use crate::clock::{Clock, System};
use crate::config::Metrics;
use crate::deadline::InTime;
use crate::group;
use crate::hardware_watchdog::HardwareWatchdog;
use crate::lesson::Unusable;
use crate::quantity::Watts;
use crate::schedule::Schedule;
use crate::serve::textfile;
use crate::setup::Setup;

const USAGE: &str = "\
Check a config, its model and this board, and print the result; write nothing

Usage: wattgated check [--config FILE] [--json] [--root DIR]

Options:
  --config FILE  The config [/etc/wattgated.toml]; see wattgated.toml(5)
  --json         Print one JSON object
  --root DIR     Root of the board's files, for a simulated board [/]
  -h, --help     Print this help

Example:
  wattgated check --config night.toml

Keys of the object:
  limit_mw      limit at this time of day
  limit_ma      limit of the current at the module's input
  max_limit_mw  highest limit that the config or a client may set
  backstop_mw   power above which the board's over-current protection acts
  average       power_mw, window_ms
  schedule      list of at, limit_mw
  budget        energy_mj, time_ms
  objective     what is minimised below the limit
  deadline_us   the longest time of a step
  unmet         why the deadline may be missed, and what it needs
  model         provenance of the model
  board         name of the board
  unit          id, is_profiled (for the model), margin_ratio (of the bounds on another unit), slower (what that costs,
                as a part of the speed)
  l4t           L4T release
  power         list of the measured rails
  offset_mw     typical offset of the power sensor, which is subtracted from the limit
  missing       list of messages about files that the board lacks
  left_out      list of messages about values of the model's grid that the board lacks
  distrusted    why the model's predictions are not used
  modes         number of modes that the board supports
  front         number of modes on the Pareto front, from which the daemon chooses
  now           present mode, and is_fixed; if false, the clocks are maxima
  once          mode that `once` sets, with power_mw and at_most_mw
  run           mode with which `run` starts
  safe          mode of fewest cores and lowest clocks, with power_mw, which is a guess
  unwritable    list of the files of knobs that this process may not write
A mode has cores, cpu_khz, gpu_khz and emc_khz. A value that does not exist is null.
";

/// The text of the help.
pub fn help() -> String {
    USAGE.to_owned()
}

/// Runs the command with the arguments that follow its name.
pub fn run(arguments: Parser) -> Result<(), Failure> {
    let mut is_json = false;
    let place = parse(arguments, |argument| {
        let known = *argument == Arg::Long("json");
        is_json |= known;
        known
    })?;
    let mut setup = place.setup_now()?;
    let learned = setup.learn_from(&place.root, System.utc());
    let group = setup.config.group.as_deref();
    group.map(group::id).transpose()?;
    if let Some(path) = &setup.config.hardware_watchdog
        && !daemon_runs(&place.root)
    {
        HardwareWatchdog::check(&below(&place.root, path), &place.root)?;
    }
    // The limit is held without metrics, too.
    if let Some(Metrics::File(path)) = &setup.config.metrics
        && let Err(why) = textfile::check(path)
    {
        note(format_args!("warning: {why}"));
    }
    print(&match is_json {
        true => format!("{}\n", json(&setup)),
        false => report(&setup, learned.err()),
    })?;
    check_writable(&setup.board)?;
    over_limit(&setup)
}

/// Whether a daemon runs, which has the hardware watchdog then.
fn daemon_runs(root: &Path) -> bool {
    Client::connect(root).is_ok()
}

/// Fails if no mode stays within the limit, or none is known to.
pub(super) fn over_limit(setup: &Setup) -> Result<(), Failure> {
    if let Some(why) = setup.choices.distrust {
        let limit = setup.lowest_limit();
        return Err(Failure::Distrusted { limit, why });
    }
    match setup.choice() {
        Err(SelectError::OverLimit { least_power }) => {
            let offset = setup.board.sensor_offset().0;
            Err(Failure::OverLimit {
                limit: setup.lowest_limit(),
                least: Milliwatts(least_power.0.saturating_add(offset)),
            })
        }
        _ => Ok(()),
    }
}

fn report(setup: &Setup, unusable: Option<Unusable>) -> String {
    let mut text = String::new();
    let mut line = |key: &str, value: &dyn std::fmt::Display| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{key:<9} {value}");
    };
    let limit = setup.config.limit;
    line("limit", &Watts(limit.power));
    if let Some(current) = setup.config.current {
        line("current", &format_args!("{current} at the input"));
    }
    if let Some(max) = setup.config.max_limit {
        line("max_limit", &Watts(max));
    }
    if let Some(margin) = setup.config.backstop {
        let most = limit
            .power
            .0
            .saturating_add(margin.for_limit(limit.power).0);
        line(
            "backstop",
            &format_args!("hardware, above {}", Watts(Milliwatts(most))),
        );
    }
    if let Some(average) = limit.average {
        let seconds = average.window.0 / 1_000;
        line(
            "average",
            &format_args!("{} over {seconds} s", Watts(average.power)),
        );
    }
    for (at, limit) in setup.config.schedule.iter().flat_map(Schedule::entries) {
        line("schedule", &format_args!("{} from {at} on", Watts(limit)));
    }
    if let Some(budget) = limit.budget {
        let (joules, minutes) = (budget.millijoules / 1_000, budget.time.0 / 60_000);
        line("budget", &format_args!("{joules} J for {minutes} min"));
    }
    if setup.config.aim != Wanted::FASTEST {
        line("aim", &Shown(setup.config.aim));
    }
    if let Some(unmet) = setup.unmet() {
        line("unmet", &unmet);
    }
    line("model", &setup.choices.origin);
    let identity = setup.board.identity();
    line(
        "board",
        &format_args!("{}, L4T {}", identity.model, identity.l4t),
    );
    let rails: Vec<&str> = setup.board.rails().collect();
    line("unit", &setup.unit());
    if let Some(why) = unusable {
        line("lesson", &format_args!("not used: {why}"));
    }
    line("power", &rails.join(" + "));
    let offset = Watts(setup.board.sensor_offset());
    line(
        "offset",
        &format_args!("{offset}, typical for the power sensor; subtracted from the limit"),
    );
    for missing in setup.board.missing() {
        line("missing", missing);
    }
    for left_out in &setup.choices.left_out {
        line("left out", left_out);
    }
    for (path, why) in unwritable(&setup.board) {
        let path = path.display();
        line(
            "cannot set",
            &format_args!("{path}: cannot be written: {why}"),
        );
    }
    let points = setup.choices.front.points().len();
    line(
        "modes",
        &format_args!("{}, {points} on the Pareto front", setup.choices.modes),
    );
    line("now", &setup.board.current(&InTime::plain()));
    if let Ok(choice) = setup.choice() {
        let [power, most] =
            [choice.power, choice.guarded_power].map(|it| Watts(it.unwrap_or_default()));
        let mode = setup.mode(choice.mode);
        line(
            "once",
            &format_args!(
                "{mode}: {power}, at most {most} with {} confidence",
                setup.config.confidence
            ),
        );
    }
    line("run", &format_args!("starts with {}", setup.first()));
    match setup.choices.least_power() {
        Milliwatts(0) => line("safe", &setup.safe()),
        power => line("safe", &format_args!("{}: {}", setup.safe(), Watts(power))),
    }
    text
}

fn json(setup: &Setup) -> Value {
    let Setup {
        config,
        board,
        choices,
    } = setup;
    let limit = config.limit;
    let average = limit
        .average
        .map(|average| json!({ "power_mw": average.power.0, "window_ms": average.window.0 }));
    let schedule = config.schedule.as_ref().map(|schedule| {
        let entries = schedule.entries();
        let entries = entries.map(|(at, limit)| json!({ "at": at, "limit_mw": limit.0 }));
        entries.collect::<Vec<Value>>()
    });
    let budget = limit
        .budget
        .map(|budget| json!({ "energy_mj": budget.millijoules, "time_ms": budget.time.0 }));
    let current = board.current(&InTime::plain());
    let [cpu, gpu, emc] = [current.cpu, current.gpu, current.emc].map(|it| it.map(|it| it.0));
    let (cores, is_fixed) = (current.cores, current.is_fixed);
    let now = json!({
        "cores": cores, "cpu_khz": cpu, "gpu_khz": gpu, "emc_khz": emc, "is_fixed": is_fixed,
    });
    let once = setup.choice().ok().map(|choice| {
        let mut once = mode(setup.mode(choice.mode));
        once["power_mw"] = json!(choice.power.map(|it| it.0));
        once["at_most_mw"] = json!(choice.guarded_power.map(|it| it.0));
        once
    });
    let unwritable = unwritable(board).map(|(path, _)| path.display().to_string());
    let unwritable: Vec<String> = unwritable.collect();
    let mut safe = mode(setup.safe());
    safe["power_mw"] = json!(choices.least_power().0);
    let texts = |missing: &Missing| missing.to_string();
    json!({
        "limit_mw": limit.power.0,
        "limit_ma": config.current.map(|it| it.0),
        "max_limit_mw": config.max_limit.map(|it| it.0),
        "backstop_mw": config.backstop.map(|margin| {
            limit.power.0.saturating_add(margin.for_limit(limit.power).0)
        }),
        "average": average,
        "schedule": schedule,
        "budget": budget,
        "objective": config.aim.objective.name(),
        "deadline_us": config.aim.first().deadline.map(|it| it.0),
        "unmet": setup.unmet().map(|it| it.to_string()),
        "model": choices.origin,
        "board": board.identity().model,
        "unit": {
            "id": choices.unit.id.map(|id| id.to_string()),
            "is_profiled": choices.unit.effect.is_profiled,
            "margin_ratio": choices.unit.margin(),
            "slower": choices.slower(setup.governor().status().allowed),
        },
        "l4t": board.identity().l4t,
        "power": board.rails().collect::<Vec<&str>>(),
        "offset_mw": board.sensor_offset().0,
        "missing": board.missing().iter().map(texts).collect::<Vec<String>>(),
        "left_out": choices.left_out,
        "distrusted": choices.distrust.map(|it| it.to_string()),
        "unwritable": unwritable,
        "modes": choices.modes,
        "front": choices.front.points().len(),
        "now": now,
        "once": once,
        "run": mode(setup.first()),
        "safe": safe,
    })
}

fn mode(mode: PowerMode) -> Value {
    let [cores, cpu, gpu, emc] = mode.knobs();
    json!({ "cores": cores, "cpu_khz": cpu, "gpu_khz": gpu, "emc_khz": emc })
}
