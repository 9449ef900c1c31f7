//! `predict`.

use super::{fit, predictions};
use crate::common::{corpus, folder, run};

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
            "error: the model's data supports no confidence above 98 %; ask for less, or train on more modes\n",
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
