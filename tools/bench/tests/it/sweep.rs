//! The output of the program `sweep`. No test asserts a time.

use std::process::{Command, Output};

use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sweep"))
        .args(arguments)
        .output()
        .expect("the program runs")
}

fn json(arguments: &[&str]) -> Value {
    let output = run(&[&["--json", "--rounds", "1"], arguments].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = value.as_object().expect("an object").keys().collect();
    keys.sort();
    keys.into_iter().map(String::as_str).collect()
}

#[test]
fn json_has_the_keys_that_the_help_states() {
    let report = json(&[]);
    assert_eq!(report["modes"], 18_096);
    assert_eq!(report["shape"], "32");
    assert_eq!(report["weights"], "shipped");
    let times = [
        "cold_start_us",
        "correction_ns",
        "front_us",
        "query_ns",
        "sweep_us",
    ];
    assert_eq!(keys(&report["medians"]), times);
    let floor = ["bytes_us", "multiply_adds", "multiply_adds_us", "times"];
    assert_eq!(keys(&report["floor"]), floor);
    let mut all = [
        &times[..],
        &["floor", "medians", "modes", "shape", "weights"],
    ]
    .concat();
    all.sort_unstable();
    assert_eq!(keys(&report), all);
    assert!(report["sweep_us"].as_f64().is_some_and(|time| time > 0.0));
}

#[test]
fn the_table_has_a_row_for_each_grid() {
    let output = run(&["--shape", "8-8", "--rounds", "1"]);
    assert!(output.status.success());
    let table = String::from_utf8(output.stdout).expect("text");
    for modes in ["1800", "18096", "29232"] {
        let rows = table
            .lines()
            .filter(|line| line.trim_start().starts_with(modes));
        assert_eq!(rows.count(), 1, "{table}");
    }
}

#[test]
fn bare_sweeps_print_nothing() {
    let output = run(&["--sweeps", "1", "--modes", "1800"]);
    assert!(output.status.success() && output.stdout.is_empty());
}
