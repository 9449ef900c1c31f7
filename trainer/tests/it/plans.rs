//! Transfers and plans, on a small made-up board.

use std::fs;
use std::path::Path;

use crate::common::{self, corpus, folder, number, run, with_corpora, write};
use serde_json::Value;

#[test]
fn a_transfer_is_made_from_a_corpus_and_from_a_model_and_is_repeatable() {
    let folder = with_corpora();
    let path = folder.path();
    run(path, "fit other.csv -o other.wgt --json").json();
    let transfer = |reference: &str| {
        let arguments =
            format!("fit corpus.csv --reference {reference} --modes 8 -o model.wgt --json");
        let report = run(path, &arguments).json();
        assert_eq!(report["reference"], reference);
        let mape = number(&report["exported"]["time_mape"]);
        assert!(mape < 10.0, "{reference} {mape}");
        fs::read(path.join("model.wgt")).expect("a model")
    };
    assert_eq!(transfer("other.csv"), transfer("other.csv"));
    assert_ne!(transfer("other.wgt"), transfer("other.csv"));
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
