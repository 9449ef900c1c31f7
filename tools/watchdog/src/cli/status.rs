//! `status`: prints the running daemon's status.

use lexopt::Parser;

use super::client::{parse, shown};
use super::{EXIT_CODES, Failure, print};
use crate::client::Client;

const USAGE: &str = "\
Print the running daemon's status
Usage: wattgated status [--json] [--root DIR]

Options:
  --json         Print one JSON object
  --root DIR     Root of the board's files, for a simulated board [/]
  -h, --help     Print this help

Example:
  wattgated status

Prints one line per value, with its unit. The keys of the JSON object: state, cores, cpu_khz,
gpu_khz, emc_khz (as the board shows them), measured_mw (absent before the first measurement), predicted_mw, allowed_mw,
ratio_ppm (measured / predicted), limit_mw, limit_from (config, schedule, socket or lease),
limit_for_ms (remaining time of a limit that expires), average_mw and average_window_ms (absent
without an average), throttled (cooling, firmware), temperature_mc, input_mv, input_ma, the clocks
that run (delivered_cpu_khz, delivered_gpu_khz, delivered_emc_khz), over-current events since the
boot (oc1_events to oc3_events) and in the last minute (oc1_per_min to oc3_per_min), least_mw (the
least predicted power of all modes), model. Counters since the daemon's start: violations, changes,
over_limit_ms, unknown_ms (time without a reading of the power), energy_mj, sensor_errors,
failed_changes. disobedient: the knobs that do not obey, with knob, wanted and is. last_violations: at most eight, the newest
first, with ago_ms, over_ms, highest_mw, allowed_mw, and the mode that was set.

";

/// Runs the command with the arguments that follow its name.
pub fn run(arguments: Parser) -> Result<(), Failure> {
    let Some((root, is_json)) = parse(arguments)? else {
        return print(&format!("{USAGE}{EXIT_CODES}"));
    };
    let report = Client::connect(&root)?.status()?;
    print(&shown(&report, is_json))
}
