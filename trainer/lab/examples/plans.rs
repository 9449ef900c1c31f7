//! A table of what plans of 15 modes are worth on three simulated boards, three workloads and two
//! units, with and without a limit and a reference. Fails where asked modes are over the limit.
//! `cargo run --release -p wattgate-lab --example plans`, ten minutes.

#[path = "../../tests/it/bench.rs"]
mod bench;

use bench::{UNITS, Verdict, assert_safe, benches, mean};

fn main() {
    println!(
        "[time, power] errors in %, [speed over the best, true power over the limit] of choices"
    );
    for (with_limit, with_reference) in [(true, false), (true, true), (false, false), (false, true)]
    {
        let mut verdicts = Vec::new();
        let mut loads = Vec::new();
        for bench in UNITS.into_iter().flat_map(benches) {
            let planner = bench.plan(with_limit, with_reference);
            let verdict = bench.judge(&planner);
            loads.extend(bench.loads(&planner));
            println!(
                "{} {}: {verdict:.3?}",
                bench.board.name, bench.workload.name
            );
            verdicts.push(verdict);
        }
        println!("limit: {with_limit}, reference: {with_reference}");
        type Part = (&'static str, fn(&Verdict) -> [f64; 2]);
        let parts: [Part; 4] = [
            ("errors over all modes", |verdict| verdict.all),
            ("errors within the limit", |verdict| verdict.within),
            ("choice at 95 %", |verdict| verdict.guarded),
            ("choice at 50 %", |verdict| verdict.median),
        ];
        for (name, part) in parts {
            let means = [0, 1].map(|at| mean(verdicts.iter().map(|verdict| part(verdict)[at])));
            println!("  mean, {name}: {means:.3?}");
        }
        let reachable = mean(verdicts.iter().map(|verdict| verdict.reachable));
        println!("  mean, the fastest of the front within the limit: {reachable:.3}");
        if with_limit {
            assert_safe(&loads);
        }
    }
}
