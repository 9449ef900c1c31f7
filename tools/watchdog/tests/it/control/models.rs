//! The first mode, models and boards that control can be set up for.

use std::path::Path;
use std::time::Duration;

use super::{Running, config, orin, setup};
use crate::board::{Simulated, booted, description, load};
use crate::model_files::{flat, sealed, too_low};
use crate::wattgated::MODEL;
use wattgate_board::{Board, Files};
use wattgate_runtime::fleet::{UNIT_LEN, UnitId};
use wattgate_runtime::governor::State;
use wattgate_runtime::{ModeId, PowerMode};
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::unit::Unit;
use wattgate_watchdog::config::Config;
use wattgate_watchdog::distrust::Distrust;
use wattgate_watchdog::setup::SetupError;

#[test]
fn control_works_without_the_memory_clock() {
    let mut files = orin();
    files
        .absent
        .push("/sys/kernel/debug/bpmp/debug/clk/emc".to_owned());
    let setup = setup(&files, config("30W")).expect("usable");
    assert_eq!(
        setup.choices.left_out,
        ["memory clock: cannot be set; assumed to be 3199000"]
    );
    let mut running = Running::new(files, "30W");
    running.run(60);
    let most = running.run(20);
    assert!((24.0..30.3).contains(&most), "{most} W");
}

#[test]
fn control_starts_anew_after_a_suspend() {
    let mut running = Running::new(orin(), "30W");
    running.run(20);
    running.control.files().wait(Duration::from_secs(60));
    running.run(1);
    assert!(running.has_logged("the board was suspended for 60 s"));
    running.run(30);
    assert_eq!(running.state(), State::Tracking);
}

/// The GPU's load in the mode from before says nothing about the first mode: slower CPU cores keep a GPU less busy.
#[test]
fn a_board_that_is_busy_at_the_start_uses_its_limit_as_well() {
    for limit in [20, 30, 40] {
        let [fresh, busy] = [0, 5].map(|seconds| {
            let mut files = orin();
            files.wait(Duration::from_secs(seconds));
            let mut running = Running::new(files, &format!("{limit}W"));
            running.run(120);
            running.run(20)
        });
        println!("{limit} W: {fresh:.2} W after 2 min, {busy:.2} W where the load ran before");
        assert!(busy > 0.97 * fresh, "{limit} W: {busy} W, {fresh} W");
        assert!(busy <= f64::from(limit), "{busy} W");
    }
}

/// Both choose the fastest mode whose predicted power is within the limit.
#[test]
fn once_and_run_choose_the_same_first_mode() {
    for confidence in [0.5, 0.95, 0.99] {
        for watts in [5, 10, 12, 15, 18, 22, 27, 33, 40, 50, 60, 100] {
            let text = format!(
                "version = 1\nmodel = \"{MODEL}\"\nlimit = \"{watts}W\"\n\
                 confidence = {confidence}"
            );
            let config = Config::parse(&text, Path::new("test.toml")).expect("a config");
            let setup = setup(&orin(), config).expect("usable");
            let once = setup.choice().map(|choice| setup.mode(choice.mode));
            let once = once.unwrap_or_else(|_| setup.safe());
            assert_eq!(setup.first(), once, "{watts} W at {confidence}");
        }
    }
}

/// The model, as if profiled with a mask of gated TPCs, which stands before the list of its one unit.
fn profiled_with(mask: u32) -> Vec<u8> {
    let mut bytes = std::fs::read(MODEL).expect("a model");
    let unit = UnitId::of_serial_number("simulated").expect("an id");
    let id = unit.0.to_le_bytes();
    let at = bytes.windows(4).position(|four| four == id);
    let at = at.expect("the unit") - 2;
    assert_eq!(bytes[at..at + 2], [0, UNIT_LEN as u8], "no mask, one unit");
    // Some, then a varint of two bytes.
    bytes.splice(at..=at, [1, mask as u8 | 0x80, (mask >> 7) as u8]);
    sealed(bytes)
}

