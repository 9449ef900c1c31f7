//! Limits of the power, of its average and of the current, and what restricts the modes.

use std::time::Duration;

use super::{Running, config, config_of, keep_l4t, limit, orin, setup};
use crate::board::{booted, load};
use wattgate_board::{Clocks, Files};
use wattgate_cli::aim::{By, Wanted};
use wattgate_runtime::governor::{Average, Cause, State};
use wattgate_runtime::{Limit, Milliseconds, Milliwatts, ModeId, Objective};
use wattgate_watchdog::control::{Control, Event};
use wattgate_watchdog::quantity::{Cores, Deadline, Milliamperes};
use wattgate_watchdog::setup::SetupError;

#[test]
fn a_limit_is_held_and_used() {
    let mut running = Running::new(orin(), "30W");
    running.run(20);
    let most = running.run(60);
    assert!((26.0..30.3).contains(&most), "{most} W: {:?}", running.log);
    assert_eq!(running.state(), State::Tracking);
    assert!(running.is_as_wanted());
}

/// The board's lowest mode is none of the model's, so its predicted power is a guess. What it draws decides.
#[test]
fn a_limit_just_above_the_lowest_mode_needs_few_changes() {
    for watts in ["11.5W", "12W", "12.5W"] {
        let mut running = Running::with(orin(), config_of("orin-agx-64", watts));
        running.run(20);
        let before = running.control.status().0.changes;
        let most = running.run(120);
        let (status, _) = running.control.status();
        let changes = status.changes - before;
        assert!(
            changes <= 12,
            "{watts}: {changes} changes: {:?}",
            running.log
        );
        let limit: f64 = watts.trim_end_matches('W').parse().expect("a number");
        assert!(most < 1.02 * limit, "{watts}: {most} W");
    }
}

/// Nobody knows how slow the lowest mode is, if it is none of the model's.
#[test]
fn a_deadline_is_never_left_to_a_mode_whose_time_is_a_guess() {
    for deadline in ["1700ms", "2s", "100s"] {
        let mut config = config_of("orin-agx-64", "30W");
        let deadline = Deadline::parse(deadline).expect("a time").0;
        for objective in [Objective::Power, Objective::Energy, Objective::EnergyDelay] {
            config.aim = Wanted {
                objective,
                by: Some(By::Step(deadline)),
            };
            let chosen = setup(&orin(), config.clone()).expect("usable").choice();
            assert_ne!(chosen.expect("a mode").mode, ModeId::LEAST);
            let mut running = Running::with(orin(), config.clone());
            running.run(60);
            assert_ne!(running.control.status().0.mode, ModeId::LEAST);
        }
    }
    // Without one, it is the mode of least power.
    let mut config = config_of("orin-agx-64", "30W");
    config.aim = Wanted {
        objective: Objective::Power,
        by: None,
    };
    let chosen = setup(&orin(), config).expect("usable").choice();
    assert_eq!(chosen.expect("a mode").mode, ModeId::LEAST);
}

#[test]
fn a_new_limit_is_held_after_two_seconds() {
    let mut running = Running::new(orin(), "40W");
    running.run(30);
    running.control.set_limit(limit(25));
    running.run(2);
    let most = running.run(30);
    assert!(most < 25.3, "{most} W: {:?}", running.log);
    // The governor takes up to 90 s to trust a load that is lighter than the model predicts.
    running.control.set_limit(limit(40));
    running.run(150);
    let most = running.run(20);
    // The model predicts a third more than the board draws; the governor corrects this slowly.
    assert!((28.0..40.4).contains(&most), "{most} W: {:?}", running.log);
}

