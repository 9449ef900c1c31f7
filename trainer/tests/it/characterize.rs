//! `characterize` on simulated boards, and what it refuses.

use std::path::Path;

use serde_json::Value;
use wattgate_board_tables::Board;
use wattgate_simulated_board::corpus::{Modes, csv};
use wattgate_simulated_board::profile::Profiler;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;

use crate::common::{folder, run, write};

fn xavier() -> Board {
    Board::named("xavier-agx").expect("known")
}

/// Writes the corpus of a network in the ten modes of Characterizing.
fn network(folder: &Path, name: &str) {
    let board = xavier();
    let workload = Workload::named(name).expect("shipped");
    let modes = Modes::Characterizing.of(&board, 0).expect("of this board");
    let profiles = Profiler::new(&board, Unit::NOMINAL, &workload, 0).profile_all(&modes);
    write(
        folder,
        &format!("{name}.csv"),
        csv(&board, &workload, &profiles),
    );
}

const SEARCH: &str = "characterize modes lenet.csv resnet18-cifar10.csv mobilenetv3.csv \
                      --samples 60000,50000,23080";

#[test]
fn four_modes_predict_the_epochs_of_known_and_new_networks() {
    let folder = folder();
    let path = folder.path();
    for name in ["lenet", "resnet18-cifar10", "mobilenetv3", "vgg11"] {
        network(path, name);
    }
    let mut scores: Vec<Value> = Vec::new();
    let found = run(path, &format!("{SEARCH} -o four.json --json")).json();
    assert_eq!(found["modes"].as_array().expect("a list").len(), 4);
    scores.extend(found["scores"].as_array().expect("a list").iter().cloned());
    let new = run(
        path,
        "characterize modes vgg11.csv --samples 50000 --modes four.json --json",
    );
    let new = new.json();
    assert_eq!(new["modes"], found["modes"]);
    scores.extend(new["scores"].as_array().expect("a list").iter().cloned());
    let of = |key: &str| -> Vec<f64> {
        let values = scores.iter().map(|score| score[key].as_f64());
        values.map(|value| value.expect("a number")).collect()
    };
    assert_eq!(scores.len(), 4);
    assert_eq!(scores[3]["is_new"], true);
    let mean = |key| of(key).iter().sum::<f64>() / 4.0;
    assert!(of("linear_time").iter().all(|error| *error <= 12.0));
    assert!(mean("ours_time") <= mean("linear_time") / 2.0);
    assert!(of("ours_energy").iter().all(|error| *error <= 8.0));
}

#[test]
fn stored_modes_are_checked() {
    let folder = folder();
    let path = folder.path();
    network(path, "lenet");
    let search = run(path, "characterize modes lenet.csv -o four.json");
    assert_eq!(search.code, 0, "{}", search.stderr);
    let stored = std::fs::read_to_string(path.join("four.json")).expect("written");
    let mut four: Value = serde_json::from_str(&stored).expect("JSON");
    let refused = |four: &Value| {
        write(path, "other.json", four.to_string());
        let run = run(path, "characterize modes lenet.csv --modes other.json");
        assert_eq!(run.code, 3);
        run.stderr
    };
    let second = four["modes"][1].clone();
    let mut equal = four.clone();
    equal["modes"][0] = second;
    let message = refused(&equal);
    assert!(
        message.starts_with("error: other.json: mode [")
            && message.ends_with("is one of the four twice, expected four different ones\n"),
        "{message}"
    );
    let mut absent = four.clone();
    absent["modes"][0][0] = 3.into();
    let message = refused(&absent);
    assert!(
        message.ends_with("one of the four: profile it\n"),
        "{message}"
    );
    four["device"] = "tx2".into();
    assert_eq!(
        refused(&four),
        "error: lenet.csv: the four modes are of `tx2`, the corpus is of `xavier-agx`\n"
    );
    four["modes"] = Value::Null;
    assert!(refused(&four).starts_with("error: other.json: not a file of `characterize modes`: "));
}

#[test]
fn a_log_of_the_power_is_checked() {
    let folder = folder();
    let path = folder.path();
    let of = |contents: &str| {
        write(path, "power.csv", contents);
        let run = run(path, "characterize energy power.csv");
        (run.code, run.stdout + &run.stderr)
    };
    let good = "seconds,watts\n0,9\n1,10\n2,20\n";
    assert_eq!(
        of(good),
        (0, "30.0 J in 2.0 s, 15.00 W on average\n".into())
    );
    let (code, gap) = of("seconds,watts\n0,9\n1,10\n2,20\n60,5\n61,10\n");
    assert_eq!(code, 0);
    assert_eq!(
        gap,
        "40.0 J in 3.0 s, 13.33 W on average\nno samples from 2 s to 60 s: the energy of this time is \
         unknown and does not count\n"
    );
    for (contents, message) in [
        (
            "seconds,watts\n0,9\n2,10\n1,20\n",
            "line 4: the sample of 1 s comes after that of 2 s; sort the log by time",
        ),
        (
            "seconds,watts\n0,9\n1,-4\n",
            "line 3: expected a time in s and a power in W from zero, found `1,-4`",
        ),
        (
            "0,9\n1,4\n",
            "the first line is `0,9`, expected `seconds,watts`",
        ),
        (
            "seconds,watts\n0,9\n",
            "found 1 samples, expected at least two",
        ),
    ] {
        let expected = format!("error: power.csv: {message}\n");
        assert_eq!(
            of(contents),
            (3, expected.replace("csv: line", "csv: line"))
        );
    }
}
