//! The reference of a transfer: a corpus of another workload, minibatch size or board, or a
//! model file trained on such a corpus.

use std::sync::Arc;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use thiserror::Error;
use wattgate_runtime::{Axis, Grid, Model};

use crate::corpus::Corpus;
use crate::corpus::flat::{Flat, flat};
use crate::corpus::modes::all_modes;
use crate::corpus::modes::{Known, profiled};
use crate::learn::gp::SingularKernel;
use crate::learn::predictions::Predictions;
use crate::learn::priors::Priors;
use crate::learn::split::MIN_MODES;
use crate::learn::teacher::{MAX_TRAINING_MODES, Teachers};

/// Why a corpus or model is no reference.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ReferenceError {
    /// Too few modes to learn from.
    #[error("a reference needs at least {MIN_MODES} profiled modes; this one has {found}")]
    Few {
        /// Their number.
        found: usize,
    },
    /// The rows do not follow the clocks.
    #[error("no reference: {0}")]
    Flat(Flat),
    /// The measurements cannot be fitted.
    #[error("{0}")]
    SingularKernel(#[from] SingularKernel),
}

/// Teachers to transfer from, with the corpus that they were learned from.
#[derive(Clone, Debug)]
pub struct Reference {
    name: String,
    grid: Grid,
    teachers: Arc<Teachers>,
    corpus: Option<Corpus>,
}

impl Reference {
    /// Fits teachers to a corpus.
    pub fn of_corpus(
        name: String,
        corpus: Corpus,
        priors: &Priors,
    ) -> Result<Self, ReferenceError> {
        if let Some(why) = flat(&corpus) {
            return Err(ReferenceError::Flat(why));
        }
        let known = profiled(&corpus);
        Ok(Self {
            name,
            grid: corpus.grid.clone(),
            teachers: learn(&corpus.grid, known, priors)?,
            corpus: Some(corpus),
        })
    }

    /// Fits teachers to a model's predictions in its profiled region.
    pub fn of_model(
        name: String,
        model: &Model<'_>,
        priors: &Priors,
    ) -> Result<Self, ReferenceError> {
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
                is_confirmed: true,
            }));
        });
        known.sort_unstable_by_key(|mode: &Known| mode.id);
        Ok(Self {
            name,
            grid: grid.clone(),
            teachers: learn(grid, known, priors)?,
            corpus: None,
        })
    }

    /// The names of references, separated by commas; `None` without any.
    pub fn names(references: &[Self]) -> Option<String> {
        let names: Vec<&str> = references.iter().map(Self::name).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// The teachers of references.
    pub fn all_teachers(references: &[Self]) -> Vec<Arc<Teachers>> {
        references
            .iter()
            .map(|of| Arc::clone(&of.teachers))
            .collect()
    }

    /// The profiled modes of all references that are corpora, with their own knobs.
    pub fn all_modes(references: &[Self]) -> Vec<Known> {
        let corpora = references.iter().filter_map(|of| of.corpus.as_ref());
        corpora.flat_map(profiled).collect()
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

    /// The fitted teachers.
    pub fn teachers(&self) -> &Arc<Teachers> {
        &self.teachers
    }
}

/// Fits at most [`MAX_TRAINING_MODES`] random modes.
fn learn(
    grid: &Grid,
    mut known: Vec<Known>,
    priors: &Priors,
) -> Result<Arc<Teachers>, ReferenceError> {
    let found = known.len();
    if found < MIN_MODES {
        return Err(ReferenceError::Few { found });
    }
    known.shuffle(&mut ChaCha8Rng::seed_from_u64(0));
    known.truncate(MAX_TRAINING_MODES);
    Ok(Arc::new(Teachers::fit_map(grid, &known, priors)?))
}
