//! Plans of 15 modes on simulated boards: asked modes over the limit, errors of the fitted model on
//! all other modes against the truth, and its choice under the limit.

use std::collections::HashSet;
use std::path::Path;

use wattgate_board_tables::Board;
use wattgate_runtime::format::Kind;
use wattgate_runtime::grid::Grid;
use wattgate_runtime::{Confidence, Front, Milliwatts, Model, Query};
use wattgate_simulated_board::pipeline::Clocks;
use wattgate_simulated_board::profile::Profiler;
use wattgate_simulated_board::steady::Steady;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;
use wattgate_trainer::fit::Priors;
use wattgate_trainer::plan::{Next, Planner, Task};
use wattgate_trainer::read::Corpus;
use wattgate_trainer::read::Feeding;
use wattgate_trainer::read::Reference;
use wattgate_trainer::read::Units;
use wattgate_trainer::read::all_modes;
use wattgate_trainer::score::Predictions;

/// Number of planned modes.
const MODES: usize = 15;

pub const BOARDS: [&str; 3] = ["orin-agx-64", "orin-nano-8-super", "xavier-agx"];

/// Neither these workloads nor these units were used to choose a constant.
pub const WORKLOADS: [&str; 3] = ["mobilenetv3", "yolov8n", "bert"];
pub const UNITS: [u64; 2] = [3, 4];

/// A corpus without rows, of all modes of a board.
pub fn empty_corpus(board: &Board, workload: &Workload) -> Corpus {
    let axes = board.axes();
    Corpus {
        kind: Kind::Simulated,
        device: board.name.clone(),
        workload: workload.name.clone(),
        feeding: Feeding::default(),
        has_cores: true,
        tpc_pg_mask: None,
        units: Units::one(None),
        idle: Vec::new(),
        rows: 0,
        modes: Vec::new(),
        grid: Grid::new(axes.each_ref().map(Vec::as_slice)).expect("a grid"),
    }
}

/// A simulated board with a workload.
pub struct Bench {
    pub board: Board,
    pub workload: Workload,
    unit: Unit,
    corpus: Corpus,
    /// Time in µs and steady power in mW by mode id.
    truth: Vec<[f64; 2]>,
    /// Half-way between the powers of the lowest and the highest mode, in mW.
    limit_mw: f64,
}

impl Bench {
    pub fn new(board: &str, workload: &str, unit: u64) -> Self {
        let board = Board::named(board).expect("known");
        let workload = Workload::named(workload).expect("shipped");
        let unit = Unit::drawn(unit);
        let corpus = empty_corpus(&board, &workload);
        let truth_of = |knobs| {
            let clocks = Clocks::from_knobs(&board, knobs);
            let steady = Steady::compute(&board, &unit, &workload, &clocks);
            let time_us = 1e6 * steady.step.period * unit.time;
            [time_us, 1e3 * steady.watts.total()]
        };
        let truth: Vec<[f64; 2]> = all_modes(&corpus.grid).map(truth_of).collect();
        Self {
            limit_mw: f64::midpoint(truth[0][1], truth[truth.len() - 1][1]),
            board,
            workload,
            unit,
            corpus,
            truth,
        }
    }

    /// The shipped model of resnet18 on a nominal unit of this board.
    fn reference(&self) -> Reference {
        let file = format!("../weights/{}-resnet18.wgt", self.board.name);
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let bytes = std::fs::read(file).expect("the shipped reference");
        let model = Model::parse(&bytes).expect("a valid model");
        Reference::of_model(self.board.name.clone(), &model, Priors::shipped()).expect("fitted")
    }

    pub fn plan(&self, with_limit: bool, with_reference: bool) -> Planner {
        let task = Task {
            modes: MODES,
            limit_mw: with_limit.then_some(self.limit_mw),
            seed: 1,
        };
        let reference = with_reference
            .then(|| self.reference())
            .into_iter()
            .collect();
        let mut planner = Planner::new(self.corpus.clone(), reference, task).expect("a plan");
        while let Next::Measure(knobs, _) = planner.ask(None).expect("an answer") {
            let mut profiler = Profiler::new(&self.board, self.unit, &self.workload, 1);
            let row = profiler.profile(knobs);
            planner
                .tell(knobs, 1e3 * row.time_ms, row.power_mw)
                .expect("asked for");
        }
        planner
    }

