//! Priors that know nothing of the family of the corpus that is scored.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use wattgate_trainer::fit::Priors;
use wattgate_trainer::fit::learn_priors as learn;
use wattgate_trainer::read::Corpus;

use crate::families::{MEASURED, all};
use crate::stop;

/// Priors learned without one family, by the name of that family. They are learned when a row needs
/// them.
#[derive(Default)]
pub struct Nested(RefCell<BTreeMap<&'static str, Rc<Priors>>>);

impl Nested {
    /// Those for a corpus.
    pub fn priors(&self, folder: &Path, corpus: &str) -> Rc<Priors> {
        let family = MEASURED.iter().find(|(_, names)| names.contains(&corpus));
        let family = family.expect("a corpus of a measured family").0;
        let learn_without = || {
            let all = all(folder).unwrap_or_else(|why| stop(&why));
            let others = all.into_iter().filter(|(other, _)| *other != family);
            let others: Vec<Vec<Corpus>> = others.map(|(_, corpora)| corpora).collect();
            Rc::new(learn(&others).unwrap_or_else(|why| stop(&why)))
        };
        let mut learned = self.0.borrow_mut();
        learned.entry(family).or_insert_with(learn_without).clone()
    }
}
