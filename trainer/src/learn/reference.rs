//! The reference of a transfer: a corpus of another workload, minibatch size or board, or a
//! model file trained on such a corpus.

use std::collections::HashMap;
use std::sync::Arc;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use thiserror::Error;
use wattgate_runtime::format::Kind;
use wattgate_runtime::grid::{Axis, Grid};
use wattgate_runtime::model::Prediction;
use wattgate_runtime::{ModeId, Model};

use crate::corpus::Corpus;
use crate::corpus::flat::{Flat, flat};
use crate::corpus::modes::{Known, all_modes, disagreeing, profiled};
use crate::learn::gp::SingularCovariance;
use crate::learn::predictions::Predictions;
use crate::learn::priors::Priors;
use crate::learn::split::{MIN_MODES, measure_again};
use crate::learn::teacher::{MAX_TRAINING_MODES, Teachers};

/// Why a corpus or model is no reference.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ReferenceError {
    /// Too few modes to learn from.
    #[error(
        "a reference needs at least {MIN_MODES} profiled modes; this one has {found}{}",
        measure_again(*.without)
    )]
    Few {
        /// Their number.
        found: usize,
        /// The number of modes whose runs disagree.
        without: usize,
    },
    /// It has powers, but too few to learn from.
    #[error(
        "a reference with powers needs at least {MIN_MODES} modes with one; this one has {found}{}",
        measure_again(*.without)
    )]
    FewPowers {
        /// Their number.
        found: usize,
        /// The number of modes whose runs of the power disagree.
        without: usize,
    },
    /// The rows do not follow the clocks.
    #[error("no reference: {0}")]
    Flat(Flat),
    /// The measurements cannot be fitted.
    #[error("{0}")]
    SingularCovariance(#[from] SingularCovariance),
}

/// Why a reference says nothing new of a corpus.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum OwnReference {
    /// Its readings are those of the corpus.
    #[error(
        "{name} is no reference: {rows} of its modes have the times and powers of the corpus itself, so errors and bounds would be too small; name another workload"
    )]
    Rows {
        /// The reference's file.
        name: String,
        /// The number of modes with one time and power in both.
        rows: usize,
    },
    /// It may have rows of the corpus, or have been trained on them.
    #[error(
        "{name} is no reference: it is of this workload on this board, so errors and bounds would be too small; name another workload, or add the rows to the corpus"
    )]
    Workload {
        /// The reference's file.
        name: String,
    },
}

/// Teachers to transfer from, with the corpus that they were learned from.
#[derive(Clone, Debug)]
pub struct Reference {
    name: String,
    grid: Grid,
    teachers: Arc<Teachers>,
    /// The corpus; `None` if the reference is a model file.
    corpus: Option<Corpus>,
    /// What it says it is of.
    subject: Option<Subject>,
    /// What was measured, as far as a file tells.
    measured: Vec<Known>,
}

/// What a corpus or a model is of.
#[derive(Clone, Debug, PartialEq)]
struct Subject {
    kind: Kind,
    device: String,
    workload: String,
    minibatch: Option<u32>,
}

impl Subject {
    fn from_corpus(corpus: &Corpus) -> Self {
        Self {
            kind: corpus.kind,
            device: corpus.device.clone(),
            workload: corpus.workload.clone(),
            minibatch: corpus.feeding.minibatch,
        }
    }
}

/// The share of the common modes that a reference may have the same readings of. Readings of another workload
/// are rarely equal.
const MOST_SHARED: f64 = 0.1;

