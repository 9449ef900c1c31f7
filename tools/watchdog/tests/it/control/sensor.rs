//! The power sensor: its faults, its errors, its bus and its averaging.

use std::collections::BTreeSet;

use super::{Running, config, config_of, limit, orin, setup};
use crate::board::{self, booted, load};
use wattgate_runtime::Milliseconds;
use wattgate_runtime::governor::{Cause, State};
use wattgate_watchdog::control::Control;

#[test]
fn without_a_sensor_the_safe_mode_is_set_within_two_seconds() {
    let mut running = Running::new(orin(), "30W");
    running.run(20);
    running.inject("sensor VDD_GPU_SOC missing");
    running.run(2);
    assert_eq!(running.state(), State::Safe(Cause::NoSensor));
    assert!(running.is_as_wanted());
    let gone = "the power sensor cannot be read, so the least mode is set until it can: power of rail VDD_GPU_SOC: the sensor's \
                file is missing; `dmesg` shows its driver's errors";
    let count = running.log.iter().filter(|line| *line == gone).count();
    assert_eq!(count, 1, "{:?}", running.log);
    running.inject("sensor VDD_GPU_SOC ok");
    running.run(90);
    assert!(
        !matches!(running.state(), State::Safe(_)),
        "{:?}",
        running.log
    );
    assert!(running.has_logged("the power sensor is readable again"));
}

/// The sensor's driver is bound anew: its files have another number.
#[test]
fn a_sensor_that_returns_elsewhere_is_found() {
    let mut running = Running::new(orin(), "30W");
    running.run(20);
    let now = running.now();
    let before = running.control.files().tree.list("/sys/class/hwmon");
    // Another seed numbers the hwmon devices from another start.
    let files = running.control.files();
    files.tree = board::seeded("orin-agx-64", 1).tree;
    files.tree.control("load resnet18").expect("a command");
    files.tree.advance(now);
    assert_ne!(files.tree.list("/sys/class/hwmon"), before);
    running.run(20);
    assert!(running.has_logged("the power sensor is readable again"));
    let most = running.run(60);
    assert!((20.0..30.3).contains(&most), "{most} W: {:?}", running.log);
    assert_eq!(running.state(), State::Tracking);
}

/// Under a constant load, the governor probes readings that stand still for 30 s.
#[test]
fn a_frozen_sensor_counts_as_missing() {
    let mut running = Running::new(orin(), "30W");
    running.run(20);
    for rail in ["VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"] {
        running.inject(&format!("sensor {rail} frozen"));
    }
    running.run(40);
    assert_eq!(running.state(), State::Safe(Cause::NoSensor));
}

/// The limit is reduced by the sensor's typical offset (354 mW on an AGX Orin) and gain error
/// (0.25 %).
#[test]
fn the_errors_of_the_sensor_reduce_the_limit() {
    let setup = setup(&orin(), config("40W")).expect("usable");
    let control = Control::new(setup, orin());
    let allowed = f64::from(control.status().0.allowed.0);
    assert!(
        (allowed - (40_000.0 - 354.0) / 1.0025).abs() < 2.0,
        "{allowed}"
    );
}

/// The driver of a Xavier shows no shunts, so steps are inferred from readings. The GPU reads 0 at
/// discovery, so its step is known only under load; CV has no load and keeps 20 mA. The board's
/// tests explain the offsets.
#[test]
fn readings_of_a_xavier_under_load_only_raise_the_allowed_power() {
    const LIMIT: u32 = 15_000;
    let allowed_at = |offset_mw: f64| (f64::from(LIMIT) - offset_mw) / 1.0025;
    let files = booted("xavier-agx");
    let config = config_of("xavier-agx", "15W");
    let at_discovery = setup(&files, config.clone()).expect("usable");
    let once = at_discovery.choice().expect("a mode that fits").mode;
    let mut running = Running::with(files, config);
    running.control.step(Milliseconds(0), &mut |_| {});
    let (first, mode) = running.control.status();
    assert_eq!(mode, at_discovery.first());
    assert_eq!(mode, at_discovery.mode(once));
    load(running.control.files());
    let mut allowed = vec![first.allowed];
    for _ in 0..40 {
        running.run(1);
        allowed.push(running.control.status().0.allowed);
    }
    let is_at = |at: usize, offset_mw| {
        let difference = f64::from(allowed[at].0) - allowed_at(offset_mw);
        difference.abs() < 2.0
    };
    assert!(is_at(0, 381.0) && is_at(40, 310.0), "{allowed:?}");
    assert!(allowed.is_sorted(), "{allowed:?}");
    let most = running.run(30);
    assert!((12.0..15.15).contains(&most), "{most} W");
}

