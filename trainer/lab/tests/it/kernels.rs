//! Kernel corpora and the models of kernels, on simulated boards and on defective files.

use std::fs::File;
use std::path::Path;

use serde_json::Value;
use wattgate_board_tables::Board;
use wattgate_kernels::Kind;
use wattgate_simulated_board::kernels::Corpus;

use crate::common::{folder, run, write};

/// A corpus of a simulated AGX Xavier in a folder.
pub fn simulated(folder: &Path, name: &str, units: u32, rows: u64, seed: u64) {
    let board = Board::named("xavier-agx").expect("a board");
    let corpus = Corpus {
        board: &board,
        units,
        rows,
        seed,
    };
    let mut file = File::create(folder.join(name)).expect("a file");
    corpus.write(&mut file).expect("written");
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

#[test]
fn units_that_nobody_trained_on_are_predicted() {
    let folder = folder();
    // How the library of the board computes, the models learn from the rows alone.
    simulated(folder.path(), "k.csv", 6, 16_800, 77);
    let json = run(
        folder.path(),
        "kernels evaluate --corpus k.csv --test-units 5,6 --trees 150 --json",
    )
    .json();
    assert_eq!(json["version"], 1);
    assert_eq!(
        (&json["kind"], &json["device"]),
        (&"simulated".into(), &"xavier-agx".into())
    );
    let results = json["results"].as_array().expect("results");
    assert_eq!(results.len(), 2 * Kind::ALL.len());
    for (kind, of_kind) in Kind::ALL.into_iter().zip(results.chunks(2)) {
        for (target, result) in ["time", "power"].into_iter().zip(of_kind) {
            assert_eq!(
                (&result["kernel"], &result["target"]),
                (&kind.name().into(), &target.into())
            );
            let rows = if kind == Kind::Conv2d { 16_800 } else { 1_800 };
            // Every sixth row is of a unit.
            let expected = f64::from(rows) / 3.0;
            assert!(
                (number(&result["rows"]) - expected).abs() <= 1.0,
                "{result}"
            );
            let within = ["5", "10", "15", "20"].map(|limit| number(&result["within_pct"][limit]));
            assert!(within.is_sorted() && within[3] > 80.0, "{result}");
            assert!(number(&result["mape"]) < 15.0, "{result}");
            assert!(
                number(&result["rmse"]) >= number(&result["mae"]),
                "{result}"
            );
        }
    }
    // The same again, and with the crate's learner in place of the project's own.
    let arguments = "kernels evaluate --corpus k.csv --test-units 5,6 --trees 150 --json";
    assert_eq!(run(folder.path(), arguments).json(), json);
    let forust = run(folder.path(), &format!("{arguments} --learner forust")).json();
    assert_eq!(forust["learner"], "forust");
    let mean = |report: &Value| {
        let results = report["results"].as_array().expect("results");
        results
            .iter()
            .map(|result| number(&result["mape"]))
            .sum::<f64>()
            / results.len() as f64
    };
    assert!(
        mean(&json) < 1.02 * mean(&forust),
        "{} {}",
        mean(&json),
        mean(&forust)
    );
}

#[test]
fn several_units_are_compared_with_one() {
    let folder = folder();
    simulated(folder.path(), "k.csv", 6, 6_000, 77);
    let arguments = "kernels boards --corpus k.csv --test-units 5,6 --trees 60";
    let json = run(folder.path(), &format!("{arguments} --json")).json();
    let results = json["results"].as_array().expect("results");
    let conv = &results[0];
    assert_eq!(json["test_units"], serde_json::json!(["5", "6"]));
    assert_eq!(conv["several"]["rows"], conv["one"]["rows"]);
    let gain =
        number(&conv["several"]["within_pct"]["10"]) / number(&conv["one"]["within_pct"]["10"]);
    assert!((100.0 * (gain - 1.0) - number(&conv["gain_pct"]["within_10"])).abs() < 1e-6);
    assert!(gain > 1.0, "{conv}");
    assert_eq!(conv["difference_pct"].as_array().expect("units").len(), 2);
    let text = run(folder.path(), arguments).stdout;
    assert!(
        text.starts_with("xavier-agx, simulated: models of one unit"),
        "{text}"
    );
    let refused = run(
        folder.path(),
        "kernels boards --corpus k.csv --test-units 7",
    );
    let expected = "error: k.csv: no unit `7`; the corpus has 1, 2, 3, 4, 5, 6\n";
    assert_eq!((refused.code, refused.stderr.as_str()), (2, expected));
    simulated(folder.path(), "few.csv", 3, 600, 77);
    let refused = run(
        folder.path(),
        "kernels boards --corpus few.csv --test-units 3",
    );
    let expected = "error: few.csv: the corpus has 3 units; a comparison needs at least 4: two to score, the others train; measure more units\n";
    assert_eq!((refused.code, refused.stderr.as_str()), (3, expected));
}

#[test]
fn a_corpus_of_one_unit_is_scored_on_calls_that_were_left_out() {
    let folder = folder();
    simulated(folder.path(), "one.csv", 1, 3_000, 77);
    let arguments = "kernels evaluate --corpus one.csv --folds 3 --trees 100 --json";
    let json = run(folder.path(), arguments).json();
    // Every row is scored once.
    assert_eq!(json["results"][0]["rows"], 3_000);
    assert!(number(&json["results"][0]["mape"]) < 20.0, "{json}");
}

const RELU: &str =
    "device,unit,kernel,batch,channels,height,width,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw";

/// A file of one kernel with the columns it needs: 60 rows of a made-up board.
pub fn relus() -> Vec<String> {
    let row = |at: u32| {
        let (channels, gpu) = (8 << (at % 6), 100_000 * (1 + at % 10));
        let time = 0.01 + f64::from(channels) / f64::from(gpu);
        format!(
            "board,{},relu,1,{channels},28,28,1000000,{gpu},,{time},5000",
            1 + at / 30
        )
    };
    let rows = (0..60).map(row);
    [RELU.to_owned()].into_iter().chain(rows).collect()
}

#[test]
fn columns_that_no_row_needs_and_knobs_that_do_not_vary_may_be_absent() {
    let folder = folder();
    write(folder.path(), "relu.csv", relus().join("\n"));
    let arguments = "kernels evaluate --corpus relu.csv --trees 50 --json";
    let json = run(folder.path(), arguments).json();
    assert_eq!(json["results"].as_array().expect("results").len(), 2);
    assert_eq!(json["kind"], "measured");
    // A square window in one column, and names of PyTorch.
    let header = RELU.replace("channels", "in_channels")
        + ",out_channels,kernel_size,stride,padding,dilation,groups";
    let rows = relus();
    let rows = rows[1..]
        .iter()
        .map(|row| row.replace("relu", "Conv2d") + ",16,3,1,1,1,1");
    let lines: Vec<String> = [header].into_iter().chain(rows).collect();
    write(folder.path(), "conv.csv", lines.join("\n"));
    let json = run(
        folder.path(),
        "kernels evaluate --corpus conv.csv relu.csv --trees 50 --json",
    )
    .json();
    let kernels: Vec<&Value> = json["results"]
        .as_array()
        .expect("results")
        .iter()
        .map(|r| &r["kernel"])
        .collect();
    assert_eq!(kernels, ["conv2d", "conv2d", "relu", "relu"]);
}

/// `evaluate` refuses the file with this message.
fn refused(lines: &[String], expected: &str) {
    let folder = folder();
    write(folder.path(), "k.csv", lines.join("\n"));
    let run = run(folder.path(), "kernels evaluate --corpus k.csv");
    assert_eq!((run.code, run.stdout.as_str()), (3, ""), "{}", run.stderr);
    assert_eq!(run.stderr, format!("error: k.csv: {expected}\n"));
}

#[test]
fn a_defective_kernel_corpus_is_refused_by_line_and_column() {
    let changed = |from: &str, to: &str| {
        let mut lines = relus();
        lines[3] = lines[3].replacen(from, to, 1);
        lines
    };
    for (from, to, expected) in [
        (
            "relu,1,",
            "relu,,",
            "line 4: `relu` needs `batch`; fill it in",
        ),
        (
            "relu,1,",
            "relu,0,",
            "line 4: `batch` is 0, expected 1 or more",
        ),
        (
            "relu,1,",
            "relu,x,",
            "line 4: column `batch`: expected a whole number, or a blank, found `x`",
        ),
        (
            "relu",
            "gelu",
            "line 4: column `kernel`: expected one of conv2d, batch_norm2d, mat_mul, relu, max_pool2d, adaptive_avg_pool2d, add, cat, found `gelu`",
        ),
        (
            "board",
            "other",
            "line 4: column `device`: expected `board` as in the rows before, found `other`: a kernel model is of one board; write a file for each board",
        ),
        (
            ",1000000,",
            ",,",
            "line 4: column `cpu_khz`: blank in some rows and not in others; fill it in, or clear it in all rows if the board does not vary it",
        ),
        (
            ",5000",
            ",-5",
            "line 4: column `power_mw`: expected a power in mW from 100 to below 1000000 (1 kW), or a blank, found `-5`",
        ),
        (
            ",28,28",
            ",28",
            "line 4: expected 12 fields as in the header, found 11; complete the row, or delete it",
        ),
    ] {
        refused(&changed(from, to), expected);
    }
    refused(
        &[],
        "the file is empty; expected a header with the columns device,unit,kernel,time_ms,power_mw, those of its kernels' parameters, and cores,cpu_khz,gpu_khz,emc_khz",
    );
    refused(&[RELU.to_owned()], "no rows after the header");
    let header = RELU.replace("unit", "board_id");
    refused(
        &[header],
        "line 1: column `unit`: missing; a kernel corpus has the columns device,unit,kernel,time_ms,power_mw, those of its kernels' parameters, and cores,cpu_khz,gpu_khz,emc_khz",
    );
    refused(
        &[format!("{RELU},kernel_h,kernel_size")],
        "line 1: column `kernel_size`: says the same as another column of the header; delete one of them",
    );
    refused(
        &relus()[..20],
        "no kernel has 30 rows to train on and one to score; measure more rows",
    );
}

#[test]
fn units_and_files_that_are_named_wrongly_are_refused() {
    let folder = folder();
    write(folder.path(), "k.csv", relus().join("\n"));
    for (arguments, code, expected) in [
        (
            "--corpus k.csv --test-units 1,1",
            2,
            "k.csv: unit `1` is named twice; name it once",
        ),
        (
            "--corpus k.csv --test-units 1,2",
            2,
            "k.csv: no unit is left to train on; name fewer with --test-units than the corpus has, which are 1, 2",
        ),
        (
            "--corpus k.csv --test-units 3",
            2,
            "k.csv: no unit `3`; the corpus has 1, 2",
        ),
        (
            "--corpus k.csv ./k.csv",
            3,
            "./k.csv: the file is named twice; name it once",
        ),
        (
            "--corpus none.csv",
            5,
            "none.csv: cannot read: No such file or directory (os error 2)",
        ),
    ] {
        let run = run(folder.path(), &format!("kernels evaluate {arguments}"));
        let expected = format!("error: {expected}\n");
        assert_eq!((run.code, run.stderr), (code, expected));
    }
}
