//! Properties of every simulated board.

use wattgate_board_tables::{Board, BoardError, names};
use wattgate_simulated_board::corpus::{Modes, csv};
use wattgate_simulated_board::pipeline::Clocks;
use wattgate_simulated_board::profile::Profiler;
use wattgate_simulated_board::steady::{Steady, idle};
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::{self, Workload};

fn boards() -> Vec<Board> {
    names()
        .into_iter()
        .filter_map(|name| Board::named(name).ok())
        .collect()
}

fn workloads() -> Vec<Workload> {
    let named = |name| Workload::named(name).expect("shipped");
    workload::names().into_iter().map(named).collect()
}

#[test]
fn every_board_is_described_and_boards_with_unknown_tables_are_refused() {
    for name in names() {
        Board::described(name).expect("a board file");
    }
    let simulated: Vec<_> = boards().into_iter().map(|board| board.name).collect();
    assert_eq!(
        simulated,
        [
            "orin-agx-64",
            "orin-agx-64-jp6",
            "orin-agx-64-jp7",
            "orin-nx-16",
            "orin-nx-16-super",
            "orin-nano-8",
            "orin-nano-8-super",
            "orin-nano-8-super-jp7",
            "xavier-agx",
            "tx2"
        ]
    );
    let refused = Board::named("xavier-nx").expect_err("no EMC table is published");
    assert_eq!(
        refused.to_string(),
        "`xavier-nx` cannot be simulated, because these are not published of it: the EMC table; name another board"
    );
    let refused = Board::named("thor-t5000").expect_err("no GPU table is published");
    assert_eq!(
        refused.to_string(),
        "`thor-t5000` cannot be simulated, because these are not published of it: the GPU table, the lower end of the CPU table, \
         the caps of 120W, 90W and 70W; name another board"
    );
    assert!(matches!(
        Board::named("thor"),
        Err(BoardError::NoSuchBoard { .. })
    ));
}

#[test]
fn the_grids_have_their_published_sizes() {
    let modes = |name| Board::named(name).expect("known").all_modes().len();
    assert_eq!(modes("orin-agx-64"), 18_096);
    assert_eq!(modes("xavier-agx"), 29_232);
    assert_eq!(modes("orin-nano-8"), 1_800);
    let orin = Board::named("orin-agx-64").expect("known");
    assert_eq!(orin.papers_modes().len(), 4_368);
}

#[test]
fn tables_ascend_and_modes_lie_in_them() {
    for board in boards() {
        for axis in board.axes() {
            assert!(axis.is_sorted_by(|a, b| a < b), "{}", board.name);
        }
        for preset in &board.modes {
            let knobs = board.knobs_of(preset);
            assert!(
                board
                    .axes()
                    .iter()
                    .zip(knobs)
                    .all(|(axis, knob)| axis.contains(&knob))
            );
        }
        assert!(board.rails.iter().any(|rail| rail.total), "{}", board.name);
    }
}

/// Each knob runs through its table while the others are in the middle of theirs.
#[test]
fn a_higher_clock_draws_no_less_and_is_never_much_slower() {
    for board in boards() {
        let axes = board.axes();
        for workload in workloads() {
            for knob in 0..4 {
                let mut knobs: [u32; 4] =
                    std::array::from_fn(|axis| axes[axis][axes[axis].len() / 2]);
                let mut before: Option<Steady> = None;
                for &value in &axes[knob] {
                    knobs[knob] = value;
                    let clocks = Clocks::from_knobs(&board, knobs);
                    let steady = Steady::compute(&board, &Unit::NOMINAL, &workload, &clocks);
                    let what = format!("{}, {}, {knobs:?}", board.name, workload.name);
                    assert!(
                        steady.step.period.is_finite() && steady.step.period > 0.0,
                        "{what}"
                    );
                    assert!(steady.watts.total() > 0.0 && steady.die_c < 110.0, "{what}");
                    if let Some(before) = before {
                        // A faster GPU finds its engines gated more often: LeNet, 5 % published.
                        assert!(steady.step.period <= 1.02 * before.step.period, "{what}");
                        // A clock also changes how long the other parts of the pipeline stall,
                        // and so their power.
                        assert!(
                            steady.watts.total() >= 0.97 * before.watts.total(),
                            "{what}"
                        );
                    }
                    before = Some(steady);
                }
            }
        }
    }
}

