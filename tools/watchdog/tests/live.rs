//! Short scenarios in real time with the program `wattgated`: does it restore the board?
//!
//! Reaction times depend on the machine, so no time is asserted.

use std::path::Path;

use wattgate_scenarios::list::{Scenario, ToHolder};
use wattgate_scenarios::{CASES, Holder, Row, SENSORS, Task, live};

fn run(scenarios: &[Scenario]) -> Vec<Row> {
    let [case, ..] = &CASES;
    let [sensor, ..] = &SENSORS;
    let tasks = scenarios.iter().map(|scenario| Task {
        scenario,
        case,
        sensor,
        holder: Holder::Wattgated,
    });
    let tasks: Vec<Task<'_>> = tasks.collect();
    let weights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../weights");
    let wattgated = Path::new(env!("CARGO_BIN_EXE_wattgated"));
    live::rows(&tasks, &weights, wattgated).expect("rows")
}

#[test]
fn limits_and_kills_and_bad_models_leave_nothing_behind() {
    let short = Scenario {
        length: 8,
        ..live::SCENARIOS[0]
    };
    let scenarios = [
        Scenario {
            name: "another limit",
            steps: Some([3, 5]),
            ..short
        },
        Scenario {
            name: "killed",
            holder: Some((3, ToHolder::IsKilled)),
            ..short
        },
        Scenario {
            name: "half a model",
            holder: Some((3, ToHolder::ReadsBadModel)),
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
