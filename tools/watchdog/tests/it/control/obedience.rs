//! A bed of faults: every knob disobeys in every way, alone and together with others. Each cell compares the
//! true power with the limit.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::Duration;

use super::{GPU_MAX, GPU_MIN, Running, config};
use crate::board::{booted_in, load};
use wattgate_runtime::{ModeId, State};

/// The knobs of an AGX Orin that change its power: one of each kind, and each cluster.
const KNOBS: [&str; 11] = [
    "/sys/devices/system/cpu/cpu3/online",
    "/sys/devices/system/cpu/cpu6/online",
    "/sys/devices/system/cpu/cpu11/online",
    "/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq",
    "/sys/devices/system/cpu/cpufreq/policy4/scaling_max_freq",
    "/sys/devices/system/cpu/cpufreq/policy8/scaling_min_freq",
    GPU_MAX,
    GPU_MIN,
    "/sys/kernel/debug/bpmp/debug/clk/emc/rate",
    "/sys/kernel/debug/bpmp/debug/clk/emc/mrq_rate_locked",
    "/sys/kernel/nvpmodel_emc_cap/emc_iso_cap",
];

/// The ways not to obey. `TOP` is the highest value of the knob, `MIDDLE` one below.
const WAYS: [&str; 14] = [
    "refuse KNOB EBUSY",
    "refuse KNOB EINVAL",
    "refuse KNOB EIO",
    "refuse KNOB EROFS",
    "ignore KNOB",
    "clamp KNOB MIDDLE",
    "floor KNOB MIDDLE",
    "floor KNOB TOP",
    "quantise KNOB STEP",
    "late KNOB 1",
    "revert KNOB 1",
    "unreadable KNOB",
    "vanish KNOB",
    "every 1 write KNOB TOP",
];

fn command(way: &str, knob: &str) -> String {
    let [top, middle, step] = match knob {
        knob if knob.ends_with("online") || knob.ends_with("locked") => [1, 1, 2],
        knob if knob.contains("cpufreq") => [2_201_600, 1_190_400, 500_000],
        knob if knob.contains("devfreq") => [1_300_500_000, 726_750_000, 200_000_000],
        _ => [3_199_000_000, 2_133_000_000, 1_000_000_000],
    }
    .map(|value: u64| value.to_string());
    way.replace("KNOB", knob)
        .replace("TOP", &top)
        .replace("MIDDLE", &middle)
        .replace("STEP", &step)
}

/// What became of a run.
#[derive(Debug)]
struct Cell {
    /// The longest time with a true mean of 430 ms over the limit after the first two seconds, in s.
    over_s: f64,
    /// The highest such mean, and the mean power of the last ten seconds, in W.
    highest_w: f64,
    mean_w: f64,
    /// Minibatches per second over the last ten seconds.
    rate: f64,
    changes_per_min: f64,
    lines_per_min: f64,
    state: State,
}

