//! Boards that heat or firmware makes slower than their mode.

use super::{Running, config_of, limit, orin};
use crate::board::{booted, load};
use wattgate_runtime::governor::State;
use wattgate_watchdog::control::Throttling;

/// Linux lowers the limits of the clocks by itself, and shows it.
#[test]
fn caps_of_cooling_are_no_failure_and_no_other_program() {
    let mut running = Running::new(orin(), "30W");
    running.run(60);
    let before = running.control.status();
    running.inject("cool cpu 729600");
    running.inject("cool gpu 420750");
    running.run(180);
    let (status, mode) = running.control.status();
    assert_eq!(mode, before.1, "{:?}", running.log);
    assert_eq!(status.changes, before.0.changes);
    assert!(running.control.throttling().by_cooling);
    let capped = "cooling caps a clock: the board is slower than its mode until it is cooler";
    let count = running.log.iter().filter(|line| *line == capped).count();
    assert_eq!(count, 1, "{:?}", running.log);
    assert!(!running.has_logged("another program"), "{:?}", running.log);
    // A new limit is held while the board is hot, and after it.
    running.control.set_limit(limit(20));
    running.run(5);
    running.inject("cool cpu off");
    running.inject("cool gpu off");
    let most = running.run(60);
    assert!(most < 20.3, "{most} W: {:?}", running.log);
    assert!(running.has_logged("cooling no longer caps a clock"));
    assert!(running.is_as_wanted());
}

/// The front has clocks below and above the cap: each of them can be wanted.
#[test]
fn a_start_on_a_hot_board_holds_the_limit_when_it_cools() {
    for watts in [15, 25, 40] {
        let mut files = orin();
        for cap in ["cool cpu 1190400", "cool gpu 624750"] {
            files.tree.control(cap).expect("a command");
        }
        let mut running = Running::new(files, &format!("{watts}W"));
        running.run(30);
        assert!(
            !matches!(running.state(), State::Safe(_)),
            "{:?}",
            running.log
        );
        running.inject("cool cpu off");
        running.inject("cool gpu off");
        let most = running.run(60);
        let limit = f64::from(watts);
        assert!(most < 1.01 * limit, "{most} W: {:?}", running.log);
        assert!(running.is_as_wanted());
    }
}

/// After one event of OC3 firmware may hold the clocks low, and only the counters of the cores show
/// it. To a controller this looks like a light load.
#[test]
fn throttling_by_firmware_is_named_and_teaches_nothing() {
    let mut running = Running::new(orin(), "30W");
    running.run(60);
    let before = running.control.status().0;
    running.inject("throttle 4");
    running.run(300);
    let after = running.control.status().0;
    assert_eq!((after.mode, after.changes), (before.mode, before.changes));
    assert!(running.control.throttling().by_firmware);
    let named = "throttled by firmware: a CPU runs at ";
    assert!(running.has_logged(named), "{:?}", running.log);
    running.inject("throttle off");
    let most = running.run(60);
    assert!(most < 30.3, "{most} W: {:?}", running.log);
    assert!(running.has_logged("firmware no longer throttles"));
    assert_eq!(running.control.throttling(), Throttling::default());
}

/// Events of OC3 last a millisecond, and occur ten times a second at the highest clocks of an Orin
/// Nano (section 6.4 of the platform reference).
#[test]
fn single_events_of_oc3_are_no_throttling() {
    let mut files = booted("orin-nano-8-super");
    load(&mut files);
    let mut running = Running::with(files, config_of("orin-nano-8-super", "40W"));
    running.run(600);
    let throttled = "throttled by firmware";
    let count = running
        .log
        .iter()
        .filter(|line| line.contains(throttled))
        .count();
    assert!(count <= 1, "{:?}", running.log);
}

/// The counter of an idle GPU, which may be off, tells nothing.
#[test]
fn a_busy_gpu_that_runs_slower_than_requested_is_throttled() {
    let counter = "/sys/kernel/debug/bpmp/debug/clk/nafll_gpc0/pto_counter";
    let half = |running: &mut Running| {
        let khz = running.control.files().tree.jetson().gpu_true_khz();
        let text = format!("{}\n", 500 * u64::from(khz)).into_bytes();
        running
            .control
            .files()
            .shown
            .insert(counter.to_owned(), Ok(text));
    };
    let mut running = Running::new(orin(), "30W");
    running.run(60);
    half(&mut running);
    running.run(5);
    assert!(running.control.throttling().by_firmware);
    assert!(running.has_logged("throttled by firmware: the GPU runs at "));
    running.control.files().shown.clear();
    // While something throttles, clocks are read every ten seconds.
    running.run(12);
    assert_eq!(running.control.throttling(), Throttling::default());
    running.inject("load off");
    running.run(5);
    half(&mut running);
    running.run(5);
    assert_eq!(running.control.throttling(), Throttling::default());
}