/// A supply whose voltage falls with the load: the current at the input counts, not the power.
#[test]
fn a_limit_of_the_current_is_held_and_used() {
    for (supply, amps) in [
        ("supply 5200 10", 2.0),
        ("supply 5250 150", 2.0),
        ("supply 19000 50", 0.6),
    ] {
        let mut files = booted("orin-nano-8-super");
        files.tree.control(supply).expect("a command");
        // The current counts on average.
        keep_l4t(&mut files);
        load(&mut files);
        files.wait(Duration::from_secs(5));
        let config = config_of("orin-nano-8-super", &format!("{amps}A"));
        let mut running = Running::with(files, config);
        running.run(60);
        let currents = running.input_amperes();
        let mean = currents.iter().sum::<f64>() / currents.len() as f64;
        let most = currents.iter().copied().fold(0.0, f64::max);
        assert!(most < 1.01 * amps, "{supply}: {most} A: {:?}", running.log);
        assert!(mean > 0.85 * amps, "{supply}: {mean} A: {:?}", running.log);
    }
}

/// As a reload of the config does. The power limit stays that of the higher current.
#[test]
fn a_lower_limit_of_the_current_replaces_the_first() {
    let mut files = booted("orin-nano-8-super");
    load(&mut files);
    let mut running = Running::with(files, config_of("orin-nano-8-super", "2.5A"));
    running.run(60);
    assert!(running.input_amperes().into_iter().any(|it| it > 1.9));
    let lower = Milliamperes(1_600);
    running.control.set_current(Some(lower));
    running.run(2);
    let most = running.input_amperes().into_iter().fold(0.0, f64::max);
    assert!(most < 1.62, "{most} A: {:?}", running.log);
}

/// A battery that is nearly empty.
#[test]
fn a_limit_of_the_current_follows_the_voltage() {
    let mut files = booted("orin-nano-8-super");
    files.tree.control("supply 19000 50").expect("a command");
    load(&mut files);
    files.wait(Duration::from_secs(5));
    let mut running = Running::with(files, config_of("orin-nano-8-super", "0.6A"));
    running.run(60);
    let most = |running: &mut Running| running.input_amperes().into_iter().fold(0.0, f64::max);
    let full = most(&mut running);
    assert!(full > 0.55, "{full} A: {:?}", running.log);
    running.inject("supply 15000 50");
    running.run(3);
    let empty = most(&mut running);
    assert!(empty < 0.606, "{empty} A: {:?}", running.log);
}

#[test]
fn a_limit_of_the_current_needs_a_sensor_at_the_input() {
    let error = setup(&orin(), config("2A")).expect_err("VDD_IN is missing");
    assert!(matches!(error, SetupError::NoInput), "{error}");
}

#[test]
fn only_modes_with_the_configured_cores_are_chosen() {
    for (least, most) in [(4, 4), (6, 8)] {
        let mut config = config("30W");
        config.cores = Some(Cores { least, most });
        let setup = setup(&orin(), config.clone()).expect("usable");
        let cores = |id| setup.choices.mode(id).expect("a mode").cores;
        let mut points = setup.choices.front.points().iter();
        assert!(points.all(|point| (least..=most).contains(&cores(point.mode))));
        let mut running = Running::with(orin(), config);
        let watts = running.run(60);
        assert!((20.0..30.3).contains(&watts), "{watts} W");
        let (_, mode) = running.control.status();
        assert!((least..=most).contains(&mode.cores), "{mode}");
    }
    let mut config = config("30W");
    config.cores = Some(Cores {
        least: 13,
        most: 64,
    });
    let error = setup(&orin(), config).expect_err("12 cores");
    assert!(
        error
            .to_string()
            .ends_with("that the board supports has 13 to 64 cores; there are 2, 4, 6, 8, 10, 12")
    );
}

