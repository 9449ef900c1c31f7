//! `fit`.

use std::fs;

use super::{fit, keys, predictions};
use crate::common::{HEADER, corpus, corpus_of_another, folder, row, run, write};
use serde_json::Value;

#[test]
fn fit_writes_a_model_and_reports_it() {
    let folder = folder();
    let path = folder.path();
    let report = fit(path, &corpus(), "--modes 40 --seed 3");
    let mut expected = [
        "version",
        "kind",
        "device",
        "workload",
        "reference",
        "seed",
        "modes_used",
        "modes_held_out",
        "sampling",
        "modes_in_grid",
        "shape",
        "teacher",
        "student",
        "exported",
        "idle",
        "expected",
        "suspects",
        "doubtful",
        "contradictions",
        "coverage",
        "units",
        "unit_doubts",
        "other_units_power_ratio",
        "power_bound_ratio",
        "bytes",
        "seconds",
    ];
    let mut found = keys(&report);
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(
        (&report["modes_used"], &report["modes_held_out"]),
        (&40.into(), &56.into())
    );
    assert_eq!(report["kind"], "measured");
    for errors in ["teacher", "student", "exported", "expected"] {
        for target in ["time_mape", "power_mape"] {
            let mape = report[errors][target].as_f64().expect("a number");
            assert!(mape > 0.0 && mape < 3.0, "{errors} {target} {mape}");
        }
    }
    let length = fs::metadata(path.join("model.wgt")).expect("a model").len();
    assert_eq!(report["bytes"], length);
    assert!(length <= 1536);
    let inspected = run(path, "inspect --json model.wgt").json();
    for key in [
        "kind",
        "device",
        "workload",
        "seed",
        "modes_used",
        "modes_held_out",
        "shape",
    ] {
        assert_eq!(inspected[key], report[key], "{key}");
    }
    let rounded = |mape: &Value| (100.0 * mape.as_f64().expect("a number")).round() / 100.0;
    for target in ["time_mape", "power_mape"] {
        assert_eq!(inspected[target], rounded(&report["exported"][target]));
    }
    assert_eq!(inspected["errors_of"], "held_out");
    let text = run(path, "inspect model.wgt").stdout;
    let line = "\nerrors on 56 held-out modes: time ";
    assert!(text.contains(line), "{text}");
    assert_eq!(
        inspected["axes"]["cpu_khz"],
        serde_json::json!([400_000, 800_000, 1_200_000, 1_600_000])
    );
}

#[test]
fn the_same_seed_gives_the_same_file_and_another_one_does_not() {
    let folder = folder();
    let path = folder.path();
    let model = |arguments: &str| {
        fit(path, &corpus(), arguments);
        fs::read(path.join("model.wgt")).expect("a model")
    };
    let first = model("--modes 20 --seed 5");
    assert_eq!(model("--modes 20 --seed 5"), first);
    assert_ne!(model("--modes 20 --seed 6"), first);
}

#[test]
fn the_small_shapes_can_be_fitted() {
    let folder = folder();
    for shape in ["16", "8-8", "16-16"] {
        let report = fit(
            folder.path(),
            &corpus(),
            &format!("--modes 40 --hidden {shape}"),
        );
        assert_eq!(report["shape"], shape);
        let mape = report["exported"]["time_mape"].as_f64().expect("a number");
        assert!(mape < 3.0, "{shape} {mape}");
    }
    let refused = run(folder.path(), "fit corpus.csv -o m.wgt --hidden 12-6");
    assert_eq!(refused.code, 2);
    let supported = "[possible values: 16, 32, 8-8, 16-16, 256-128-64]";
    assert!(refused.stderr.contains(supported), "{}", refused.stderr);
}

#[test]
fn without_a_number_all_modes_are_used_and_none_is_held_out() {
    let folder = folder();
    let report = fit(folder.path(), &corpus(), "");
    assert_eq!(
        (&report["modes_used"], &report["modes_held_out"]),
        (&96.into(), &0.into())
    );
    assert_eq!(report["exported"]["time_mape"], Value::Null);
    // The file then states the cross-validated errors, and `inspect` says so.
    let inspected = run(folder.path(), "inspect --json model.wgt").json();
    assert_eq!(inspected["errors_of"], "expected");
    for target in ["time_mape", "power_mape"] {
        let expected = report["expected"][target].as_f64().expect("a number");
        assert!(expected > 0.0);
        assert_eq!(inspected[target], (100.0 * expected).round() / 100.0);
    }
    let text = run(folder.path(), "inspect model.wgt").stdout;
    let line = "\nexpected errors over all modes: time ";
    assert!(text.contains(line), "{text}");
}

