//! Comparisons, transfers and plans, on a small made-up board.

use std::fs;
use std::path::Path;

use crate::common::{self, corpus, folder, run, write};
use serde_json::Value;

fn number(json: &Value) -> f64 {
    json.as_f64().expect("a number")
}

/// The corpus of a workload that takes longer, on a board of another name with half the
/// clocks.
fn other_corpus() -> Vec<String> {
    let mut lines = corpus();
    for line in &mut lines[1..] {
        let fields: Vec<&str> = line.split(',').collect();
        let half = |at: usize| fields[at].parse::<u32>().expect("a clock") / 2;
        let time = 3.0 * fields[6].parse::<f64>().expect("a time");
        *line = format!(
            "other,long,{},{},{},{},{time},{}",
            fields[2],
            half(3),
            half(4),
            half(5),
            fields[7]
        );
    }
    lines
}

fn with_corpora() -> tempfile::TempDir {
    let folder = folder();
    write(folder.path(), "corpus.csv", corpus().join("\n"));
    write(folder.path(), "other.csv", other_corpus().join("\n"));
    folder
}

#[test]
fn every_method_is_scored_on_the_same_modes() {
    let folder = with_corpora();
    let arguments = "evaluate corpus.csv --reference other.csv --modes 12,20% --runs 2 --methods wattgate,powertrain-nn,powertrain-transfer,powertrain-transfer-mape,linear,linear-4,linear-energy,gbt,random --sampling random,planned --json";
    let json = run(folder.path(), arguments).json();
    assert_eq!(json["reference"], "other.csv");
    let rows = json["results"].as_array().expect("rows");
    // Random predicts nothing; the others predict both targets on two numbers of modes,
    // chosen in two ways.
    assert_eq!(rows.len(), 8 * 2 * 2 * 2);
    let find = |method: &str, target: &str, modes: u64, sampling: &str| {
        let is = |row: &&Value| {
            row["method"] == method
                && row["target"] == target
                && row["modes"] == modes
                && row["sampling"] == sampling
        };
        number(&rows.iter().find(is).expect("a row")["mape"]["median"])
    };
    for target in ["time", "power"] {
        for modes in [12, 19] {
            let ours = find("wattgate", target, modes, "random");
            assert!(ours < 6.0, "{target} {modes}: {ours}");
            for method in ["powertrain-nn", "linear", "gbt"] {
                let theirs = find(method, target, modes, "random");
                assert!(ours < theirs, "{method} {target} {modes}: {ours} {theirs}");
            }
        }
    }
    assert!(find("powertrain-transfer", "time", 12, "random") < 40.0);
}

#[test]
fn optimize_reports_what_was_measured_under_each_limit() {
    let folder = with_corpora();
    let arguments = "optimize corpus.csv --modes 20 --runs 2 --methods wattgate,random,maxn --json --plots plots";
    let json = run(folder.path(), arguments).json();
    let limits = json["limits_mw"].as_array().expect("limits");
    assert_eq!(limits.len(), 34);
    let rows = json["results"].as_array().expect("rows");
    let methods: Vec<&str> = rows
        .iter()
        .filter_map(|row| row["method"].as_str())
        .collect();
    assert_eq!(methods, ["wattgate", "random", "maxn"]);
    let [ours, random, maxn] = [0, 1, 2].map(|at| &rows[at]);
    assert_eq!(
        (&ours["confidence"], &random["confidence"]),
        (&0.95.into(), &Value::Null)
    );
    // What it measured fits, and a repeat exceeds it by chance and by little.
    assert!(number(&random["over_pct"]) <= 10.0 && number(&random["over_2pct_pct"]) <= 3.0);
    assert_eq!(number(&maxn["over_pct"]), 100.0);
    assert!(number(&maxn["area_w"]) > 0.5 && number(&maxn["over_1w_pct"]) > 10.0);
    assert!(number(&ours["over_pct"]) <= 10.0);
    assert!(number(&ours["time_penalty_pct"]) <= number(&random["time_penalty_pct"]));
    for row in rows {
        for (solution, limit) in row["solutions"]
            .as_array()
            .expect("solutions")
            .iter()
            .zip(limits)
        {
            assert_eq!(&solution["limit_mw"], limit);
            if row["method"] == "random" && !solution["mode"].is_null() {
                assert!(number(&solution["power_mw"]) <= 1.05 * number(limit));
                assert!(number(&solution["time_ms"]) >= 0.95 * number(&solution["best_time_ms"]));
            }
        }
    }
    let plot = fs::read_to_string(folder.path().join("plots/front.svg")).expect("a plot");
    assert!(plot.starts_with("<svg") && plot.contains("wattgate, 20 random modes"));
}

#[test]
fn tries_stay_within_the_limit() {
    let folder = with_corpora();
    let choose = |tries: &str, confidence: &str| {
        let arguments = format!(
            "optimize corpus.csv --modes 24 --runs 2 --limits 1500mW:3500mW:100mW --tries {tries} --confidence {confidence} --methods wattgate --json"
        );
        run(folder.path(), &arguments).json()["results"][0].clone()
    };
    // The last of three tries takes 9/13 of the risk of 5 %.
    let (one, three) = (choose("1", "0.9654"), choose("3", "0.95"));
    assert_eq!(number(&three["over_pct"]), 0.0);
    assert!(number(&three["time_penalty_pct"]) <= number(&one["time_penalty_pct"]));
    let tries = |row: &Value| {
        let solutions = row["solutions"].as_array().expect("solutions").iter();
        solutions.map(|s| s["tries"].as_u64()).max().flatten()
    };
    assert_eq!((tries(&one), tries(&three)), (Some(1), Some(3)));
}

