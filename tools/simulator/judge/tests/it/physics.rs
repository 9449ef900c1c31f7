//! The physics beside corpora: that a fit finds what a corpus was made of, what is scored, and what the command prints.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use wattgate_board_tables::Board;
use wattgate_judge::physics::corpus::Corpus;
use wattgate_judge::physics::own::{self, simulated, workload};
use wattgate_judge::physics::plan::planned;
use wattgate_judge::physics::score::{Misses, compared};
use wattgate_judge::physics::{FITTED_MODES, fit};
use wattgate_simulated_board::pipeline::Clocks;

use crate::running::command;

const BOARD: &str = "tx2";

/// A workload that differs from what a fit assumes beforehand.
fn truth() -> Vec<f64> {
    let mut truth: Vec<f64> = own::priors().iter().map(|prior| prior.mean).collect();
    for (at, value) in [
        (0, 0.8),
        (1, 0.3),
        (2, 0.15),
        (3, 0.4),
        (7, 0.9),
        (10, 20.0),
    ] {
        truth[at] = f64::ln(value);
    }
    // The factor on the GPU's power, and the offset of the power.
    truth[12] = f64::ln(0.8);
    truth[14] = 0.5;
    truth
}

/// A number in -1 … 1 that looks random.
fn noise(at: usize) -> f64 {
    (12.9898 * at as f64).sin() * 43_758.545 % 1.0
}

/// Writes a corpus of the physics itself, whose times and powers are changed by factors.
fn made(folder: &Path, name: &str, factors: impl Fn(usize) -> [f64; 2]) -> PathBuf {
    let board = Board::named(BOARD).expect("a board");
    let own = truth();
    let workload = workload(&board, &own);
    let mut text = String::from("device,workload,cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw\n");
    let mut at = 0;
    for cpu in board.cpu_khz.iter().step_by(3) {
        for gpu in board.gpu_khz.iter().step_by(3) {
            for emc in board.emc_khz.iter().skip(4).step_by(2) {
                let clocks = Clocks::from_knobs(&board, [6, *cpu, *gpu, *emc]);
                let [time_s, power_w] = simulated(&board, &workload, &own, &clocks);
                let [time, power] = factors(at);
                writeln!(
                    text,
                    "{BOARD},made,6,{cpu},{gpu},{emc},{},{}",
                    1e3 * time_s * time,
                    1e3 * power_w * power
                )
                .expect("text");
                at += 1;
            }
        }
    }
    let path = folder.join(name);
    fs::write(&path, text).expect("a file");
    path
}

fn fitted(corpus: &Corpus) -> (Vec<f64>, Vec<usize>) {
    let chosen = planned(&corpus.modes, FITTED_MODES, 1);
    let modes: Vec<_> = chosen.iter().map(|&at| corpus.modes[at]).collect();
    (fit::own(&corpus.board, &modes).values, chosen)
}

#[test]
fn a_fit_finds_what_a_corpus_was_made_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = made(folder.path(), "made.csv", |at| {
        [1.0 + 0.01 * noise(at), 1.0 + 0.01 * noise(at + 1_000)]
    });
    let corpus = Corpus::read(&path, None).expect("a corpus");
    let (found, chosen) = fitted(&corpus);
    // A corpus is scaled to its fastest mode, so its parameters are shares of that.
    let truth = truth();
    let board = Board::named(BOARD).expect("a board");
    let top = Clocks::from_knobs(&board, board.maxn());
    let [fastest, _] = simulated(&board, &workload(&board, &truth), &truth, &top);
    for (at, tolerance) in [(0, 0.1), (3, 0.15)] {
        let expected = truth[at] + (0.25 / fastest).ln();
        let off = (found[at] - expected).abs();
        assert!(off < tolerance, "{}: {off}", own::OWN[at].0);
    }
    let modes = compared(&corpus.board, &found, &corpus, &chosen);
    let figures = Misses::of(&modes, 1).figures();
    for errors in figures.modes {
        assert!(errors.median < 1.5 && errors.worst < 8.0, "{errors:?}");
    }
}

