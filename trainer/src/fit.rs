//! From a corpus to a model file, scored on the held-out modes. Its parts are here for programs that do otherwise: [`train`] starts
//! from chosen modes, [`export`] from predictions of any origin.

use std::time::Instant;

use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use wattgate_cli::planning::power_bound_ratio;
use wattgate_runtime::fleet::UnitId;
use wattgate_runtime::idle::Idle;
use wattgate_runtime::shape::Shape;
use wattgate_runtime::{Confidence, Front, Model};

use crate::corpus::Corpus;
use crate::corpus::flat::{Flat, flat};
use crate::corpus::modes::{Known, contradiction};
use crate::corpus::units::{Doubt, Effect};
use crate::learn::predictions::{Errors, Predictions, Target};
use crate::learn::reference::{OwnReference, Reference};
use crate::learn::split::{Amount, Sampling, Split, SplitError};
use crate::learn::suspects::Suspect;

pub use crate::export::export;
pub use crate::export::exported::Exported;
pub use crate::export::measured::REPEAT;
pub use crate::export::student::STUDENT_PROGRESS as EXPORT_PROGRESS;
pub use crate::export::surface::{Origin, Surface};
pub use crate::learn::blend::Blend;
pub use crate::learn::expected::{Expected, LeftOut, Residual};
pub use crate::learn::families::learn as learn_priors;
pub use crate::learn::gp::{Process, SingularCovariance};
pub use crate::learn::guard::deviations;
pub use crate::learn::mean::{Mean, Place, Scales};
pub use crate::learn::priors::Priors;
pub use crate::learn::standard::Standard;
pub use crate::learn::teacher::Teachers;
pub use crate::train::{PROGRESS, Task, Taught, TrainError, train};

/// Points of a front, at most.
const FRONT_POINTS: usize = 256;

/// How a model is fitted.
#[derive(Clone, Copy, Debug)]
pub struct FitOptions<'a> {
    /// Number of training modes; the others are held out.
    pub amount: Amount,
    /// How the training modes are chosen.
    pub sampling: Sampling,
    /// The references to transfer from.
    pub references: &'a [Reference],
    /// Seed of the split and the training.
    pub seed: u64,
    /// The layer widths of the exported network.
    pub shape: Shape,
}

/// Why a fit failed.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum FitError {
    /// The rows do not follow the clocks.
    #[error("{0}")]
    Flat(Flat),
    /// The corpus cannot be split as asked.
    #[error("{0}")]
    Split(#[from] SplitError),
    /// A reference knows the corpus already.
    #[error("{0}")]
    Reference(#[from] OwnReference),
    /// Training on the chosen modes failed.
    #[error("{0}")]
    Train(#[from] TrainError),
}

/// Empirical coverage of a guard band: the share of held-out modes whose measured value lies
/// within it.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct Coverage {
    /// The nominal coverage, in 0 … 1.
    pub confidence: f64,
    /// The empirical coverage of the time, in 0 … 1; `None` without held-out modes.
    pub time: Option<f64>,
    /// The empirical coverage of the power, in 0 … 1; `None` without held-out powers.
    pub power: Option<f64>,
    /// Upper bound of measured over predicted time, a mean over the held-out modes.
    pub time_ratio: Option<f64>,
    /// The same of the power.
    pub power_ratio: Option<f64>,
}

/// A reading that was left out of the training.
#[derive(Clone, Debug, Serialize)]
pub struct LeftAside {
    /// The mode: cores, CPU, GPU and EMC clock in kHz.
    pub mode: [u32; 4],
    /// What was read, and how far it is off.
    #[serde(flatten)]
    pub suspect: Suspect,
}

/// A mode of which no two runs agree with their median.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Contradiction {
    /// The mode: cores, CPU, GPU and EMC clock in kHz.
    pub mode: [u32; 4],
    /// What the runs measured.
    pub target: Target,
    /// The lowest and the highest of the runs, in ms or mW.
    pub runs: [f64; 2],
}

/// The modes of a corpus of which no two runs agree with their median.
pub fn contradictions(corpus: &Corpus) -> Vec<Contradiction> {
    let all = corpus.modes.iter().flat_map(|mode| {
        let measured = [(Target::Time, &mode.times), (Target::Power, &mode.powers)];
        measured.into_iter().filter_map(|(target, runs)| {
            let runs = contradiction(runs)?;
            let mode = mode.knobs;
            Some(Contradiction { mode, target, runs })
        })
    });
    all.collect()
}

