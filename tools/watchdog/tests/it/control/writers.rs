//! Other programs that write the knobs, and knobs that refuse writes.

use std::time::Duration;

use super::{GPU_MAX, GPU_MIN, Running, config, limit, orin, setup};
use wattgate_board::Files;
use wattgate_runtime::Milliseconds;
use wattgate_runtime::governor::{Cause, State};
use wattgate_watchdog::control::{Control, Event, Throttling};

#[test]
fn another_writer_is_overruled_and_logged() {
    for writer in ["nvpmodel 2", "jetson-clocks", "service"] {
        let mut running = Running::new(orin(), "25W");
        running.run(20);
        running.inject(writer);
        running.run(1);
        assert!(running.is_as_wanted(), "{writer}: {:?}", running.log);
        let most = running.run(20);
        assert!(most < 25.3, "{writer}: {most} W");
    }
    let mut running = Running::new(orin(), "15W");
    running.run(20);
    running.inject("nvpmodel 2");
    running.run(1);
    let named = "nvpmodel changed the mode: ";
    assert!(running.has_logged(named), "{:?}", running.log);
    let mut running = Running::new(orin(), "25W");
    running.run(20);
    // A lower minimum clock does not change the power, so only the read-back detects it.
    running.inject(&format!("write {GPU_MIN} 114750000"));
    running.run(1);
    assert!(
        running.has_logged(&format!("another program changed the mode: {GPU_MIN}: ")),
        "{:?}",
        running.log
    );
}

#[test]
fn a_clock_that_another_program_lowers_is_set_again() {
    let mut running = Running::new(orin(), "30W");
    running.run(20);
    running.inject(&format!("write {GPU_MIN} 114750000"));
    running.inject(&format!("write {GPU_MAX} 114750000"));
    running.run(1);
    assert!(running.has_logged("another program lowered a clock"));
    assert!(!running.has_logged("cooling"), "{:?}", running.log);
    assert_eq!(running.control.throttling(), Throttling::default());
    assert!(running.is_as_wanted());
}

/// While the board is hot, a program lowers a clock below the cap. When it has cooled down, the
/// mode is whole again within the interval of the requests.
#[test]
fn a_clock_that_is_lowered_below_a_cap_returns() {
    let mut running = Running::new(orin(), "30W");
    running.run(20);
    running.inject("cool gpu 420750");
    running.run(5);
    running.inject(&format!("write {GPU_MIN} 114750000"));
    running.inject(&format!("write {GPU_MAX} 216750000"));
    running.run(5);
    running.inject("cool gpu off");
    running.run(12);
    assert_eq!(running.control.throttling(), Throttling::default());
    assert!(running.is_as_wanted());
}

/// What the GPU draws at its highest clock is not the load's power: its level stays what it was.
#[test]
fn the_power_of_another_programs_mode_is_not_booked_to_the_load() {
    for watts in ["15W", "20W"] {
        let mut running = Running::new(orin(), watts);
        running.run(70);
        let level = |it: &Running| f64::from(it.control.status().0.ratio) / 65_536.0;
        let before = level(&running);
        for tenth in 0..8 {
            let now = running.now().as_secs_f64() + 0.01 * f64::from(tenth);
            running.inject(&format!("at {now} write {GPU_MAX} 1300500000"));
            running.run(30);
            assert_eq!(running.state(), State::Tracking, "{:?}", running.log);
            let now = level(&running);
            assert!(now <= 1.03 * before, "{watts}: {before}, then {now}");
        }
        let changes = running.control.status().0.changes;
        assert!(changes <= 8, "{watts}: {changes} {:?}", running.log);
    }
}

/// Each write is answered before the mean of 430 ms can rise much, and the log stays readable.
#[test]
fn a_program_that_raises_a_clock_every_second_changes_nothing() {
    let mut running = Running::new(orin(), "20W");
    running.run(30);
    let highest = format!("write {GPU_MAX} 1300500000");
    for _ in 0..150 {
        running.inject(&highest);
        let most = running.run(1);
        assert!(most < 20.3, "{most} W: {:?}", running.log);
    }
    let reports = running
        .log
        .iter()
        .filter(|it| it.contains("changed the mode"));
    let reports: Vec<&String> = reports.collect();
    // Then the clock counts as bound: nobody fights about it.
    assert!((1..=3).contains(&reports.len()), "{:?}", running.log);
    let bound = format!("a knob does not obey: {GPU_MAX}: ");
    assert!(running.has_logged(&bound), "{:?}", running.log);
    assert!(running.log.len() < 60, "{:?}", running.log);
}

/// A service that runs nvpmodel again and again: each knob that it takes is named once, and then there is peace.
#[test]
fn nvpmodel_that_runs_twice_a_second_does_not_flood_the_log() {
    let mut running = Running::new(orin(), "25W");
    running.run(30);
    let mut lines = Vec::new();
    for _ in 0..3 {
        let before = running.log.len();
        for half in 0..120 {
            running.inject("nvpmodel 2");
            while (running.next.0 % 1_000 < 500) == (half % 2 == 0) {
                running.step();
            }
        }
        lines.push(running.log.len() - before);
    }
    println!("{lines:?}");
    assert!(
        lines[0] <= 40 && lines[2] <= 10,
        "{lines:?} {:#?}",
        running.log
    );
}

#[test]
fn a_raised_clock_is_detected_at_the_next_step() {
    let mut running = Running::new(orin(), "20W");
    running.run(30);
    running.inject(&format!("write {GPU_MAX} 1300500000"));
    for _ in 0..2 {
        running.step();
    }
    assert!(running.has_logged("changed the mode"));
}

#[test]
fn control_survives_a_knob_that_refuses_writes() {
    let mut running = Running::new(orin(), "30W");
    running.run(20);
    running.inject(&format!("refuse {GPU_MAX} EIO"));
    running.control.set_limit(limit(20));
    running.run(30);
    assert!(
        running.has_logged("Input/output error"),
        "{:?}",
        running.log
    );
    running.inject(&format!("allow {GPU_MAX}"));
    running.run(120);
    assert_eq!(running.state(), State::Tracking, "{:?}", running.log);
    let most = running.run(10);
    assert!(most < 20.3, "{most} W");
}

#[test]
fn control_survives_a_read_only_board() {
    let mut files = orin();
    let setup = setup(&files, config("10W")).expect("usable");
    files.read_only = true;
    let mut control = Control::new(setup, files);
    let mut log = Vec::new();
    for tenth in 0..100 {
        let mut emit = |event: Event<'_>| log.push(event.to_string());
        control.step(Milliseconds(100 * tenth), &mut emit);
        control.files().wait(Duration::from_millis(100));
    }
    assert_eq!(control.status().0.state, State::Safe(Cause::CannotHold));
    let (over, _) = control.over_and_unknown();
    assert!(over.0 > 8_000 && control.violation_count() > 0, "{over:?}");
    assert!(
        log.iter().any(|line| line.contains("Permission denied")),
        "{log:?}"
    );
    assert!(log.len() < 30, "{} lines: {log:?}", log.len());
}
