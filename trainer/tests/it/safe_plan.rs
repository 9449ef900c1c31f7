//! Plans under a power limit on simulated boards: how often an asked mode exceeds the limit, and
//! how much accuracy the limit costs.
//!
//! `cargo test --release -p wattgate-trainer --test it safe_plan -- --nocapture` prints the table.

use indicatif::ProgressBar;
use wattgate_board_tables::Board;
use wattgate_runtime::PowerMode;
use wattgate_runtime::shape::Shape;
use wattgate_simulated_board::corpus::Modes;
use wattgate_simulated_board::pipeline::Clocks;
use wattgate_simulated_board::profile::Profiler;
use wattgate_simulated_board::steady::Steady;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;
use wattgate_trainer::fit;
use wattgate_trainer::fit::Priors;
use wattgate_trainer::plan::{Next, Planner, Task};
use wattgate_trainer::read::Corpus;
use wattgate_trainer::read::Known;
use wattgate_trainer::score::Predictions;

use crate::bench::empty_corpus;

/// Number of planned modes.
const MODES: usize = 15;

/// Number of random modes on which the errors are measured.
const OTHERS: usize = 800;

/// Limits as shares of the span from the lowest to the highest mode's power.
const LIMITS: [f64; 3] = [0.3, 0.5, 0.75];

/// A simulated board with a workload.
struct Bench<'a> {
    board: &'a Board,
    workload: &'a Workload,
    unit: Unit,
    corpus: Corpus,
    others: Vec<Known>,
}

/// What a plan led to.
#[derive(Debug)]
struct Outcome {
    /// True power over the limit of each asked mode.
    loads: Vec<f64>,
    measured: Vec<Known>,
}

impl<'a> Bench<'a> {
    fn new(board: &'a Board, workload: &'a Workload, unit: Unit) -> Self {
        let mut bench = Self {
            board,
            workload,
            unit,
            corpus: empty_corpus(board, workload),
            others: Vec::new(),
        };
        let others = Modes::Random(OTHERS).select(board, 1).expect("so many");
        bench.others = others
            .into_iter()
            .map(|knobs| bench.measure(knobs))
            .collect();
        bench
    }

    fn measure(&self, knobs: [u32; 4]) -> Known {
        let mut profiler = Profiler::new(self.board, self.unit, self.workload, 1);
        let profile = profiler.profile(knobs);
        let id = self.corpus.grid.id(PowerMode::from_knobs(knobs));
        Known {
            id: usize::from(id.expect("a mode of the grid").0),
            knobs,
            time_us: 1e3 * profile.time_ms,
            power_mw: Some(profile.power_mw),
            is_confirmed: false,
        }
    }

    /// The true steady power in mW.
    fn power_mw(&self, knobs: [u32; 4]) -> f64 {
        let clocks = Clocks::from_knobs(self.board, knobs);
        1e3 * Steady::compute(self.board, &self.unit, self.workload, &clocks)
            .watts
            .total()
    }

    fn limit_mw(&self, share: f64) -> f64 {
        let low = self.power_mw(self.board.axes().map(|axis| axis[0]));
        low + share * (self.power_mw(self.board.maxn()) - low)
    }

    fn plan(&self, limit_mw: Option<f64>) -> Outcome {
        let task = Task {
            modes: MODES,
            limit_mw,
            seed: 1,
        };
        let mut planner = Planner::new(self.corpus.clone(), Vec::new(), task).expect("a plan");
        let mut loads = Vec::new();
        while let Next::Measure(knobs, _) = planner.ask(None).expect("an answer") {
            let known = self.measure(knobs);
            loads.push(self.power_mw(knobs) / limit_mw.unwrap_or(f64::INFINITY));
            let power_mw = known.power_mw.expect("measured");
            planner
                .tell(knobs, known.time_us, power_mw)
                .expect("asked for");
        }
        Outcome {
            loads,
            measured: planner.measured().to_vec(),
        }
    }

