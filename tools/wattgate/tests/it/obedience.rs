//! A bed of faults for sessions: every knob disobeys in every way while modes are profiled within a limit.

use std::time::Duration;

use wattgate_board::Files;
use wattgate_runtime::PowerMode;

use crate::bed::{KNOBS, Meter, WAYS, command, hungry};
use crate::board::{discover, mode};
use crate::session::{Bench, profile};

const LIMIT_W: u32 = 20;

/// Modes of different knobs; the last one draws more than the limit.
fn modes() -> Vec<PowerMode> {
    [
        [2, 729_600, 522_750, 665_600],
        [4, 1_190_400, 318_750, 2_133_000],
        [8, 422_400, 420_750, 2_133_000],
        [12, 268_800, 624_750, 665_600],
        [12, 1_728_000, 1_134_750, 3_199_000],
    ]
    .map(mode)
    .to_vec()
}

/// The mean power of a board whose knobs obey, in W.
fn power_w(mode: &PowerMode) -> f64 {
    let mut files = hungry();
    let mut board = discover(&files);
    board.apply(&mut files, mode).expect("a mode");
    files.wait(Duration::from_secs(3));
    let before = files.tree.jetson().energy_j();
    files.wait(Duration::from_secs(3));
    (files.tree.jetson().energy_j() - before) / 3.0
}

/// The sessions of a bed.
struct Bed {
    modes: Vec<PowerMode>,
    /// What the modes draw on a board whose knobs obey, in W.
    powers: Vec<f64>,
    table: String,
    failed: String,
}

impl Bed {
    fn new() -> Self {
        let modes = modes();
        Self {
            powers: modes.iter().map(power_w).collect(),
            modes,
            table: String::new(),
            failed: String::new(),
        }
    }

    /// Profiles the modes within the limit while the faults occur: the true power stays within it, the session
    /// ends, and what it writes down is what each mode draws.
    fn add(&mut self, faults: &[String]) {
        const REACTION_S: f64 = 1.0;
        const LONGEST_S: f64 = 600.0;
        let files = hungry();
        let least = discover(&files).least();
        let meter = Meter::new(LIMIT_W.into(), faults, &files);
        let mut bench = Bench::from_files(files);
        (bench.meter, bench.faults) = (Some(meter), faults.to_vec());
        let done = profile(bench, least, &self.modes, Some(LIMIT_W));
        let meter = done.bench.meter.expect("a meter");
        let mut is_true = true;
        let answers: Vec<String> = done
            .rows
            .iter()
            .map(|row| {
                let is_same = |mode: &PowerMode| {
                    mode.knobs() == [row.cores, row.cpu_khz, row.gpu_khz, row.emc_khz]
                };
                let power = self
                    .modes
                    .iter()
                    .position(is_same)
                    .map(|at| self.powers[at]);
                match (row.mark, row.power_mw.zip(power)) {
                    (None, Some((mw, power))) => {
                        let error = mw / 1e3 / power - 1.0;
                        is_true &= error.abs() <= 0.05;
                        format!("{:+.1} %", 100.0 * error)
                    }
                    (mark, _) => mark.map_or("?".to_owned(), |mark| format!("{mark:?}")),
                }
            })
            .collect();
        let seconds = done.bench.files.tree.jetson().now().as_secs_f64();
        let text = format!(
            "{:<95} over {:5.2} s, highest {:5.2} W, {seconds:3.0} s, {answers:?}, {:?}\n",
            faults.join("; "),
            meter.longest_s,
            meter.highest_w,
            done.result
        );
        if meter.longest_s > REACTION_S || seconds > LONGEST_S || !is_true {
            self.failed += &text;
        }
        self.table += &text;
    }

    fn end(&self) {
        println!("{}", self.table);
        assert!(self.failed.is_empty(), "{}", self.failed);
    }
}

#[test]
fn a_knob_that_does_not_obey_spoils_neither_limit_nor_corpus() {
    let mut bed = Bed::new();
    for knob in KNOBS {
        for way in WAYS {
            bed.add(&[command(way, knob)]);
        }
    }
    bed.end();
}

/// A fault that ends while the session is in any of its steps.
#[test]
fn a_knob_that_disobeys_for_a_while_spoils_no_later_row() {
    let mut bed = Bed::new();
    for knob in KNOBS {
        for way in ["ignore KNOB", "unreadable KNOB"] {
            for tenths in (70..140).step_by(7) {
                let faults = [
                    format!("at 6 {}", command(way, knob)),
                    format!("at {}.{} allow {knob}", tenths / 10, tenths % 10),
                ];
                bed.add(&faults);
            }
        }
    }
    bed.end();
}