#[test]
fn five_modes_give_a_model_at_95_percent_whose_cost_is_told() {
    let folder = folder();
    let path = folder.path();
    write(path, "corpus.csv", corpus().join("\n"));
    for (modes, is_few) in [(5, true), (8, true), (9, false)] {
        let fitted = run(
            path,
            &format!("fit corpus.csv --modes {modes} --sampling planned -o model.wgt"),
        );
        assert_eq!(fitted.code, 0, "{}", fitted.stderr);
        let line = format!("\n{modes} modes are few, so a prior widens the bounds: ");
        assert_eq!(fitted.stdout.contains(&line), is_few, "{}", fitted.stdout);
        let chosen = run(path, "select model.wgt --limit 99W --json").json();
        let number = |key: &str| chosen[key].as_f64().expect("a number");
        assert!(number("guarded_power_mw") > number("power_mw"), "{chosen}");
        let refused = run(path, "select model.wgt --limit 99W --confidence 0.98");
        assert_eq!(refused.code, 3, "{}", refused.stderr);
    }
}

#[test]
fn a_corpus_without_power_gives_a_model_of_time_alone() {
    let folder = folder();
    let path = folder.path();
    let mut rows = corpus();
    for line in &mut rows[1..] {
        let (without_power, _) = line.rsplit_once(',').expect("fields");
        *line = format!("{without_power},");
    }
    let report = fit(path, &rows, "--modes 40");
    assert_eq!(report["exported"]["power_mape"], Value::Null);
    assert_eq!(report["coverage"][0]["power"], Value::Null);
    let fastest = run(path, "select model.wgt --deadline 1s --json").json();
    assert_eq!(
        (&fastest["power_mw"], &fastest["guarded_power_mw"]),
        (&Value::Null, &Value::Null)
    );
    for arguments in [
        "--limit 5W",
        "--objective least-energy",
        "--objective least-power",
    ] {
        let refused = run(path, &format!("select model.wgt {arguments}"));
        let message = "error: the model predicts time only, so power cannot be queried; train on a corpus with powers\n";
        assert_eq!((refused.code, refused.stderr.as_str()), (3, message));
    }
    let all = predictions(&run(path, "predict model.wgt").stdout);
    assert!(all.iter().all(|row| row[8..] == ["", "", ""]));
    let one = run(
        path,
        "predict model.wgt --mode 4,400000,300000,800000 --json",
    )
    .json();
    assert_eq!(one["modes"][0]["power_at_most_mw"], Value::Null);
    let text = run(path, "inspect model.wgt").stdout;
    assert!(
        text.contains("guard band of the power: not known"),
        "{text}"
    );
}

#[test]
fn an_axis_with_one_value_is_constant() {
    let folder = folder();
    let path = folder.path();
    let one_clock = |line: &String| line.contains(",800000,");
    let mut rows: Vec<String> = vec![HEADER.to_owned()];
    for cores in 1..=4 {
        for cpu in [400_000, 800_000, 1_200_000] {
            rows.push(row(cores, cpu, 600_000, 800_000));
        }
    }
    assert!(rows[1..].iter().all(one_clock));
    let report = fit(path, &rows, "");
    assert_eq!(report["modes_in_grid"], 12);
    let answer = run(path, "select model.wgt --json").json();
    assert_eq!(
        (&answer["mode"]["gpu_khz"], &answer["mode"]["emc_khz"]),
        (&600_000.into(), &800_000.into())
    );
}

