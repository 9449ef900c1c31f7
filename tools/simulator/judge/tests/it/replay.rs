//! The output and the error messages of the commands `replay`, `load` and `loads`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use tempfile::{TempDir, tempdir};
use wattgate_judge::replay::report::LoadReport;
use wattgate_judge::replay::table::{Bench, LENGTH, LoadTask, Mismatch, rows};
use wattgate_judge::replay::{LoadRun, run};
use wattgate_judge::{Holder, files};
use wattgate_simulated_board::load::Kind;
use wattgate_simulated_board::machine::mode_errors::ModeErrors;

use crate::with_defaults;

fn weights() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../weights")
}

fn simulator(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wattgate-simulator"))
        .args(arguments)
        .output()
        .expect("the program runs")
}

/// A folder with the file `load.csv`.
fn with_load(text: &str) -> (TempDir, String) {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("load.csv");
    fs::write(&path, text).expect("written");
    let path = path.to_str().expect("text").to_owned();
    (folder, path)
}

/// `replay` on the AGX Orin under 25 W, with more arguments.
fn replay(load: &str, more: &[&str]) -> Output {
    let model = weights().join("orin-agx-64-resnet18.wgt");
    let model = model.to_str().expect("text");
    let defaults = [
        ["--board", "orin-agx-64"],
        ["--weights", model],
        ["--limit", "25W"],
        ["--load", load],
    ];
    let arguments = with_defaults(&defaults, more);
    simulator(&[&["replay", "--json"], &arguments[..]].concat())
}

fn json(output: &Output) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn refused(output: &Output, code: i32) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(output.stdout.is_empty());
    stderr
}

const IDLE_AND_BACK: &str = "t_ms,activity\n0,1\n20000,0\n25000,1\n60000,1\n";

const FIGURES: [&str; 14] = [
    "seconds",
    "over_430ms_pct",
    "over_10ms_pct",
    "longest_430ms_ms",
    "longest_10ms_ms",
    "excess_430ms_pct",
    "excess_10ms_pct",
    "over_j",
    "speed_vs_fixed_pct",
    "speed_vs_clairvoyant_pct",
    "changes_per_min",
    "safe_pct",
    "energy_j",
    "events",
];

#[test]
fn json_has_the_figures_and_events_of_a_run() {
    let (_folder, load) = with_load(IDLE_AND_BACK);
    let report = json(&replay(&load, &["--governor", "maxn", "--limit", "35W"]));
    let object = report.as_object().expect("an object");
    let mut keys: Vec<&str> = object.keys().map(String::as_str).collect();
    let mut expected = FIGURES.to_vec();
    keys.sort_unstable();
    expected.sort_unstable();
    assert_eq!(keys, expected);
    assert!(
        FIGURES[..13].iter().all(|key| report[key].is_f64()),
        "{report}"
    );
    assert_eq!(report["seconds"], 60.0);
    // Without a cap the board is over 35 W except in the first second, in the 5 s of idling, and
    // for one window after each.
    let over = report["over_10ms_pct"].as_f64().expect("a number");
    assert!((over - 100.0 * 54.0 / 58.99).abs() < 0.1, "{over}");
    let events = report["events"].as_array().expect("a list");
    let [event] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(
        (&event["at_ms"], &event["cause"]),
        (&25_000.0.into(), &"load".into())
    );
    let until_end = event["ms"].as_f64().expect("a number");
    assert!((until_end - 35_000.0).abs() < 1e-6, "{until_end}");
    assert!(event["excess_pct"].is_f64());
    assert_eq!(report["changes_per_min"], 0.0);
    assert!(report["speed_vs_fixed_pct"].as_f64().expect("a number") > 110.0);
}

#[test]
fn wattgate_is_the_default_governor_and_equal_runs_are_equal() {
    let (_folder, load) = with_load(IDLE_AND_BACK);
    let all = [["--unit", "3"], ["--seed", "2"], ["--samples", "64"]];
    let report = replay(&load, all.as_flattened()).stdout;
    let again = [all.as_flattened(), &["--governor", "wattgate"]].concat();
    let again = replay(&load, &again);
    assert_eq!(json(&again)["safe_pct"], 0.0);
    assert_eq!(report, again.stdout);
    for more in [["--unit", "4"], ["--seed", "3"], ["--samples", "512"]] {
        let other = replay(&load, &with_defaults(&all, &more));
        assert!(other.status.success());
        assert_ne!(report, other.stdout, "{more:?}");
    }
}