#[test]
fn a_transfer_is_made_from_a_corpus_and_from_a_model_and_is_repeatable() {
    let folder = with_corpora();
    let path = folder.path();
    run(path, "fit other.csv -o other.wgt --json").json();
    let transfer = |reference: &str| {
        let arguments =
            format!("transfer corpus.csv --reference {reference} --modes 8 -o model.wgt --json");
        let report = run(path, &arguments).json();
        assert_eq!(report["reference"], reference);
        let mape = number(&report["exported"]["time_mape"]);
        assert!(mape < 10.0, "{reference} {mape}");
        fs::read(path.join("model.wgt")).expect("a model")
    };
    assert_eq!(transfer("other.csv"), transfer("other.csv"));
    assert_ne!(transfer("other.wgt"), transfer("other.csv"));
}

#[test]
fn the_matrix_has_a_cell_for_each_reference_and_none() {
    let folder = with_corpora();
    let arguments = "matrix corpus.csv other.csv --modes 10 --runs 1";
    let json = run(folder.path(), &format!("{arguments} --json")).json();
    let cells = json["cells"].as_array().expect("cells");
    let of = |cell: &Value| {
        [&cell["corpus"], &cell["reference"], &cell["target"]]
            .map(|value| value.as_str().unwrap_or("none").to_owned())
    };
    let cells: Vec<[String; 3]> = cells.iter().map(of).collect();
    let mut expected = Vec::new();
    for [corpus, other] in [["corpus.csv", "other.csv"], ["other.csv", "corpus.csv"]] {
        for reference in ["none", other] {
            for target in ["time", "power"] {
                expected.push([corpus, reference, target].map(str::to_owned));
            }
        }
    }
    assert_eq!(cells, expected);
    let text = run(folder.path(), arguments).stdout;
    assert!(
        text.contains("time, reference        none       1       2\n"),
        "{text}"
    );
}

fn planned(path: &Path, arguments: &str) -> Value {
    run(path, &format!("plan --json {arguments}")).json()
}

#[test]
fn a_plan_starts_wide_and_goes_on_from_what_was_measured() {
    let folder = with_corpora();
    let path = folder.path();
    let first = planned(path, "--board corpus.csv --modes 8 --order value");
    let modes = first["modes"].as_array().expect("modes");
    assert_eq!(modes.len(), 8);
    assert_eq!(first["expected_error_pct"]["time"], Value::Null);
    let line_of = |mode: &Value| {
        let knobs = ["cores", "cpu_khz", "gpu_khz", "emc_khz"].map(|knob| mode[knob].to_string());
        let start = format!("board,job,{},", knobs.join(","));
        corpus()
            .into_iter()
            .find(|line| line.starts_with(&start))
            .expect("a mode of the board")
    };
    let mut have = vec![common::HEADER.to_owned()];
    have.extend(modes.iter().map(line_of));
    write(path, "have.csv", have.join("\n"));
    let second = planned(path, "have.csv --board corpus.csv --modes 12");
    let more = second["modes"].as_array().expect("modes");
    assert_eq!((more.len(), &second["measured"]), (4, &8.into()));
    assert!(more.iter().all(|mode| !have.contains(&line_of(mode))));
    assert!(second["expected_error_pct"]["power"].as_f64().is_some());
    assert_eq!(second["enough"], false);
    let last = planned(path, "have.csv --board corpus.csv --modes 12 --until 90");
    assert_eq!(
        (&last["modes"], &last["enough"]),
        (&serde_json::json!([]), &true.into())
    );
    assert_eq!(
        planned(path, "--board corpus.csv --modes 8 --order value"),
        first
    );
}

#[test]
fn a_plan_from_axes_visits_modes_from_high_to_low() {
    let folder = folder();
    let axes =
        "--axes cores=1,2,4 cpu_khz=400000,800000,1600000 gpu_khz=300000,900000 emc_khz=800000";
    let json = planned(folder.path(), &format!("{axes} --modes 9"));
    let modes = json["modes"].as_array().expect("modes");
    assert_eq!(modes.len(), 9);
    for pair in modes.windows(2) {
        let rises = |knob: &str| pair[1][knob].as_u64() > pair[0][knob].as_u64();
        let raises = rises("cpu_khz") || rises("gpu_khz");
        assert_eq!(pair[1]["raises_clock"], raises);
    }
    assert_eq!(modes[0]["cpu_khz"], 1_600_000);
}

#[test]
fn learning_curves_and_scatter_plots_are_drawn() {
    let folder = with_corpora();
    let arguments = "evaluate corpus.csv --modes 10,20 --runs 3 --methods linear,gbt --plots plots";
    let text = run(folder.path(), arguments);
    assert_eq!(text.code, 0, "{}", text.stderr);
    for target in ["time", "power"] {
        for plot in ["learning", "predicted"] {
            let svg = fs::read_to_string(folder.path().join(format!("plots/{plot}-{target}.svg")));
            let svg = svg.expect("a plot");
            assert!(svg.starts_with("<svg") && svg.contains("corpus.csv (measured)"));
        }
    }
}