/// Starts ResNet-18 in MAXN, injects the faults, and then lets control hold a limit.
fn run(faults: &[String], limit: &str, seconds: u64) -> (Cell, Running) {
    const SPAN: usize = 43;
    let limit_w: f64 = limit.trim_end_matches('W').parse().expect("watts");
    let mut files = booted_in("orin-agx-64", 0);
    load(&mut files);
    let mut running = Running::with(files, config(limit));
    for fault in faults {
        running.inject(fault);
    }
    let start = running.now();
    let mut means: VecDeque<(f64, f64)> = VecDeque::new();
    let (mut over_s, mut longest_s, mut highest_w) = (0.0, 0.0_f64, 0.0_f64);
    let mut last = (0.0, 0.0);
    while running.now() < start + Duration::from_secs(seconds) {
        running.look();
        let now = running.now();
        // Then nothing draws less than what the other knobs reach.
        let is_least = running.control.status().0.mode == ModeId::LEAST;
        let jetson = running.control.files().tree.jetson();
        let at = (now - start).as_secs_f64();
        means.push_back((at, jetson.energy_j()));
        while means.len() > 2 && means[1].0 <= at - 0.01 * SPAN as f64 {
            means.pop_front();
        }
        let (from, energy) = means[0];
        let mean_w = (jetson.energy_j() - energy) / (at - from).max(1e-9);
        let passed_s = means.back().expect("one").0 - means[means.len().saturating_sub(2)].0;
        if at > 2.0 && at - from > 0.42 {
            highest_w = highest_w.max(mean_w);
            over_s = if mean_w > 1.005 * limit_w && !is_least {
                over_s + passed_s
            } else {
                0.0
            };
            longest_s = longest_s.max(over_s);
        }
        if at < seconds as f64 - 10.0 {
            last = (jetson.energy_j(), jetson.minibatches());
        }
    }
    let jetson = running.control.files().tree.jetson();
    let (energy, work) = (jetson.energy_j(), jetson.minibatches());
    let (status, _) = running.control.status();
    let minutes = seconds as f64 / 60.0;
    let cell = Cell {
        over_s: longest_s,
        highest_w,
        mean_w: (energy - last.0) / 10.0,
        rate: (work - last.1) / 10.0,
        changes_per_min: f64::from(status.changes) / minutes,
        lines_per_min: running.log.len() as f64 / minutes,
        state: status.state,
    };
    (cell, running)
}

fn line(name: &str, cell: &Cell) -> String {
    format!(
        "{name:<95} over {:5.2} s, highest {:5.2} W, mean {:5.2} W, {:5.2}/s, {:4.1} changes and {:4.1} lines a \
         minute, {:?}\n",
        cell.over_s,
        cell.highest_w,
        cell.mean_w,
        cell.rate,
        cell.changes_per_min,
        cell.lines_per_min,
        cell.state
    )
}

/// Longest time over the limit that an answer may take: the sensor has a low-pass of 430 ms, and the mean of
/// 430 ms needs as long to fall.
const REACTION_S: f64 = 1.0;

#[test]
fn each_knob_may_disobey_in_each_way() {
    let (free, _) = run(&[], "20W", 60);
    let mut table = line("none", &free);
    let mut failed = String::new();
    for knob in KNOBS {
        for way in WAYS {
            let fault = command(way, knob);
            let (cell, running) = run(std::slice::from_ref(&fault), "20W", 60);
            let text = line(&fault, &cell);
            table += &text;
            let is_quiet = cell.lines_per_min <= 15.0 && cell.changes_per_min <= 12.0;
            if cell.over_s > REACTION_S || !is_quiet {
                let _ = writeln!(failed, "{text}{:#?}", running.log);
            }
        }
    }
    println!("{table}");
    assert!(failed.is_empty(), "{failed}");
}

/// The number of random runs. 3,000 of them held as well.
const RANDOM: usize = 150;

/// Faults of two or three knobs that come and go at random times.
#[test]
fn knobs_may_disobey_together_and_for_a_time() {
    let mut state = 1_u64;
    let mut below = |most: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % most
    };
    let mut failed = String::new();
    for _ in 0..RANDOM {
        let mut faults = Vec::new();
        for _ in 0..2 + below(2) {
            let (knob, way) = (KNOBS[below(KNOBS.len())], WAYS[below(WAYS.len())]);
            let (from, to) = (below(20), 25 + below(40));
            let ends = if way.starts_with("every") {
                "stop".to_owned()
            } else {
                format!("allow {knob}")
            };
            faults.push(format!("at {from} {}", command(way, knob)));
            faults.push(format!("at {to} {ends}"));
        }
        let limit = ["16W", "20W", "28W"][below(3)];
        let (cell, running) = run(&faults, limit, 60);
        if cell.over_s > REACTION_S || cell.lines_per_min > 60.0 {
            let _ = writeln!(
                failed,
                "{}{:#?}",
                line(&format!("{limit} {faults:?}"), &cell),
                running.log
            );
        }
    }
    assert!(failed.is_empty(), "{failed}");
}
