//! `characterize` on simulated boards, and what it refuses.

use std::path::Path;

use serde_json::Value;
use wattgate_board_tables::Board;
use wattgate_simulated_board::corpus::{Feeding, Modes, csv, fed_csv};
use wattgate_simulated_board::profile::Profiler;
use wattgate_simulated_board::storage::{Epoch, storage};
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
    let modes = Modes::Characterizing
        .select(&board, 0)
        .expect("of this board");
    let profiles = Profiler::new(&board, Unit::NOMINAL, &workload, 0).profile_all(&modes);
    write(
        folder,
        &format!("{name}.csv"),
        csv(&board, &Unit::NOMINAL, &workload, &profiles),
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
    let column = |key: &str| -> Vec<f64> {
        let values = scores.iter().map(|score| score[key].as_f64());
        values.map(|value| value.expect("a number")).collect()
    };
    assert_eq!(scores.len(), 4);
    assert_eq!(scores[3]["is_new"], true);
    let mean = |key| column(key).iter().sum::<f64>() / 4.0;
    assert!(column("linear_time").iter().all(|error| *error <= 12.0));
    assert!(mean("ours_time") <= mean("linear_time") / 2.0);
    assert!(column("ours_energy").iter().all(|error| *error <= 8.0));
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
            && message.ends_with("is one of the four twice, expected four different ones; run `characterize modes` again\n"),
        "{message}"
    );
    let mut absent = four.clone();
    absent["modes"][0][0] = 3.into();
    let message = refused(&absent);
    assert!(
        message.ends_with("one of the four; profile it\n"),
        "{message}"
    );
    four["device"] = "tx2".into();
    assert_eq!(
        refused(&four),
        "error: lenet.csv: the four modes are of `tx2`, the corpus is of `xavier-agx`; name a corpus or a file of modes of the same board\n"
    );
    four["modes"] = Value::Null;
    assert!(refused(&four).starts_with("error: other.json: not a file of `characterize modes`: "));
}

#[test]
fn a_log_of_the_power_is_checked() {
    let folder = folder();
    let path = folder.path();
    let energy = |contents: &str| {
        write(path, "power.csv", contents);
        let run = run(path, "characterize energy power.csv");
        (run.code, run.stdout + &run.stderr)
    };
    let good = "seconds,watts\n0,9\n1,10\n2,20\n";
    assert_eq!(
        energy(good),
        (0, "30.0 J in 2.0 s, 15.00 W on average\n".into())
    );
    let (code, gap) = energy("seconds,watts\n0,9\n1,10\n2,20\n60,5\n61,10\n");
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
            "the file has 1 of the two samples that are needed; log for longer",
        ),
    ] {
        let expected = format!("error: power.csv: {message}\n");
        assert_eq!(energy(contents), (3, expected));
    }
}

/// A corpus of MobileNet, fed in several ways, on a unit of AGX Xavier.
fn fed(unit: Unit) -> String {
    let board = xavier();
    let workload = Workload::named("mobilenetv3").expect("shipped");
    let modes = Modes::Characterizing
        .select(&board, 0)
        .expect("of this board");
    let mut runs = Vec::new();
    for minibatch in [16, 32] {
        for workers in [0, 4] {
            for kind in ["ssd", "hdd"] {
                for epoch in [Epoch::First, Epoch::Later] {
                    let storage = storage(kind).expect("a kind");
                    let feeding = Feeding {
                        minibatch,
                        workers,
                        storage: Some((storage, epoch)),
                    };
                    let workload = feeding.apply(&workload, &board).expect("it fits");
                    let mut profiler = Profiler::new(&board, unit, &workload, 0);
                    runs.push((feeding, profiler.profile_all(&modes)));
                }
            }
        }
    }
    fed_csv(&board, &unit, &workload.name, &runs)
}

