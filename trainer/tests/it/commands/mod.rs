//! What each command does with sound input, on a small made-up board.

mod fit;
mod predict;
mod select;

use std::fs;
use std::path::Path;

use crate::common::{corpus, corpus_of_another, folder, row, run, write};
use serde_json::Value;

fn keys(json: &Value) -> Vec<&str> {
    let keys = json.as_object().expect("an object").keys();
    keys.map(String::as_str).collect()
}

/// A model of the made-up board.
fn fit(folder: &Path, rows: &[String], arguments: &str) -> Value {
    write(folder, "corpus.csv", rows.join("\n"));
    run(
        folder,
        &format!("fit corpus.csv -o model.wgt --json {arguments}"),
    )
    .json()
}

/// The rows of a table of predictions, without its header.
fn predictions(text: &str) -> Vec<Vec<String>> {
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some(
            "cores,cpu_khz,gpu_khz,emc_khz,profiled,time_ms,time_at_least_ms,time_at_most_ms,power_mw,power_at_least_mw,power_at_most_mw"
        )
    );
    let fields = |line: &str| line.split(',').map(str::to_owned).collect();
    lines.map(fields).collect()
}

/// A user plans modes, fills in what was measured, plans more modes, fills them in and fits. The model
/// then has all clocks of the board.
#[test]
fn a_corpus_is_planned_filled_in_and_fitted() {
    let folder = folder();
    let path = folder.path();
    // What a user does with an editor: a time and a power in each row that has none.
    let fill_in = || {
        let planned = fs::read_to_string(path.join("yolo.csv")).expect("a plan");
        let mut rows = 0;
        let lines = planned.lines().map(|line| {
            let Some(mode) = line.strip_suffix(",,") else {
                return line.to_owned();
            };
            rows += 1;
            let fields: Vec<&str> = mode.split(',').collect();
            assert_eq!(fields[..2], ["tx2", "yolo"]);
            let knob = |at: usize| fields[at].parse::<u32>().expect("a whole number");
            let row = row(knob(2), knob(3), knob(4), knob(5));
            let values = row.strip_prefix("board,job").expect("the made-up board");
            format!("tx2,yolo{values}")
        });
        let lines: Vec<String> = lines.collect();
        write(path, "yolo.csv", lines.join("\n"));
        rows
    };
    let plan = "plan --board tx2 --modes 8 --workload yolo -o yolo.csv";
    let planned = run(path, plan);
    assert_eq!(planned.code, 0, "{}", planned.stderr);
    let wrote = "\nwrote yolo.csv, 8 rows to fill in\n";
    assert!(planned.stdout.ends_with(wrote), "{}", planned.stdout);
    // A second plan does not replace what may have been measured.
    let again = run(path, plan);
    let expected = "error: yolo.csv: the file exists; name it as CORPUS as well, and the rows are added to it\n";
    assert_eq!((again.code, again.stderr.as_str()), (2, expected));
    // Nobody can fit it before it is filled in.
    let early = run(path, "fit yolo.csv --board tx2 -o yolo.wgt");
    let blank = "error: yolo.csv: line 2: neither time_ms nor power_mw;";
    assert_eq!(early.code, 3);
    assert!(early.stderr.starts_with(blank), "{}", early.stderr);
    assert_eq!(fill_in(), 8);
    let first = fs::read_to_string(path.join("yolo.csv")).expect("a corpus");

    let planned = run(path, "plan yolo.csv --board tx2 --modes 12 -o yolo.csv");
    assert_eq!(planned.code, 0, "{}", planned.stderr);
    assert_eq!(fill_in(), 4);
    let second = fs::read_to_string(path.join("yolo.csv")).expect("a corpus");
    assert!(second.starts_with(&first), "{second}");
    // Nothing is left to plan, and the corpus stays as it is, also under another name.
    for output in ["./yolo.csv", "copy.csv"] {
        let plan = format!("plan yolo.csv --board tx2 --modes 12 -o {output}");
        let wrote = format!("wrote {output}, 0 rows to fill in\n");
        assert!(run(path, &plan).stdout.ends_with(&wrote));
        let after = fs::read_to_string(path.join(output)).expect("a corpus");
        assert_eq!(after, second);
    }

    let fitted = run(path, "fit yolo.csv --board tx2 -o yolo.wgt --json").json();
    let board = wattgate_board_tables::Board::named("tx2").expect("a board");
    assert_eq!(fitted["modes_used"], 12);
    assert_eq!(fitted["modes_in_grid"], board.all_modes().len());
    assert_eq!(fitted["device"], "tx2");
    let inspected = run(path, "inspect yolo.wgt --json").json();
    assert_eq!(
        inspected["axes"]["cpu_khz"],
        serde_json::json!(board.cpu_khz)
    );
    let predicted = predictions(&run(path, "predict yolo.wgt").stdout);
    assert_eq!(predicted.len(), board.all_modes().len());
}

