//! The daemon's control holds its limit in every scenario, and nobody else does.
//!
//! Few seeds: the command `scenarios` has the whole table.

use std::path::Path;
use std::sync::LazyLock;

use wattgate_simulator::scenarios::{
    CASES, Holder, Row, SCENARIOS, SENSORS, Scenario, Sensor, Task, rows,
};

/// After the loss of all knowledge the safe mode is set so soon.
const SAFE_AFTER_MS: f64 = 2_000.0;

fn run(scenarios: &[&Scenario], holder: Holder, seeds: u64) -> Vec<Row> {
    let weights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../weights");
    let mut tasks = Vec::new();
    for scenario in scenarios {
        for sensor in &SENSORS {
            tasks.extend(CASES.iter().map(|case| Task {
                scenario,
                case,
                sensor,
                holder,
            }));
        }
    }
    rows(&tasks, seeds, &weights).expect("rows")
}

fn named(name: &str) -> &'static Scenario {
    Scenario::named(name).expect(name)
}

/// All scenarios under the daemon's control.
static WATTGATE: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let all: Vec<&Scenario> = SCENARIOS.iter().collect();
    run(&all, Holder::Wattgate, 2)
});

/// Those of the scenarios that are so.
fn wattgate(is: fn(&Scenario) -> bool) -> impl Iterator<Item = &'static Row> {
    let found = WATTGATE.iter().filter(move |row| is(named(row.scenario)));
    assert!(found.clone().count() > 0);
    found
}

fn longest_over_ms(row: &Row) -> f64 {
    let mut sensors = SENSORS.iter();
    let is = |sensor: &&Sensor| sensor.period.as_millis() as u64 == row.period_ms;
    let sensor = sensors.find(is).expect("a setting");
    1e3 * sensor.longest_over().as_secs_f64()
}

#[test]
fn no_scenario_is_over_the_limit_for_longer_than_a_step_can_hide() {
    for row in wattgate(|_| true) {
        let most = longest_over_ms(row);
        assert!(row.longest_over_ms.worst <= most, "{row:?}");
    }
}

#[test]
fn nominal_scenarios_are_over_the_limit_after_a_change_only() {
    for row in wattgate(|scenario| scenario.nominal) {
        assert!(row.excess_pct.worst <= 2.0, "{row:?}");
    }
}

#[test]
fn nominal_scenarios_are_nearly_as_fast_as_the_oracle() {
    for row in wattgate(|scenario| scenario.nominal) {
        assert!(row.speed_vs_oracle_pct.worst >= 93.0, "{row:?}");
    }
}

#[test]
fn the_safe_mode_is_set_in_time_when_nothing_is_known() {
    for row in wattgate(|scenario| scenario.loss().is_some()) {
        match (row.safe_after_ms, row.scenario) {
            (Some(after), _) => assert!(after.worst <= SAFE_AFTER_MS, "{row:?}"),
            (None, scenario) => assert_eq!(scenario, "sensor missing 0.5 s"),
        }
    }
    for row in wattgate(|scenario| scenario.loss().is_none()) {
        assert!(row.safe_after_ms.is_none(), "{row:?}");
    }
}

#[test]
fn at_the_end_the_limit_is_held_by_what_is_measured_and_then_all_is_as_it_was() {
    for row in wattgate(|_| true) {
        assert_eq!(row.r#final, "tracking, restored", "{row:?}");
    }
}

#[test]
fn a_steady_board_is_used_and_left_alone() {
    for row in run(&[named("steady")], Holder::Wattgate, 10) {
        assert!(row.speed_vs_oracle_pct.worst >= 97.0, "{row:?}");
        assert!(row.time_over_pct.worst <= 0.1, "{row:?}");
        assert!(row.changes_per_min.worst <= 6.0, "{row:?}");
    }
}

#[test]
fn a_mode_that_is_chosen_once_does_not_hold_on_another_board() {
    let over = run(&[named("another board")], Holder::OpenLoop, 5);
    assert!(over.iter().any(|row| row.time_over_pct.worst > 50.0));
    for row in run(&[named("steady")], Holder::Preset, 1) {
        assert!(row.speed_vs_oracle_pct.median < 90.0, "{row:?}");
    }
}

#[test]
fn one_step_after_each_result_is_too_slow_for_another_limit() {
    for row in run(&[named("limit stepped")], Holder::Stepper, 1) {
        assert!(
            row.longest_over_ms.worst > 2.0 * longest_over_ms(&row),
            "{row:?}"
        );
    }
}
