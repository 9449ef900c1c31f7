//! The physics of simulated boards beside measured corpora.
//!
//! A workload has parameters of its own ([`own`]): its demand on loader, main process, GPU and memory. They are fitted to 15 planned
//! modes ([`plan`]) of its corpus, and all other modes are scored ([`score`]). The constants of the board ([`constants`]) are today's, or
//! refitted to corpora: to all of the board, to those of its other workloads, or to those of other boards.

pub mod constants;
pub mod corpus;
pub mod fit;
mod memory;
pub mod own;
pub mod plan;
pub mod score;
pub mod solve;

use std::collections::BTreeMap;

use serde::Serialize;
use wattgate_board_tables::{Board, BoardError};
use wattgate_simulated_board::anchors::{AnchorError, Catalogue, anchors};
use wattgate_simulated_board::workload::{Workload, WorkloadError};

use crate::parallel::on_all_cores;
use corpus::Corpus;
use fit::Refitted;
use score::{Compared, Effect, Figures, Misses};

/// Number of modes that the own parameters of a workload are fitted to.
pub const FITTED_MODES: usize = 15;

/// Plans of these modes; figures are over all plans.
const PLANS: u64 = 5;

/// Where the constants of the board come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The file of the board.
    Today,
    /// Fitted to all corpora of the board.
    Refitted,
    /// Fitted to the corpora of the board's other workloads.
    WorkloadOut,
    /// Fitted to the corpora of other boards, and scaled by what is published of both.
    BoardOut,
}

impl Basis {
    pub const ALL: [Self; 4] = [
        Self::Today,
        Self::Refitted,
        Self::WorkloadOut,
        Self::BoardOut,
    ];

    /// As tables name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Today => "today",
            Self::Refitted => "refitted",
            Self::WorkloadOut => "workload left out",
            Self::BoardOut => "board left out",
        }
    }
}

/// A corpus beside the physics with some constants.
#[derive(Debug)]
pub struct Row<'a> {
    pub corpus: &'a Corpus,
    pub basis: Basis,
    pub figures: Figures,
    /// Of cores, CPU, GPU and memory; `None` where the corpus does not vary the knob.
    pub effects: [Option<Effect>; 4],
    /// All modes by the first plan.
    pub compared: Vec<Compared>,
    /// Errors of time and power of all plans, in percent.
    pub misses: [Vec<f64>; 2],
}

/// How much two workloads differ in what the modes do to them.
#[derive(Clone, Debug)]
pub struct Between<'a> {
    pub names: [&'a str; 2],
    pub basis: Basis,
    /// Deviation over the modes of ln(first / second) of time and power, in %: 0 if each mode does the same to both.
    pub measured: [f64; 2],
    pub simulated: [f64; 2],
}

/// The comparison of some corpora.
#[derive(Debug)]
pub struct Comparison<'a> {
    pub rows: Vec<Row<'a>>,
    /// Pairs of workloads that were measured in the same modes.
    pub between: Vec<Between<'a>>,
    /// The boards with constants that were fitted to all of their corpora.
    pub refitted: Vec<Refitted>,
}

/// Compares corpora with the physics.
pub fn compare(corpora: &[Corpus]) -> Comparison<'_> {
    let of_board = |name: &str| -> Vec<&Corpus> {
        let all = corpora.iter();
        all.filter(|corpus| physics_of(&corpus.board) == name)
            .collect()
    };
    let mut boards: Vec<String> = corpora.iter().map(|it| physics_of(&it.board)).collect();
    boards.sort();
    boards.dedup();
    // Corpora whose constants are fitted together: all of a board, then without each of them.
    let mut groups: Vec<Vec<&Corpus>> = boards.iter().map(|board| of_board(board)).collect();
    for corpus in corpora {
        let mut others = of_board(&physics_of(&corpus.board));
        others.retain(|other| !std::ptr::eq(*other, corpus));
        groups.push(others);
    }
    let fitted = run(&groups, |group| {
        let first = group.first()?;
        Some(fit::constants(&first.board, group))
    });
    let (of_boards, without) = fitted.split_at(boards.len());
    let refitted: Vec<&Refitted> = of_boards.iter().flatten().collect();
    let mut jobs = Vec::new();
    for (corpus, without) in corpora.iter().zip(without) {
        let name = physics_of(&corpus.board);
        let (same, others): (Vec<&Refitted>, Vec<&Refitted>) = refitted
            .iter()
            .partition(|refitted| physics_of(&refitted.board) == name);
        let others: Vec<Board> = others.into_iter().map(|it| it.board.clone()).collect();
        let on = |from: &Board| constants::with(&corpus.board, &constants::of_board(from));
        jobs.push((corpus, Basis::Today, corpus.board.clone()));
        jobs.extend(
            same.first()
                .map(|it| (corpus, Basis::Refitted, on(&it.board))),
        );
        jobs.extend(
            without
                .as_ref()
                .map(|it| (corpus, Basis::WorkloadOut, on(&it.board))),
        );
        if !others.is_empty() {
            let board = constants::from_others(&corpus.board, &others);
            jobs.push((corpus, Basis::BoardOut, board));
        }
    }
    let rows = run(&jobs, |(corpus, basis, board)| row(corpus, *basis, board));
    Comparison {
        between: between(&rows),
        rows,
        refitted: of_boards.iter().flatten().cloned().collect(),
    }
}

