//! Priors that know nothing of the board nor of the family of the corpus that is scored.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use wattgate_trainer::fit::Priors;
use wattgate_trainer::fit::learn_priors as learn;
use wattgate_trainer::read::Corpus;

use crate::families::{MEASURED, all};
use crate::stop;

/// Priors learned without one board, by its name; each family is of one board. They are learned when a row needs
/// them.
#[derive(Default)]
pub struct Nested(RefCell<BTreeMap<&'static str, Rc<Priors>>>);

/// The board of a family, by which its name begins.
fn board(family: &'static str) -> &'static str {
    family.split(' ').next().unwrap_or(family)
}

impl Nested {
    /// Those for a corpus.
    pub fn priors(&self, folder: &Path, corpus: &str) -> Rc<Priors> {
        let family = MEASURED.iter().find(|(_, names)| names.contains(&corpus));
        let board = board(family.expect("a corpus of a measured family").0);
        let learn_without = || {
            let all = all(folder).unwrap_or_else(|why| stop(&why));
            let others = all
                .into_iter()
                .filter(|(other, _)| self::board(other) != board);
            let others: Vec<Vec<Corpus>> = others.map(|(_, corpora)| corpora).collect();
            Rc::new(learn(&others).unwrap_or_else(|why| stop(&why)))
        };
        let mut learned = self.0.borrow_mut();
        learned.entry(board).or_insert_with(learn_without).clone()
    }
}
