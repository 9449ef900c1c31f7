//! From measured modes to a model file: fits the teachers, distils a student on the whole grid,
//! quantises it and computes the guard bands. Scores and choices come from that file, read back
//! through the runtime.

use indicatif::ProgressBar;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use thiserror::Error;
use wattgate_runtime::{Factor, FormatError, GuardBand, Knot, Model, Provenance, Region, Shape};

use crate::corpus::Corpus;
use crate::corpus::modes::{Known, all_modes};
use crate::export::student::{self, distil};
use crate::export::wgt::{Layers, ModelFile};
use crate::learn::gp::SingularKernel;
use crate::learn::guard::{Candidate, CandidatePower, Error, bands};
use crate::learn::predictions::{Errors, Predictions, Target};
use crate::learn::priors::Priors;
use crate::learn::reference::Reference;
use crate::learn::teacher::{Blend, Expected, LeftOut, Teachers};

/// ChaCha stream of the student; the split and the teachers use others.
const STUDENT_STREAM: u64 = 4;

/// Progress steps of the teachers.
const TEACHER_PROGRESS: u64 = student::PROGRESS / 4;

/// Progress steps of one training.
pub const PROGRESS: u64 = TEACHER_PROGRESS + student::PROGRESS;

/// The inputs of a training.
pub struct Task<'a> {
    /// The corpus of the new workload. Methods may use its grid and names, not its measurements.
    pub corpus: &'a Corpus,
    /// The training modes, at least five.
    pub used: &'a [Known],
    /// A model or corpus of another workload or board to transfer from.
    pub reference: Option<&'a Reference>,
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
    /// The kernel matrix of a Gaussian process is singular.
    #[error("{0}")]
    SingularKernel(#[from] SingularKernel),
    /// The runtime refuses the encoded file.
    #[error("the runtime refuses the trained model: {0}")]
    Refused(#[from] FormatError),
}

/// A model file with the intermediate results of its training.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The file. Its provenance states no held-out modes and no errors yet.
    pub bytes: Vec<u8>,
    /// Predictions of the file.
    pub predictions: Predictions,
    /// Predictions of the teachers.
    pub teacher: Predictions,
    /// Predictions of the student before quantisation.
    pub student: Predictions,
    /// Cross-validated residuals ln(measured / predicted) of the training modes, of time and power.
    pub left_out: [Option<Vec<f64>>; 2],
    layers: Layers,
    least_spread: u16,
    time_guard: GuardBand,
    power_guard: Option<GuardBand>,
    pub(crate) teachers: Teachers,
}

/// Trains on the modes of a task and encodes the model file.
pub fn train(task: &Task<'_>) -> Result<Exported, TrainError> {
    task.progress.set_message("teacher");
    let reference = task.reference.map(Reference::hyperparameters);
    let grid = &task.corpus.grid;
    let teachers = Teachers::fit(
        grid,
        task.used,
        reference,
        &Blend::any_board(task.priors),
        task.seed,
    )?;
    export(task, teachers)
}

/// Distils the teachers of a task and encodes the model file.
pub fn export(task: &Task<'_>, teachers: Teachers) -> Result<Exported, TrainError> {
    let grid = &task.corpus.grid;
    let modes: Vec<[u32; 4]> = all_modes(grid).collect();
    let expected = teachers.predict(&modes);
    let of = |expected: &[Expected], f: fn(&Expected) -> f64| expected.iter().map(f).collect();
    let mut targets: Vec<Vec<f64>> = expected
        .iter()
        .map(|expected| of(expected, |expected| expected.median))
        .collect();
    if let [_, power] = &expected[..] {
        targets.push(of(power, |power| power.sd.clamp(LEAST_SPREAD, MOST_SPREAD)));
    }
    task.progress.inc(TEACHER_PROGRESS);

    task.progress.set_message("student");
    let mut random = ChaCha8Rng::seed_from_u64(task.seed);
    random.set_stream(STUDENT_STREAM);
    let student = distil(grid, task.shape, &targets, &mut random, task.progress);

    // The guard bands include the error of quantisation, so encode a draft without them and
    // compute them from its predictions.
    let unknown = |q16| Knot {
        per_ten_thousand: 5_000,
        q16,
    };
    let sound = "one knot without margin";
    let mut exported = Exported {
        bytes: Vec::new(),
        predictions: Predictions::of_logs(&targets),
        teacher: Predictions::of_logs(&targets),
        student: Predictions::of_logs(&student.log_predictions),
        left_out: [None, None],
        layers: student.layers,
        least_spread: 0,
        time_guard: GuardBand::new([unknown(Factor::ONE.q16())]).expect(sound),
        power_guard: (targets.len() > 1)
            .then(|| GuardBand::of_deviations([unknown(0)]).expect(sound)),
        teachers,
    };
    let draft = exported.encode(task, 0, &Errors::default());
    let model = Model::parse(&draft)?;
    if let ([_, power], [_, logs, sds]) = (&expected[..], &targets[..]) {
        let predictions = Predictions::of_model(&model);
        let student = predictions.power.iter().flatten().zip(logs);
        let errors = student.map(|(student, teacher)| (student.ln() - teacher).powi(2));
        let square = errors.sum::<f64>() / power.len() as f64;
        let least = sds.iter().copied().fold(MOST_SPREAD, f64::min);
        // The student's errors come on top of the least of the teacher's.
        let least = (least * least + square).sqrt() / f64::from(model.spread_unit());
        exported.least_spread = least.min(f64::from(i16::MAX)) as u16;
    }
    let draft = exported.encode(task, 0, &Errors::default());
    exported.predictions = Predictions::of_model(&Model::parse(&draft)?);
    exported.find_guard_bands(task, &modes, &expected);
    exported.bytes = exported.encode(task, 0, &Errors::default());
    Model::parse(&exported.bytes)?;
    Ok(exported)
}