#[test]
fn each_governor_changes_modes_and_exceeds_the_limit_in_its_own_way() {
    let (_folder, load) = with_load(IDLE_AND_BACK);
    let figure_of = |governor, figure: &str| {
        let report = json(&replay(&load, &["--governor", governor]));
        report[figure].as_f64().expect("a number")
    };
    assert_eq!(figure_of("open-loop", "changes_per_min"), 1.0);
    assert_eq!(figure_of("once", "changes_per_min"), 1.0);
    // The guard band leads to a slower mode.
    assert!(figure_of("once", "energy_j") < figure_of("open-loop", "energy_j"));
    assert_eq!(figure_of("once", "over_430ms_pct"), 0.0);
    assert!(figure_of("stepper", "changes_per_min") > 5.0);
    assert_eq!(figure_of("preset", "over_430ms_pct"), 0.0);
    assert!(figure_of("wattgate", "over_430ms_pct") < figure_of("maxn", "over_430ms_pct"));
}

#[test]
fn the_workload_is_that_of_the_model_or_of_the_option() {
    let (_folder, load) = with_load(IDLE_AND_BACK);
    let replayed = |more: &[&str]| replay(&load, &[&["--governor", "maxn"], more].concat()).stdout;
    // The model has the minibatch of the shipped workload.
    assert_eq!(replayed(&[]), replayed(&["--workload", "resnet18"]));
    assert_ne!(replayed(&[]), replayed(&["--workload", "lenet"]));
}

#[test]
fn a_defective_load_is_named_by_file_line_and_expectation() {
    let (_folder, load) = with_load("t_ms,activity\n0,1\n1000,\n3000,1\n");
    assert_eq!(
        refused(&replay(&load, &[]), 3),
        format!("error: {load}: line 3: column `activity`: expected a number, 0 … 4, found ``\n")
    );
    let missing = refused(&replay("nowhere.csv", &[]), 5);
    assert!(
        missing.starts_with("error: nowhere.csv: cannot read: "),
        "{missing}"
    );
}

#[test]
fn wrong_arguments_are_named() {
    let (_folder, load) = with_load(IDLE_AND_BACK);
    let samples = "1, 4, 16, 64, 128, 256, 512 or 1024, which the driver takes";
    for (more, expected) in [
        (
            ["--samples", "100"],
            format!("--samples is `100`, expected {samples}"),
        ),
        (
            ["--limit", "0W"],
            "--limit is `0W`, expected a power above 0, such as 25W or 12500mW".to_owned(),
        ),
        (
            ["--governor", "wattgated"],
            "--governor is `wattgated`, expected wattgate, without-model, unknown-board, stepper, open-loop, once, preset or maxn"
                .to_owned(),
        ),
    ] {
        assert_eq!(
            refused(&replay(&load, &more), 2),
            format!("error: {expected}\n")
        );
    }
    let xavier = weights().join("xavier-agx-resnet18.wgt");
    let xavier = xavier.to_str().expect("text");
    let more = [
        "--board",
        "xavier-agx",
        "--weights",
        xavier,
        "--samples",
        "64",
    ];
    assert_eq!(
        refused(&replay(&load, &more), 2),
        "error: --samples 64: the driver of `xavier-agx` has a fixed number; leave --samples out\n"
    );
}

#[test]
fn a_model_without_power_or_of_another_board_is_refused() {
    let (_folder, load) = with_load(IDLE_AND_BACK);
    let model = |name: &str| weights().join(name).to_str().expect("text").to_owned();
    let timed = model("golden/wide-16-time-only.wgt");
    assert_eq!(
        refused(&replay(&load, &["--weights", &timed]), 3),
        format!(
            "error: {timed}: the model does not predict power; name one that was trained with powers\n"
        )
    );
    let other = model("tx1-image5000.wgt");
    let stderr = refused(&replay(&load, &["--weights", &other]), 2);
    assert!(
        stderr.contains("name another workload with --workload"),
        "{stderr}"
    );
    let other = model("xavier-agx-resnet18.wgt");
    refused(&replay(&load, &["--weights", &other]), 3);
}

#[test]
fn a_limit_below_the_lowest_mode_sets_the_safe_mode() {
    let (_folder, load) = with_load(IDLE_AND_BACK);
    let report = json(&replay(&load, &["--limit", "3W"]));
    let safe = report["safe_pct"].as_f64().expect("a number");
    assert!(safe > 90.0, "{safe}");
}