/// Readings that differ by a smaller ratio are equal: files round them, and a model has the mean of a reading and of
/// what the others say of it.
const READINGS_ROUNDING: f64 = 0.01;

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
        let powers = known.iter().filter(|mode| mode.power_mw.is_some()).count();
        let has_modes = known.len() >= MIN_MODES;
        if has_modes
            && powers < MIN_MODES
            && corpus.modes.iter().any(|mode| !mode.powers.is_empty())
        {
            return Err(ReferenceError::FewPowers {
                found: powers,
                without: disagreeing(&corpus, |mode| &mode.powers),
            });
        }
        Ok(Self {
            name,
            grid: corpus.grid.clone(),
            teachers: learn(
                &corpus.grid,
                known,
                disagreeing(&corpus, |mode| &mode.times),
                priors,
            )?,
            subject: Some(Subject::from_corpus(&corpus)),
            measured: profiled(&corpus),
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
            teachers: learn(grid, known, 0, priors)?,
            subject: model.provenance().ok().map(|provenance| Subject {
                kind: provenance.kind,
                device: provenance.device.to_owned(),
                workload: provenance.workload.to_owned(),
                minibatch: provenance.minibatch,
            }),
            measured: measured_in(model),
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
            .map(|reference| Arc::clone(&reference.teachers))
            .collect()
    }

    /// The profiled modes of all references that are corpora, with their own knobs.
    pub fn all_modes(references: &[Self]) -> Vec<Known> {
        let corpora = references.iter().filter_map(Self::corpus);
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

    /// Refuses references that know the modes of a corpus already. What a teacher states of a mode that was left out
    /// would then be what was measured there.
    pub fn refuse_own(
        references: &[Self],
        corpus: &Corpus,
        used: &[Known],
    ) -> Result<(), OwnReference> {
        let all = [used, &profiled(corpus)].concat();
        for reference in references {
            let name = reference.name.clone();
            if reference.subject == Some(Subject::from_corpus(corpus)) {
                return Err(OwnReference::Workload { name });
            }
            let (rows, common) = same_readings(&reference.measured, &all);
            if rows > 1 && rows as f64 > MOST_SHARED * common as f64 {
                return Err(OwnReference::Rows { name, rows });
            }
        }
        Ok(())
    }

    /// The fitted teachers.
    pub fn teachers(&self) -> &Arc<Teachers> {
        &self.teachers
    }
}

/// The measured modes that a file states.
fn measured_in(model: &Model<'_>) -> Vec<Known> {
    let known = |(id, at): (ModeId, Prediction)| {
        Some(Known {
            id: usize::from(id.0),
            knobs: model.grid().mode(id)?.knobs(),
            time_us: f64::from(model.time(at).0),
            power_mw: model.power(at).map(|power| f64::from(power.0)),
            is_confirmed: true,
        })
    };
    model.measured().filter_map(known).collect()
}

/// The numbers of modes that have one time and one power in both, and of the common modes.
fn same_readings(all: &[Known], own: &[Known]) -> (usize, usize) {
    let all: HashMap<[u32; 4], &Known> = all.iter().map(|mode| (mode.knobs, mode)).collect();
    let own: HashMap<[u32; 4], &Known> = own.iter().map(|mode| (mode.knobs, mode)).collect();
    let same = |a: f64, b: f64| (a / b).ln().abs() < READINGS_ROUNDING;
    let common = own
        .values()
        .filter_map(|mode| Some((*mode, *all.get(&mode.knobs)?)));
    let is_same = |(a, b): &(&Known, &Known)| {
        let powers = a.power_mw.zip(b.power_mw);
        same(a.time_us, b.time_us) && powers.is_none_or(|(a, b)| same(a, b))
    };
    let rows = common.clone().filter(is_same).count();
    (rows, common.count())
}

/// Fits at most [`MAX_TRAINING_MODES`] random modes. `without` more have runs that disagree.
fn learn(
    grid: &Grid,
    mut known: Vec<Known>,
    without: usize,
    priors: &Priors,
) -> Result<Arc<Teachers>, ReferenceError> {
    let found = known.len();
    if found < MIN_MODES {
        return Err(ReferenceError::Few { found, without });
    }
    known.shuffle(&mut ChaCha8Rng::seed_from_u64(0));
    known.truncate(MAX_TRAINING_MODES);
    Ok(Arc::new(Teachers::fit_map(grid, &known, priors)?))
}
