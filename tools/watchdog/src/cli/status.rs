//! `status`: prints the running daemon's status.

use std::path::PathBuf;

use lexopt::{Arg, Parser};

use super::client::{Answers, shown};
use super::{EXIT_CODES, Failure, print};
use crate::serve::protocol::Request;

const USAGE: &str = "\
Print the running daemon's status
Usage: wattgated status [--json] [--root DIR]

Options:
  --json         Print one JSON object of strings and whole numbers
  --root DIR     Root of the board's files, for a simulated board [/]
  -h, --help     Print this help

Example:
  wattgated status

Keys: state, cores, cpu_khz, gpu_khz, emc_khz, measured_mw (absent before the first measurement),
predicted_mw, allowed_mw, ratio_ppm (measured / predicted), limit_mw, limit_from (config, schedule
or socket), average_mw and average_window_ms (absent without an average), least_mw (the least
predicted power of all modes), model. Counters since the daemon's start: violations, changes,
over_limit_ms, energy_mj, sensor_errors, failed_changes.

";

/// Runs the command with the arguments that follow its name.
pub fn run(mut arguments: Parser) -> Result<(), Failure> {
    let (mut root, mut is_json) = (PathBuf::from("/"), false);
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("root") => root = PathBuf::from(arguments.value()?),
            Arg::Long("json") => is_json = true,
            Arg::Short('h') | Arg::Long("help") => return print(&format!("{USAGE}{EXIT_CODES}")),
            argument => return Err(argument.unexpected().into()),
        }
    }
    let report = Answers::to(Request::Status, &root)?.next()?;
    print(&shown(&report, is_json))
}