#[test]
fn byte_order_mark_carriage_returns_blanks_and_quotes_change_nothing() {
    let folder = folder();
    let path = folder.path();
    let plain = corpus().join("\n");
    let variants = [
        format!("\u{feff}{plain}"),
        corpus().join("\r\n"),
        plain.replace(',', " , "),
        plain.replace("board", "\"board\""),
        plain.clone() + "\n\n",
        plain.replace("1600000,3", "1600000.0,3"),
    ];
    let without_file_name = |name: &str, contents: &str| {
        write(path, name, contents);
        let mut json = run(path, &format!("check --json {name}")).json();
        json["files"][0]["file"] = Value::Null;
        json
    };
    let expected = without_file_name("plain.csv", &plain);
    assert_eq!(expected["files"][0]["rows"], 96);
    for (at, variant) in variants.iter().enumerate() {
        assert_eq!(
            without_file_name("variant.csv", variant),
            expected,
            "variant {at}"
        );
    }
}

#[test]
fn repeats_are_collapsed_to_their_median_and_disturbed_ones_reported() {
    let folder = folder();
    let path = folder.path();
    let mut rows = corpus();
    // Three repeats of every mode, one of them disturbed in one mode.
    let once = rows[1..].to_vec();
    rows.extend(once.iter().cloned());
    rows.extend(once.iter().cloned());
    let (rest, _) = rows[40].rsplit_once(',').expect("fields");
    rows[40] = format!("{rest},9999");
    write(path, "corpus.csv", rows.join("\n"));
    let report = run(path, "check --json corpus.csv").json();
    let power = &report["files"][0]["power_mw"];
    assert_eq!(
        (&power["modes"], &power["repeated_modes"]),
        (&96.into(), &96.into())
    );
    assert_eq!(
        (&power["repeat_outliers"], &power["mode_outliers"]),
        (&1.into(), &0.into())
    );
    assert_eq!(power["outliers"][0]["value"], 9999.0);
    assert_eq!(
        report["files"][0]["time_ms"]["outliers"],
        serde_json::json!([])
    );
}

/// Nothing tells which of two runs is wrong, so neither is used until a third run agrees with one of them.
#[test]
fn a_mode_whose_two_runs_disagree_is_named_and_left_out() {
    let folder = folder();
    let path = folder.path();
    let mut rows = corpus();
    let (rest, power) = rows[40].rsplit_once(',').expect("fields");
    let (rest, power) = (rest.to_owned(), power.parse::<f64>().expect("a power"));
    rows.push(format!("{rest},{}", power / 2.0));
    write(path, "two.csv", rows.join("\n"));
    rows.push(format!("{rest},{}", power * 1.01));
    write(path, "three.csv", rows.join("\n"));

    let said = run(path, "check two.csv").stdout;
    assert!(said.contains("the runs of 1 mode disagree"), "{said}");
    assert!(said.contains("in another; measure it again"), "{said}");
    let said = run(path, "fit two.csv -o two.wgt").stdout;
    assert!(said.contains("left out: the power of "), "{said}");
    let report = run(path, "fit --json two.csv -o two.wgt").json();
    let [named] = &report["contradictions"].as_array().expect("a list")[..] else {
        panic!("{report}");
    };
    assert_eq!(named["target"], "power");
    for (at, run) in [power / 2.0, power].into_iter().enumerate() {
        let named = named["runs"][at].as_f64().expect("a power");
        assert!((named / run - 1.0).abs() < 1e-6, "{named}, not {run}");
    }

    // A plan asks for it again, although all modes are measured.
    let plan = "plan two.csv --board corpus.csv --modes 96 -o two.csv";
    write(path, "corpus.csv", corpus().join("\n"));
    let said = run(path, plan).stdout;
    assert!(
        said.ends_with("wrote two.csv, 1 rows to fill in\n"),
        "{said}"
    );

    // Powers that all disagree do not make a model of time alone.
    let mut all = corpus();
    let halved = all[1..].iter().map(|row| {
        let (rest, power) = row.rsplit_once(',').expect("fields");
        format!("{rest},{}", power.parse::<f64>().expect("a power") / 2.0)
    });
    let halved: Vec<String> = halved.collect();
    all.extend(halved);
    write(path, "all.csv", all.join("\n"));
    let refused = run(path, "fit all.csv -o all.wgt");
    assert_eq!(refused.code, 3);
    assert!(
        refused
            .stderr
            .contains("only 0 of the modes to train on have a power")
            && refused.stderr.contains("the runs of 96 more disagree"),
        "{}",
        refused.stderr
    );

    let report = run(path, "fit --json three.csv -o three.wgt").json();
    assert_eq!(report["contradictions"], serde_json::json!([]));
    assert_eq!(report["suspects"], serde_json::json!([]));
    let report = run(path, "check --json three.csv").json();
    let power = &report["files"][0]["power_mw"];
    assert_eq!(
        (&power["contradictions"], &power["repeat_outliers"]),
        (&0.into(), &1.into())
    );
}

