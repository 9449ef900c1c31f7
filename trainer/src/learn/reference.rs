//! What a transfer starts from: a corpus of another workload, minibatch size or board, or a
//! model that was made from one.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use wattgate_runtime::Model;

use crate::corpus::Corpus;
use crate::corpus::modes::all_modes;
use crate::corpus::modes::{Known, profiled};
use crate::learn::gp::{SAMPLED, SingularKernel};
use crate::learn::predictions::Predictions;
use crate::learn::teacher::{Learned, Teachers};

/// A reference.
#[derive(Clone, Debug)]
pub struct Reference {
    name: String,
    learned: Learned,
    corpus: Option<Corpus>,
}

impl Reference {
    /// Learns a corpus as a teacher does.
    pub fn of_corpus(name: String, corpus: Corpus) -> Result<Self, SingularKernel> {
        let known = profiled(&corpus);
        Ok(Self {
            name,
            learned: learn(&corpus.grid, known)?,
            corpus: Some(corpus),
        })
    }

    /// Learns what a model predicts where it was profiled.
    pub fn of_model(name: String, model: &Model<'_>) -> Result<Self, SingularKernel> {
        let predictions = Predictions::of_model(model);
        let grid = model.grid();
        let mut known = Vec::new();
        model.sweep(&model.profiled(), |mode, _| {
            let id = usize::from(mode.0);
            known.extend(all_modes(grid).nth(id).map(|knobs| Known {
                id,
                knobs,
                time_us: predictions.time[id],
                power_mw: predictions.power.as_ref().map(|power| power[id]),
            }));
        });
        known.sort_unstable_by_key(|mode: &Known| mode.id);
        Ok(Self {
            name,
            learned: learn(grid, known)?,
            corpus: None,
        })
    }

    /// Where it was read from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The corpus; `None` where the reference is a model.
    pub fn corpus(&self) -> Option<&Corpus> {
        self.corpus.as_ref()
    }

    /// The hyperparameters that it was found to have.
    pub fn learned(&self) -> &Learned {
        &self.learned
    }
}

/// Hyperparameters do not change with more than [`SAMPLED`] modes.
fn learn(grid: &wattgate_runtime::Grid, mut known: Vec<Known>) -> Result<Learned, SingularKernel> {
    known.shuffle(&mut ChaCha8Rng::seed_from_u64(0));
    known.truncate(SAMPLED);
    Ok(Teachers::fit_modes(grid, &known)?.learned())
}
