//! Fits of a workload's own parameters, and of a board's constants.

use wattgate_board_tables::Board;

use super::constants;
use super::corpus::{Corpus, Mode};
use super::own::{self, PARAMETERS, simulated, workload};
use super::plan::planned;
use super::solve::{Prior, Solution, least_squares};
use crate::random::Random;

/// Deviation of a measured time or power from the physics that is assumed: measurement and formulas together.
const DEVIATION: f64 = 0.02;

/// Starts of a fit of own parameters: the priors' means, and random ones around them.
const STARTS: usize = 6;

/// Modes of each corpus that a fit of constants sees.
const MODES_OF_CONSTANTS: usize = 100;

/// Seed of the random starts.
const SEED: u64 = 1;

/// Residuals of time and power of some modes, in multiples of [`DEVIATION`].
fn residuals(board: &Board, own: &[f64], modes: &[Mode]) -> Vec<f64> {
    let workload = workload(board, own);
    let mut all = Vec::with_capacity(2 * modes.len());
    for mode in modes {
        let [time, power] = simulated(board, &workload, own, &mode.clocks);
        all.push((time / mode.time_s).ln() / DEVIATION);
        all.push((power / mode.power_w).ln() / DEVIATION);
    }
    all
}

/// Fits the own parameters of a workload to some modes of its corpus, from several starts.
pub fn own(board: &Board, modes: &[Mode]) -> Solution {
    let priors = own::priors();
    let mut random = Random(SEED);
    let fits = (0..STARTS).map(|start| {
        let spread = if start == 0 { 0.0 } else { 1.0 };
        let start: Vec<f64> = priors
            .iter()
            .map(|prior| prior.mean + spread * prior.sd * random.between(-1.0, 1.0))
            .collect();
        least_squares(&|own: &[f64]| residuals(board, own, modes), &priors, &start)
    });
    let best = fits.min_by(|a, b| a.cost.total_cmp(&b.cost));
    best.expect("at least one start")
}

/// Constants that were fitted to corpora of one board.
#[derive(Clone, Debug)]
pub struct Refitted {
    pub board: Board,
    /// Deviations of the logarithms after the fit.
    pub sd: Vec<f64>,
}

/// Fits the constants of a board to corpora, with the own parameters of each inside.
pub fn constants(board: &Board, corpora: &[&Corpus]) -> Refitted {
    let modes: Vec<Vec<Mode>> = corpora
        .iter()
        .map(|corpus| {
            let chosen = planned(&corpus.modes, MODES_OF_CONSTANTS, 0);
            chosen.into_iter().map(|at| corpus.modes[at]).collect()
        })
        .collect();
    let constants = constants::priors();
    let mut priors: Vec<Prior> = constants.clone();
    let mut start = vec![0.0; constants.len()];
    for modes in &modes {
        priors.extend(own::priors());
        start.extend(own(board, modes).values);
    }
    let all = |values: &[f64]| -> Vec<f64> {
        let (logs, owns) = values.split_at(constants.len());
        let board = constants::moved(board, logs);
        let corpora = owns.chunks(PARAMETERS).zip(&modes);
        corpora
            .flat_map(|(own, modes)| residuals(&board, own, modes))
            .collect()
    };
    let found = least_squares(&all, &priors, &start);
    Refitted {
        board: constants::moved(board, &found.values[..constants.len()]),
        sd: found.sd[..constants.len()].to_vec(),
    }
}