#[test]
fn a_disturbed_mode_without_repeats_is_reported() {
    let folder = folder();
    let path = folder.path();
    let mut rows = corpus();
    let disturbed: Vec<&str> = rows[40].split(',').collect();
    let slower = 1.6 * disturbed[6].parse::<f64>().expect("a time");
    let knobs: Vec<u32> = disturbed[2..6]
        .iter()
        .map(|knob| knob.parse().expect("a knob"))
        .collect();
    rows[40] = format!("{},{slower},{}", disturbed[..6].join(","), disturbed[7]);
    write(path, "corpus.csv", rows.join("\n"));
    let time = &run(path, "check --json corpus.csv").json()["files"][0]["time_ms"];
    assert_eq!(time["mode_outliers"], 1, "{time}");
    assert_eq!(time["outliers"][0]["mode"], serde_json::json!(knobs));
    assert_eq!(time["outliers"][0]["of"], "mode");
}

#[test]
fn modes_that_were_not_profiled_belong_to_the_grid() {
    let folder = folder();
    let path = folder.path();
    let mut rows = corpus();
    rows.push("board,job,4,2000000,900000,1600000,,".to_owned());
    let report = fit(path, &rows, "--skip-blank");
    assert_eq!(
        (&report["modes_used"], &report["modes_in_grid"]),
        (&96.into(), &120.into())
    );
    let checked = run(path, "check --json --skip-blank corpus.csv").json();
    assert_eq!(checked["files"][0]["unprofiled_modes"], 1);
    // It is in the grid, but outside of what was profiled, so it is not offered.
    let fastest = run(path, "select model.wgt --json").json();
    assert_eq!(fastest["mode"]["cpu_khz"], 1_600_000);
}

/// A board can be named by its axes, a model or a corpus as well; all give the same grid.
#[test]
fn a_fit_takes_the_axes_of_a_board() {
    let folder = folder();
    let path = folder.path();
    write(path, "board.csv", corpus().join("\n"));
    let few: Vec<String> = corpus().into_iter().take(30).collect();
    let alone = fit(path, &few, "");
    assert_eq!(alone["modes_in_grid"], 48);
    let axes = "--axes cores=1,2,3,4 emc_khz=800000,1600000 gpu_khz=300000,600000,900000 cpu_khz=400000,800000,1200000,1600000";
    let mut models = Vec::new();
    for board in [axes, "--board board.csv", "--board named.wgt"] {
        let report = fit(path, &few, board);
        assert_eq!(report["modes_in_grid"], 96, "{board}");
        assert_eq!(report["device"], "board");
        fs::copy(path.join("model.wgt"), path.join("named.wgt")).expect("a copy");
        models.push(fs::read(path.join("model.wgt")).expect("a model"));
    }
    assert!(models.iter().all(|model| *model == models[0]));
    write(path, "other.csv", corpus_of_another().join("\n"));
    let transferred = run(
        path,
        "fit corpus.csv --reference other.csv --board board.csv -o model.wgt --json",
    )
    .json();
    assert_eq!(transferred["modes_in_grid"], 96);
    let replaced = run(path, "fit corpus.csv --board named.wgt -o named.wgt");
    let expected =
        "error: named.wgt: the output would replace an input; name another file with -o\n";
    assert_eq!((replaced.code, replaced.stderr.as_str()), (2, expected));
}

#[test]
fn kind_and_minibatch_are_kept() {
    let folder = folder();
    let path = folder.path();
    let mut rows = corpus();
    rows[0] += ",minibatch,kind";
    rows[1..].iter_mut().for_each(|row| *row += ",16,simulated");
    assert_eq!(fit(path, &rows, "--modes 20")["kind"], "simulated");
    let inspected = run(path, "inspect --json model.wgt").json();
    assert_eq!(
        (&inspected["kind"], &inspected["minibatch"]),
        (&"simulated".into(), &16.into())
    );
    let text = run(path, "select model.wgt").stdout;
    assert!(text.ends_with("simulated: job on board\n"), "{text}");
}
