//! `status`: prints the running daemon's status.

use lexopt::Parser;

use super::client::{parse, shown};
use super::{Failure, print};
use crate::client::Client;

const USAGE: &str = "\
Print the running daemon's status

Usage: wattgated status [-v] [--json] [--root DIR]

Options:
  -v, --verbose  Print one line for each value, with its unit
  --json         Print one JSON object
  --root DIR     Root of the board's files, for a simulated board [/]
  -h, --help     Print this help

Example:
  wattgated status

Prints whether the limit holds, and what is wrong. The keys of the JSON object: holding (whether the daemon sets modes for
its limit: not while it observes or a client has the board), state, cores, cpu_khz, gpu_khz, emc_khz (as the board shows
them), measured_mw (absent before the first measurement), predicted_mw, faster_mw (the most that the next faster mode
would draw, as far as is known), allowed_mw,
ratio_ppm (measured / predicted), limit_mw, limit_from (config, schedule, max_limit, socket or lease),
limit_by (the client that set it: owner, pid, program), limit_for_ms (remaining time of a limit that
ends), max_limit_mw (the highest limit that a client may lease), over_for_ms (for how long the power
has been over the limit, though nothing lower can be set), unsaved (whether a reboot would lose a change of
the lowered limits), average_mw and average_window_ms (absent
without an average), limit_at (where all limits hold: module or supply), and with a supply in the config module_limit_mw (what
the limit leaves for the module), supply_mw (the supply's power), supply_added_mw (what its meter showed above what follows from
the module's power), meter_mw, meter_fault (why the meter counts as absent), throttled (cooling, firmware), temperature_mc, input_mv, input_ma, the clocks
that run (delivered_cpu_khz, delivered_gpu_khz, delivered_emc_khz), over-current events since the
boot (oc1_events to oc3_events) and in the last minute (oc1_per_min to oc3_per_min), least_mw (the
least predicted power of all modes), model (absent without one), gated (the part of the GPU that is gated off until a
reboot, and what gives it back), unit (whether the model was made of this unit of the board, or what was
learned of it, and what that costs in a mode without measurement). observed (of a daemon that only observes: for_ms,
highest_mw, speed_over_pct and speed_within_pct, the speed in the modes that it would have set, in percent of the board's, while
the power was over allowed_mw and else, and would_set, the mode of now, with power_mw and speed_pct). aim (what is minimised below the limit, and the
deadline), unmet (why that deadline may be missed), steps (done under the aim, or told), remaining_ms (of the time for the
steps), workloads (those that tell their steps: name, uid, pid, steps, at_ms, the time since boot of the last one, idle, step_us
and step_uj, time and energy of a step over ten seconds, fetch_us and compute_us, sums since its start, items), flooded_by (the user whose steps come faster
than they are read), step and slower_step (us, uj: time and energy of a step in the present mode, and in the next slower one),
lease_mj (energy since the newest lease began), budget_left_mj. Counters since the daemon's start: violations, changes,
over_limit_ms, unknown_ms (time without a reading of the power), energy_mj, sensor_errors,
failed_changes, late_looks (looks at the board that came 50 ms late or more). claims: all lowered limits and leases,
with source, by, limit_mw and for_ms. disobedient: the knobs that do not obey, with knob, wanted and is.
last_violations: at most eight, the newest
first, with ago_ms, over_ms, highest_mw, allowed_mw, and the mode that was set.
";

/// The text of the help.
pub fn help() -> String {
    USAGE.to_owned()
}

/// Runs the command with the arguments that follow its name.
pub fn run(arguments: Parser) -> Result<(), Failure> {
    let (root, form) = parse(arguments)?;
    let report = Client::connect(&root)?.status()?;
    print(&shown(&report, form))
}