#[test]
fn a_built_in_load_is_written_and_read() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("load.csv");
    let text = path.to_str().expect("text");
    let options = ["--kind", "training", "--seconds", "20", "--seed", "7"];
    let written = simulator(&[&["load"], &options[..], &["-o", text]].concat());
    assert!(written.status.success());
    let load = files::load::read(&path).expect("a load");
    assert_eq!(load, Kind::Training.load(Duration::from_secs(20), 7));
    let stderr = refused(&simulator(&["load", "--kind", "mining", "-o", text]), 2);
    assert_eq!(
        stderr,
        "error: --kind is `mining`, expected a kind that `wattgate-simulator load --help` lists\n"
    );
    let stderr = refused(&simulator(&["load", "--kind", "llm", "--seconds", "1"]), 2);
    assert_eq!(stderr, "error: --seconds is `1`, expected 2 … 604800\n");
}

#[test]
fn the_table_has_a_row_for_each_limit() {
    let folder = weights();
    let folder = folder.to_str().expect("text");
    let only = ["--board", "orin-nano-8-super", "--kind", "square-3s-60%"];
    let options = [
        "--seeds",
        "1",
        "--limit-pct",
        "25,75",
        "--governor",
        "open-loop",
    ];
    let base = [&["loads", "--weights", folder][..], &only, &options].concat();
    let rows = json(&simulator(&[&base[..], &["--json"]].concat()));
    let rows = rows.as_array().expect("a list");
    let limits: Vec<_> = rows.iter().map(|row| &row["limit_pct"]).collect();
    assert_eq!(limits, [25.0, 75.0]);
    for row in rows {
        for key in FIGURES[1..13].iter().chain(&["longest_event_ms"]) {
            assert!(row[key]["worst"].is_f64(), "{key}: {row}");
        }
        assert_eq!(row["governor"], "open loop");
    }
    assert!(rows[0]["limit_mw"].as_u64() < rows[1]["limit_mw"].as_u64());
    let table = String::from_utf8(simulator(&base).stdout).expect("text");
    // A title, a heading, the rows, and the summary with its heading.
    assert_eq!(table.lines().count(), 6, "{table}");
}

#[test]
fn the_worst_figure_of_a_row_is_that_of_its_seed() {
    let bench = Bench::load("orin-nano-8-super", &weights()).expect("a bench");
    let task = LoadTask {
        kind: Kind::OnOff,
        bench: &bench,
        limit_pct: 45.0,
        samples: 512,
        holder: Holder::OpenLoop,
        mismatch: Mismatch::Unit,
        length: LENGTH,
    };
    let rows = rows(&[task], 3).expect("rows");
    let worst = rows[0].speed_vs_clairvoyant_pct;
    let speed = |seed| task.run(seed).expect("a run").speed_vs_clairvoyant_pct;
    let all = [1, 2, 3].map(speed);
    assert_eq!(worst.worst, all.into_iter().fold(f64::MAX, f64::min));
    assert_eq!(all[worst.seed as usize - 1], worst.worst);
}

/// An open loop on the AGX Orin.
fn open_loop(
    bench: &Bench,
    limits: Vec<(Duration, u32)>,
    errors: Option<ModeErrors>,
) -> LoadReport {
    let load_run = LoadRun {
        board: &bench.board,
        model: &bench.model,
        limits,
        load: Kind::Constant.load(Duration::from_secs(30), 0),
        workload: &bench.workload,
        samples: 512,
        unit: None,
        seed: 1,
        holder: Holder::OpenLoop,
        errors,
    };
    run(&load_run, &bench.modes).expect("a run")
}

#[test]
fn a_limit_that_falls_is_an_event() {
    let bench = Bench::load("orin-agx-64", &weights()).expect("a bench");
    let limits = vec![(Duration::ZERO, 50_000), (Duration::from_secs(10), 35_000)];
    // The board draws less than predicted, so that no error of the model adds to the event.
    let less = ModeErrors::Tilt {
        factors: [0.9, 0.9],
    };
    let report = open_loop(&bench, limits, Some(less));
    assert_eq!(report.changes_per_min, 4.0);
    let fallen = report.events.iter().find(|event| event.at_ms == 10_000.0);
    // Setting and reading back each knob takes some 30 ms, and the window is 10 ms long.
    let ms = fallen.expect("an event").ms;
    assert!((10.0..100.0).contains(&ms), "{ms}");
}

#[test]
fn planted_errors_reach_board_and_oracle() {
    let bench = Bench::load("orin-agx-64", &weights()).expect("a bench");
    let limits = || vec![(Duration::ZERO, 25_000)];
    let errors = |factors| Some(ModeErrors::Tilt { factors });
    let right = open_loop(&bench, limits(), None);
    let wrong = open_loop(&bench, limits(), errors([1.3, 1.3]));
    // The same mode draws more power, so the oracle has to choose a slower mode.
    assert!(wrong.energy_j > 1.1 * right.energy_j);
    assert!(wrong.speed_vs_fixed_pct > 1.1 * right.speed_vs_fixed_pct);
}
