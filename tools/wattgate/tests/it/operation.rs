//! Rows from normal operation, on simulated boards in simulated time.

use std::time::Duration;

use wattgate_board::Board;
use wattgate_profiler::operation::Onlooker;
use wattgate_profiler::row::{Mark, Row};
use wattgate_profiler::window::Rules;
use wattgate_profiler::world::{Event, World};
use wattgate_runtime::PowerMode;
use wattgate_watchdog::report::Report;

use crate::bed::GPU_MAX;
use crate::board::{discover, highest, lowest, middle};
use crate::session::{Bench, truth};

/// The daemon's report in a mode.
fn report(mode: PowerMode, energy_j: f64) -> Report {
    let [cores, cpu_khz, gpu_khz, emc_khz] = mode.knobs();
    let report = serde_json::json!({
        "state": "tracking", "cores": cores, "cpu_khz": cpu_khz, "gpu_khz": gpu_khz,
        "emc_khz": emc_khz, "measured_mw": 14_210, "predicted_mw": 13_900, "allowed_mw": 14_962,
        "ratio_ppm": 1_022_302, "limit_mw": 15_000, "limit_from": "config", "least_mw": 6_100,
        "model": "model.wgt", "violations": 2, "changes": 17, "over_limit_ms": 860,
        "energy_mj": (1e3 * energy_j) as u64, "sensor_errors": 0, "failed_changes": 0
    });
    serde_json::from_value(report).expect("a report")
}

/// Sets a mode and looks on for 15 s. Returns the first row.
fn look_on(
    bench: &mut Bench,
    board: &mut Board,
    onlooker: &mut Onlooker,
    mode: PowerMode,
) -> Option<Row> {
    board.apply(bench.files(), &mode).expect("set");
    let end = bench.now() + Duration::from_secs(15);
    let mut next_sample = bench.now();
    while bench.now() < end {
        let count = match bench.wait(next_sample) {
            Event::Count(count) => Some(count),
            _ => None,
        };
        let now = bench.now();
        if count.is_none() {
            next_sample = now + Duration::from_millis(50);
        }
        let energy_j = bench.files.tree.jetson().energy_j();
        let row = onlooker.see(now, count, &report(mode, energy_j), board, &bench.files);
        if row.is_some() {
            return row;
        }
    }
    None
}

#[test]
fn a_mode_that_the_control_sets_is_measured_once() {
    let name = "orin-agx-64";
    let mut bench = Bench::new(name, "resnet18");
    let mut board = discover(&bench.files);
    let [cores, cpu_khz, gpu_khz, emc_khz] = lowest(name).knobs();
    let known = Row {
        workload: "work".to_owned(),
        cores,
        cpu_khz,
        gpu_khz,
        emc_khz,
        ..Row::default()
    };
    assert!(Onlooker::new(Rules::default(), &[], &board, &bench.files).is_none());
    let onlooker = Onlooker::new(Rules::default(), &[&known], &board, &bench.files);
    let mut onlooker = onlooker.expect("a row is known");
    let mut look_on = |bench: &mut Bench, mode| look_on(bench, &mut board, &mut onlooker, mode);

    assert_eq!(look_on(&mut bench, lowest(name)), None);
    let row = look_on(&mut bench, middle(name)).expect("measured");
    assert_eq!((row.mode(), row.workload.as_str()), (middle(name), "work"));
    let truth = truth(&bench, &row);
    for (found, truth) in [row.time_ms, row.power_mw].into_iter().zip(truth) {
        let found = found.expect("no mark");
        assert!((found / truth - 1.0).abs() < 0.01, "{found} {truth}");
    }
    assert_eq!(look_on(&mut bench, middle(name)), None);
}

#[test]
fn a_mode_of_which_only_the_idle_power_is_known_is_measured() {
    let name = "orin-agx-64";
    let mut bench = Bench::new(name, "resnet18");
    let mut board = discover(&bench.files);
    let [cores, cpu_khz, gpu_khz, emc_khz] = middle(name).knobs();
    let idle = Row {
        cores,
        cpu_khz,
        gpu_khz,
        emc_khz,
        idle_mw: Some(9_000.0),
        mark: Some(Mark::Idle),
        ..Row::default()
    };
    let onlooker = Onlooker::new(Rules::default(), &[&idle], &board, &bench.files);
    let mut onlooker = onlooker.expect("a row");
    let row = look_on(&mut bench, &mut board, &mut onlooker, middle(name)).expect("measured");
    assert_eq!((row.mark, row.idle_mw), (None, None));
}

/// Linux lowers the clock of a GPU that has little to do, if its minimum stays low.
#[test]
fn a_mode_whose_gpu_runs_below_its_clock_has_no_measurement() {
    let name = "orin-agx-64";
    let mut bench = Bench::new(name, "lenet");
    bench.files.tree.jetson_mut().follow_load();
    let order = "refuse /sys/class/devfreq/17000000.ga10b/min_freq EBUSY";
    bench.files.tree.control(order).expect("a command");
    let mut board = discover(&bench.files);
    let rows = [Row::default()];
    let onlooker = Onlooker::new(Rules::default(), &rows.each_ref(), &board, &bench.files);
    let mut onlooker = onlooker.expect("a row is known");
    let row = look_on(&mut bench, &mut board, &mut onlooker, highest(name)).expect("a row");
    assert!(row.mark.is_some() && row.time_ms.is_none(), "{row:?}");
}

#[test]
fn a_mode_in_which_the_firmware_throttles_has_no_measurement() {
    let name = "orin-nano-8-super";
    let mut bench = Bench::new(name, "yolov8n");
    let mut board = discover(&bench.files);
    let rows = [Row::default()];
    let onlooker = Onlooker::new(Rules::default(), &rows.each_ref(), &board, &bench.files);
    let mut onlooker = onlooker.expect("a row is known");
    let row = look_on(&mut bench, &mut board, &mut onlooker, highest(name)).expect("a row");
    assert_eq!((row.mark, row.time_ms), (Some(Mark::Throttled), None));
}

#[test]
fn a_mode_that_cooling_caps_has_no_measurement() {
    let name = "orin-agx-64";
    let mut bench = Bench::new(name, "yolov8n");
    bench
        .files
        .tree
        .control("cool cpu 729600")
        .expect("a command");
    let mut board = discover(&bench.files);
    let rows = [Row::default()];
    let onlooker = Onlooker::new(Rules::default(), &rows.each_ref(), &board, &bench.files);
    let mut onlooker = onlooker.expect("a row is known");
    let row = look_on(&mut bench, &mut board, &mut onlooker, middle(name)).expect("a row");
    assert_eq!((row.mark, row.time_ms), (Some(Mark::Throttled), None));
}

/// A clock that cannot be read counts as highest, and is asked to be lowest. Neither is what the board runs in.
#[test]
fn a_mode_with_a_clock_that_cannot_be_read_has_no_measurement() {
    let name = "orin-agx-64";
    let mut bench = Bench::new(name, "resnet18");
    let mut board = discover(&bench.files);
    let hide = format!("unreadable {GPU_MAX}");
    bench.files.tree.control(&hide).expect("a command");
    let rows = [Row::default()];
    let onlooker = Onlooker::new(Rules::default(), &rows.each_ref(), &board, &bench.files);
    let mut onlooker = onlooker.expect("a row is known");
    let mode = PowerMode {
        gpu: highest(name).gpu,
        ..middle(name)
    };
    let row = look_on(&mut bench, &mut board, &mut onlooker, mode).expect("a row");
    assert_eq!((row.mark, row.time_ms), (Some(Mark::Changed), None));
}
