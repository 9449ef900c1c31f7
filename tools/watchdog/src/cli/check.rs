//! `check`: checks a config, its model and the board, and prints the result. Writes nothing.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

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
use crate::compatibility::idle_mw;
use crate::config::{Config, Metrics};
use crate::deadline::InTime;
use crate::distrust::Distrust;
use crate::group;
use crate::hardware_watchdog::HardwareWatchdog;
use crate::lesson::Unusable;
use crate::meter::MeterFault;
use crate::quantity::{Margin, Watts};
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
  limit_at      where it and all other limits hold: module or supply
  limit_ma      limit of the current at the module's input
  max_limit_mw  highest limit that the config or a client may set
  observe       whether the daemon writes nothing, so that no limit holds
  supply        efficiency, offset_mw, module_limit_mw (what the limit leaves for the module), and the meter: path,
                power_mw, fault (why it counts as absent)
  backstop_mw   power of the module above which the board's over-current protection acts
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
  gated         the part of the GPU that nvpmodel has gated off, and what gives it back
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
    let metered = metered(&mut setup);
    for why in &setup.config.no_effect {
        note(format_args!("warning: {}: {why}", place.config.display()));
    }
    // The limit is held without metrics, too.
    if let Some(Metrics::File(path)) = &setup.config.metrics
        && let Err(why) = textfile::check(path)
    {
        note(format_args!("warning: {why}"));
    }
    print(&match is_json {
        true => format!("{}\n", json(&setup, metered.as_ref())),
        false => report(&setup, learned.err(), metered.as_ref()),
    })?;
    check_writable(&setup.board)?;
    over_limit(&setup)?;
    match metered {
        Some((path, Err(fault))) => Err(Failure::Meter { path, fault }),
        _ => Ok(()),
    }
}

/// The supply's meter and what it shows.
type Metered = (PathBuf, Result<Milliwatts, MeterFault>);

fn metered(setup: &mut Setup) -> Option<Metered> {
    let meter = setup.meter.as_ref()?;
    let module = setup.board.sample(&InTime::plain());
    let module = module.ok().and_then(|sample| sample.total());
    Some((meter.path().to_owned(), meter.look(module)))
}

/// Whether a daemon runs, which has the hardware watchdog then.
fn daemon_runs(root: &Path) -> bool {
    Client::connect(root).is_ok()
}

/// Fails if no mode stays within the limit, or none is known to.
pub(super) fn over_limit(setup: &Setup) -> Result<(), Failure> {
    let distrust = setup.choices.distrust;
    if distrust == Some(Distrust::NoModel) {
        // The daemon measures what the modes draw, and holds the least one until then. No board draws less than this in any mode.
        let idle = Milliwatts(idle_mw(&setup.board.identity().compatible));
        let allowed = setup.governor().status().allowed;
        return match allowed < idle {
            true => Err(Failure::OverLimit {
                limit: setup.config.at_limit(setup.lowest_limit()),
                least: setup.limit_for(idle),
            }),
            false => Ok(()),
        };
    }
    if let Some(why) = distrust {
        let limit = setup.config.at_limit(setup.lowest_limit());
        return Err(Failure::Distrusted { limit, why });
    }
    match setup.choice() {
        Err(SelectError::OverLimit { least_power }) => Err(Failure::OverLimit {
            limit: setup.config.at_limit(setup.lowest_limit()),
            least: setup.limit_for(least_power),
        }),
        _ => Ok(()),
    }
}

fn report(setup: &Setup, unusable: Option<Unusable>, metered: Option<&Metered>) -> String {
    let mut text = String::new();
    let mut line = |key: &str, value: &dyn std::fmt::Display| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{key:<9} {value}");
    };
    let (limit, config) = (setup.config.limit, &setup.config);
    line("limit", &config.at_limit(limit.power));
    if let Some(supply) = &config.supply {
        let module = Watts(config.draw().module(limit.power));
        line(
            "supply",
            &format_args!("{supply}; the limit leaves the module {module}"),
        );
    }
    if config.observe {
        line("observe", &"nothing is set, so no limit holds");
    }
    match metered {
        Some((path, Ok(shown))) => {
            let (path, shown) = (path.display(), Watts(*shown));
            line("meter", &format_args!("{path}: {shown}"));
        }
        Some((path, Err(fault))) => line(
            "meter",
            &format_args!("{}: counts as absent: {fault}", path.display()),
        ),
        None => {}
    }
    if let Some(current) = setup.config.current {
        line("current", &format_args!("{current} at the input"));
    }
    if let Some(max) = setup.config.max_limit {
        line("max_limit", &config.at_limit(max));
    }
    if let Some(margin) = setup.config.backstop {
        let most = config.at_module(backstop(config, margin));
        line("backstop", &format_args!("hardware, above {most}"));
    }
    if let Some(average) = limit.average {
        let seconds = average.window.0 / 1_000;
        line(
            "average",
            &format_args!("{} over {seconds} s", config.at_limit(average.power)),
        );
    }
    for (at, limit) in setup.config.schedule.iter().flat_map(Schedule::entries) {
        line(
            "schedule",
            &format_args!("{} from {at} on", config.at_limit(limit)),
        );
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
    if let Some(gated) = setup.board.gated() {
        line("gated", &gated);
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
            [choice.power, choice.guarded_power].map(|it| config.at_module(it.unwrap_or_default()));
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
        power => line(
            "safe",
            &format_args!("{}: {}", setup.safe(), config.at_module(power)),
        ),
    }
    text
}

/// The power of the module above which the backstop acts.
fn backstop(config: &Config, margin: Margin) -> Milliwatts {
    let limit = config.draw().module(config.limit.power);
    Milliwatts(limit.0.saturating_add(margin.for_limit(limit).0))
}

fn json(setup: &Setup, metered: Option<&Metered>) -> Value {
    let Setup {
        config,
        board,
        choices,
        ..
    } = setup;
    let meter = metered.map(|(path, shown)| {
        json!({
            "path": path.display().to_string(),
            "power_mw": shown.as_ref().ok().map(|it| it.0),
            "fault": shown.as_ref().err().map(MeterFault::to_string),
        })
    });
    let supply = config.supply.as_ref().map(|supply| {
        json!({
            "efficiency": f64::from(supply.efficiency_ppm()) / 1e6,
            "offset_mw": supply.offset().0,
            "module_limit_mw": config.draw().module(config.limit.power).0,
            "meter": meter,
        })
    });
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
        "limit_at": config.limit_place(),
        "limit_ma": config.current.map(|it| it.0),
        "max_limit_mw": config.max_limit.map(|it| it.0),
        "observe": config.observe,
        "supply": supply,
        "backstop_mw": config.backstop.map(|margin| backstop(config, margin).0),
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
        "gated": board.gated().map(|it| it.to_string()),
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
