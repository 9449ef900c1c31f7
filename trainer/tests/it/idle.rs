//! Idle power: in corpora, in model files, and in choices with a deadline.

use rand::SeedableRng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use wattgate_board_tables::Board;
use wattgate_cli::planning::idle_modes;
use wattgate_simulated_board::corpus::{Modes, csv, with_idle};
use wattgate_simulated_board::profile::Profiler;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;
use wattgate_trainer::file::OfModes;
use wattgate_trainer::read::IdleReading;

use crate::bench::BOARDS;
use crate::common::{HEADER, corpus, folder, run, write};

fn readings(board: &Board, profiler: &mut Profiler<'_>) -> Vec<IdleReading> {
    let modes = idle_modes(board.axes().each_ref().map(|axis| &axis[..]));
    let reading = |knobs| IdleReading {
        knobs,
        power_mw: profiler.idle(knobs),
    };
    modes.into_iter().map(reading).collect()
}

/// What `select` allows for is what the formula is off by.
#[test]
fn five_modes_tell_the_idle_power_of_all_within_8_percent() {
    let workload = Workload::named("resnet18").expect("a workload");
    for name in BOARDS {
        let board = Board::named(name).expect("a board");
        let mut profiler = Profiler::new(&board, Unit::drawn(7), &workload, 1);
        let fitted = OfModes::fit(&readings(&board, &mut profiler)).expect("readings");
        let all = board.all_modes();
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let modes: Vec<[u32; 4]> = all.sample(&mut random, 400).copied().collect();
        let off = |mode: &[u32; 4]| (fitted.power_mw(*mode) / profiler.idle(*mode) - 1.0).abs();
        let mut errors: Vec<f64> = modes.iter().map(off).collect();
        errors.sort_by(f64::total_cmp);
        assert!(
            errors[200] < 0.04 && errors[380] < 0.08,
            "{name}: {} {}",
            errors[200],
            errors[380]
        );
    }
}

/// A simulated corpus of forty modes with the idle power of five.
fn simulated(name: &str) -> String {
    let board = Board::named(name).expect("a board");
    let workload = Workload::named("resnet18").expect("a workload");
    let mut profiler = Profiler::new(&board, Unit::NOMINAL, &workload, 1);
    let modes = Modes::Random(40).select(&board, 1).expect("modes");
    let text = csv(
        &board,
        &Unit::NOMINAL,
        &workload,
        &profiler.profile_all(&modes),
    );
    let idle = readings(&board, &mut profiler);
    let idle: Vec<([u32; 4], f64)> = idle.iter().map(|it| (it.knobs, it.power_mw)).collect();
    with_idle(&text, &board, &Unit::NOMINAL, &workload, &idle)
}

#[test]
fn a_corpus_with_idle_power_makes_a_model_that_counts_it() {
    let folder = folder();
    let path = folder.path();
    write(path, "idle.csv", simulated("xavier-agx"));
    let check = run(path, "check idle.csv");
    assert_eq!(check.code, 0, "{}", check.stdout);
    assert!(
        check.stdout.contains("45 rows, 40 modes profiled"),
        "{}",
        check.stdout
    );
    assert!(
        check.stdout.contains("idle power of 5 modes"),
        "{}",
        check.stdout
    );
    let fit = run(path, "fit idle.csv -o m.wgt --json").json();
    assert_eq!(fit["modes_used"], 40);
    assert_eq!(fit["idle"]["readings"], 5);
    assert_eq!(fit["idle"]["left_out"], serde_json::json!([]));
    let inspect = run(path, "inspect m.wgt --json").json();
    for end in ["least_mw", "fastest_mw"] {
        assert_eq!(inspect["idle"][end], fit["idle"][end]);
    }
    let [least, fastest] = ["least_mw", "fastest_mw"].map(|end| fit["idle"][end].as_f64());
    // 2.2 W in the lowest mode, 6.7 W in the highest, as the simulator draws.
    assert!(
        least.is_some_and(|mw| (1_800.0..2_800.0).contains(&mw)),
        "{least:?}"
    );
    assert!(
        fastest.is_some_and(|mw| (5_800.0..7_800.0).contains(&mw)),
        "{fastest:?}"
    );
    // The energy until the end has the rest in the least mode.
    let ask =
        "select m.wgt --limit 20W --steps 1000 --within 30min --objective least-energy --json";
    let work = run(path, ask).json()["work"].clone();
    let number = |key: &str| work[key].as_f64().expect(key);
    let rest = number("idle_w") * (0.5 - number("hours"));
    assert!(
        (number("all_wh") - number("wh") - rest).abs() < 1e-9,
        "{work}"
    );
    assert!(number("guarded_all_wh") > number("all_wh"));
    assert!((number("idle_w") - least.unwrap_or(0.0) / 1e3).abs() < 0.3);
    // The energy of a step alone is least in a faster mode.
    let time = |options: &str| {
        let answer = run(
            path,
            &format!("select m.wgt --objective least-energy --json {options}"),
        );
        answer.json()["time_ms"].as_f64().expect("a time")
    };
    assert!(time("--deadline 2s") > 1.5 * time(""));
}

#[test]
fn idle_power_above_the_load_is_left_out_and_named() {
    let folder = folder();
    let path = folder.path();
    let text = simulated("orin-nano-8-super");
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.len() - 1;
    let (mode, _) = lines[last].rsplit_once(',').expect("a column");
    let wrong = format!("{}\n{mode},90000\n", lines[..last].join("\n"));
    write(path, "idle.csv", wrong);
    let fit = run(path, "fit idle.csv -o m.wgt");
    assert_eq!(fit.code, 0, "{}", fit.stderr);
    assert!(
        fit.stdout.contains("left out: 90.00 W idle in 6 cores")
            && fit.stdout.contains("measure it again"),
        "{}",
        fit.stdout
    );
    let json = run(path, "fit idle.csv -o m.wgt --json").json();
    assert_eq!(json["idle"]["readings"], 4);
    assert_eq!(json["idle"]["left_out"][0]["idle_mw"], 90_000.0);
}

#[test]
fn idle_power_that_is_none_is_refused() {
    let folder = folder();
    let path = folder.path();
    let rows: Vec<String> = corpus()[1..].iter().map(|row| format!("{row},")).collect();
    let header = format!("{HEADER},idle_mw");
    for wrong in ["2.5", "-1", "0", "1e99", "much"] {
        let text = format!(
            "{header}\n{}\nboard,work,1,10000,10000,10000,,,{wrong}\n",
            rows.join("\n")
        );
        write(path, "idle.csv", text);
        let fit = run(path, "fit idle.csv -o m.wgt");
        assert_eq!(fit.code, 3, "{wrong}: {}", fit.stderr);
        assert!(
            fit.stderr.contains("column `idle_mw`: expected"),
            "{}",
            fit.stderr
        );
    }
    // Idle rows alone are no corpus.
    write(
        path,
        "idle.csv",
        format!("{header}\nboard,work,1,10000,10000,10000,,,2500\n"),
    );
    let fit = run(path, "fit idle.csv -o m.wgt");
    assert_eq!(fit.code, 3);
    assert!(fit.stderr.contains("no row"), "{}", fit.stderr);
}
