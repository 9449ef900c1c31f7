//! Short scenarios in real time with the program `wattgated`: what the daemon leaves behind.
//!
//! The daemon's response time depends on the machine, so no test asserts a time.

use std::path::Path;

use wattgate_judge::scenario::{CASES, Scenario, ScenarioRow, ScenarioTask, live};
use wattgate_judge::{Holder, Incident, SENSORS};

fn run(scenarios: &[Scenario]) -> Vec<ScenarioRow> {
    let [case, ..] = &CASES;
    let [sensor, ..] = &SENSORS;
    let tasks = scenarios.iter().map(|scenario| ScenarioTask {
        scenario,
        case,
        sensor,
        holder: Holder::Wattgated,
    });
    let tasks: Vec<ScenarioTask<'_>> = tasks.collect();
    let weights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../weights");
    let wattgated = Path::new(env!("CARGO_BIN_EXE_wattgated"));
    live::rows(&tasks, &weights, wattgated).expect("rows")
}

#[test]
fn the_board_is_restored_after_new_limits_kills_and_bad_models() {
    let short = Scenario {
        length: 8,
        ..live::LIVE_SCENARIOS[0]
    };
    let scenarios = [
        Scenario {
            name: "another limit",
            steps: Some([3, 5]),
            ..short
        },
        Scenario {
            name: "killed",
            incident: Some((3, Incident::Kill)),
            ..short
        },
        Scenario {
            name: "half a model",
            incident: Some((3, Incident::BadModel)),
            ..short
        },
    ];
    for row in run(&scenarios) {
        assert!(row.r#final.ends_with(", restored"), "{row:?}");
        assert!(row.changes_per_min.worst > 0.0, "{row:?}");
        assert!(row.speed_vs_oracle_pct.worst > 0.0, "{row:?}");
        assert_eq!(row.safe_after_ms.is_some(), row.scenario == "killed");
    }
}
