//! Comparisons, on a small made-up board.

use std::fs;

use crate::common::{corpus, folder, number, run, with_corpora, write};
use indicatif::ProgressBar;
use serde_json::Value;
use wattgate_runtime::shape::Shape;
use wattgate_trainer::fit::{FitOptions, fit};
use wattgate_trainer::plan::{Amount, Sampling};
use wattgate_trainer::read::Corpus;

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
fn the_matrix_has_a_cell_for_each_reference_and_none() {
    let folder = with_corpora();
    let arguments = "matrix corpus.csv other.csv --modes 10 --runs 1";
    let json = run(folder.path(), &format!("{arguments} --json")).json();
    let cells = json["cells"].as_array().expect("cells");
    let fields = |cell: &Value| {
        [&cell["corpus"], &cell["reference"], &cell["target"]]
            .map(|value| value.as_str().unwrap_or("none").to_owned())
    };
    let cells: Vec<[String; 3]> = cells.iter().map(fields).collect();
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

#[test]
fn evaluate_reports_medians_and_every_run() {
    let folder = folder();
    let path = folder.path();
    write(path, "corpus.csv", corpus().join("\n"));
    let json = run(
        path,
        "evaluate corpus.csv --modes 40 --runs 3 --seed 7 --json",
    )
    .json();
    assert_eq!(json["runs"].as_array().map(Vec::len), Some(3));
    let mape = |run: usize| {
        json["runs"][run]["time"]["mape"]
            .as_f64()
            .expect("a number")
    };
    let mut times = [0, 1, 2].map(mape);
    times.sort_by(f64::total_cmp);
    let row = &json["results"][0];
    assert_eq!(
        (&row["method"], &row["target"], &row["sampling"]),
        (&"wattgate".into(), &"time".into(), &"random".into())
    );
    assert_eq!((&row["modes"], &row["runs"]), (&40.into(), &3.into()));
    assert_eq!(row["mape"]["median"], times[1]);
    for share in [
        "within_5_pct",
        "within_10_pct",
        "within_15_pct",
        "within_20_pct",
    ] {
        assert!(row[share]["median"].as_f64() > Some(80.0), "{row}");
    }
    assert_eq!(json["runs"][2]["seed"], 9);
    // With more than a half of the 96 modes, both hold out all others.
    let evaluate = "evaluate corpus.csv --modes 50 --runs 1 --seed 8 --json";
    let evaluated = run(path, evaluate).json();
    let progress = ProgressBar::hidden();
    let corpus = Corpus::read(&path.join("corpus.csv"), &progress).expect("a corpus");
    let options = FitOptions {
        amount: Amount::Modes(50),
        sampling: Sampling::Random,
        references: &[],
        seed: 8,
        shape: Shape::Wide32,
    };
    let fitted = fit(&corpus, &options, &progress).expect("a fit");
    let mape = fitted.report.exported.time_mape;
    assert_eq!(evaluated["runs"][0]["time"]["mape"].as_f64(), mape);
}

/// Half of a small corpus is trained on where nobody says how many modes.
#[test]
fn the_default_number_of_modes_follows_the_corpus() {
    let folder = with_corpora();
    let path = folder.path();
    write(path, "small.csv", corpus()[..15].join("\n"));
    for (file, modes) in [("small.csv", 7), ("corpus.csv", 50)] {
        let evaluate = format!("evaluate {file} --methods linear --runs 1 --json");
        assert_eq!(run(path, &evaluate).json()["results"][0]["modes"], modes);
        let matrix = format!("matrix {file} other.csv --method linear --runs 1 --json");
        assert_eq!(run(path, &matrix).json()["modes"], modes.to_string());
    }
}

/// Programs that read the output find the version at its start, and what kind of corpus it is of.
#[test]
fn every_json_starts_with_its_version_and_says_the_kind() {
    let folder = with_corpora();
    let path = folder.path();
    let mut rows = corpus();
    rows[0] += ",kind";
    rows[1..].iter_mut().for_each(|row| *row += ",simulated");
    write(path, "corpus.csv", rows.join("\n"));
    for command in [
        "evaluate corpus.csv --methods linear",
        "optimize corpus.csv --methods linear",
        "matrix corpus.csv other.csv --method linear",
    ] {
        let run = run(path, &format!("{command} --modes 20 --runs 1 --json"));
        assert_eq!(run.code, 0, "{command}: {}", run.stderr);
        let starts = run.stdout.starts_with("{\n  \"version\": 1,\n");
        assert!(starts, "{command}: {}", run.stdout);
        assert!(run.stdout.contains("\"simulated\""), "{command}");
    }
}
