//! `select`.

use super::fit;
use crate::common::{corpus, folder, run};
use serde_json::Value;

#[test]
fn select_obeys_limits_objectives_and_constraints() {
    let folder = folder();
    let path = folder.path();
    fit(path, &corpus(), "--modes 50");
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
    for key in ["guarded_time_ms", "guarded_power_mw"] {
        assert!(
            number(&limited["other_unit"], key) > number(&limited, key),
            "{key}"
        );
    }
    let bolder = select("--limit 2500mW --confidence 0.5");
    assert!(number(&bolder, "time_ms") <= number(&limited, "time_ms"));

    let deadline = select("--deadline 15ms --objective least-power");
    assert!(number(&deadline, "guarded_time_ms") <= 15.0);
    let energy = |answer: &Value| number(answer, "time_ms") * number(answer, "power_mw");
    let least_energy = energy(&select("--objective least-energy"));
    assert!(least_energy <= energy(&fastest) && least_energy <= energy(&limited));
    select("--objective least-edp");

    // A deadline alone asks for the least power; one for all steps is shared by them.
    assert_eq!(deadline, select("--deadline 15ms"));
    let work = select("--epochs 100 --steps-per-epoch 2400 --within 1h");
    assert_eq!(work, select("--steps 240000 --within 60min"));
    assert!(number(&work, "guarded_time_ms") <= 15.0);
    let all = &work["work"];
    assert_eq!(all["steps"], 240_000);
    assert!(number(all, "hours") <= number(all, "guarded_hours"));
    assert!(number(all, "guarded_hours") <= 1.0);
    let wh = number(all, "hours") * number(&work, "power_mw") / 1e3;
    assert!((number(all, "wh") / wh - 1.0).abs() < 1e-6);
    assert!(number(all, "wh") <= number(all, "guarded_wh"));
    for (arguments, message) in [
        (
            "--objective fastest --deadline 1s",
            "error: the fastest mode has no use for a deadline",
        ),
        ("--steps 9", "error: a number of steps and the time "),
        ("--within 6h", "error: a number of steps and the time "),
        ("--steps 0 --within 6h", "error: the number of steps is 0, "),
        ("--epochs 2 --within 6h", "error: a number of epochs and "),
        (
            "--deadline 1s --steps 9 --within 6h",
            "error: two deadlines, ",
        ),
    ] {
        let refused = run(path, &format!("select model.wgt {arguments}"));
        assert_eq!(refused.code, 2, "{arguments}");
        assert!(refused.stderr.starts_with(message), "{}", refused.stderr);
    }

    let cores = select("--objective least-power --min-cores 3");
    assert!(cores["mode"]["cores"].as_u64() >= Some(3));
    let clock = select("--emc 0.8GHz");
    assert_eq!(clock["mode"]["emc_khz"], 800_000);

    let text = run(path, "select model.wgt --limit 2.5W");
    assert!(text.stdout.contains("with 95 %"), "{}", text.stdout);
    let other = "another unit of the board: at most ";
    assert!(text.stdout.contains(other), "{}", text.stdout);
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
    fit(path, &corpus(), "--modes 50");
    let refused = run(path, "select model.wgt --limit 1W --json");
    assert_eq!(refused.code, 4);
    let json: Value = serde_json::from_str(&refused.stdout).expect("JSON");
    assert_eq!(json["mode"], Value::Null);
    let least = json["least_power_mw"].as_u64().expect("a power");
    let message = format!(
        "error: no mode fits: the least power on offer is {}.{:03} W including the guard band; raise the limit\n",
        least / 1_000,
        least % 1_000
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
            "error: no mode on offer has more than 4 cores; ask for 4 or fewer\n",
        ),
        (
            "--emc 801MHz",
            "error: no mode on offer has this memory clock; ask for one of the model's grid\n",
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
    fit(folder.path(), &corpus(), "--modes 50");
    let refused = run(
        folder.path(),
        "select model.wgt --limit 3W --confidence 0.999",
    );
    let message = "error: the model's data supports no confidence above 99 %; ask for less, or train on more modes\n";
    assert_eq!((refused.code, refused.stderr.as_str()), (3, message));
}
