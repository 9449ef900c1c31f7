//! The backstop in hardware: it follows the limit, and outlives the control.

use std::time::Duration;

use super::{Running, config_of, limit};
use crate::board::{Simulated, booted, discover, load};
use wattgate_board::Files;
use wattgate_watchdog::config::Config;
use wattgate_watchdog::setup::SetupError;

const CRITICAL: &str = "/sys/class/hwmon/hwmon0/curr1_crit";

fn config(board: &str, limit: &str) -> Config {
    let mut config = config_of(board, limit);
    config.backstop = Some(Default::default());
    config
}

fn working(board: &str) -> Simulated {
    let mut files = booted(board);
    load(&mut files);
    files
}

/// A Nano whose daemon knows its own limits.
fn nano(limit: &str) -> Running {
    let files = working("orin-nano-8-super");
    let own = discover(&files).save(&files).expect("saved");
    let mut running = Running::with(files, config("orin-nano-8-super", limit));
    running.control.keep_own(&own);
    running
}

fn critical_ma(running: &mut Running) -> i64 {
    let text = running.control.files().tree.read(CRITICAL).expect("a file");
    text.trim().parse().expect("a number")
}

/// Beyond what the command `power` allows.
fn set_power_factor(running: &mut Running, factor: f64) {
    let jetson = running.control.files().tree.jetson_mut();
    jetson.set_power_factor(factor);
}

/// Whether the limit is that of so many watts and the margin: at 5 V, less twice the offset of 40 mW.
fn is_set_for(running: &mut Running, watts: i64) -> bool {
    let most = 1_200 * watts / 5;
    (most - 100..most).contains(&critical_ma(running))
}

/// The highest true mean of 10 ms in some seconds without any step, in W.
fn unattended(running: &mut Running, seconds: u32) -> f64 {
    let files = running.control.files();
    files.wait(Duration::from_millis(20));
    let mut most = 0_f64;
    for _ in 0..100 * seconds {
        let before = files.tree.jetson().energy_j();
        files.wait(Duration::from_millis(10));
        most = most.max((files.tree.jetson().energy_j() - before) / 0.01);
    }
    most
}

#[test]
fn the_limits_are_set_before_the_first_step_and_follow_the_limit() {
    let mut running = nano("15W");
    assert!(is_set_for(&mut running, 15));
    running.run(10);
    running.control.set_limit(limit(10));
    assert!(is_set_for(&mut running, 10));
    running.control.set_limit(limit(100));
    assert_eq!(critical_ma(&mut running), 4_984);
}

#[test]
fn a_healthy_governor_is_not_slowed_by_the_backstop() {
    let steps = |mut running: Running| {
        running.run(60);
        let jetson = running.control.files().tree.jetson();
        let before = jetson.minibatches();
        running.run(120);
        running.control.files().tree.jetson().minibatches() - before
    };
    let without = Running::with(
        working("orin-nano-8-super"),
        config_of("orin-nano-8-super", "15W"),
    );
    let (with, without) = (steps(nano("15W")), steps(without));
    assert!(with > 0.98 * without, "{with} of {without} steps");
}

#[test]
fn a_dead_control_stays_below_the_limit_and_the_margin() {
    for (board, watts) in [
        ("orin-nano-8-super", 16),
        ("orin-agx-64", 40),
        ("orin-agx-64-jp6", 40),
    ] {
        let model = board.trim_end_matches("-jp6");
        let files = working(board);
        let own = discover(&files).save(&files).expect("saved");
        let mut running = Running::with(files, config(model, &format!("{watts}W")));
        running.control.keep_own(&own);
        running.run(30);
        for factor in [1.2, 1.4, 1.6] {
            set_power_factor(&mut running, factor);
            let most = unattended(&mut running, 20);
            let bound = 1.2 * f64::from(watts);
            assert!(most <= bound, "{board}, {factor}: {most} of {bound} W");
        }
    }
}

/// A client that has the board holds a limit of its own.
#[test]
fn a_yielded_board_has_its_own_limits() {
    let mut running = nano("15W");
    running.run(5);
    running.control.set_yielded(true);
    assert_eq!(critical_ma(&mut running), 4_984);
    running.control.set_limit(limit(10));
    running.run(5);
    assert_eq!(critical_ma(&mut running), 4_984);
    running.control.set_yielded(false);
    running.run(2);
    assert!(is_set_for(&mut running, 10));
}

#[test]
fn a_failure_and_a_change_by_another_program_are_named_once() {
    let mut running = nano("15W");
    running.run(5);
    running.inject(&format!("write {CRITICAL} 4984"));
    running.run(5);
    assert!(is_set_for(&mut running, 15));
    let changed = "another program changed the backstop; it is set again";
    assert_eq!(running.log.iter().filter(|it| *it == changed).count(), 1);
    running.inject(&format!("refuse {CRITICAL} EIO"));
    running.control.set_limit(limit(10));
    running.run(5);
    let failed = |line: &&String| {
        line.starts_with("the backstop is not set: ") && line.contains("curr1_crit")
    };
    assert_eq!(
        running.log.iter().filter(failed).count(),
        1,
        "{:?}",
        running.log
    );
    running.inject(&format!("allow {CRITICAL}"));
    running.run(2);
    assert!(is_set_for(&mut running, 10));
}

/// A load that swings by more than the margin is throttled without end; the mode is too high for it.
#[test]
fn a_backstop_that_throttles_for_long_lowers_the_mode() {
    let mut running = nano("15W");
    running.run(60);
    let before = running.control.status().0.predicted;
    for _ in 0..400 {
        for factor in [1.6, 0.6] {
            set_power_factor(&mut running, factor);
            let end = running.now() + Duration::from_millis(25);
            while running.now() < end {
                running.step();
            }
        }
    }
    let after = running.control.status().0.predicted;
    assert!(after < before, "{after} after {before}: {:?}", running.log);
    assert!(running.has_logged("over-current"), "{:?}", running.log);
}

#[test]
fn a_board_without_limits_of_the_whole_current_refuses_the_key() {
    let files = working("xavier-agx");
    let error = super::setup(&files, config("xavier-agx", "20W")).expect_err("refused");
    assert!(matches!(error, SetupError::Backstop(_)), "{error}");
    assert_eq!(
        error.to_string(),
        "backstop: this board's power sensors have no limit of its whole current; take the key out, and the daemon holds the limit \
         without it"
    );
}
