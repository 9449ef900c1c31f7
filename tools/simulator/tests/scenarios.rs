//! The daemon's control holds its limit in every scenario, and nobody else does.

use std::path::Path;

use wattgate_simulator::scenarios::{CASES, Holder, Row, SCENARIOS, row};

/// Two periods of the sensor, and what a reaction takes.
const LONGEST_OVER_MS: f64 = 2.0 * 430.0 + 50.0;

fn rows(scenario: &str, holder: Holder, seeds: u64) -> Vec<Row> {
    let weights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../weights");
    let mut scenarios = SCENARIOS.iter();
    let scenario = scenarios.find(|it| it.name == scenario).expect("a name");
    let cases = CASES.iter();
    cases
        .map(|case| row(scenario, case, holder, seeds, &weights).expect("a row"))
        .collect()
}

#[test]
fn no_scenario_is_over_the_limit_for_longer_than_a_step_can_hide() {
    for scenario in SCENARIOS {
        for row in rows(scenario.name, Holder::Wattgate, 2) {
            assert!(row.longest_over_ms.worst <= LONGEST_OVER_MS, "{row:?}");
            assert!(!row.r#final.contains("safe"), "{row:?}");
        }
    }
}

#[test]
fn nominal_scenarios_are_nearly_as_fast_as_the_oracle() {
    for scenario in SCENARIOS.iter().filter(|scenario| scenario.nominal) {
        for row in rows(scenario.name, Holder::Wattgate, 2) {
            assert!(row.speed_vs_oracle_pct.worst >= 93.0, "{row:?}");
        }
    }
}

#[test]
fn a_steady_board_is_used_and_left_alone() {
    for row in rows("steady", Holder::Wattgate, 5) {
        assert!(row.speed_vs_oracle_pct.median >= 97.0, "{row:?}");
        assert!(row.time_over_pct.median <= 0.1, "{row:?}");
        assert!(row.changes_per_min.median <= 6.0, "{row:?}");
    }
}

#[test]
fn a_mode_that_is_chosen_once_does_not_hold_on_another_board() {
    let over = rows("another board", Holder::OpenLoop, 5);
    assert!(over.iter().any(|row| row.time_over_pct.worst > 50.0));
    for row in rows("steady", Holder::Preset, 1) {
        assert!(row.speed_vs_oracle_pct.median < 90.0, "{row:?}");
    }
}
