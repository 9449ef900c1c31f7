//! Which rows of a kernel train and which are held out: whole units, or whole calls of one unit.

use std::collections::HashMap;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use wattgate_kernels::Call;

use super::corpus::{KernelCorpus, Row};

/// Least number of rows that a kernel is learned from.
pub const LEAST_ROWS: usize = 30;

/// What is held out.
#[derive(Clone, Debug, PartialEq)]
pub enum HeldOut {
    /// All rows of these units, at least one; the others train.
    Units(Vec<u16>),
    /// Each of N parts in turn. A part has whole units. In a corpus of one unit it has whole calls: all
    /// rows with the same parameters.
    Folds(usize),
}

/// The part of each row, and the number of parts.
pub fn parts(
    corpus: &KernelCorpus,
    rows: &[Row],
    held_out: &HeldOut,
    seed: u64,
) -> (Vec<usize>, usize) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    match held_out {
        // Part 0 is scored, the rest trains.
        HeldOut::Units(units) => {
            let fold = |row: &Row| usize::from(!units.contains(&row.unit));
            (rows.iter().map(fold).collect(), 1)
        }
        HeldOut::Folds(folds) if corpus.units.len() > 1 => {
            let folds = (*folds).min(corpus.units.len());
            let mut order: Vec<usize> = (0..corpus.units.len()).collect();
            order.shuffle(&mut random);
            let fold = |row: &Row| order[usize::from(row.unit)] % folds;
            (rows.iter().map(fold).collect(), folds)
        }
        HeldOut::Folds(folds) => {
            let mut calls: HashMap<Call, usize> = HashMap::new();
            let of_row: Vec<usize> = rows
                .iter()
                .map(|row| {
                    let next = calls.len();
                    *calls.entry(row.call).or_insert(next)
                })
                .collect();
            let folds = (*folds).min(calls.len()).max(1);
            let mut order: Vec<usize> = (0..calls.len()).collect();
            order.shuffle(&mut random);
            (
                of_row.iter().map(|&call| order[call] % folds).collect(),
                folds,
            )
        }
    }
}
