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

fn phases(rows: &[Row]) -> BTreeMap<&str, Phase> {
    let mut phases = BTreeMap::new();
    for name in ["idle_pre", "load", "prefill", "decode"] {
        let times = || rows.iter().filter(|row| row.1 == name).map(|row| row.0);
        let (first, last) = (
            times().fold(f64::MAX, f64::min),
            times().fold(0.0, f64::max),
        );
        let inner = rows.windows(3).filter(|three| {
            let at = three[1].0;
            three[1].1 == name && at >= first + EDGE_MS && at <= last - EDGE_MS
        });
        let undone = inner.map(|three| {
            let slope = (three[2].2 - three[0].2) / (three[2].0 - three[0].0);
            three[1].2 + LAG_MS * slope
        });
        let undone: Vec<f64> = undone.collect();
        let phase = Phase {
            seconds: (last - first) / 1e3,
            mw: undone.iter().sum::<f64>() / undone.len() as f64,
        };
        phases.insert(name, phase);
    }
    phases
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
    let runs: Vec<_> = runs.values().map(|rows| phases(rows)).collect();
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
    // A short prefill spans at most one row, so its recorded length is too short.
    assert!(seconds(&short, "prefill") <= LLM.short[0]);
}
