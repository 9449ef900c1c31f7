//! The constants of the built-in LLM against recorded power of a real board.

use std::collections::BTreeMap;

use crate::recorded::recorded;
use wattgate_simulated_board::load::kind::LLM;

const TRACES: &str = "agx-orin-64__llm-phases__jetson-llm-maxperf.csv";

/// The sensor's time constant in ms.
const LAG_MS: f64 = 430.0;

/// Left out at both ends of a phase, in ms: the markers are ± 0.2 s.
const EDGE_MS: f64 = 500.0;

/// A prefill that is shorter, in s, is that of a short prompt.
const LONG_S: f64 = 2.0;

/// A row: time in ms, phase, total power in mW.
type Row = (f64, String, f64);

/// A phase of a run.
#[derive(Clone, Copy, Debug)]
struct Phase {
    seconds: f64,
    /// Mean power with the lag undone; NaN where the phase is shorter than its edges.
    mw: f64,
}

/// The power of a phase with the lag undone, without the rows at its ends.
fn undone(rows: &[Row], name: &str, [before_ms, after_ms]: [f64; 2]) -> Vec<f64> {
    let times = || rows.iter().filter(|row| row.1 == name).map(|row| row.0);
    let first = times().fold(f64::MAX, f64::min);
    let last = times().fold(0.0, f64::max);
    let inner = rows.windows(3).filter(|three| {
        let at = three[1].0;
        three[1].1 == name && at >= first + before_ms && at <= last - after_ms
    });
    let undone = inner.map(|three| {
        let slope = (three[2].2 - three[0].2) / (three[2].0 - three[0].0);
        three[1].2 + LAG_MS * slope
    });
    undone.collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn phases(rows: &[Row]) -> BTreeMap<&str, Phase> {
    let mut phases = BTreeMap::new();
    for name in ["idle_pre", "load", "prefill", "decode"] {
        let times = || rows.iter().filter(|row| row.1 == name).map(|row| row.0);
        let (first, last) = (
            times().fold(f64::MAX, f64::min),
            times().fold(0.0, f64::max),
        );
        let phase = Phase {
            seconds: (last - first) / 1e3,
            mw: mean(&undone(rows, name, [EDGE_MS; 2])),
        };
        phases.insert(name, phase);
    }
    phases
}

/// The bursts while a model loads: of each its activity, its seconds, and the seconds until the next one or the end.
fn bursts(activity: &[f64]) -> [f64; 6] {
    const ROW_S: f64 = 0.1;
    let rest = median(activity.to_vec());
    let highest = |until: usize| {
        let rows = activity[..until].iter().enumerate();
        let (at, _) = rows.max_by(|a, b| a.1.total_cmp(b.1)).expect("rows");
        at
    };
    let second = highest(activity.len());
    let first = highest(second - 3);
    let [first, second] = [first, second].map(|at| {
        let is_high = |row: &usize| activity[*row] > f64::midpoint(activity[at], rest);
        let from = (0..at).rev().take_while(is_high).last().unwrap_or(at);
        let until = (at..activity.len())
            .take_while(is_high)
            .last()
            .unwrap_or(at);
        (activity[at], from, until)
    });
    let seconds = |rows: usize| ROW_S * rows as f64;
    [
        first.0,
        seconds(first.2 + 1 - first.1),
        seconds(second.1 - first.2 - 1),
        second.0,
        seconds(second.2 + 1 - second.1),
        seconds(activity.len() - second.2) + EDGE_MS / 1e3,
    ]
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let upper = values[values.len() / 2];
    let lower = values[(values.len() - 1) / 2];
    f64::midpoint(lower, upper)
}

#[test]
fn the_llms_phases_are_those_of_the_recorded_runs() {
    let Some(text) = recorded(TRACES) else {
        return;
    };
    let mut runs: BTreeMap<&str, Vec<Row>> = BTreeMap::new();
    for line in text
        .lines()
        .skip(1)
        .filter(|line| line.starts_with("maxn-"))
    {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |at: usize| cells[at].parse().expect("a number");
        let row = (number(1), cells[2].to_owned(), number(7));
        runs.entry(cells[0]).or_default().push(row);
    }
    let all_rows: Vec<&Vec<Row>> = runs.values().collect();
    let runs: Vec<_> = all_rows.iter().map(|rows| phases(rows)).collect();
    assert_eq!(runs.len(), 18);
    let is_long = |run: &&BTreeMap<&str, Phase>| run["prefill"].seconds > LONG_S;
    let activity = |run: &BTreeMap<&str, Phase>, phase: &str| {
        (run[phase].mw - run["idle_pre"].mw) / (run["decode"].mw - run["idle_pre"].mw)
    };
    let (long, short): (Vec<_>, Vec<_>) = runs.iter().partition(is_long);
    assert_eq!((long.len(), short.len()), (9, 9));
    let seconds = |runs: &[&BTreeMap<&str, Phase>], phase| {
        median(runs.iter().map(|run| run[phase].seconds).collect())
    };
    let all: Vec<_> = runs.iter().collect();
    let loading = median(all.iter().map(|run| activity(run, "load")).collect());
    let prefill = median(long.iter().map(|run| activity(run, "prefill")).collect());
    for (found, constant, within) in [
        (loading, LLM.loading, 0.005),
        (prefill, LLM.prefill, 0.005),
        (seconds(&all, "load"), LLM.loading_s, 0.1),
        (seconds(&short, "decode"), LLM.short[1], 0.1),
        (seconds(&long, "prefill"), LLM.long[0], 0.1),
        (seconds(&long, "decode"), LLM.long[1], 0.1),
    ] {
        assert!(
            (found - constant).abs() <= within,
            "{found}, not {constant}"
        );
    }
    let shapes = all_rows.iter().zip(&runs).map(|(rows, run)| {
        let level = |mw: &f64| (mw - run["idle_pre"].mw) / (run["decode"].mw - run["idle_pre"].mw);
        let loading = undone(rows, "load", [EDGE_MS; 2]);
        bursts(&loading.iter().map(level).collect::<Vec<_>>())
    });
    let shapes: Vec<[f64; 6]> = shapes.collect();
    let [(first, first_s), (second, second_s)] = LLM.bursts;
    let [after_first_s, after_second_s] = LLM.after_bursts_s;
    let constants = [
        (first, 0.005),
        (first_s, 0.05),
        (after_first_s, 0.05),
        (second, 0.005),
        (second_s, 0.05),
        (after_second_s, 0.05),
    ];
    for (at, (constant, within)) in constants.into_iter().enumerate() {
        let found = median(shapes.iter().map(|shape| shape[at]).collect());
        assert!(
            (found - constant).abs() <= within,
            "{at}: {found}, not {constant}"
        );
    }
    let climbs = all_rows.iter().zip(&runs).filter(|(_, run)| is_long(run));
    let climbs = climbs.map(|(rows, run)| {
        let idle = run["idle_pre"].mw;
        let prefill = undone(rows, "prefill", [1_000.0, EDGE_MS]);
        let whole = mean(&prefill) - idle;
        let part = |from: usize, until: usize| {
            let [from, until] = [from, until].map(|at| at * prefill.len() / 20);
            (mean(&prefill[from..until]) - idle) / whole
        };
        [part(0, 1), part(16, 17), part(17, 20)]
    });
    let climbs: Vec<[f64; 3]> = climbs.collect();
    let [from, to] = LLM.climb;
    for (at, constant) in [from, to, LLM.fall.0].into_iter().enumerate() {
        let found = median(climbs.iter().map(|climb| climb[at]).collect());
        assert!(
            (found - constant).abs() <= 0.01,
            "{at}: {found}, not {constant}"
        );
    }
    // A short prefill spans at most one row, so its recorded length is too short.
    assert!(seconds(&short, "prefill") <= LLM.short[0]);
}
