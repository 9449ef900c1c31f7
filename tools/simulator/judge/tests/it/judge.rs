//! The command `judge`, and the trace of a living board.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::tempdir;
use wattgate_board_tables::Board;
use wattgate_judge::Holder;
use wattgate_judge::judge::Subject;
use wattgate_judge::replay::warmth::Fan;
use wattgate_judge::replay::{LoadRun, run, timed_modes};
use wattgate_simulated_board::load::{Load, Step};
use wattgate_simulated_board::profile::Profiler;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;

use crate::eventually::eventually;
use crate::running::{Running, command};
use crate::with_defaults;

const BOARD: &str = "orin-nano-8-super";

fn model() -> PathBuf {
    let weights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../weights");
    weights.join(format!("{BOARD}-resnet18.wgt"))
}

/// `judge` on the board with ResNet-18 that has booted in MAXN, with further arguments.
fn judge(more: &[&str]) -> Output {
    let defaults = [
        ["--board", BOARD],
        ["--mode", "2"],
        ["--workload", "resnet18"],
    ];
    let arguments = with_defaults(&defaults, more);
    let output = command().arg("judge").args(arguments).output();
    output.expect("the program runs")
}

fn json(more: &[&str]) -> Value {
    let output = judge(&[more, &["--json"]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn refused(more: &[&str], code: i32) -> String {
    let output = judge(more);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(output.stdout.is_empty());
    stderr
}

fn near(found: &Value, expected: f64, tolerance: f64) {
    let found = found.as_f64().expect("a number");
    let most = tolerance * expected.abs().max(1.0);
    assert!((found - expected).abs() <= most, "{found}, not {expected}");
}

/// A path as text.
fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// Runs a living board with ResNet-18 at 100 times real time until it is `seconds` old. Returns
/// its trace and the line of the file `progress`.
fn recorded(seconds: f64, trace: &Path) -> (String, String) {
    let options = ["--workload", "resnet18", "--speed", "100x", "--trace"];
    let mut board = Running::start_with(&[&options[..], &[text(trace)]].concat());
    eventually("the board's time", || {
        let progress = board.read("progress").ok()?;
        let now = progress.strip_prefix("seconds=")?.split(' ').next()?;
        (now.parse::<f64>().ok()? > seconds).then_some(())
    });
    let pid = Pid::from_child(&board.child);
    kill_process(pid, Signal::TERM).expect("running");
    assert!(board.end().success());
    let trace = fs::read_to_string(trace).expect("a trace");
    (trace, board.read("progress").expect("there"))
}

/// A trace of a board that draws 9 W for 30 s, then 6 W, with 2 and then 1 minibatch each second.
fn two_levels() -> String {
    let lines = (1..=6000).map(|at: u32| {
        let (watts, done) = match at {
            ..=3000 => (9.0, f64::from(at) / 50.0),
            _ => (6.0, 60.0 + f64::from(at - 3000) / 100.0),
        };
        let seconds = f64::from(at) / 100.0;
        // The power alternates around its mean.
        let ripple = if at.is_multiple_of(2) { 0.1 } else { -0.1 };
        format!("{seconds},{},{watts},{done}\n", watts + ripple)
    });
    "seconds,watts,calm_watts,minibatches\n".to_owned() + &lines.collect::<String>()
}

#[test]
fn a_recorded_run_has_the_figures_of_a_replayed_one() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("trace.csv");
    let (trace, progress) = recorded(22.0, &path);
    // All of the time is there, to the end.
    let last: Vec<&str> = trace.lines().last().expect("a line").split(',').collect();
    let last = [last[0], last[3]].map(|cell| cell.parse::<f64>().expect("a number"));
    let last = format!("seconds={:.6} minibatches={:.6} ", last[0], last[1]);
    assert!(progress.starts_with(&last), "{progress}");

    let board = Board::named(BOARD).expect("a board");
    let workload = Workload::named("resnet18").expect("a workload");
    let modes = timed_modes(&board, &model(), &workload).expect("a model");
    let mut runs_over = 0;
    for limit in [19_000, 20_000, 20_400, 21_000] {
        let load = Load::new(
            vec![Step::new(Duration::ZERO, 1.0)],
            Duration::from_secs(21),
        );
        let replayed = LoadRun {
            board: &board,
            model: &model(),
            limits: vec![(Duration::ZERO, limit)],
            load,
            workload: &workload,
            samples: 512,
            unit: None,
            seed: 0,
            holder: Holder::Maxn,
            errors: None,
        };
        let expected = run(&replayed, &modes).expect("a run");
        let limit = format!("{limit}mW");
        let part = ["--trace", text(&path), "--from", "1", "--until", "21"];
        let model = model();
        let more = ["--limit", &limit, "--model", text(&model)];
        let found = json(&[&part[..], &more].concat());
        // The heat flows in other steps of time, which changes the power by some µW.
        for (name, expected) in [
            ("over_430ms_pct", expected.over_430ms_pct),
            ("over_10ms_pct", expected.over_10ms_pct),
            ("longest_430ms_ms", expected.longest_430ms_ms),
            ("longest_10ms_ms", expected.longest_10ms_ms),
            ("excess_430ms_pct", expected.excess_430ms_pct),
            ("excess_10ms_pct", expected.excess_10ms_pct),
            ("over_j", expected.over_j),
            ("speed_vs_fixed_pct", expected.speed_vs_fixed_pct),
            (
                "speed_vs_clairvoyant_pct",
                expected.speed_vs_clairvoyant_pct,
            ),
        ] {
            near(&found[name], expected, 1e-4);
        }
        near(&found["seconds"], 20.0, 1e-12);
        let partly = expected.over_430ms_pct;
        runs_over += u32::from(partly > 1.0 && partly < 99.0);
    }
    assert!(runs_over > 0, "no limit is crossed");
}

#[test]
fn a_part_of_a_trace_is_judged_alone() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("trace.csv");
    fs::write(&path, two_levels()).expect("written");
    let part = ["--trace", text(&path), "--from", "20", "--until", "50"];
    let found = json(&[&part[..], &["--limit", "8W"]].concat());
    near(&found["seconds"], 30.0, 1e-12);
    near(&found["energy_j"], 10.0 * 9.0 + 20.0 * 6.0, 1e-9);
    near(&found["excess_10ms_pct"], 100.0 / 8.0, 1e-9);
    // The mean of 10 ms falls from 9 to 6 W in 10 ms, and is at 8 W after a third of it.
    near(
        &found["longest_10ms_ms"],
        10_000.0 - 10.0 + 10.0 / 3.0,
        1e-6,
    );
    near(
        &found["over_10ms_pct"],
        100.0 * (10.0 - 0.01 + 0.01 / 3.0) / 29.99,
        1e-6,
    );
    // The end of the trace is the default.
    let all = json(&["--trace", text(&path), "--from", "20", "--limit", "8W"]);
    near(&all["energy_j"], 10.0 * 9.0 + 30.0 * 6.0, 1e-9);
}

#[test]
fn rows_are_compared_with_their_windows() {
    let folder = tempdir().expect("a folder");
    let [trace, rows] = ["trace.csv", "rows.csv"].map(|name| folder.path().join(name));
    fs::write(&trace, two_levels()).expect("written");
    // The session began at 5.5 s. The third window holds 2 s of each level: 7.5 W, 6 minibatches.
    // The fourth row has no measurement.
    let lines = "device,workload,cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw,window_ms,end_s\n\
                 x,y,6,1728000,1020000000,3199000,510,9180,4000,20\n\
                 x,y,6,1728000,1020000000,3199000,1000,5400,10000,50.005\n\
                 x,y,6,1728000,1020000000,3199000,666.6666667,7500,4000,26.5\n\
                 x,y,6,1728000,1020000000,3199000,,,0,0\n";
    let lines = lines.replace("1020000000", "1020000");
    fs::write(&rows, &lines).expect("written");
    let paths = ["--trace", text(&trace), "--measured", text(&rows)];
    let found = json(&[&paths[..], &["--offset", "5.5"]].concat());
    assert_eq!(found["rows"], 3);
    // The errors are 2, 0 and 0 %, and 2, 10 and 0 %.
    near(&found["row_time_error_pct"]["median"], 0.0, 1e-6);
    near(&found["row_time_error_pct"]["p95"], 1.8, 1e-6);
    near(&found["row_power_error_pct"]["median"], 2.0, 1e-6);
    near(&found["row_power_error_pct"]["p95"], 2.0 + 0.9 * 8.0, 1e-6);
    let message = refused(&[&paths[..], &["--offset", "20"]].concat(), 3);
    let expected = format!(
        "error: {}: line 3: column `end_s`: expected the end of a window of 10000 ms with minibatches in the trace, \
         found `50.005`\n",
        text(&rows)
    );
    assert_eq!(message, expected);
}

#[test]
fn planted_errors_of_rows_are_found_beside_the_settled_board() {
    let folder = tempdir().expect("a folder");
    let rows = folder.path().join("rows.csv");
    let board = Board::named(BOARD).expect("a board");
    let workload = Workload::named("resnet18").expect("a workload");
    let unit = Unit::drawn(7);
    let subject = Subject::new(&board, &workload, unit, Some(2), Fan::Automatic);
    let subject = subject.expect("a board");
    // 21 rows: the errors of the time are 0 … 2 %, those of the power twice as large and negative.
    let mut lines = "cores,cpu_khz,gpu_khz,emc_khz,power_mw,time_ms\n".to_owned();
    for (at, knobs) in board
        .all_modes()
        .into_iter()
        .step_by(201)
        .take(21)
        .enumerate()
    {
        let [cores, cpu, gpu, emc] = knobs;
        let truth = subject.truth(knobs);
        let time = 1e3 / truth.rate * (1.0 + at as f64 / 1e3);
        let power = 1e3 * subject.settled_w(&truth) * (1.0 - at as f64 / 500.0);
        lines += &format!("{cores},{cpu},{gpu},{emc},{power},{time}\n");
    }
    fs::write(&rows, &lines).expect("written");
    let found = json(&["--unit", "7", "--measured", text(&rows)]);
    assert_eq!(found["rows"], 21);
    for (name, times) in [("row_time_error_pct", 1.0), ("row_power_error_pct", 2.0)] {
        near(&found[name]["median"], times, 1e-9);
        near(&found[name]["p95"], 1.9 * times, 1e-9);
    }
    assert!(found.get("other_modes").is_none() && found.get("energy_j").is_none());
    // The model is judged on the others.
    let model = model();
    let of_model = ["--model", text(&model)];
    let all = json(&of_model)["other_modes"].as_u64().expect("a number");
    let others = json(&[&of_model[..], &["--measured", text(&rows)]].concat());
    assert_eq!(others["other_modes"], all - 21);
}

/// The rows of the simulator's own corpus differ from the truth by their noise alone.
#[test]
fn the_truth_is_what_a_corpus_has_without_noise() {
    let folder = tempdir().expect("a folder");
    let rows = folder.path().join("rows.csv");
    let board = Board::named(BOARD).expect("a board");
    let workload = Workload::named("yolov8n").expect("a workload");
    let mut lines = "cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw\n".to_owned();
    let modes: Vec<_> = board.all_modes().into_iter().step_by(40).collect();
    for profile in Profiler::new(&board, Unit::NOMINAL, &workload, 5).profile_all(&modes) {
        let [cores, cpu, gpu, emc] = profile.knobs;
        let (time, power) = (profile.time_ms, profile.power_mw);
        lines += &format!("{cores},{cpu},{gpu},{emc},{time},{power}\n");
    }
    fs::write(&rows, &lines).expect("written");
    let more = ["--workload", "yolov8n", "--measured", text(&rows), "--fan"];
    let full = json(&[&more[..], &["full"]].concat());
    for name in ["row_time_error_pct", "row_power_error_pct"] {
        let median = full[name]["median"].as_f64().expect("a number");
        assert!((0.1..1.0).contains(&median), "{full}");
    }
    // A living board is warmer, so it draws more.
    let automatic = json(&[&more[..], &["automatic"]].concat());
    let median = automatic["row_power_error_pct"]["median"].as_f64();
    assert!(median.expect("a number") > 2.0, "{automatic}");
}

#[test]
fn what_is_wrong_is_named() {
    let folder = tempdir().expect("a folder");
    let trace = folder.path().join("trace.csv");
    let (whole, path) = (two_levels(), text(&trace));
    let part = ["--trace", path, "--limit", "8W", "--from"];
    let with = |trace: &str, more: &[&str], code| {
        fs::write(path, trace).expect("written");
        refused(&[&part[..], more].concat(), code)
    };
    // A line that lacks cells, and a last number that may lack digits.
    let lines: Vec<&str> = whole.lines().collect();
    let cut = lines[..1000].join("\n") + "\n9.99,8\n";
    assert_eq!(
        with(&cut, &["1"], 3),
        format!(
            "error: {path}: line 1001: expected 4 fields as in the header, found 2; complete the row, or delete it\n"
        )
    );
    assert_eq!(
        with(&whole[..whole.len() - 2], &["1"], 3),
        format!(
            "error: {path}: line 6001: the file ends within a line; copy the file again, or delete this line\n"
        )
    );
    assert_eq!(
        with(&whole, &["20", "--until", "20.5"], 2),
        "error: from 20 s until 20.5 s: expected a stretch of at least 1 s; correct --from or --until\n"
    );
    assert_eq!(
        with(&whole, &["20", "--until", "60.5"], 2),
        format!(
            "error: {path}: the trace ends at 60 s, expected 60.5 s; record for longer, or lower --until\n"
        )
    );
    for (more, message, code) in [
        (
            &["--board", "thor"][..],
            "unknown board `thor`; there are ",
            2,
        ),
        (
            &["--workload", "alexnet"],
            "unknown workload `alexnet`; ",
            2,
        ),
        (&[], "missing --model, --measured or --from\n", 2),
        (
            &["--trace", path],
            "missing --from or --offset, for which --trace is\n",
            2,
        ),
        (
            &["--trace", path, "--from", "1"],
            "missing --limit, which --from needs\n",
            2,
        ),
        (
            &["--from", "1", "--limit", "9W"],
            "missing --trace, which --from needs\n",
            2,
        ),
        (
            &["--until", "9"],
            "missing --from, which --until needs\n",
            2,
        ),
        (
            &["--offset", "9"],
            "missing --trace, which --offset needs\n",
            2,
        ),
        (
            &["--offset", "9", "--trace", path],
            "missing --measured, which --offset needs\n",
            2,
        ),
        (
            &["--from", "-1"],
            "--from is `-1`, expected a number of seconds, 0 … 1e8\n",
            2,
        ),
        (
            &["--fan", "half"],
            "--fan is `half`, expected automatic or full\n",
            2,
        ),
        (
            &["--limit", "8"],
            "--limit is `8`, expected a power above 0, such as 25W or 12500mW\n",
            2,
        ),
        (
            &["--model", "/nowhere/m.wgt"],
            "/nowhere/m.wgt: cannot read: No such file",
            5,
        ),
        (
            &["--measured", "/nowhere/c.csv"],
            "/nowhere/c.csv: cannot read: No such file",
            5,
        ),
    ] {
        let found = refused(more, code);
        assert!(found.starts_with(&format!("error: {message}")), "{found}");
    }
    let other = model();
    let other = text(&other);
    let found = refused(
        &["--board", "xavier-agx", "--mode", "0", "--model", other],
        3,
    );
    let expected = format!(
        "error: {other}: the model's grid has a GPU clock of 306000 kHz, which `xavier-agx` lacks; name a model of this board\n"
    );
    assert_eq!(found, expected);
    let rows = folder.path().join("rows.csv");
    let measured = |lines: &str| {
        fs::write(&rows, lines).expect("written");
        let message = refused(&["--measured", text(&rows)], 3);
        message.replace(text(&rows), "rows.csv")
    };
    let header = "cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw";
    for (lines, message) in [
        (
            "cores,cpu_khz\n".to_owned(),
            "rows.csv: line 1: column `gpu_khz`: missing; a corpus has the columns cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw",
        ),
        (
            format!("{header}\n6,1728000,1020000,3199000,9,9000\n6,1728001,1020000,3199000,9,9\n"),
            "rows.csv: line 3: column `cpu_khz`: expected a value that `orin-nano-8-super` has, found `1728001`",
        ),
        (
            format!("{header}\n6,1728000,1020000,3199000,-9,9000\n"),
            "rows.csv: line 2: column `time_ms`: expected a number, 0 … 1000000000, found `-9`",
        ),
        (
            format!("{header}\n6,1728000,1020000,3199000,,\n"),
            "rows.csv: no row has a measurement; name a corpus with times or powers",
        ),
    ] {
        assert_eq!(measured(&lines), format!("error: {message}\n"));
    }
}

#[test]
fn a_trace_that_cannot_be_written_is_an_error() {
    let folder = tempdir().expect("a folder");
    let root = folder.path().join("board");
    let trace = folder.path().join("nowhere/t.csv");
    let output = command()
        .args(["board", "--board", BOARD, "--trace"])
        .arg(&trace)
        .arg("--root")
        .arg(&root)
        .output()
        .expect("the program runs");
    assert_eq!(output.status.code(), Some(5));
    let stderr = String::from_utf8_lossy(&output.stderr);
    let expected = format!("error: {}: No such file", trace.display());
    assert!(stderr.starts_with(&expected), "{stderr}");
}

#[test]
fn the_table_has_the_figures_of_the_json() {
    let model = model();
    let more = ["--model", text(&model), "--limit", "9W"];
    let found = json(&more);
    let table = String::from_utf8(judge(&more).stdout).expect("text");
    for name in [
        "other_modes",
        "time_mape",
        "power_mape",
        "other_modes_within",
        "time_mape_within",
        "power_mape_within",
        "choice_speed_pct",
        "choice_power_mw",
    ] {
        let value = format!("{:.2}\n", found[name].as_f64().expect("a number"));
        assert!(table.contains(&value), "{name}: {table}");
    }
    assert_eq!(table.lines().count(), 9);
    // No mode is within 1 W.
    let none = json(&["--model", text(&model), "--limit", "1W"]);
    assert_eq!(none["other_modes_within"], 0);
    assert!(none["choice_power_mw"].is_null() && none["time_mape_within"].is_null());
}
