//! `check`: says what would be done, and writes nothing.

use std::fmt::Write as _;

use lexopt::Parser;
use wattgate_board::{Current, Disk};
use wattgate_runtime::SelectError;

use super::{EXIT_CODES, Failure, parse, print, see_whether_writable};
use crate::setup::Setup;

const USAGE: &str = "\
Say what would be done with a config, its model and this board; write nothing

Usage: wattgated check --config FILE [--root DIR]

Options:
  --config FILE  The config; tools/watchdog/wattgated.toml documents it
  --root DIR     A simulated board's files [/]
  -h, --help     Print this

Example:
  wattgated check --config /etc/wattgated.toml

";

/// Runs the command with the arguments that follow its name.
pub fn run(arguments: Parser) -> Result<(), Failure> {
    let Some(place) = parse(arguments, |_| false)? else {
        return print(&format!("{USAGE}{EXIT_CODES}"));
    };
    let setup = place.setup()?;
    print(&report(&setup))?;
    see_whether_writable(&setup.board)?;
    over_limit(&setup)
}

/// An error where no mode stays within the limit.
pub(super) fn over_limit(setup: &Setup) -> Result<(), Failure> {
    match setup.choice() {
        Err(SelectError::OverLimit { least_power }) => Err(Failure::OverLimit {
            limit: setup.lowest_limit(),
            least: least_power,
        }),
        _ => Ok(()),
    }
}

fn report(setup: &Setup) -> String {
    let mut text = String::new();
    let mut line = |key: &str, value: &dyn std::fmt::Display| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{key:<9} {value}");
    };
    let limit = setup.config.limit;
    line("limit", &limit.power);
    if let Some(average) = limit.average {
        let seconds = average.window.0 / 1_000;
        line(
            "average",
            &format_args!("{} over {seconds} s", average.power),
        );
    }
    line("model", &setup.choices.origin);
    let identity = setup.board.identity();
    line(
        "board",
        &format_args!("{}, L4T {}", identity.model, identity.l4t),
    );
    let rails: Vec<&str> = setup.board.rails().collect();
    line("power", &rails.join(" + "));
    for missing in setup.board.missing() {
        line("missing", missing);
    }
    for left_out in &setup.choices.left_out {
        line("left out", left_out);
    }
    let points = setup.choices.front.points().len();
    line(
        "modes",
        &format_args!("{}, {points} of them to choose from", setup.choices.modes),
    );
    match setup.board.current(&Disk) {
        Ok(current) => line("now", &shown(&current)),
        Err(error) => line("now", &error),
    }
    if let Ok(choice) = setup.choice() {
        let (power, most) = (choice.power.unwrap_or_default(), choice.guarded_power);
        let mode = setup.mode(choice.mode);
        line(
            "once",
            &format_args!(
                "{mode}: {power}, at most {} with {}",
                most.unwrap_or_default(),
                setup.config.confidence
            ),
        );
    }
    line("run", &format_args!("starts with {}", setup.first()));
    line(
        "safe",
        &format_args!("{}: {}", setup.safe(), setup.choices.least_power()),
    );
    text
}

fn shown(current: &Current) -> String {
    let clock = |name, clock: Option<wattgate_runtime::Kilohertz>| match clock {
        Some(clock) => format!(", {name} {clock}"),
        None => String::new(),
    };
    let held = if current.is_fixed { "" } else { ", at most" };
    let Current {
        cores,
        cpu,
        gpu,
        emc,
        ..
    } = *current;
    let clocks = [clock("CPU", cpu), clock("GPU", gpu), clock("EMC", emc)].concat();
    format!("{cores} cores{held}{clocks}")
}
