//! A bed of faults: every knob disobeys in every way, alone and together with others. Each cell compares the
//! true power with the limit.

use std::fmt::Write as _;
use std::time::Duration;

use super::{Running, config, keep_l4t, setup};
use crate::bed::{
    EMC_CAP, EMC_LOCK, EMC_RATE, GPU_MAX, GPU_MIN, KNOBS, Meter, STUCK, WAYS, command, hungry,
    inject, is_least,
};
use crate::board::Simulated;
use wattgate_board::Files;
use wattgate_runtime::governor::State;

/// What became of a run.
#[derive(Debug)]
struct Cell {
    meter: Meter,
    /// The mean power of the last ten seconds in W.
    mean_w: f64,
    /// Minibatches per second over the last ten seconds.
    rate: f64,
    /// Changes of the mode and lines of the log, in the first minute and in the last one.
    changes: [u32; 2],
    lines: [usize; 2],
    state: State,
}

/// Starts ResNet-18 in MAXN, injects the faults, and then lets control hold a limit.
fn run(faults: &[String], limit_w: u32, seconds: u64) -> (Cell, Running) {
    let mut files = hungry();
    keep_l4t(&mut files);
    let mut running = Running::with(files, config(&format!("{limit_w}W")));
    inject(running.control.files(), faults);
    let mut meter = Meter::new(limit_w.into(), faults, running.control.files());
    let start = running.now();
    let mut last = (0.0, 0.0);
    let (mut first, mut before_last) = (None, (0, 0));
    while running.now() < start + Duration::from_secs(seconds) {
        running.step();
        let passed = running.now() - start;
        let told = (running.control.status().0.changes, running.log.len());
        if passed >= Duration::from_secs(60) {
            first.get_or_insert(told);
        }
        if passed < Duration::from_secs(seconds - 60) {
            before_last = told;
        }
        let files = running.control.files();
        meter.note(files);
        let jetson = files.tree.jetson();
        if jetson.now() < start + Duration::from_secs(seconds - 10) {
            last = (jetson.energy_j(), jetson.minibatches());
        }
    }
    let jetson = running.control.files().tree.jetson();
    let (energy, work) = (jetson.energy_j(), jetson.minibatches());
    let (status, _) = running.control.status();
    let told = (status.changes, running.log.len());
    let first = first.unwrap_or(told);
    let cell = Cell {
        meter,
        mean_w: (energy - last.0) / 10.0,
        rate: (work - last.1) / 10.0,
        changes: [first.0, told.0 - before_last.0],
        lines: [first.1, told.1 - before_last.1],
        state: status.state,
    };
    (cell, running)
}

fn line(name: &str, cell: &Cell) -> String {
    format!(
        "{name:<95} over {:5.2} s, highest {:5.2} W, mean {:5.2} W, {:5.2}/s, changes {:?}, lines {:?}, {:?}\n",
        cell.meter.longest_s,
        cell.meter.highest_w,
        cell.mean_w,
        cell.rate,
        cell.changes,
        cell.lines,
        cell.state
    )
}

/// Longest time over the limit that an answer may take: the sensor has a low-pass of 430 ms, and the mean of
/// 430 ms needs as long to fall.
const REACTION_S: f64 = 1.0;

