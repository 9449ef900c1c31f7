//! What each command does with sound input, on a small made-up board.

use std::fs;
use std::path::Path;

use crate::common::{HEADER, corpus, folder, row, run, write};
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
        "left_out",
        "coverage",
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
    for errors in ["teacher", "student", "exported", "left_out"] {
        for target in ["time_mape", "power_mape"] {
            let mape = report[errors][target].as_f64().expect("a number");
            assert!(mape > 0.0 && mape < 3.0, "{errors} {target} {mape}");
        }
    }
    let length = fs::metadata(path.join("model.wgt")).expect("a model").len();
    assert_eq!(report["bytes"], length);
    assert!(length <= 1024);
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
            &format!("--modes 60 --hidden {shape}"),
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
    assert_eq!(inspected["errors_of"], "left_out");
    for target in ["time_mape", "power_mape"] {
        let left_out = report["left_out"][target].as_f64().expect("a number");
        assert!(left_out > 0.0);
        assert_eq!(inspected[target], (100.0 * left_out).round() / 100.0);
    }
    let text = run(folder.path(), "inspect model.wgt").stdout;
    let line = "\nerrors on the modes of the training, each left out in turn: time ";
    assert!(text.contains(line), "{text}");
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

#[test]
fn predict_prints_every_mode_with_bounds_that_hold() {
    let folder = folder();
    let path = folder.path();
    let report = fit(path, &corpus(), "--modes 40");
    let all = predictions(&run(path, "predict model.wgt").stdout);
    assert_eq!(all.len(), 96);
    // In the order of a corpus, which has one row for each mode of this board.
    let mut held = [0, 0];
    let mut errors = [0.0, 0.0];
    for (row, measured) in all.iter().zip(&corpus()[1..]) {
        let measured: Vec<&str> = measured.split(',').collect();
        assert_eq!(row[..4], measured[2..6]);
        let number = |text: &str| text.parse::<f64>().expect("a number");
        for target in [0, 1] {
            let bounds = &row[5 + 3 * target..8 + 3 * target];
            let [predicted, least, most] = [0, 1, 2].map(|at| number(&bounds[at]));
            assert!(0.0 < least && least <= predicted && predicted <= most);
            // Symmetric in the logarithm, but for the rounding to whole µs and mW.
            assert!((least * most / predicted.powi(2) - 1.0).abs() < 2e-3);
            let measured = number(measured[6 + target]);
            held[target] += usize::from(least <= measured && measured <= most);
            errors[target] += 100.0 / 96.0 * (predicted / measured - 1.0).abs();
        }
    }
    // 40 modes were trained on: 90 % of the others, less two deviations of sampling, and most of those.
    assert!(held.iter().all(|held| *held >= 80), "{held:?}");
    for (error, target) in errors.iter().zip(["time_mape", "power_mape"]) {
        let reported = report["exported"][target].as_f64().expect("a number");
        assert!(
            (error - reported).abs() < 0.5 * reported,
            "{error} {reported}"
        );
    }
}

/// One mode is the line of the whole table, and its upper bounds are those of `select`.
#[test]
fn predict_agrees_with_select() {
    let folder = folder();
    let path = folder.path();
    fit(path, &corpus(), "--modes 40");
    for confidence in ["0.95", "80%"] {
        let select = format!("select model.wgt --limit 2.5W --json --confidence {confidence}");
        let chosen = run(path, &select).json();
        let knobs = ["cores", "cpu_khz", "gpu_khz", "emc_khz"];
        let knobs = knobs.map(|knob| chosen["mode"][knob].to_string());
        let predict = format!(
            "predict model.wgt --mode {} --confidence {confidence}",
            knobs.join(",")
        );
        let table = run(path, &predict).stdout;
        let [row] = &predictions(&table)[..] else {
            panic!("{table}");
        };
        let all = run(
            path,
            &format!("predict model.wgt --confidence {confidence}"),
        );
        assert!(predictions(&all.stdout).contains(row));
        let json = run(path, &format!("{predict} --json")).json();
        assert_eq!(json["modes"].as_array().map(Vec::len), Some(1));
        let mode = &json["modes"][0];
        for (ours, theirs) in [
            ("time_ms", "time_ms"),
            ("time_at_most_ms", "guarded_time_ms"),
            ("power_mw", "power_mw"),
            ("power_at_most_mw", "guarded_power_mw"),
        ] {
            assert_eq!(mode[ours], chosen[theirs], "{ours}");
        }
        assert_eq!(mode["power_at_least_mw"].to_string(), row[9]);
        assert_eq!(json["confidence"], chosen["confidence"]);
        assert_eq!(
            (&json["device"], &json["workload"]),
            (&"board".into(), &"job".into())
        );
    }
}

#[test]
fn predict_tells_modes_beyond_what_was_profiled() {
    let folder = folder();
    let path = folder.path();
    let mut rows = corpus();
    rows.push("board,job,4,2000000,900000,1600000,,".to_owned());
    fit(path, &rows, "--skip-blank");
    let all = predictions(&run(path, "predict model.wgt").stdout);
    assert_eq!(all.len(), 120);
    for row in all {
        assert_eq!(row[4] == "true", row[1] != "2000000", "{row:?}");
    }
}