#[test]
fn modes_that_were_fitted_are_not_scored() {
    let folder = tempfile::tempdir().expect("a folder");
    let plain = made(folder.path(), "plain.csv", |_| [1.0, 1.0]);
    let corpus = Corpus::read(&plain, None).expect("a corpus");
    let chosen = planned(&corpus.modes, FITTED_MODES, 1);
    // All modes but the planned ones take 1.3 times as long. Rows and modes have the same order.
    let path = made(folder.path(), "slower.csv", |at| {
        match chosen.contains(&at) {
            true => [1.0, 1.0],
            false => [1.3, 1.0],
        }
    });
    let corpus = Corpus::read(&path, None).expect("a corpus");
    let (found, chosen) = fitted(&corpus);
    let modes = compared(&corpus.board, &found, &corpus, &chosen);
    let misses = Misses::of(&modes, 1);
    let scored = &misses.modes[0];
    assert_eq!(scored.len(), corpus.modes.len() - FITTED_MODES);
    assert!(scored.iter().all(|error| *error > 15.0), "{scored:?}");
}

#[test]
fn a_plan_covers_each_knob_and_depends_on_the_seed_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = made(folder.path(), "made.csv", |_| [1.0, 1.0]);
    let corpus = Corpus::read(&path, None).expect("a corpus");
    let plan = |seed| planned(&corpus.modes, FITTED_MODES, seed);
    for seed in 1..=5 {
        let chosen = plan(seed);
        assert_eq!(chosen, plan(seed));
        let mut distinct = chosen.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), FITTED_MODES);
        for knob in 1..4 {
            let value = |at: &usize| corpus.modes[*at].knobs[knob];
            let all = || corpus.modes.iter().map(|mode| mode.knobs[knob]);
            let ends = [all().min(), all().max()].map(|end| end.expect("modes"));
            let [low, high] = ends.map(|end| chosen.iter().filter(|at| value(at) == end).count());
            let between = FITTED_MODES - low - high;
            assert!(
                low >= 3 && high >= 3 && between >= 1,
                "{seed} {knob} {low} {high}"
            );
        }
    }
    assert!((2..=5).any(|seed| plan(seed) != plan(1)));
}

#[test]
fn clocks_are_those_that_a_board_drives() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("c.csv");
    let rows = |mode: &dyn Fn(u32) -> String| {
        let mut text =
            String::from("device,workload,cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw\n");
        for n in 0..25 {
            writeln!(text, "{},{},5000", mode(n), 100 + n).expect("text");
        }
        fs::write(&path, text).expect("a file");
        Corpus::read(&path, None).expect("a corpus").modes
    };
    // The TX2 has no 1,134.75 MHz: its next clock is 1,236.75 MHz.
    let modes = rows(&|n| format!("tx2,w,6,2035200,1134750,{}", 408_000 + n));
    assert!(modes.iter().all(|mode| mode.clocks.gpu_ghz == 1.23675));
    // An Orin whose memory clock is not stated raises it with the clocks of CPU and GPU.
    let orin = rows(&|n| {
        let cpu = 115_200 + 76_800 * n;
        format!("orin-agx-64,w,,{cpu},306000,")
    });
    let emc = |cpu: u32| {
        let mode = orin.iter().find(|mode| mode.knobs[1] == cpu);
        mode.expect("a mode").clocks.emc_ghz
    };
    assert_eq!([emc(1_036_800), emc(1_113_600)], [0.204, 0.6656]);
    assert_eq!([emc(1_420_800), emc(1_497_600)], [0.6656, 2.133]);
}

#[test]
fn the_command_prints_tables_and_draws_a_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let corpora = ["first", "second"].map(|name| {
        made(folder.path(), &format!("{name}.csv"), |at| {
            [1.0 + 0.01 * noise(at), 1.0 + 0.01 * noise(at + 1_000)]
        })
    });
    let page = folder.path().join("page.html");
    let output = command()
        .arg("physics")
        .args(&corpora)
        .arg("-o")
        .arg(&page)
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    for row in [
        "| first | today |",
        "| first | refitted |",
        "| second | workload left out |",
        "| first | CPU | today |",
        "| tx2 | gpu.clock_nf |",
    ] {
        assert!(text.contains(row), "{row}\n{text}");
    }
    // No other board has a corpus.
    assert!(!text.contains("board left out |"), "{text}");
    let page = fs::read_to_string(&page).expect("a page");
    assert!(page.matches("<svg").count() >= 10, "{page}");
}