/// At rest Linux runs the clocks below those of the mode. Under load the limit holds, as with
/// pinned clocks.
#[test]
fn capped_clocks_hold_the_limit_and_save_energy_at_rest() {
    let rest = |clocks| {
        let mut config = config("30W");
        config.clocks = clocks;
        let mut running = Running::with(orin(), config);
        running.run(20);
        let most = running.run(60);
        assert!((26.0..30.3).contains(&most), "{most} W: {:?}", running.log);
        assert!(running.is_as_wanted() == (clocks == Clocks::Pin));
        running.inject("load off");
        running.run(30);
        let joules = running.control.files().tree.jetson().energy_j();
        running.run(30);
        let rest = (running.control.files().tree.jetson().energy_j() - joules) / 30.0;
        running.inject("load resnet18");
        let most = running.run(60);
        assert!(most < 30.3, "{most} W: {:?}", running.log);
        rest
    };
    let (pinned, capped) = (rest(Clocks::Pin), rest(Clocks::Cap));
    assert!(capped < 0.9 * pinned, "{capped} W, pinned {pinned} W");
}

#[test]
fn an_average_is_held() {
    let average = Some(Average {
        power: Milliwatts(22_000),
        window: Milliseconds(60_000),
    });
    let mut running = Running::new(orin(), "40W");
    let power = Milliwatts(40_000);
    running.control.set_limit(Limit {
        average,
        ..Limit::from_power(power)
    });
    running.run(120);
    let before = running.control.files().tree.jetson().energy_j();
    let from = running.now();
    running.run(180);
    let energy = running.control.files().tree.jetson().energy_j() - before;
    let watts = energy / (running.now() - from).as_secs_f64();
    assert!((18.0..22.5).contains(&watts), "{watts} W");
}

#[test]
fn a_limit_below_the_least_mode_is_logged_and_the_least_mode_stays() {
    let mut running = Running::new(orin(), "2W");
    running.run(10);
    assert_eq!(running.state(), State::Safe(Cause::CannotHold));
    assert!(running.has_logged("even the mode of least power is above the limit"));
    assert!(running.is_as_wanted());
}

#[test]
fn heat_lowers_the_limit() {
    let mut files = orin();
    let zones = files.tree.files().map(|(path, _)| path.to_owned());
    let zones: Vec<String> = zones.filter(|path| path.ends_with("/temp")).collect();
    for zone in zones {
        files.shown.insert(zone, Ok(b"96000\n".to_vec()));
    }
    let mut config = config("40W");
    config.too_hot_mc = Some(95_000);
    let setup = setup(&files, config).expect("usable");
    let mut control = Control::new(setup, files);
    let mut log = Vec::new();
    let mut emit = |event: Event<'_>| log.push(event.to_string());
    for second in 0..20 {
        control.step(Milliseconds(1_000 * second), &mut emit);
        control.files().wait(Duration::from_secs(1));
    }
    let allowed = control.status().0.allowed;
    assert!(allowed.0 <= 20_100, "{allowed}");
    assert!(
        log.contains(&"too hot: the limit is lowered".to_owned()),
        "{log:?}"
    );
}

#[test]
fn a_violation_is_listed_with_its_time_its_size_and_the_answer() {
    let mut running = Running::new(orin(), "30W");
    running.inject("power 0.7");
    running.run(200);
    assert_eq!(running.control.violations().count(), 0);
    let before = running.now();
    running.inject("power 1.3");
    running.run(10);
    let last = running.control.violations().next().copied();
    let last = last.expect("a violation");
    let at = Duration::from_millis(last.at.0);
    assert!(
        at > before && at < before + Duration::from_secs(1),
        "{last:?}"
    );
    assert!(
        last.allowed.0 > 29_000 && last.allowed.0 < 30_000,
        "{last:?}"
    );
    // A jump to nearly twice the work's power is over for some hundred ms.
    assert!((1..=600).contains(&last.over.0), "{last:?}");
    let highest = last.highest.expect("a mean").0;
    assert!(highest > last.allowed.0 && highest < 56_000, "{last:?}");
    for _ in 0..12 {
        running.inject("power 0.7");
        running.run(200);
        running.inject("power 1.3");
        running.run(5);
    }
    let count = running.control.status().0.violations as usize;
    assert_eq!(running.control.violations().count(), count.min(8));
    let times = running.control.violations().map(|it| it.at.0);
    assert!(times.is_sorted_by(|newer, older| newer > older));
}