#[test]
fn predict_refuses_modes_and_confidences_that_the_model_lacks() {
    let folder = folder();
    fit(folder.path(), &corpus(), "--modes 40");
    for (arguments, code, message) in [
        (
            "--mode 4,1234567,300000,800000",
            2,
            "error: model.wgt: 4 cores, CPU 1234.567 MHz, GPU 300 MHz, EMC 800 MHz is not a mode of the model: cpu_khz has no 1234567; the nearest is 1200000\n",
        ),
        (
            "--confidence 0.999",
            3,
            "error: the model's data supports no confidence above 98.00 %\n",
        ),
    ] {
        let refused = run(folder.path(), &format!("predict model.wgt {arguments}"));
        assert_eq!((refused.code, refused.stderr.as_str()), (code, message));
        assert_eq!(refused.stdout, "");
    }
    let refused = run(
        folder.path(),
        "predict model.wgt --mode 4,1.2GHz,300000,800000",
    );
    let message =
        "`4,1.2GHz,300000,800000` is not a mode: write CORES,CPU,GPU,EMC with the clocks in kHz";
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains(message), "{}", refused.stderr);
}

#[test]
fn select_obeys_limits_objectives_and_constraints() {
    let folder = folder();
    let path = folder.path();
    fit(path, &corpus(), "");
    let select =
        |arguments: &str| run(path, &format!("select model.wgt --json {arguments}")).json();
    let fastest = select("");
    let knobs = |answer: &Value| {
        ["cores", "cpu_khz", "gpu_khz", "emc_khz"].map(|knob| answer["mode"][knob].as_u64())
    };
    assert_eq!(
        knobs(&fastest),
        [4, 1_600_000, 900_000, 1_600_000].map(Some)
    );

    let number = |answer: &Value, key: &str| answer[key].as_f64().expect("a number");
    let limited = select("--limit 2.5W");
    assert!(number(&limited, "guarded_power_mw") <= 2_500.0);
    assert!(number(&limited, "power_mw") <= number(&limited, "guarded_power_mw"));
    assert!(number(&limited, "time_ms") > number(&fastest, "time_ms"));
    let bolder = select("--limit 2500mW --confidence 0.5");
    assert!(number(&bolder, "time_ms") <= number(&limited, "time_ms"));

    let deadline = select("--deadline 15ms --objective power");
    assert!(number(&deadline, "guarded_time_ms") <= 15.0);
    let energy = |answer: &Value| number(answer, "time_ms") * number(answer, "power_mw");
    let least_energy = energy(&select("--objective energy"));
    assert!(least_energy <= energy(&fastest) && least_energy <= energy(&limited));
    select("--objective edp");

    let cores = select("--objective power --min-cores 3");
    assert!(cores["mode"]["cores"].as_u64() >= Some(3));
    let clock = select("--emc 0.8GHz");
    assert_eq!(clock["mode"]["emc_khz"], 800_000);

    let text = run(path, "select model.wgt --limit 2.5W");
    assert!(text.stdout.contains("with 95.00 %"), "{}", text.stdout);
    assert!(
        text.stdout.ends_with("measured: job on board\n"),
        "{}",
        text.stdout
    );
}

#[test]
fn select_says_what_is_on_offer_where_nothing_fits() {
    let folder = folder();
    let path = folder.path();
    fit(path, &corpus(), "");
    let refused = run(path, "select model.wgt --limit 1W --json");
    assert_eq!(refused.code, 4);
    let json: Value = serde_json::from_str(&refused.stdout).expect("JSON");
    assert_eq!(json["mode"], Value::Null);
    let least = json["least_power_mw"].as_u64().expect("a power");
    let message = format!(
        "error: no mode fits: the least power on offer is {least} mW including the guard band\n"
    );
    assert_eq!(refused.stderr, message);
    let answered = run(path, &format!("select model.wgt --limit {least}mW --json"));
    assert_eq!(answered.json()["guarded_power_mw"], least);
    let refused = run(path, &format!("select model.wgt --limit {}mW", least - 1));
    assert_eq!(refused.code, 4);

    let refused = run(path, "select model.wgt --deadline 1ms --json");
    assert_eq!(refused.code, 4);
    let json: Value = serde_json::from_str(&refused.stdout).expect("JSON");
    assert!(json["least_time_ms"].as_f64() > Some(1.0));

    for (constraint, message) in [
        (
            "--min-cores 5",
            "error: no mode on offer has more than 4 cores\n",
        ),
        (
            "--emc 801MHz",
            "error: no mode on offer has this memory clock\n",
        ),
    ] {
        let refused = run(path, &format!("select model.wgt {constraint}"));
        assert_eq!((refused.code, refused.stderr.as_str()), (4, message));
    }
}