    /// Errors in percent of the fitted model, of time and power, on the other modes that are within
    /// the limit and on those that exceed it.
    fn errors(&self, measured: &[Known], limits: &[f64]) -> Vec<[[f64; 2]; 2]> {
        let predictions = self.fit(measured);
        let errors_at = |limit: &f64| {
            let fits = |mode: &&Known| mode.power_mw <= Some(*limit);
            let (within, over): (Vec<Known>, Vec<Known>) =
                self.others.iter().partition(|mode| fits(mode));
            [within, over].map(|modes| {
                let errors = predictions.errors(&modes);
                [errors.time_mape, errors.power_mape].map(|error| error.unwrap_or(0.0))
            })
        };
        limits.iter().map(errors_at).collect()
    }

    fn fit(&self, used: &[Known]) -> Predictions {
        let task = fit::Task {
            corpus: &self.corpus,
            used,
            references: &[],
            priors: Priors::shipped(),
            seed: 1,
            shape: Shape::Wide32,
            progress: &ProgressBar::hidden(),
        };
        fit::train(&task).expect("a model").exported.predictions
    }
}

/// Plans on units and workloads, and counts asked modes over the limit: at most 2 % of them, none
/// by more than 5 %.
fn assert_safe(boards: &[&str], workloads: &[&str], unit: Unit) {
    let mut loads = Vec::new();
    for board in boards {
        let board = Board::named(board).expect("known");
        for workload in workloads {
            let workload = Workload::named(workload).expect("shipped");
            let bench = Bench::new(&board, &workload, unit);
            for share in LIMITS {
                let outcome = bench.plan(Some(bench.limit_mw(share)));
                let highest = outcome.loads.iter().copied().fold(0.0, f64::max);
                println!(
                    "{} {}, limit at {share}: {} modes, highest {highest:.3} of the limit",
                    board.name,
                    workload.name,
                    outcome.loads.len(),
                );
                loads.extend(outcome.loads);
            }
        }
    }
    let over = loads.iter().filter(|load| **load > 1.0).count();
    println!("{over} of {} modes over the limit", loads.len());
    assert!(50 * over <= loads.len());
    assert!(loads.iter().all(|load| *load <= 1.05));
}

const BOARDS: [&str; 3] = ["orin-agx-64", "orin-nano-8-super", "xavier-agx"];

#[test]
fn asked_modes_stay_within_the_limit() {
    assert_safe(&BOARDS, &["resnet18", "mobilenetv3", "lstm"], Unit::NOMINAL);
}

#[test]
fn asked_modes_of_other_units_stay_within_the_limit() {
    assert_safe(&BOARDS, &["yolov8n", "bert", "lenet"], Unit::drawn(2));
}

/// Errors of time and power of the fitted model within the limit, relative to those of a plan
/// without a limit and of as many modes.
#[test]
fn a_limit_costs_little_accuracy_within_it() {
    let mut ratios = [Vec::new(), Vec::new()];
    for board in ["orin-agx-64", "orin-nano-8-super"] {
        let board = Board::named(board).expect("known");
        for workload in ["resnet18", "lstm"] {
            let workload = Workload::named(workload).expect("shipped");
            let bench = Bench::new(&board, &workload, Unit::NOMINAL);
            let limits = LIMITS.map(|share| bench.limit_mw(share));
            let free = bench.errors(&bench.plan(None).measured, &limits);
            for ((limit, share), free) in limits.into_iter().zip(LIMITS).zip(free) {
                let bound = bench.errors(&bench.plan(Some(limit)).measured, &[limit]);
                println!(
                    "{} {}, limit at {share}: [time, power] errors within and over it {:.1?} %, without a limit {free:.1?} %",
                    board.name, workload.name, bound[0],
                );
                for (target, ratios) in ratios.iter_mut().enumerate() {
                    ratios.push(bound[0][0][target] / free[0][target]);
                }
            }
        }
    }
    let medians = ratios.map(|mut ratios| {
        ratios.sort_by(f64::total_cmp);
        let half = ratios.len() / 2;
        f64::midpoint(ratios[half - 1], ratios[half])
    });
    println!("medians of the errors within the limit over those without one: {medians:.2?}");
    assert!(medians[0] < 1.5 && medians[1] < 2.0);
}