#[test]
fn each_knob_may_disobey_in_each_way() {
    let (free, _) = run(&[], 20, 180);
    let mut table = line(
        "none, changes and lines in the first and in the third minute",
        &free,
    );
    let mut failed = String::new();
    for knob in KNOBS {
        for way in WAYS {
            let fault = command(way, knob);
            let (cell, running) = run(std::slice::from_ref(&fault), 20, 180);
            let text = line(&fault, &cell);
            table += &text;
            // In the first minute it learns what a knob does.
            let is_quiet = cell.changes[0] <= 12
                && cell.lines[0] <= 15
                && cell.changes[1] <= 6
                && cell.lines[1] <= 10;
            if cell.meter.longest_s > REACTION_S || !is_quiet {
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
        let limit = [16, 20, 28][below(3)];
        let (cell, running) = run(&faults, limit, 60);
        if cell.meter.longest_s > REACTION_S || cell.lines[0] > 60 {
            let _ = writeln!(
                failed,
                "{}{:#?}",
                line(&format!("{limit} W {faults:?}"), &cell),
                running.log
            );
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

/// The true mean power of two seconds in W.
fn power_w(files: &mut Simulated) -> f64 {
    files.wait(Duration::from_secs(1));
    let before = files.tree.jetson().energy_j();
    files.wait(Duration::from_secs(2));
    (files.tree.jetson().energy_j() - before) / 2.0
}

/// `once` measures nothing. So its mode draws what it draws on a board whose knobs obey, or less, or is the
/// least that can be reached.
#[test]
fn once_sets_a_mode_that_the_board_can_be_in() {
    let (mut table, mut failed) = (String::new(), String::new());
    for knob in KNOBS {
        for way in &WAYS[..STUCK] {
            let faults = [command(way, knob)];
            let mut files = hungry();
            let mut setup = setup(&files, config("20W")).expect("usable");
            inject(&mut files, &faults);
            let mut last = setup.safe();
            let set = setup.set_choice(&mut files, |mode, _| last = *mode);
            set.expect("modes of the board");
            let fits = setup.choice().is_ok();
            let power = power_w(&mut files);
            let mut sound = hungry();
            let mut board = crate::board::discover(&sound);
            board.apply(&mut sound, &last).expect("a mode");
            let as_sound = power_w(&mut sound);
            let text = format!(
                "{:<95} {power:5.2} W, {as_sound:5.2} W if all obey, fits: {fits}: {last}\n",
                faults[0]
            );
            let is_well = match fits {
                true => power <= 1.02 * as_sound,
                false => is_least(&files, &faults) && setup.board.disobedient().count() > 0,
            };
            if !is_well {
                failed += &text;
            }
            table += &text;
        }
    }
    println!("{table}");
    assert!(failed.is_empty(), "{failed}");
}

#[test]
fn once_safe_lowers_all_that_obeys() {
    for knob in KNOBS {
        for way in WAYS {
            let faults = [command(way, knob)];
            let mut files = hungry();
            let mut board = crate::board::discover(&files);
            inject(&mut files, &faults);
            let least = board.least();
            board
                .apply(&mut files, &least)
                .expect("a mode of the board");
            files.wait(Duration::from_millis(10));
            assert!(is_least(&files, &faults), "{faults:?}");
        }
    }
}

/// The most minibatches per second within a limit, with a fault, of the modes that a person could set by hand.
fn fastest(fault: &str, limit_w: f64) -> f64 {
    let mut files = hungry();
    inject(&mut files, &[fault.to_owned()]);
    let board = files.tree.jetson().board().clone();
    let mut fastest = 0.0_f64;
    let set = |files: &mut Simulated, path: &str, value: u64| {
        // What is refused stays as it is.
        let _ = files.tree.write(path, &value.to_string());
    };
    let state = |files: &Simulated| {
        let jetson = files.tree.jetson();
        let now = jetson.now().as_secs_f64();
        (now, jetson.calm_energy_j(), jetson.minibatches())
    };
    for cores in (2..=12).step_by(2) {
        for core in 0..12 {
            let path = format!("/sys/devices/system/cpu/cpu{core}/online");
            set(&mut files, &path, u64::from(core < cores));
        }
        for cpu in board.cpu_khz.iter().step_by(2) {
            for policy in [0, 4, 8] {
                for limit in ["min", "max", "min"] {
                    let path = format!(
                        "/sys/devices/system/cpu/cpufreq/policy{policy}/scaling_{limit}_freq"
                    );
                    set(&mut files, &path, (*cpu).into());
                }
            }
            for gpu in &board.gpu_khz {
                for path in [GPU_MIN, GPU_MAX, GPU_MIN] {
                    set(&mut files, path, 1_000 * u64::from(*gpu));
                }
                for emc in &board.emc_khz {
                    let rate = 1_000 * u64::from(*emc);
                    set(&mut files, EMC_CAP, rate);
                    set(&mut files, EMC_LOCK, 1);
                    set(&mut files, EMC_RATE, rate);
                    files.wait(Duration::from_millis(10));
                    let before = state(&files);
                    files.wait(Duration::from_millis(100));
                    let after = state(&files);
                    let seconds = after.0 - before.0;
                    if (after.1 - before.1) / seconds <= limit_w {
                        fastest = fastest.max((after.2 - before.2) / seconds);
                    }
                }
            }
        }
    }
    fastest
}

/// The oracle knows what each mode draws, and keeps its mean within the power that the sensor's error leaves.
/// Nobody may use all of it: the load ripples, and each mean of 430 ms counts.
#[test]
fn with_a_stuck_knob_the_board_is_nearly_as_fast_as_its_best_mode() {
    const ALLOWED_W: f64 = 19.597;
    let (mut table, mut parts) = (String::new(), Vec::new());
    for knob in KNOBS {
        for way in &WAYS[2..STUCK] {
            let fault = command(way, knob);
            let (cell, _) = run(std::slice::from_ref(&fault), 20, 60);
            let best = fastest(&fault, ALLOWED_W);
            let part = 100.0 * cell.rate / best;
            let rate = cell.rate;
            let _ = writeln!(
                table,
                "{fault:<95} {rate:5.2} of {best:5.2}/s: {part:3.0} %"
            );
            parts.push(part);
        }
    }
    println!("{table}");
    parts.sort_by(f64::total_cmp);
    let slow = parts.iter().filter(|part| **part < 90.0).count();
    println!(
        "{slow} of {} cells below 90 %, median {:.0} %",
        parts.len(),
        parts[parts.len() / 2]
    );
    // Where a GPU or the first cluster stays at its top, the least that is left draws 90 % of the limit and more.
    assert!(5 * slow <= parts.len(), "{table}");
    assert!(parts[parts.len() / 2] >= 97.0, "{table}");
}

/// The GPU does what is requested a second late, so the daemon takes it for stuck at its highest clock. The least
/// mode then draws far more than predicted. The daemon must not conclude that every mode does, and stay there.
#[test]
fn a_least_mode_out_of_reach_tells_nothing_of_the_load() {
    let (free, _) = run(&[], 20, 60);
    let (cell, running) = run(&[command("late KNOB 1", GPU_MAX)], 20, 60);
    let log = &running.log;
    assert!(
        cell.rate > 0.8 * free.rate,
        "{} of {}/s: {log:#?}",
        cell.rate,
        free.rate
    );
}

/// The least mode draws more than its prediction, since the GPU keeps its highest clock. A limit that nothing can
/// reach is raised later; the board must not take the least mode's power for the load's and stay there.
#[test]
fn a_limit_out_of_reach_may_be_raised_later() {
    let (free, _) = run(&[], 30, 60);
    for fault in [
        command("floor KNOB TOP", GPU_MAX),
        command("floor KNOB MIDDLE", GPU_MAX),
    ] {
        let (_, mut running) = run(std::slice::from_ref(&fault), 10, 60);
        running.control.set_limit(config("30W").limit);
        running.run(120);
        let rate = |it: &mut Running| it.control.files().tree.jetson().minibatches();
        let before = rate(&mut running);
        let most = running.run(20);
        let rate = (rate(&mut running) - before) / 20.0;
        // A GPU at its top leaves 28 W with few cores.
        let figures = format!(
            "{fault}: {rate:.2} of {:.2}/s, {most:.2} W: {:#?}",
            free.rate, running.log
        );
        assert!(rate > 0.5 * free.rate && most < 30.0, "{figures}");
    }
}