    /// The true power of each measured mode over the limit.
    pub fn loads(&self, planner: &Planner) -> Vec<f64> {
        let load = |id: usize| self.truth[id][1] / self.limit_mw;
        planner
            .measured()
            .iter()
            .map(|mode| load(mode.id))
            .collect()
    }

    pub fn judge(&self, planner: &Planner) -> Verdict {
        let bytes = planner.fit().expect("a model").bytes;
        let model = Model::parse(&bytes).expect("a model");
        let measured: HashSet<usize> = planner.measured().iter().map(|mode| mode.id).collect();
        let others = |most_mw: f64| {
            let within = move |id: &usize| self.truth[*id][1] <= most_mw;
            let others = (0..self.truth.len()).filter(|id| !measured.contains(id));
            others.filter(within).collect::<Vec<usize>>()
        };
        let Predictions { time, power, .. } = Predictions::of_model(&model);
        let predicted = [time, power.expect("a power")];
        let mape = |ids: &[usize]| {
            [0, 1].map(|target| {
                let error = |id: &usize| predicted[target][*id] / self.truth[*id][target] - 1.0;
                100.0 * ids.iter().map(|id| error(id).abs()).sum::<f64>() / ids.len() as f64
            })
        };
        let within = (0..self.truth.len()).filter(|id| self.truth[*id][1] <= self.limit_mw);
        let best_us = within
            .map(|id| self.truth[id][0])
            .fold(f64::INFINITY, f64::min);
        let front = |confidence| Front::<4_096>::from_model(&model, &model.profiled(), confidence);
        let choose = |confidence| {
            let query = Query {
                power_limit: Some(Milliwatts(self.limit_mw as u32)),
                ..Query::default()
            };
            let choice = front(confidence)
                .select(&query)
                .expect("the lowest mode is within");
            let [time_us, power_mw] = self.truth[usize::from(choice.mode.0)];
            [best_us / time_us, power_mw / self.limit_mw]
        };
        let front = front(Confidence::P95);
        let points = front.points().iter().map(|point| usize::from(point.mode.0));
        let fits = points.filter(|id| self.truth[*id][1] <= self.limit_mw);
        let reachable_us = fits
            .map(|id| self.truth[id][0])
            .fold(f64::INFINITY, f64::min);
        Verdict {
            reachable: best_us / reachable_us,
            all: mape(&others(f64::INFINITY)),
            within: mape(&others(self.limit_mw)),
            guarded: choose(Confidence::P95),
            median: choose(Confidence::P50),
        }
    }
}

/// What a model is worth.
#[derive(Debug)]
pub struct Verdict {
    /// Errors in percent of time and power over all modes that were not measured.
    pub all: [f64; 2],
    /// The same over those within the limit.
    pub within: [f64; 2],
    /// The choice at 95 %: its speed over that of the fastest mode within the limit, and its true
    /// power over the limit.
    pub guarded: [f64; 2],
    /// The speed of the fastest mode of the front that is within the limit, over the same: what a
    /// control without margins can reach.
    pub reachable: f64,
    /// The choice at 50 %.
    pub median: [f64; 2],
}

/// Mean of values.
pub fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    values.clone().sum::<f64>() / values.count() as f64
}

/// At most 2 % of the asked modes are over the limit, none by more than 5 %.
pub fn assert_safe(loads: &[f64]) {
    let over = loads.iter().filter(|load| **load > 1.0).count();
    let highest = loads.iter().copied().fold(0.0, f64::max);
    println!(
        "{over} of {} modes over the limit, highest {highest:.3} of it",
        loads.len()
    );
    assert!(50 * over <= loads.len() && highest <= 1.05);
}

pub fn benches(unit: u64) -> impl Iterator<Item = Bench> {
    let all = BOARDS
        .iter()
        .flat_map(|board| WORKLOADS.map(|workload| (board, workload)));
    all.map(move |(board, workload)| Bench::new(board, workload, unit))
}