#[test]
fn a_larger_minibatch_takes_longer_but_less_time_per_sample() {
    let board = Board::named("orin-agx-64").expect("known");
    for workload in workloads() {
        let period = |minibatch| {
            let workload = workload
                .clone()
                .with_minibatch(minibatch)
                .expect("in range");
            let clocks = Clocks::from_knobs(&board, board.maxn());
            Steady::compute(&board, &Unit::NOMINAL, &workload, &clocks)
                .step
                .period
        };
        let [small, middle, large] = [8, 16, 32].map(period);
        assert!(small <= middle && middle <= large, "{}", workload.name);
        assert!(
            middle <= 2.0 * small * 1.001 && large <= 2.0 * middle * 1.001,
            "{}",
            workload.name
        );
    }
}

/// MIRAGE: medians of 13 nominally equal boards, powers 20–30 % and run times up to 10 % apart.
/// Here the mean over 20 times 13 units.
#[test]
fn thirteen_units_differ_as_thirteen_real_boards_did() {
    let board = Board::named("xavier-agx").expect("known");
    for name in ["vgg11", "mobilenetv3", "lenet"] {
        let workload = Workload::named(name).expect("shipped");
        let of_unit = |seed| {
            let profile =
                Profiler::new(&board, Unit::drawn(seed), &workload, 1).profile(board.maxn());
            (profile.power_mw, profile.time_ms)
        };
        let (mut power, mut time) = (0.0, 0.0);
        for lab in 0..20 {
            let (powers, times): (Vec<_>, Vec<_>) = (13 * lab..13 * (lab + 1)).map(of_unit).unzip();
            power += spread(&powers) / 20.0;
            time += spread(&times) / 20.0;
        }
        assert!((0.20..=0.30).contains(&power), "{name}: {power}");
        assert!((0.01..=0.10).contains(&time), "{name}: {time}");
    }
}

fn spread(values: &[f64]) -> f64 {
    let (least, most) = values
        .iter()
        .fold((f64::MAX, 0.0f64), |(a, b), &v| (a.min(v), b.max(v)));
    most / least - 1.0
}

#[test]
fn equal_seeds_give_equal_corpora_and_other_seeds_give_others() {
    let board = Board::named("tx2").expect("known");
    let workload = Workload::named("mobilenetv3").expect("shipped");
    let corpus = |seed| {
        let modes = Modes::Random(40).select(&board, 3).expect("enough modes");
        let profiles = Profiler::new(&board, Unit::NOMINAL, &workload, seed).profile_all(&modes);
        csv(&board, &Unit::NOMINAL, &workload, &profiles)
    };
    assert_eq!(corpus(1), corpus(1));
    assert_ne!(corpus(1), corpus(2));
    assert!(
        corpus(1)
            .lines()
            .skip(1)
            .all(|row| row.ends_with(",simulated,16,8ff8117c,"))
    );
}

/// PowerTrain: 14–30 h for 4,368 modes, 10–25 min for 50.
#[test]
fn profiling_takes_as_long_as_in_the_paper() {
    let board = Board::named("orin-agx-64").expect("known");
    let workload = Workload::named("resnet18").expect("shipped");
    let hours = |modes: &[[u32; 4]]| {
        let profiles = Profiler::new(&board, Unit::NOMINAL, &workload, 1).profile_all(modes);
        profiles.iter().map(|profile| profile.seconds).sum::<f64>() / 3600.0
    };
    let all = hours(&board.papers_modes());
    assert!((14.0..=30.0).contains(&all), "{all} h");
}

/// Characterizing, section 5.5: DVFS saves much on an idle AGX.
#[test]
fn an_idle_board_saves_with_dvfs() {
    for board in boards() {
        let [off, on] = [false, true].map(|dvfs| idle(&board, &Unit::NOMINAL, dvfs).total());
        assert!(on < 0.6 * off, "{}: {on} W of {off} W", board.name);
    }
}