/// `wattgate probe` records which clocks a board has.
#[test]
fn a_probe_names_a_board() {
    let probe = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tools/wattgate/probe/tests/probes/simulated-orin-nx-16-super.jsonl.gz"
    );
    let folder = folder();
    let path = folder.path();
    let planned = format!("plan --board {probe} --modes 2 --workload yolo -o yolo.csv --json");
    let planned = run(path, &planned).json();
    let tables = wattgate_board_tables::Board::named("orin-nx-16-super").expect("a board");
    for mode in planned["modes"].as_array().expect("modes") {
        for (name, values) in ["cores", "cpu_khz", "gpu_khz", "emc_khz"]
            .into_iter()
            .zip(tables.axes())
        {
            assert!(values.iter().any(|value| mode[name] == *value), "{mode}");
        }
    }
    let names = "\norin-nx-16-super,yolo,";
    let todo = fs::read_to_string(path.join("yolo.csv")).expect("a plan");
    assert!(todo.contains(names), "{todo}");
    write(path, "short.gz", &fs::read(probe).expect("a probe")[..1000]);
    let refused = run(path, "plan --board short.gz --modes 2");
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    assert!(
        refused.stderr.starts_with("error: short.gz: "),
        "{}",
        refused.stderr
    );
}

/// Programs that read the output find the version at its start, whatever the command and its result.
#[test]
fn every_json_starts_with_its_version() {
    let folder = folder();
    let path = folder.path();
    fit(path, &corpus(), "--modes 20");
    write(path, "other.csv", corpus_of_another().join("\n"));
    for (arguments, code) in [
        ("check --json corpus.csv", 0),
        ("plan --board corpus.csv --modes 5 --json", 0),
        ("fit corpus.csv --modes 20 -o new.wgt --json", 0),
        (
            "fit corpus.csv --reference other.csv --modes 20 -o new.wgt --json",
            0,
        ),
        ("inspect model.wgt --json", 0),
        ("predict model.wgt --json", 0),
        ("select model.wgt --json", 0),
        ("select model.wgt --limit 1W --json", 4),
    ] {
        let run = run(path, arguments);
        assert_eq!(run.code, code, "{arguments}: {}", run.stderr);
        let starts = run.stdout.starts_with("{\n  \"version\": 1,\n");
        assert!(starts, "{arguments}: {}", run.stdout);
        let json: Value = serde_json::from_str(&run.stdout).expect("one JSON document");
        assert!(keys(&json).len() > 1, "{arguments}");
    }
}

#[test]
fn models_that_are_none_are_refused_by_name() {
    let folder = folder();
    let path = folder.path();
    fit(path, &corpus(), "--modes 20");
    let model = fs::read(path.join("model.wgt")).expect("a model");
    let mut flipped = model.clone();
    flipped[300] ^= 4;
    let mut newer = model.clone();
    newer[4] = 6;
    let again = "copy the file again, or train the model again";
    let fitted = "expected a model, as `wattgate-trainer fit` writes it";
    let release = "use a later release of wattgate, or train the model again with this one";
    let cases: [(&[u8], &str, &str); 5] = [
        (
            &model[..500],
            "truncated: shorter than its header says",
            again,
        ),
        (&flipped, "damaged: the checksum does not match", again),
        (
            b"\x7fELF, or anything else of some length",
            "not a wattgate model file",
            fitted,
        ),
        (
            &newer,
            "written in format version 6; this reader knows versions 1 … 5",
            release,
        ),
        (b"", "shorter than a model file's header", fitted),
    ];
    for (bytes, why, advice) in cases {
        write(path, "other.wgt", bytes);
        for command in ["inspect other.wgt", "predict other.wgt", "select other.wgt"] {
            let refused = run(path, command);
            let message = format!("error: other.wgt: {why}; {advice}\n");
            assert_eq!((refused.code, refused.stderr), (3, message));
        }
    }
    let refused = run(path, "inspect none.wgt");
    assert_eq!(refused.code, 5);
    let message = "error: none.wgt: cannot read: No such file or directory (os error 2)\n";
    assert_eq!(refused.stderr, message);
}