/// A unit of which a model was made.
#[derive(Clone, Debug, Serialize)]
pub struct OfUnit {
    /// Its id; `None` if the corpus does not state it.
    pub id: Option<String>,
    /// Its time over the mean one.
    pub time_ratio: f64,
    /// Its power over the mean one, at the mean power.
    pub power_ratio: f64,
}

/// The report of a fit.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// `measured`, `simulated` or `recorded`.
    pub kind: String,
    /// The board.
    pub device: String,
    /// The workload.
    pub workload: String,
    /// The references transferred from, separated by commas.
    pub reference: Option<String>,
    /// The units that were profiled.
    pub units: Vec<OfUnit>,
    /// Why some of them do not get the narrow band.
    pub unit_doubts: Vec<String>,
    /// By how much the bound of another unit's power exceeds that of these units at 95 %, as a ratio; `None` if the model
    /// supports no such bound.
    pub other_units_power_ratio: Option<f64>,
    /// How far the bound of the power at 95 % is above the prediction, as a mean ratio over the front.
    pub power_bound_ratio: Option<f64>,
    /// Seed of the split and the training.
    pub seed: u64,
    /// Number of training modes.
    pub modes_used: usize,
    /// Number of held-out modes.
    pub modes_held_out: usize,
    /// How the training modes were chosen.
    pub sampling: Sampling,
    /// Number of modes of the corpus's grid.
    pub modes_in_grid: u32,
    /// The widths of the exported network's hidden layers.
    pub shape: String,
    /// Errors of the teacher on the held-out modes.
    pub teacher: Errors,
    /// Errors of the student before quantisation on the held-out modes.
    pub student: Errors,
    /// Errors of the exported file, read back through the runtime, on the held-out modes.
    pub exported: Errors,
    /// Expected errors over all modes, by cross-validation.
    pub expected: Errors,
    /// Readings that the training did not use, because they contradict all others.
    pub suspects: Vec<LeftAside>,
    /// Readings that the training used, though the others say something else.
    pub doubtful: Vec<LeftAside>,
    /// Readings that were neither trained on nor scored, because the runs of their mode disagree.
    pub contradictions: Vec<Contradiction>,
    /// Idle power; `None` if no mode's was measured.
    pub idle: Option<IdleReport>,
    /// Coverage of the guard bands on the held-out modes, one entry per knot.
    pub coverage: Vec<Coverage>,
    /// Length of the file in bytes.
    pub bytes: usize,
    /// Wall-clock time of the fit in seconds.
    pub seconds: f64,
}

/// What the board draws while the workload waits.
#[derive(Clone, Debug, Serialize)]
pub struct IdleReport {
    /// Number of idle powers that were used.
    pub readings: usize,
    /// In the mode of the front that draws least.
    pub least_mw: u32,
    /// In the fastest mode.
    pub fastest_mw: u32,
    /// Modes whose idle power was not used, since the workload draws less there.
    pub left_out: Vec<LeftIdle>,
}

/// An idle power that was not used.
#[derive(Clone, Debug, Serialize)]
pub struct LeftIdle {
    /// The mode: cores, CPU, GPU and EMC clock in kHz.
    pub mode: [u32; 4],
    /// What was read.
    pub idle_mw: f64,
}

impl IdleReport {
    fn new(exported: &Exported, model: &Model<'_>, readings: usize) -> Option<Self> {
        let left_out = exported.idle_left_out.iter();
        let left_out: Vec<_> = left_out
            .map(|reading| LeftIdle {
                mode: reading.knobs,
                idle_mw: reading.power_mw,
            })
            .collect();
        let [least_mw, fastest_mw] = idle_range(model, exported.idle);
        (readings > 0).then(|| Self {
            readings: readings - left_out.len(),
            least_mw,
            fastest_mw,
            left_out,
        })
    }
}

/// Idle power in mW of the first and of the last mode of a model's front.
pub fn idle_range(model: &Model<'_>, idle: Idle) -> [u32; 2] {
    let front = Front::<FRONT_POINTS>::from_model(model, &model.profiled(), Confidence::P50);
    let ends = [front.points().first(), front.points().last()];
    ends.map(|point| point.map_or(0, |point| idle.power(point.power).0))
}

/// A model file and its report.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The bytes of the file.
    pub bytes: Vec<u8>,
    /// The report.
    pub report: Report,
}