/// Prints the share of I2C bus time that sensor reads take under a constant load near the limit. It
/// depends on how close the mode comes to the limit: 4.3 … 6.5 % on an Orin.
/// Reading a register takes 0.55 ms (`jetson-platform.md`, section 6.3).
#[test]
fn sensor_reads_take_at_most_six_percent_of_the_bus_on_average() {
    const REGISTER_S: f64 = 0.55e-3;
    const SECONDS: u64 = 120;
    let mut of_orin = Vec::new();
    for (board, watts) in [
        ("orin-agx-64", "26W"),
        ("orin-agx-64", "28W"),
        ("orin-agx-64", "30W"),
        ("orin-agx-64", "32W"),
        ("orin-agx-64", "36W"),
        ("orin-nano-8-super", "15W"),
        ("xavier-agx", "20W"),
    ] {
        let mut files = booted(board);
        let rails = files.tree.jetson().board().rails.iter();
        let buses = rails.map(|rail| rail.chip.split('-').next().map(str::to_owned));
        let buses: BTreeSet<Option<String>> = buses.collect();
        assert_eq!(buses.len(), 1, "{board}: all chips are on one bus");
        load(&mut files);
        let mut running = Running::with(files, config_of(board, watts));
        running.run(60);
        let before = running.control.files().registers.get();
        running.steps = 0;
        running.run(SECONDS);
        let registers = running.control.files().registers.get() - before;
        let part = registers as f64 * REGISTER_S / SECONDS as f64;
        println!(
            "| {board}: reads of the I2C bus, looks and glances a second | {:.1} % of it, {:.1} |",
            100.0 * part,
            f64::from(running.steps) / SECONDS as f64
        );
        assert!(part > 0.0 && part <= 0.07, "{board} at {watts}: {part}");
        if board == "orin-agx-64" {
            of_orin.push(part);
        } else {
            assert!(part <= 0.06, "{board}: {part}");
        }
    }
    let mean = of_orin.iter().sum::<f64>() / of_orin.len() as f64;
    assert!(mean <= 0.06, "{of_orin:?}");
}

#[test]
fn averaging_is_set_again_after_another_writer() {
    let mut running = Running::new(orin(), "30W");
    running.run(2);
    let line = "the power sensor has a time constant of 54 ms";
    let times = |running: &Running| running.log.iter().filter(|it| *it == line).count();
    assert_eq!(times(&running), 1, "{:?}", running.log);
    assert_eq!(running.board.averaging(running.control.files()), Ok(64));
    // nvpower writes this at boot. The control detects and corrects it within a second.
    running.inject("write /sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon0/samples 512");
    running.run(3);
    assert_eq!(running.board.averaging(running.control.files()), Ok(64));
    assert_eq!(times(&running), 1, "{:?}", running.log);
    running.run(20);
    let most = running.run(30);
    assert!(most < 30.3, "{most} W");
}

/// The board's own settings, as the daemon knows them.
fn keep_own(running: &mut Running) {
    let own = running.board.save(running.control.files()).expect("saved");
    running.control.keep_own(&own);
}

#[test]
fn the_averaging_from_before_returns_at_the_end_and_with_a_yielded_board() {
    let mut running = Running::new(orin(), "30W");
    keep_own(&mut running);
    running.run(2);
    assert_eq!(running.board.averaging(running.control.files()), Ok(64));
    running.control.set_yielded(true);
    assert_eq!(running.board.averaging(running.control.files()), Ok(512));
    running.run(2);
    assert_eq!(running.board.averaging(running.control.files()), Ok(512));
    running.control.set_yielded(false);
    running.run(2);
    assert_eq!(running.board.averaging(running.control.files()), Ok(64));
    let (_, board, files) = running.control.rest().expect("a mode");
    assert_eq!(board.averaging(&files), Ok(512));
}

/// The sensor of an Orin Nano warns from 4,984 mA on, about 25 W.
#[test]
fn a_warning_limit_near_the_limit_keeps_the_averaging() {
    let mut files = booted("orin-nano-8-super");
    load(&mut files);
    let mut running = Running::with(files, config_of("orin-nano-8-super", "20W"));
    keep_own(&mut running);
    for (watts, samples) in [(20, 512), (15, 64), (19, 512)] {
        running.control.set_limit(limit(watts));
        running.run(2);
        let found = running.board.averaging(running.control.files());
        assert_eq!(found, Ok(samples), "{watts} W: {:?}", running.log);
    }
    assert!(
        !running.has_logged("the power sensor averages as before"),
        "{:?}",
        running.log
    );
}

#[test]
fn an_averaging_that_cannot_be_set_is_named_once_and_the_limit_holds() {
    let mut running = Running::new(orin(), "30W");
    let samples = "/sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon0/samples";
    running.inject(&format!("refuse {samples} EROFS"));
    running.run(20);
    assert_eq!(running.board.averaging(running.control.files()), Ok(512));
    let lines = running.log.iter().filter(|it| it.contains("samples: "));
    assert_eq!(lines.count(), 1, "{:?}", running.log);
    let most = running.run(30);
    assert!((24.0..30.3).contains(&most), "{most} W");
}

/// Where the averaging is left alone, because a warning limit is near, another program may change it.
#[test]
fn control_follows_a_time_constant_that_another_program_sets() {
    let mut files = booted("orin-nano-8-super");
    load(&mut files);
    let mut running = Running::with(files, config_of("orin-nano-8-super", "19W"));
    running.run(20);
    running.inject("write /sys/class/hwmon/hwmon0/samples 1024");
    running.run(2);
    let line = "the power sensor has a time constant of 860 ms";
    assert!(running.has_logged(line), "{:?}", running.log);
    let most = running.run(30);
    assert!(most < 19.3, "{most} W");
}
