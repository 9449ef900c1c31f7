//! Random deadlines.

use std::path::Path;

use wattgate_judge::deadlines::{Case, cases};
use wattgate_simulated_board::workload::Workload;

#[test]
fn deadlines_are_met_at_nearly_the_least_power_and_energy() {
    let weights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../weights");
    let workload = Workload::named("resnet18").expect("a workload");
    let cases = cases(&weights, &workload, 60, 1).expect("cases");
    let count = |holds: fn(&&Case) -> bool| cases.iter().filter(holds).count();
    assert!(count(|it| it.is_met()) >= 57, "{cases:#?}");
    assert!(count(|it| it.cost <= 1.05) >= 57, "{cases:#?}");
    assert_eq!(count(|it| it.longest_over_s > 0.2), 0, "{cases:#?}");
    // Those that are late are so by little.
    assert_eq!(count(|it| it.used > 1.02), 0, "{cases:#?}");
}
