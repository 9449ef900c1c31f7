//! From measured modes to a model file: teachers of both targets, a student that learns both on
//! the whole grid, its integers as a file, and a guard band. What is scored and what chooses is
//! that file, read by the runtime.

use indicatif::ProgressBar;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use thiserror::Error;
use wattgate_runtime::{Factor, FormatError, GuardBand, Knot, Model, Provenance, Region, Shape};

use crate::corpus::Corpus;
use crate::corpus::modes::{Known, all_modes};
use crate::export::student::{self, distil};
use crate::export::wgt::{Layers, ModelFile};
use crate::learn::gp::SingularKernel;
use crate::learn::guard::{Unmeasured, band};
use crate::learn::predictions::{Errors, Predictions, Target};
use crate::learn::reference::Reference;
use crate::learn::teacher::{Expected, Teachers};

/// Modes over which the spread of the predictions is taken.
const SPREAD_OVER: usize = 512;

/// Random numbers of the student, apart from those of the split and the teachers.
const STUDENT_STREAM: u64 = 4;

/// Random numbers of the modes over which the spread is taken.
const GUARD_STREAM: u64 = 5;

/// The progress that the teachers make, beside the student's.
const TEACHER_PROGRESS: u64 = student::PROGRESS / 4;

/// The progress that one training makes.
pub const PROGRESS: u64 = TEACHER_PROGRESS + student::PROGRESS;

/// What is learned from.
pub struct Task<'a> {
    /// The corpus of the new workload. Only its grid and its names are for the method.
    pub corpus: &'a Corpus,
    /// The modes to train on, at least five.
    pub used: &'a [Known],
    /// A model or corpus of another workload or board.
    pub reference: Option<&'a Reference>,
    /// Decides everything that is random.
    pub seed: u64,
    /// The shape of an exported network.
    pub shape: Shape,
    /// Advances by [`PROGRESS`] where a network is exported.
    pub progress: &'a ProgressBar,
}

/// Why there is no model.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum TrainError {
    /// The kernel matrix of a Gaussian process is singular.
    #[error("{0}")]
    SingularKernel(#[from] SingularKernel),
    /// The file that was written is refused by the runtime.
    #[error("the model that was fitted is refused by the runtime: {0}")]
    Refused(#[from] FormatError),
}

/// A model file and how it came about.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The file, with errors and held-out modes not yet known.
    pub bytes: Vec<u8>,
    /// What the file predicts.
    pub predictions: Predictions,
    /// What the student learned from.
    pub teacher: Predictions,
    /// What the student predicts before rounding.
    pub student: Predictions,
    /// ln(measured / predicted) of each mode that was used, left out in turn.
    pub left_out: [Option<Vec<f64>>; 2],
    layers: Layers,
    time_guard: GuardBand,
    power_guard: Option<GuardBand>,
    pub(crate) teachers: Teachers,
}

/// Trains on the modes of a task and exports.
pub fn train(task: &Task<'_>) -> Result<Exported, TrainError> {
    let grid = &task.corpus.grid;
    task.progress.set_message("teacher");
    let reference = task.reference.map(Reference::learned);
    let teachers = Teachers::fit(grid, task.used, reference, task.seed)?;
    let modes: Vec<[u32; 4]> = all_modes(grid).collect();
    let expected = teachers.predict(&modes);
    let targets: Vec<Vec<f64>> = expected
        .iter()
        .map(|expected| expected.iter().map(|expected| expected.median).collect())
        .collect();
    task.progress.inc(TEACHER_PROGRESS);

    task.progress.set_message("student");
    let mut random = ChaCha8Rng::seed_from_u64(task.seed);
    random.set_stream(STUDENT_STREAM);
    let student = distil(grid, task.shape, &targets, &mut random, task.progress);

    // The guard bands describe the file as it is read back, so they are found with a draft
    // of it.
    let unknown = || GuardBand::new([NO_MARGIN]).expect("one knot without margin");
    let mut exported = Exported {
        bytes: Vec::new(),
        predictions: Predictions::of_logs(&targets),
        teacher: Predictions::of_logs(&targets),
        student: Predictions::of_logs(&student.log_predictions),
        left_out: [None, None],
        layers: student.layers,
        time_guard: unknown(),
        power_guard: (targets.len() > 1).then(unknown),
        teachers,
    };
    let draft = exported.encode(task, 0, &Errors::default());
    exported.predictions = Predictions::of_model(&Model::parse(&draft)?);
    exported.find_guard_bands(task, &modes, &expected);
    exported.bytes = exported.encode(task, 0, &Errors::default());
    Model::parse(&exported.bytes)?;
    Ok(exported)
}

