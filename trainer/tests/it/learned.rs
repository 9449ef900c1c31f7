//! What a plan of 15 modes with a reference is worth on simulated boards. `cargo run --release
//! -p wattgate-lab --example plans` prints the table of all boards and workloads, with and
//! without a reference.

use crate::bench::{BOARDS, Bench, UNITS, Verdict, WORKLOADS, assert_safe, benches, mean};

#[test]
fn modes_asked_with_a_reference_stay_within_the_limit() {
    let loads = benches(UNITS[0]).flat_map(|bench| bench.loads(&bench.plan(true, true)));
    assert_safe(&loads.collect::<Vec<f64>>());
}

/// The bounds are a little wider than what these cases give. The daemon does better than the choice at
/// 95 %: it measures.
#[test]
fn a_plan_within_a_limit_leads_to_a_good_model_and_choice() {
    let cases = UNITS.into_iter().flat_map(|unit| {
        BOARDS
            .into_iter()
            .zip(WORKLOADS)
            .map(move |board_and_workload| (unit, board_and_workload))
    });
    let verdicts: Vec<Verdict> = cases
        .map(|(unit, (board, workload))| {
            let bench = Bench::new(board, workload, unit);
            let verdict = bench.judge(&bench.plan(true, true));
            println!("{board} {workload}, unit {unit}: {verdict:.3?}");
            verdict
        })
        .collect();
    let mean = |figure: fn(&Verdict) -> f64| mean(verdicts.iter().map(figure));
    let [time, power] = [
        mean(|verdict| verdict.all[0]),
        mean(|verdict| verdict.all[1]),
    ];
    assert!(time < 5.0 && power < 5.0, "{time} % {power} %");
    assert!(mean(|verdict| verdict.within[1]) < 4.5);
    assert!(mean(|verdict| verdict.reachable) > 0.97);
    assert!(mean(|verdict| verdict.guarded[0]) > 0.95);
    assert!(verdicts.iter().all(|verdict| verdict.guarded[1] <= 1.0));
    assert!(mean(|verdict| verdict.median[0]) > 0.93);
    assert!(verdicts.iter().all(|verdict| verdict.median[1] <= 1.06));
}