#[test]
fn a_report_answers_each_question_of_which_the_rows_differ_in_one_factor() {
    let folder = folder();
    let path = folder.path();
    write(path, "one.csv", fed(Unit::NOMINAL));
    write(path, "two.csv", fed(Unit::drawn(3)));
    let arguments = "characterize report one.csv two.csv --idle 7.5W --html page.html --json";
    let report = run(path, arguments).json();
    assert_eq!(report["kind"], "simulated");
    assert_eq!(report["unanswered"], Value::Array(Vec::new()));
    let answers = report["answers"].as_array().expect("a list");
    let times = |question: &str| -> Vec<f64> {
        let is_asked = |answer: &&Value| {
            answer["question"]
                .as_str()
                .is_some_and(|it| it.starts_with(question))
        };
        let answer = answers.iter().find(is_asked).expect(question);
        let steps = answer["steps"].as_array().expect("a list");
        for step in steps {
            let parts = ["fetch_pct", "rest_pct", "compute_pct"].map(|part| step[part].as_f64());
            let sum: f64 = parts.iter().map(|part| part.expect("told")).sum();
            assert!((sum - 100.0).abs() < 1e-6, "{step}");
        }
        let key = if question == "Minibatch" {
            "item_ms"
        } else {
            "time_ms"
        };
        steps
            .iter()
            .map(|step| step[key].as_f64().expect("a time"))
            .collect()
    };
    let slower = times("Power modes");
    assert!(slower.is_sorted() && slower.len() == 3, "{slower:?}");
    for question in [
        "Loader workers",
        "Online cores",
        "Page cache",
        "Storage",
        "Minibatch",
    ] {
        let times = times(question);
        assert!(
            times[0] > *times.last().expect("steps"),
            "{question}: {times:?}"
        );
    }
    let variation = &report["variation"];
    assert!(
        variation["time_pct"]
            .as_f64()
            .is_some_and(|pct| pct > 0.1 && pct < 20.0)
    );
    let page = std::fs::read_to_string(path.join("page.html")).expect("written");
    assert!(page.contains("All figures of this page are <b>simulated</b>"));
    assert!(page.contains("<svg") && !page.contains("http"));
    assert!(!page.contains("{ANSWERS}") && !page.contains("{ENERGY}"));
}

#[test]
fn a_report_without_the_optional_columns_says_what_it_cannot_answer() {
    let folder = folder();
    let path = folder.path();
    write(path, "plain.csv", crate::common::corpus().join("\n"));
    let report = run(path, "characterize report plain.csv");
    assert_eq!(report.code, 0, "{}", report.stderr);
    let expected = "
Not answered
  Shares of waiting for the loader, of preparing and of GPU compute: needs the columns `fetch_ms` and `compute_ms`
  Loader workers: needs the column `workers` with two values in one mode
  Page cache: first epoch against later ones: needs the column `epoch` with 0 and a later one in one mode
  Storage: needs the column `storage` with two values in one mode
  Minibatch: needs the column `minibatch` with two values in one mode
  Energy over idle: needs the power of the idle board: --idle 7.5W
  Variation between boards and software versions: needs a second corpus with modes and feedings of the first
";
    assert!(report.stdout.ends_with(expected), "{}", report.stdout);
    assert!(
        report
            .stdout
            .starts_with("measured: job on board, 96 rows\n\nPower modes\n  fastest: 4 cores, ")
    );
    let one = crate::common::corpus()[..2].join("\n");
    write(path, "one.csv", one);
    let one = run(path, "characterize report one.csv").stdout;
    assert!(
        one.contains("\n  Power modes: needs two modes with one feeding\n"),
        "{one}"
    );
    let rows = crate::common::corpus()
        .join("\n")
        .replace(",job,", ",other,");
    write(path, "other.csv", rows);
    let mixed = run(path, "characterize report plain.csv other.csv");
    assert_eq!(
        (mixed.code, mixed.stderr.as_str()),
        (
            3,
            "error: other.csv: the workload is `other`, but `job` in the first corpus; expected the same, so leave one of them out\n"
        )
    );
}