/// Minimum number of modes that two corpora share.
const LEAST_SHARED: usize = 100;

/// All pairs of workloads of a board with the same constants.
fn between<'a>(rows: &[Row<'a>]) -> Vec<Between<'a>> {
    let mut all = Vec::new();
    for (at, first) in rows.iter().enumerate() {
        for second in &rows[at + 1..] {
            let is_pair = first.basis == second.basis
                && first.corpus.board.name == second.corpus.board.name
                && !std::ptr::eq(first.corpus, second.corpus);
            if !is_pair {
                continue;
            }
            let by_knobs: BTreeMap<[u32; 4], &Compared> = second
                .compared
                .iter()
                .map(|mode| (mode.knobs, mode))
                .collect();
            let shared = first.compared.iter();
            let shared = shared.filter_map(|mode| Some((mode, *by_knobs.get(&mode.knobs)?)));
            let shared: Vec<(&Compared, &Compared)> = shared.collect();
            if shared.len() < LEAST_SHARED {
                continue;
            }
            let spread = |figure: fn(&Compared) -> [f64; 2], at: usize| {
                let logs = shared
                    .iter()
                    .map(|(a, b)| (figure(a)[at] / figure(b)[at]).ln());
                let logs: Vec<f64> = logs.collect();
                let mean = logs.iter().sum::<f64>() / logs.len() as f64;
                let squares = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
                100.0 * (squares / logs.len() as f64).sqrt()
            };
            all.push(Between {
                names: [&first.corpus.name, &second.corpus.name],
                basis: first.basis,
                measured: [0, 1].map(|at| spread(|mode| mode.measured, at)),
                simulated: [0, 1].map(|at| spread(|mode| mode.simulated, at)),
            });
        }
    }
    all
}

/// The shipped boards and workloads, but for one board whose constants were refitted.
struct WithRefitted<'a>(&'a Board);

impl Catalogue for WithRefitted<'_> {
    fn board(&self, name: &str) -> Result<Board, BoardError> {
        let shipped = Board::named(name)?;
        match physics_of(self.0) == physics_of(&shipped) {
            true => Ok(constants::with(&shipped, &constants::of_board(self.0))),
            false => Ok(shipped),
        }
    }

    fn workload(&self, name: &str) -> Result<Workload, WorkloadError> {
        Workload::named(name)
    }
}

/// The published measurements that a board with refitted constants misses, and their number.
pub fn anchors_missed(refitted: &Refitted) -> Result<[usize; 2], AnchorError> {
    let anchors = anchors(&WithRefitted(&refitted.board))?;
    let missed = anchors.iter().filter(|anchor| !anchor.held()).count();
    Ok([missed, anchors.len()])
}

/// The board whose file has the physics: a board's table of another JetPack has the same.
fn physics_of(board: &Board) -> String {
    board.like.clone().unwrap_or_else(|| board.name.clone())
}

/// Runs jobs that cannot fail.
fn run<J: Sync, T: Send>(jobs: &[J], job: impl Fn(&J) -> T + Sync) -> Vec<T> {
    let all = on_all_cores(jobs, |it| Ok::<T, std::convert::Infallible>(job(it)));
    match all {
        Ok(all) => all,
    }
}

/// Fits the own parameters with each plan, and scores the other modes.
fn row<'a>(corpus: &'a Corpus, basis: Basis, board: &Board) -> Row<'a> {
    let mut misses = Misses::default();
    let mut first = None;
    for seed in 1..=PLANS {
        let fitted = plan::planned(&corpus.modes, FITTED_MODES, seed);
        let modes: Vec<corpus::Mode> = fitted.iter().map(|&at| corpus.modes[at]).collect();
        let own = fit::own(board, &modes).values;
        let compared = score::compared(board, &own, corpus, &fitted);
        misses.extend(Misses::of(&compared, seed));
        first.get_or_insert(compared);
    }
    let compared = first.unwrap_or_default();
    let effects = std::array::from_fn(|knob| match corpus.hidden[knob] {
        true => None,
        false => score::effect(&compared, knob),
    });
    Row {
        corpus,
        basis,
        figures: misses.figures(),
        effects,
        compared,
        misses: misses.modes,
    }
}
