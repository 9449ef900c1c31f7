//! The reference of a transfer: a corpus of another workload, minibatch size or board, or a
//! model file trained on such a corpus.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use wattgate_runtime::{Axis, Grid, Model};

use crate::corpus::Corpus;
use crate::corpus::modes::all_modes;
use crate::corpus::modes::{Known, profiled};
use crate::learn::gp::{SAMPLED, SingularKernel};
use crate::learn::predictions::Predictions;
use crate::learn::priors::Priors;
use crate::learn::teacher::{Hyperparameters, Teachers};

/// Hyperparameters to transfer from, with the corpus that they were learned from.
#[derive(Clone, Debug)]
pub struct Reference {
    name: String,
    grid: Grid,
    hyperparameters: Hyperparameters,
    corpus: Option<Corpus>,
}

impl Reference {
    /// Fits teachers to a corpus.
    pub fn of_corpus(
        name: String,
        corpus: Corpus,
        priors: &Priors,
    ) -> Result<Self, SingularKernel> {
        let known = profiled(&corpus);
        Ok(Self {
            name,
            grid: corpus.grid.clone(),
            hyperparameters: learn(&corpus.grid, known, priors)?,
            corpus: Some(corpus),
        })
    }

    /// Fits teachers to a model's predictions in its profiled region.
    pub fn of_model(
        name: String,
        model: &Model<'_>,
        priors: &Priors,
    ) -> Result<Self, SingularKernel> {
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
            grid: grid.clone(),
            hyperparameters: learn(grid, known, priors)?,
            corpus: None,
        })
    }

    /// The file that the reference was read from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A value of the reference's axes that a board does not have; `None` if the reference may be
    /// of that board.
    pub fn foreign(&self, board: &Grid) -> Option<(Axis, u32)> {
        let values = Axis::ALL
            .into_iter()
            .flat_map(|axis| self.grid.axis(axis).iter().map(move |&value| (axis, value)));
        values
            .into_iter()
            .find(|(axis, value)| !board.axis(*axis).contains(value))
    }

    /// The corpus; `None` if the reference is a model file.
    pub fn corpus(&self) -> Option<&Corpus> {
        self.corpus.as_ref()
    }

    /// The fitted hyperparameters.
    pub fn hyperparameters(&self) -> &Hyperparameters {
        &self.hyperparameters
    }
}

/// Fits at most [`SAMPLED`] random modes: further modes do not change the hyperparameters.
fn learn(
    grid: &Grid,
    mut known: Vec<Known>,
    priors: &Priors,
) -> Result<Hyperparameters, SingularKernel> {
    known.shuffle(&mut ChaCha8Rng::seed_from_u64(0));
    known.truncate(SAMPLED);
    Ok(Teachers::fit_map(grid, &known, priors)?.hyperparameters())
}