/// Where there is nothing to find a guard band from yet.
const NO_MARGIN: Knot = Knot {
    per_ten_thousand: 5_000,
    q16: Factor::ONE.q16(),
};

impl Exported {
    fn find_guard_bands(
        &mut self,
        task: &Task<'_>,
        modes: &[[u32; 4]],
        expected: &[Vec<Expected>],
    ) {
        let mut unmeasured: Vec<usize> = (0..task.corpus.grid.modes() as usize)
            .filter(|&id| task.used.iter().all(|mode| mode.id != id))
            .collect();
        if unmeasured.is_empty() {
            unmeasured = task.used.iter().map(|mode| mode.id).collect();
        }
        let within = |id: usize, axis: usize| {
            let used = task.used.iter().map(|mode| mode.knobs[axis]);
            let knob = modes[id][axis];
            used.clone().min() <= Some(knob) && Some(knob) <= used.max()
        };
        let on_offer = |id: &usize| (0..4).all(|axis| within(*id, axis));
        let on_offer: Vec<usize> = unmeasured.iter().copied().filter(on_offer).collect();
        let front = self.front(&on_offer);
        // At random: ids at equal distances would see one value of an axis only.
        let mut random = ChaCha8Rng::seed_from_u64(task.seed);
        random.set_stream(GUARD_STREAM);
        unmeasured.shuffle(&mut random);
        unmeasured.truncate(SPREAD_OVER);
        for (target, expected) in Target::ALL.into_iter().zip(expected) {
            let (Some(teacher), Some(exported)) = (
                self.teachers.of(target),
                target.predicted(&self.predictions),
            ) else {
                continue;
            };
            let left_out = teacher.left_out();
            let offset = |id: usize| expected[id].median - exported[id].ln();
            let describe = |id: usize| Unmeasured {
                sd: expected[id].sd,
                offset: offset(id),
            };
            let [unmeasured, front] = [&unmeasured, &front].map(|ids| {
                ids.iter()
                    .map(|&id| describe(id))
                    .collect::<Vec<Unmeasured>>()
            });
            let guard = band(&left_out, &unmeasured, &front);
            let known = task
                .used
                .iter()
                .filter(|mode| target.measured(mode).is_some());
            let residuals = known
                .zip(&left_out)
                .map(|(mode, left)| left.residual + offset(mode.id));
            self.left_out[target as usize] = Some(residuals.collect());
            match target {
                Target::Time => self.time_guard = guard,
                Target::Power => self.power_guard = Some(guard),
            }
        }
    }

    /// Those of some modes that none of the others beats in both power and time.
    fn front(&self, modes: &[usize]) -> Vec<usize> {
        let Predictions { time, power } = &self.predictions;
        let Some(power) = power else {
            return Vec::new();
        };
        let mut sorted = modes.to_vec();
        sorted.sort_unstable_by(|&a, &b| {
            power[a]
                .total_cmp(&power[b])
                .then(time[a].total_cmp(&time[b]))
        });
        let mut fastest = f64::INFINITY;
        sorted.retain(|&mode| {
            let faster = time[mode] < fastest;
            fastest = fastest.min(time[mode]);
            faster
        });
        sorted
    }

    /// The file, with its errors on so many modes held out.
    pub fn encode(&self, task: &Task<'_>, held_out: usize, errors: &Errors) -> Vec<u8> {
        let corpus = task.corpus;
        let knobs = task.used.iter().map(|mode| mode.knobs);
        // In 0.01 %, as far as the field reaches.
        let hundredths = |mape: f64| (100.0 * mape).round() as u16;
        ModelFile {
            layers: &self.layers,
            grid: &corpus.grid,
            profiled: Region::spanning(&corpus.grid, knobs).expect("modes of this grid"),
            time_guard: &self.time_guard,
            power_guard: self.power_guard.as_ref(),
            provenance: Provenance {
                kind: corpus.kind,
                device: &corpus.device,
                workload: &corpus.workload,
                minibatch: corpus.minibatch,
                seed: task.seed,
                modes_used: task.used.len() as u16,
                modes_held_out: held_out as u16,
                time_error: errors.time_mape.map(hundredths),
                power_error: errors.power_mape.map(hundredths),
            },
        }
        .encode()
    }

    /// The guard band of a target; `None` for a power that is not known.
    pub fn guard(&self, target: Target) -> Option<&GuardBand> {
        match target {
            Target::Time => Some(&self.time_guard),
            Target::Power => self.power_guard.as_ref(),
        }
    }
}