#[test]
fn a_model_of_other_tpcs_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = config("30W");
    let path = folder.path().join("model.wgt");
    config.model = Some(path.clone());
    let board = Board::discover(&orin(), Path::new("/")).expect("a board");
    let powered = board.tpc_pg_mask().expect("a mask");
    assert!(powered < 1 << 14);
    std::fs::write(&path, profiled_with(powered)).expect("written");
    assert!(setup(&orin(), config.clone()).is_ok());
    std::fs::write(&path, profiled_with(powered ^ 12)).expect("written");
    let error = setup(&orin(), config).expect_err("other TPCs");
    let SetupError::OtherTpcs {
        profiled, board, ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!((profiled, board), (powered ^ 12, powered));
}

/// Holds a limit for ten minutes. Returns minibatches per second after one minute and at the end, and the highest
/// mean power of a second in W.
fn hold(config: Config) -> ([f64; 2], f64) {
    let mut running = Running::with(orin(), config);
    let mut most = running.run(40);
    let mut rate = |seconds| {
        most = most.max(running.run(seconds));
        let work = |it: &mut Running| it.control.files().tree.jetson().minibatches();
        let before = work(&mut running);
        most = most.max(running.run(20));
        (work(&mut running) - before) / 20.0
    };
    let rates = [rate(20), rate(520)];
    (rates, most)
}

/// The mode of fewest cores and lowest clocks comes first; then the daemon climbs by what it measures.
#[test]
fn without_a_model_that_fits_the_limit_holds_by_measurement() {
    let folder = tempfile::tempdir().expect("a folder");
    for (limit, watts) in [(15, 5.0), (20, 17.0), (30, 17.0), (40, 60.0)] {
        let trusted = config(&format!("{limit}W"));
        let mut flat_one = trusted.clone();
        let path = folder.path().join("model.wgt");
        flat_one.model = Some(path.clone());
        std::fs::write(&path, flat(watts)).expect("written");
        let setup = setup(&orin(), flat_one.clone()).expect("usable");
        let why = setup.choices.distrust.expect("distrusted").to_string();
        assert!(
            why.contains("and the power by 1.00, where at least 1.25"),
            "{why}"
        );
        assert!(setup.choice().is_err());
        assert_eq!(setup.first(), setup.safe());
        let (with, _) = hold(trusted);
        let (without, most) = hold(flat_one);
        let figures = format!("{limit} W: {without:.2?} of {with:.2?}/s, at most {most:.2} W");
        println!("{figures}");
        // The first step may find the board in MAXN still.
        assert!(most <= f64::from(limit), "{figures}");
        assert!(
            without[0] > 0.5 * with[0] && without[1] > 0.6 * with[1],
            "{figures}"
        );
    }
}

/// In the order of the board's generic model, and on a board that nobody knows in that of another one.
#[test]
fn without_a_model_the_limit_holds_by_measurement() {
    for (board, limit) in [
        ("orin-agx-64", 22),
        ("orin-agx-64", 35),
        ("orin-nano-8-super", 10),
        ("tx2", 7),
        ("xavier-agx", 20),
    ] {
        for is_known in [true, false] {
            let files = || {
                let mut board = description(board).clone();
                if !is_known {
                    board.compatible = vec!["nvidia,unheard-of".to_owned()];
                }
                let tree = Tree::new(board, Unit::NOMINAL, 0, None).expect("a default mode");
                let mut files = Simulated::new(tree);
                load(&mut files);
                files
            };
            let text = format!("version = 1\nlimit = \"{limit}W\"");
            let config = Config::parse(&text, Path::new("test.toml")).expect("a config");
            let setup = setup(&files(), config.clone()).expect("usable");
            assert_eq!(setup.choices.distrust, Some(Distrust::NoModel));
            assert_eq!(setup.first(), setup.safe());
            let known = setup.choices.origin.contains("other workloads");
            assert_eq!(known, is_known, "{}", setup.choices.origin);

            let mut running = Running::with(files(), config);
            let most = running.run(120);
            let minibatches = running.control.files().tree.jetson().minibatches();
            let mean = running.run(20);
            println!(
                "{board}, known: {is_known}, {limit} W: {minibatches:.0} minibatches, {mean:.2} W after 2 min"
            );
            assert!(most <= f64::from(limit), "{most} W");
            assert!(mean > 0.6 * f64::from(limit), "{board}: {mean} W");
        }
    }
}