#[test]
fn select_refuses_limits_that_are_none() {
    let folder = folder();
    for (argument, message) in [
        (
            "--limit 0W",
            "`0W` is not a usable power: it must be at least 1mW",
        ),
        (
            "--limit -5W",
            "`-5W` is not a usable power: it must be at least 1mW",
        ),
        (
            "--limit 5",
            "`5` has no unit: a power is given in W or mW, for instance 5W",
        ),
        (
            "--limit 5s",
            "`s` in `5s` is not a unit of power: use W or mW, for instance 5W",
        ),
        (
            "--deadline 20",
            "`20` has no unit: a time is given in s, ms, us or min, for instance 20s",
        ),
        (
            "--confidence 1",
            "`1` is not a usable confidence: it must lie in 0.5 … 0.9999, for instance 0.95",
        ),
    ] {
        let refused = run(folder.path(), &format!("select model.wgt {argument}"));
        assert_eq!(refused.code, 2, "{argument}");
        assert!(refused.stderr.contains(message), "{}", refused.stderr);
    }
}

#[test]
fn a_confidence_beyond_the_guard_band_is_refused() {
    let folder = folder();
    fit(folder.path(), &corpus(), "");
    let refused = run(
        folder.path(),
        "select model.wgt --limit 3W --confidence 0.999",
    );
    let message = "error: the model's data supports no confidence above 99.00 %\n";
    assert_eq!((refused.code, refused.stderr.as_str()), (3, message));
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
    for arguments in ["--limit 5W", "--objective energy", "--objective power"] {
        let refused = run(path, &format!("select model.wgt {arguments}"));
        let message = "error: the model predicts time only, so power cannot be queried\n";
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

/// Plan, measure, fill in, plan more, fill in, fit: the model has all clocks of the board, and its
/// predictions can be printed.
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
        "/../tools/probe/tests/probes/simulated-orin-nx-16-super.jsonl.gz"
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
    let transferred = run(
        path,
        "transfer corpus.csv --reference board.csv --board board.csv -o model.wgt --json",
    )
    .json();
    assert_eq!(transferred["modes_in_grid"], 96);
    let replaced = run(path, "fit corpus.csv --board named.wgt -o named.wgt");
    let expected = "error: named.wgt: the output would replace an input\n";
    assert_eq!((replaced.code, replaced.stderr.as_str()), (2, expected));
}

#[test]
fn kind_and_minibatch_are_kept() {
    let folder = folder();
    let path = folder.path();
    let mut rows = corpus();
    rows[0] += ",minibatch,kind";
    rows[1..].iter_mut().for_each(|row| *row += ",16,simulated");
    assert_eq!(fit(path, &rows, "")["kind"], "simulated");
    let inspected = run(path, "inspect --json model.wgt").json();
    assert_eq!(
        (&inspected["kind"], &inspected["minibatch"]),
        (&"simulated".into(), &16.into())
    );
    let text = run(path, "select model.wgt").stdout;
    assert!(text.ends_with("simulated: job on board\n"), "{text}");
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
    let run = run(path, evaluate).json();
    let single = fit(path, &corpus(), "--modes 50 --seed 8");
    assert_eq!(
        single["exported"]["time_mape"],
        run["runs"][0]["time"]["mape"]
    );
}

/// Programs that read the output find the version at its start, whatever the command and its result.
#[test]
fn every_json_starts_with_its_version() {
    let folder = folder();
    let path = folder.path();
    fit(path, &corpus(), "--modes 20");
    write(path, "other.csv", corpus().join("\n"));
    let scored = "--modes 20 --runs 1 --json";
    for (arguments, code) in [
        ("check --json corpus.csv", 0),
        ("plan --board corpus.csv --modes 5 --json", 0),
        ("fit corpus.csv --modes 20 -o new.wgt --json", 0),
        (
            "transfer corpus.csv --reference model.wgt --modes 20 -o new.wgt --json",
            0,
        ),
        (&format!("evaluate corpus.csv --methods linear {scored}"), 0),
        (&format!("optimize corpus.csv --methods linear {scored}"), 0),
        (
            &format!("matrix corpus.csv other.csv --method linear {scored}"),
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
    fit(path, &corpus(), "");
    let model = fs::read(path.join("model.wgt")).expect("a model");
    let mut flipped = model.clone();
    flipped[300] ^= 4;
    let mut newer = model.clone();
    newer[4] = 3;
    let cases: [(&[u8], &str); 5] = [
        (&model[..500], "truncated: shorter than its header says"),
        (&flipped, "damaged: the checksum does not match"),
        (
            b"\x7fELF, or anything else of some length",
            "not a wattgate model file",
        ),
        (
            &newer,
            "written in format version 3; this reader knows versions 1 … 2",
        ),
        (b"", "shorter than a model file's header"),
    ];
    for (bytes, why) in cases {
        write(path, "other.wgt", bytes);
        for command in ["inspect other.wgt", "predict other.wgt", "select other.wgt"] {
            let refused = run(path, command);
            let message = format!("error: other.wgt: {why}\n");
            assert_eq!((refused.code, refused.stderr), (3, message));
        }
    }
    let refused = run(path, "inspect none.wgt");
    assert_eq!(refused.code, 5);
    let message = "error: none.wgt: cannot read: No such file or directory (os error 2)\n";
    assert_eq!(refused.stderr, message);
}
