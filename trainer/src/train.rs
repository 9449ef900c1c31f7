//! From measured modes to a model file: fits the teachers and exports what they predict.

use indicatif::ProgressBar;
use thiserror::Error;
use wattgate_runtime::shape::Shape;
use wattgate_runtime::{FormatError, Region};

use crate::corpus::Corpus;
use crate::corpus::modes::{Known, all_modes};
use crate::export::exported::Exported;
use crate::export::surface::{Origin, Surface};
use crate::export::{self, student};
use crate::learn::blend::Blend;
use crate::learn::gp::SingularCovariance;
use crate::learn::predictions::Target;
use crate::learn::priors::Priors;
use crate::learn::reference::Reference;
use crate::learn::suspects::{Suspect, doubtful, suspect};
use crate::learn::teacher::{TEACHER_PROGRESS, Teachers};

/// Progress steps of one training; more if readings are left out, for which the teachers are fitted again.
pub const PROGRESS: u64 = TEACHER_PROGRESS + student::STUDENT_PROGRESS;

/// The inputs of a training.
pub struct Task<'a> {
    /// The corpus of the new workload. Methods may use its grid and names, not its measurements.
    pub corpus: &'a Corpus,
    /// The training modes, at least five.
    pub used: &'a [Known],
    /// Models or corpora of other workloads or boards to transfer from.
    pub references: &'a [Reference],
    /// Priors of the hyperparameters.
    pub priors: &'a Priors,
    /// Seed of all random numbers.
    pub seed: u64,
    /// The layer widths of an exported network.
    pub shape: Shape,
    /// Advances by [`PROGRESS`] if a network is exported.
    pub progress: &'a ProgressBar,
}

/// Why training failed.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum TrainError {
    /// The covariance matrix of a Gaussian process is singular.
    #[error("{0}")]
    SingularCovariance(#[from] SingularCovariance),
    /// The runtime refuses the encoded file.
    #[error(
        "the runtime refuses the trained model: {0}; this is a defect of wattgate, please report it with the corpus"
    )]
    Refused(#[from] FormatError),
}

/// A model file and the teachers that it was distilled from.
#[derive(Clone, Debug)]
pub struct Taught {
    /// The parts of the file.
    pub exported: Exported,
    /// Readings that the training did not use, because they contradict all others.
    pub suspects: Vec<(Known, Suspect)>,
    /// Readings that the training used, though the others say something else.
    pub doubtful: Vec<(Known, Suspect)>,
    /// The Gaussian processes.
    pub teachers: Teachers,
}

/// Of the training modes, at most one in this many is left out as suspect.
const MODES_A_SUSPECT: usize = 10;

/// Trains on the modes of a task, without readings that contradict the others, and encodes the model file.
pub fn train(task: &Task<'_>) -> Result<Taught, TrainError> {
    task.progress.set_message("teacher");
    let references = Reference::all_teachers(task.references);
    let grid = &task.corpus.grid;
    let blend = Blend::any_board(task.priors);
    let (mut used, mut suspects) = (task.used.to_vec(), Vec::new());
    let teachers = loop {
        let (seed, progress) = (task.seed, task.progress);
        let teachers = Teachers::fit(grid, &used, &references, &blend, seed, progress)?;
        let is_open = suspects.len() < task.used.len() / MODES_A_SUSPECT;
        let Some(found) = suspect(&used, teachers.left_out()).filter(|_| is_open) else {
            break teachers;
        };
        suspects.push((used[found.at], found));
        progress.inc_length(TEACHER_PROGRESS);
        match found.target {
            Target::Time => {
                used.remove(found.at);
            }
            Target::Power => used[found.at].power_mw = None,
        }
    };
    let exported = distil(
        &Task {
            used: &used,
            ..*task
        },
        &teachers,
    )?;
    let doubtful = doubtful(&used, teachers.left_out()).into_iter();
    Ok(Taught {
        exported,
        suspects,
        doubtful: doubtful.map(|found| (used[found.at], found)).collect(),
        teachers,
    })
}

/// Distils the teachers of a task into the parts of a model file.
pub fn distil(task: &Task<'_>, teachers: &Teachers) -> Result<Exported, TrainError> {
    let grid = &task.corpus.grid;
    let modes: Vec<[u32; 4]> = all_modes(grid).collect();
    let surface = Surface {
        expected: teachers.predict(&modes),
        left_out: teachers.left_out().to_vec(),
        measured: task.used.to_vec(),
    };
    let used = task.used.iter().map(|mode| mode.knobs);
    let origin = Origin {
        profiled: Region::spanning(grid, used).expect("modes of this grid"),
        seed: task.seed,
        modes_used: teachers.left_out().len() as u16,
        ..Origin::from_corpus(task.corpus)
    };
    Ok(export::export(origin, &surface, task.shape, task.progress)?)
}