fn of_unit((id, effect): &(Option<UnitId>, Effect)) -> OfUnit {
    OfUnit {
        id: id.map(|id| id.to_string()),
        time_ratio: effect.time.exp(),
        power_ratio: effect.power.exp(),
    }
}

/// Trains on a part of a corpus and scores the exported file on the rest. The progress bar
/// advances by [`PROGRESS`].
pub fn fit(
    corpus: &Corpus,
    options: &FitOptions<'_>,
    progress: &ProgressBar,
) -> Result<Fit, FitError> {
    let start = Instant::now();
    Reference::refuse_own(options.references, corpus, &[])?;
    if let Some(why) = flat(corpus) {
        return Err(FitError::Flat(why));
    }
    let priors = Priors::shipped();
    let Split { used, held_out, .. } = Split::new(
        corpus,
        options.amount,
        options.sampling,
        priors,
        options.seed,
    )?;
    let task = Task {
        corpus,
        used: &used,
        references: options.references,
        priors,
        seed: options.seed,
        shape: options.shape,
        progress,
    };
    let Taught {
        exported,
        suspects,
        doubtful,
        teachers,
    } = train(&task)?;
    let errors = exported.predictions.errors(&held_out);
    let aside = |(mode, suspect): (Known, Suspect)| LeftAside {
        mode: mode.knobs,
        suspect,
    };
    let modes_used = teachers.left_out().len();
    let stated = match held_out.is_empty() {
        true => &exported.expected_errors,
        false => &errors,
    };
    let bytes = exported.encode(held_out.len(), stated);
    // Read back, which proves what was written.
    let model = Model::parse(&bytes).map_err(TrainError::from)?;
    let report = Report {
        kind: corpus.kind.to_string(),
        device: corpus.device.clone(),
        workload: corpus.workload.clone(),
        reference: Reference::names(options.references),
        units: corpus.units.profiled.iter().map(of_unit).collect(),
        unit_doubts: corpus.units.doubts.iter().map(Doubt::to_string).collect(),
        other_units_power_ratio: exported.bands.other_units_power_ratio(Confidence::P95),
        power_bound_ratio: power_bound_ratio(&model, Confidence::P95),
        seed: options.seed,
        modes_used,
        modes_held_out: held_out.len(),
        sampling: options.sampling,
        modes_in_grid: corpus.grid.modes(),
        shape: options.shape.to_string(),
        teacher: exported.teacher.errors(&held_out),
        student: exported.student.errors(&held_out),
        exported: errors,
        expected: exported.expected_errors,
        suspects: suspects.into_iter().map(aside).collect(),
        doubtful: doubtful.into_iter().map(aside).collect(),
        contradictions: contradictions(corpus),
        idle: IdleReport::new(&exported, &model, corpus.idle.len()),
        coverage: coverage(&model, &exported.predictions, &held_out),
        bytes: bytes.len(),
        seconds: start.elapsed().as_secs_f64(),
    };
    Ok(Fit { bytes, report })
}

/// The empirical coverage of a file's guard bands on some modes, one entry per knot of the time's band.
pub fn coverage(model: &Model<'_>, predictions: &Predictions, modes: &[Known]) -> Vec<Coverage> {
    let covered = |confidence: Confidence| {
        let upper = Predictions::guarded(model, confidence).ok()?;
        let within = |target: Target| {
            let (upper, median) = (target.predicted(&upper)?, target.predicted(predictions)?);
            let known = || {
                let known = modes.iter();
                known.filter_map(|mode| Some((mode.id, target.measured(mode)?)))
            };
            let count = known().filter(|(id, measured)| *measured <= upper[*id]);
            let ratios: f64 = known().map(|(id, _)| upper[id] / median[id]).sum();
            let n = known().count() as f64;
            (n > 0.0).then(|| (count.count() as f64 / n, ratios / n))
        };
        let (time, power) = (within(Target::Time), within(Target::Power));
        Some(Coverage {
            confidence: f64::from(confidence.per_ten_thousand()) / 1e4,
            time: time.map(|(share, _)| share),
            power: power.map(|(share, _)| share),
            time_ratio: time.map(|(_, ratio)| ratio),
            power_ratio: power.map(|(_, ratio)| ratio),
        })
    };
    let knots = model.time_guard().knots().iter();
    let confidences = knots.filter_map(|knot| Confidence::new(knot.per_ten_thousand));
    confidences.filter_map(covered).collect()
}
