//! `run --observe`, and the probe that takes along what a daemon has observed.

use std::fs;

use serde_json::Value;
use wattgate_board::Files;
use wattgate_probe::collect::collect;
use wattgate_probe::redact::{OBSERVED, OBSERVED_COLUMNS};
use wattgate_profiler::board_files::BoardFiles;
use wattgate_watchdog::clock::UtcSeconds;
use wattgate_watchdog::record;

use crate::faults::model;
use crate::living::{Living, STEPS, run, workload};

#[test]
fn run_with_observe_sets_nothing_and_says_what_it_would_set() {
    let living = Living::loaded();
    living.order("jetson-clocks");
    let before = living.settings();
    let observe = |options: &[&str], script: &str| {
        let mut command = living.command("run");
        command
            .args(["--observe", "--limit", "14W", "--model"])
            .arg(model());
        workload(command.args(options), script);
        run(&mut command)
    };
    let (code, told, errors) = observe(&["--time", "20"], STEPS);
    assert_eq!(code, Some(0), "{errors}");
    assert!(
        errors.contains("NOT HOLDING: --observe writes nothing to the board"),
        "{errors}"
    );
    assert!(errors.contains("would set "), "{errors}");
    assert!(
        told.contains("not held, only observed: 14 W for "),
        "{told}"
    );
    assert!(told.contains("\nobserved 1"), "{told}");
    let (code, told, errors) = observe(&["--json"], "echo step 1; sleep 0.5; exit 3");
    assert_eq!(code, Some(3), "the workload has failed: {errors}");
    let told: Value = serde_json::from_str(&told).expect("an object");
    assert!(told["observed"]["over_s"].as_f64() > Some(0.0), "{told}");
    assert!(told["would"]["would_set"]["power_mw"].is_u64(), "{told}");
    assert_eq!(living.settings(), before);
    // Neither the lock of who may write, nor settings to restore.
    for path in ["run/wattgated/lock", "var/lib/wattgate"] {
        assert!(!living.root().join(path).exists(), "{path}");
    }
}

#[test]
fn files_refuse_writes_once_they_are_to() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut files = BoardFiles::new(1.0);
    files.write(file.path(), "1").expect("written");
    files.refuse_writes();
    let error = files.write(file.path(), "2").expect_err("refused");
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    assert_eq!(fs::read(file.path()).expect("there"), b"1");
}

/// The record is read by another crate than the one that writes it.
#[test]
fn a_probe_takes_along_what_a_daemon_has_observed() {
    assert_eq!(record::COLUMNS, OBSERVED_COLUMNS);
    let folder = tempfile::tempdir().expect("a folder");
    let path = record::file(folder.path());
    assert!(path.ends_with(OBSERVED.trim_start_matches('/')));
    let row = wattgate_watchdog::observer::Row {
        passed: wattgate_runtime::Milliseconds(60_000),
        mean: wattgate_runtime::Milliwatts(21_000),
        highest: None,
        over: wattgate_runtime::Milliseconds(41_000),
        unknown: wattgate_runtime::Milliseconds(0),
        limit: wattgate_runtime::Milliwatts(20_000),
        gpu_load: Some(970),
        mode: None,
        would: None,
    };
    for minute in 0..3 {
        let at = UtcSeconds(1_800_000_000 + 60 * minute);
        record::append(&path, &row, at).expect("appended");
    }
    let probe = collect(folder.path(), std::time::Duration::ZERO, |_| {}).expect("a root");
    let file = probe.files.iter().find(|file| file.path == OBSERVED);
    let wattgate_probe::format::Content::Text(text) = &file.expect("taken along").content else {
        panic!("{file:?}");
    };
    let rest = "60000,21000,,41000,0,20000,970,,,,,,,,,";
    let rows = [0, 60, 120].map(|time| format!("{time},{rest}\n"));
    assert_eq!(*text, format!("{OBSERVED_COLUMNS}\n{}", rows.concat()));
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_wattgate"));
    command.args(["probe", "--seconds", "0", "-o", "p.gz", "--root", "."]);
    let (code, told, errors) = run(command.current_dir(folder.path()));
    assert_eq!(code, Some(0), "{errors}");
    assert!(
        told.ends_with(", 3 minutes that the daemon has observed\n"),
        "{told}"
    );
}