/// Largest standard deviation of ln power that a file states: the least range of a spread.
const MOST_SPREAD: f64 = 1.0;

/// Least standard deviation of ln power. The power of a steady workload moves by up to 1.2 % from second
/// to second and by up to 0.7 % from run to run (`jetson-platform.md`, addendum), and a dozen modes
/// measured once each cannot show it.
const LEAST_SPREAD: f64 = 0.014;

impl Exported {
    fn find_guard_bands(
        &mut self,
        task: &Task<'_>,
        modes: &[[u32; 4]],
        expected: &[Vec<Expected>],
    ) {
        let within = |id: usize, axis: usize| {
            let used = task.used.iter().map(|mode| mode.knobs[axis]);
            let knob = modes[id][axis];
            used.clone().min() <= Some(knob) && Some(knob) <= used.max()
        };
        let on_offer = |id: &usize| (0..4).all(|axis| within(*id, axis));
        let error = |target: Target, id: usize| {
            let Expected { median, sd } = expected.get(target as usize)?[id];
            let exported = target.predicted(&self.predictions)?[id];
            Some(Error {
                sd,
                offset: median - exported.ln(),
            })
        };
        let candidate = |id: usize| {
            let power = error(Target::Power, id).map(|error| Error {
                sd: error.sd.max(LEAST_SPREAD),
                ..error
            });
            let power = power.map(|error| CandidatePower {
                log: self
                    .predictions
                    .power
                    .as_ref()
                    .map_or(0.0, |all| all[id].ln()),
                spread: self.predictions.spread.as_ref().map_or(0.0, |all| all[id]),
                error,
            });
            Candidate {
                time: self.predictions.time[id],
                time_error: error(Target::Time, id).unwrap_or_default(),
                power,
            }
        };
        let offered: Vec<Candidate> = (0..modes.len()).filter(on_offer).map(candidate).collect();
        let left_out = self.teachers.left_out();
        let (time_guard, power_guard) = bands(left_out, &offered);
        let residuals = Target::ALL.map(|target| {
            let pairs = task.used.iter().zip(left_out);
            let of = |(mode, left_out): (&Known, &LeftOut)| {
                Some(left_out.of(target)?.log + error(target, mode.id)?.offset)
            };
            let residuals: Vec<f64> = pairs.filter_map(of).collect();
            (!residuals.is_empty()).then_some(residuals)
        });
        (self.time_guard, self.power_guard, self.left_out) = (time_guard, power_guard, residuals);
    }

    /// Encodes the file with its errors on `held_out` modes in the provenance.
    pub fn encode(&self, task: &Task<'_>, held_out: usize, errors: &Errors) -> Vec<u8> {
        let corpus = task.corpus;
        let knobs = task.used.iter().map(|mode| mode.knobs);
        // The file stores units of 0.01 % in 16 bits; larger errors saturate.
        let hundredths = |mape: f64| (100.0 * mape).round() as u16;
        ModelFile {
            layers: &self.layers,
            grid: &corpus.grid,
            profiled: Region::spanning(&corpus.grid, knobs).expect("modes of this grid"),
            time_guard: &self.time_guard,
            power_guard: self.power_guard.as_ref(),
            least_spread: self.least_spread,
            provenance: Provenance {
                kind: corpus.kind,
                device: &corpus.device,
                workload: &corpus.workload,
                minibatch: corpus.feeding.minibatch,
                seed: task.seed,
                modes_used: task.used.len() as u16,
                modes_held_out: held_out as u16,
                time_error: errors.time_mape.map(hundredths),
                power_error: errors.power_mape.map(hundredths),
            },
            tpc_pg_mask: corpus.tpc_pg_mask,
        }
        .encode()
    }

    /// Cross-validated errors on the training modes.
    pub fn left_out_errors(&self) -> Errors {
        let mape = |residuals: &Vec<f64>| {
            let errors = residuals
                .iter()
                .map(|residual| 100.0 * ((-residual).exp() - 1.0).abs());
            errors.sum::<f64>() / residuals.len() as f64
        };
        let [time_mape, power_mape] = self.left_out.each_ref().map(|of| of.as_ref().map(mape));
        Errors {
            time_mape,
            power_mape,
        }
    }

    /// The guard band of a target; `None` for power in a model of time alone.
    pub fn guard(&self, target: Target) -> Option<&GuardBand> {
        match target {
            Target::Time => Some(&self.time_guard),
            Target::Power => self.power_guard.as_ref(),
        }
    }
}