/// Starts the daemon's control with a limit of 20 W and a model that is too low by a factor. Returns how long the true
/// power was above the limit in the first minute, and what became of it.
fn with_a_model_too_low(factor: f64) -> (f64, Running) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = config("20W");
    let path = folder.path().join("model.wgt");
    config.model = Some(path.clone());
    std::fs::write(&path, too_low(factor)).expect("written");
    let mut running = Running::with(orin(), config);
    let (mut over_s, mut before) = (0.0, (0.0, 0.0));
    while running.now() < Duration::from_secs(60) {
        running.step();
        let jetson = running.control.files().tree.jetson();
        let now = (jetson.now().as_secs_f64(), jetson.calm_energy_j());
        let passed_s = now.0 - before.0;
        if now.1 - before.1 > 20.0 * passed_s {
            over_s += passed_s;
        }
        before = now;
    }
    (over_s, running)
}

/// By such a model every mode fits, and every reading seems to be that of a broken sensor.
#[test]
fn a_model_that_is_far_too_low_is_contradicted_by_the_sensor() {
    let (over_s, mut running) = with_a_model_too_low(12.0);
    let told = "the model is not used: the least mode draws 9.";
    assert!(running.has_logged(told), "{:#?}", running.log);
    assert!(over_s <= 2.0, "{over_s} s: {:#?}", running.log);
    let most = running.run(60);
    assert!((14.0..20.0).contains(&most), "{most} W: {:#?}", running.log);
    assert_eq!(running.state(), State::Tracking);
}

#[test]
fn a_model_in_watts_is_never_used() {
    let (over_s, mut running) = with_a_model_too_low(1_000.0);
    // The board is in MAXN until the first step.
    assert!(over_s < 0.1, "{over_s} s: {:#?}", running.log);
    let most = running.run(60);
    assert!((14.0..20.0).contains(&most), "{most} W: {:#?}", running.log);
}

/// Nothing is known of an idle board's load, so it stays in its least mode until the load begins.
#[test]
fn an_idle_board_without_a_model_does_not_climb() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = config("20W");
    let path = folder.path().join("model.wgt");
    config.model = Some(path.clone());
    std::fs::write(&path, flat(17.0)).expect("written");
    let mut running = Running::with(booted("orin-agx-64"), config);
    running.run(300);
    let (status, _) = running.control.status();
    assert_eq!((status.mode, status.predicted.0), (ModeId::LEAST, 0));
    load(running.control.files());
    let most = running.run(60);
    assert!((12.0..20.0).contains(&most), "{most} W");
}

#[test]
fn a_model_for_another_board_is_refused() {
    for (board, error) in [
        (
            "orin-nx-16",
            "the model is for `orin-agx-64`, but the board is `orin-nx-16`; profile the workload on this board (`wattgate learn`)",
        ),
        (
            "tx2",
            "the model is for `orin-agx-64`, but the board is `tx2`; profile the workload on this board (`wattgate learn`)",
        ),
    ] {
        let refused = setup(&booted(board), config("15W")).expect_err(board);
        assert_eq!(refused.to_string(), format!("{MODEL}: {error}"));
    }
    // The TX1 is not in the table of devices; the model is refused because its clocks do not match.
    let mut tx1 = config("5W");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../weights/tx1-image5000.wgt");
    tx1.model = Some(path.clone());
    let refused = setup(&booted("orin-agx-64"), tx1.clone()).expect_err("refused");
    assert_eq!(
        refused.to_string(),
        format!(
            "{}: the board has no CPU clock of the model's grid: the model is for \
             another board or another L4T release; profile the workload again (`wattgate learn`)",
            path.display()
        )
    );
}

#[test]
fn every_mode_on_the_front_can_be_set() {
    let mut files = orin();
    let mut setup = setup(&files, config("15W")).expect("usable");
    let modes: Vec<PowerMode> = {
        let points = setup.choices.front.points().iter();
        points.map(|point| setup.mode(point.mode)).collect()
    };
    for mode in modes {
        let applied = setup.board.apply(&mut files, &mode);
        assert!(applied.is_ok(), "{mode}: {applied:?}");
    }
}
