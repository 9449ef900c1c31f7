//! The output and the error messages of the program `sweep`. No test asserts a time.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::tempdir;

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

fn refused(arguments: &[&str], code: i32) -> String {
    let output = run(arguments);
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    stderr
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

#[test]
fn wrong_arguments_are_named() {
    for (arguments, message) in [
        (
            &["--shape", "33"][..],
            "--shape is `33`, expected 16, 32, 8-8, 16-16, or 256-128-64",
        ),
        (
            &["--modes", "0"],
            "--modes is `0`, expected 1800, 18096, or 29232",
        ),
        (
            &["--rounds", "0"],
            "--rounds is `0`, expected a number above 0",
        ),
        (
            &["--sweeps", "many"],
            "--sweeps is `many`, expected a number above 0",
        ),
        (
            &["--fast"],
            "there is no option --fast; --help lists the options",
        ),
    ] {
        assert_eq!(refused(arguments, 2), format!("error: {message}\n"));
    }
}

#[test]
fn a_peer_that_does_not_exist_is_named() {
    let stderr = refused(&["--json", "--peer", "/no/such/python"], 5);
    assert!(
        stderr.starts_with("error: cannot start /no/such/python: "),
        "{stderr}"
    );
}

#[test]
fn a_peer_that_dies_is_named() {
    let stderr = refused(&["--json", "--peer", "false"], 5);
    assert_eq!(stderr, "error: false ended: exit status: 1\n");
}

#[cfg(unix)]
#[test]
fn a_peer_that_answers_without_a_time_is_named() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempdir().expect("a folder");
    let path = folder.path().join("peer");
    fs::write(&path, "#!/bin/sh\nread runs\necho soon\n").expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
    let peer = path.to_str().expect("text");
    let stderr = refused(&["--json", "--peer", peer], 5);
    assert_eq!(
        stderr,
        format!("error: {peer} answered `soon`, expected microseconds\n")
    );
}
