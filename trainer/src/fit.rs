//! From a corpus to a model file, scored on the modes that were held out.

use std::time::Instant;

use indicatif::ProgressBar;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::join;
use serde::Serialize;
use thiserror::Error;
use wattgate_runtime::{FormatError, Grid, GuardBand, Model, PowerMode, Provenance, Region, Shape};

use crate::corpus::Corpus;
use crate::gp::SingularKernel;
use crate::guard::band;
use crate::student::{self, Student, distil};
use crate::teacher::Teacher;
use crate::wgt::{Layers, ModelFile};

/// The fewest modes from which a model is trained.
pub const MIN_MODES: usize = 5;

/// The most modes from which a model is trained: the teachers' memory grows with their
/// square (below 1 GiB here) and their time with their cube.
pub const MAX_MODES_USED: usize = 5_000;

/// The progress that the teachers make, beside the student's.
const TEACHER_PROGRESS: u64 = student::PROGRESS / 4;

/// The progress that one fit makes.
pub const PROGRESS: u64 = TEACHER_PROGRESS + student::PROGRESS;

/// How to fit.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Modes to train on, drawn at random; all where `None`. The others are held out.
    pub modes: Option<usize>,
    /// Decides the drawing and the training.
    pub seed: u64,
    /// The shape of the exported network.
    pub shape: Shape,
}

/// Why a corpus gives no model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FitError {
    /// Not enough modes with a time.
    #[error("only {found} distinct modes have a time; at least {MIN_MODES} are needed")]
    TooFewModes { found: usize },
    /// Some modes have a power, but not enough of those to train on.
    #[error(
        "only {found} of the modes to train on have a power; at least {MIN_MODES} are needed, or none for a model of time alone"
    )]
    TooFewPowers { found: usize },
    /// A number of modes that the corpus does not have.
    #[error(
        "cannot train on {asked} modes: the corpus has {available}, and at least {MIN_MODES} are needed"
    )]
    ModesOutOfRange { asked: usize, available: usize },
    /// More modes than the teachers can take.
    #[error(
        "cannot train on {asked} modes: at most {MAX_MODES_USED} are possible; draw some with --modes"
    )]
    TooManyModes { asked: usize },
    /// Every mode is trained on, so that none is left to score.
    #[error("training on all {available} modes leaves none to score: ask for fewer with --modes")]
    NothingHeldOut { available: usize },
    /// The teacher found no fit.
    #[error("{0}")]
    SingularKernel(#[from] SingularKernel),
    /// The file that was written is refused by the runtime.
    #[error("the model that was fitted is refused by the runtime: {0}")]
    Refused(#[from] FormatError),
}

/// Mean absolute percentage errors of time and power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Errors {
    /// Of the time; `None` where nothing was held out.
    pub time_mape: Option<f64>,
    /// Of the power; `None` where nothing was held out or power is not known.
    pub power_mape: Option<f64>,
}

/// The share of held-out modes whose measured power lies within the guard band.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Coverage {
    /// What the band promises.
    pub confidence: f64,
    /// What the held-out modes show.
    pub power: f64,
}

/// What a fit reports.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// `measured` or `simulated`.
    pub kind: String,
    /// The board.
    pub device: String,
    /// The workload.
    pub workload: String,
    /// The seed of the drawing and the training.
    pub seed: u64,
    /// Modes trained on.
    pub modes_used: usize,
    /// Modes held out.
    pub modes_held_out: usize,
    /// Modes of the grid that the corpus spans.
    pub modes_in_grid: u32,
    /// The widths of the exported network's hidden layers.
    pub shape: String,
    /// Errors of the teacher on the held-out modes.
    pub teacher: Errors,
    /// Errors of the student before rounding on the held-out modes.
    pub student: Errors,
    /// Errors of the exported file, read back through the runtime, on the held-out modes.
    pub exported: Errors,
    /// Errors of the exported file on the modes trained on, each left out in turn.
    pub left_out: Errors,
    /// How well the guard band of the power holds on the held-out modes.
    pub coverage: Vec<Coverage>,
    /// The length of the file.
    pub bytes: usize,
    /// Wall-clock time of the fit.
    pub seconds: f64,
}

/// A model file and what is known of it.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The file.
    pub bytes: Vec<u8>,
    /// What is known of it.
    pub report: Report,
}

/// A mode of the corpus with its medians in the runtime's units.
struct Known {
    id: usize,
    knobs: [u32; 4],
    time_us: f64,
    power_mw: Option<f64>,
}

/// One value for each mode of the grid, by id: time in µs, and power in mW where known.
struct Predictions {
    time: Vec<f64>,
    power: Option<Vec<f64>>,
}

/// Trains on modes of a corpus and scores what it exports.
pub fn fit(corpus: &Corpus, options: &Options, progress: &ProgressBar) -> Result<Fit, FitError> {
    let start = Instant::now();
    let grid = &corpus.grid;
    let mut random = ChaCha8Rng::seed_from_u64(options.seed);
    let known = drawn(corpus, &mut random);
    let available = known.len();
    if available < MIN_MODES {
        return Err(FitError::TooFewModes { found: available });
    }
    let asked = options.modes.unwrap_or(available);
    if !(MIN_MODES..=available).contains(&asked) {
        return Err(FitError::ModesOutOfRange { asked, available });
    }
    if asked > MAX_MODES_USED {
        return Err(FitError::TooManyModes { asked });
    }
    let has_power = known.iter().any(|mode| mode.power_mw.is_some());
    let (used, held_out) = known.split_at(asked);

    progress.set_message("teacher");
    let (time, power) = teachers(grid, used, has_power)?;
    progress.inc(TEACHER_PROGRESS);
    progress.set_message("student");
    let targets: Vec<Vec<f64>> = [Some(&time), power.as_ref()]
        .into_iter()
        .flatten()
        .map(|teacher| teacher.log_predictions.clone())
        .collect();
    let student = distil(grid, options.shape, &targets, &mut random, progress);

    // The guard band and the errors describe the file as it is read back, so they are
    // found with a draft of it.
    let mut draft = Draft {
        corpus,
        layers: &student.layers,
        seed: options.seed,
        used,
        held_out: held_out.len(),
        time_guard: band(&[0.0; 2]),
        power_guard: has_power.then(|| band(&[0.0; 2])),
        errors: Errors::default(),
    };
    let exported = read_back(&draft.encode())?;
    let time_residuals = residuals(used, &time, &exported.time, |mode| Some(mode.time_us));
    let power_residuals = power
        .as_ref()
        .zip(exported.power.as_ref())
        .map(|(teacher, exported)| residuals(used, teacher, exported, |mode| mode.power_mw));
    draft.time_guard = band(&time_residuals);
    draft.power_guard = power_residuals.as_deref().map(band);
    let errors = score(held_out, &exported);
    draft.errors = errors;
    let bytes = draft.encode();
    Model::parse(&bytes)?;

    let power_guard = draft.power_guard.as_ref();
    let coverage = power_guard.map_or(Vec::new(), |guard| coverage(guard, held_out, &exported));
    let provenance = draft.provenance();
    let report = Report {
        kind: provenance.kind.to_string(),
        device: corpus.device.clone(),
        workload: corpus.workload.clone(),
        seed: options.seed,
        modes_used: used.len(),
        modes_held_out: held_out.len(),
        modes_in_grid: grid.modes(),
        shape: options.shape.to_string(),
        teacher: score(held_out, &Predictions::of_logs(&targets)),
        student: score(held_out, &Predictions::of_student(&student)),
        exported: errors,
        left_out: Errors {
            time_mape: Some(mape_of_residuals(&time_residuals)),
            power_mape: power_residuals.as_deref().map(mape_of_residuals),
        },
        coverage,
        bytes: bytes.len(),
        seconds: start.elapsed().as_secs_f64(),
    };
    Ok(Fit { bytes, report })
}

/// The profiled modes of a corpus in random order.
fn drawn(corpus: &Corpus, random: &mut ChaCha8Rng) -> Vec<Known> {
    let known = corpus.modes.iter().filter_map(|profile| {
        let id = corpus.grid.id(PowerMode::from_knobs(profile.knobs))?;
        Some(Known {
            id: usize::from(id.0),
            knobs: profile.knobs,
            time_us: 1e3 * profile.time()?,
            power_mw: profile.power(),
        })
    });
    let mut known: Vec<Known> = known.collect();
    known.shuffle(random);
    known
}

fn teachers(
    grid: &Grid,
    used: &[Known],
    has_power: bool,
) -> Result<(Teacher, Option<Teacher>), FitError> {
    let times: Vec<_> = used.iter().map(|mode| (mode.knobs, mode.time_us)).collect();
    let powers: Vec<_> = used
        .iter()
        .filter_map(|mode| Some((mode.knobs, mode.power_mw?)))
        .collect();
    if has_power && powers.len() < MIN_MODES {
        return Err(FitError::TooFewPowers {
            found: powers.len(),
        });
    }
    let (time, power) = join(
        || Teacher::fit(grid, &times),
        || has_power.then(|| Teacher::fit(grid, &powers)).transpose(),
    );
    Ok((time?, power?))
}

/// A model file before its guard bands and errors are known.
struct Draft<'a> {
    corpus: &'a Corpus,
    layers: &'a Layers,
    seed: u64,
    used: &'a [Known],
    held_out: usize,
    time_guard: GuardBand,
    power_guard: Option<GuardBand>,
    errors: Errors,
}

impl Draft<'_> {
    fn provenance(&self) -> Provenance<'_> {
        // In 0.01 %.
        let hundredths = |mape: f64| (100.0 * mape).round() as u16;
        Provenance {
            kind: self.corpus.kind,
            device: &self.corpus.device,
            workload: &self.corpus.workload,
            minibatch: self.corpus.minibatch,
            seed: self.seed,
            modes_used: self.used.len() as u16,
            modes_held_out: self.held_out as u16,
            time_error: self.errors.time_mape.map(hundredths),
            power_error: self.errors.power_mape.map(hundredths),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let knobs = self.used.iter().map(|mode| mode.knobs);
        ModelFile {
            layers: self.layers,
            grid: &self.corpus.grid,
            profiled: Region::spanning(&self.corpus.grid, knobs).expect("modes of this grid"),
            time_guard: &self.time_guard,
            power_guard: self.power_guard.as_ref(),
            provenance: self.provenance(),
        }
        .encode()
    }
}

/// What the runtime predicts from a file for every mode of the grid.
fn read_back(bytes: &[u8]) -> Result<Predictions, FitError> {
    let model = Model::parse(bytes)?;
    let (mut time, mut power) = (Vec::new(), Vec::new());
    model.sweep(&Region::all(model.grid()), |_, prediction| {
        time.push(f64::from(model.time(prediction).0));
        power.extend(model.power(prediction).map(|power| f64::from(power.0)));
    });
    Ok(Predictions {
        time,
        power: model.has_power().then_some(power),
    })
}

impl Predictions {
    fn of_logs(logs: &[Vec<f64>]) -> Self {
        let natural = |log: &Vec<f64>| log.iter().map(|y| y.exp()).collect();
        Self {
            time: natural(&logs[0]),
            power: logs.get(1).map(natural),
        }
    }

    fn of_student(student: &Student) -> Self {
        Self::of_logs(&student.log_predictions)
    }
}

/// Mean absolute percentage errors on some modes.
fn score(modes: &[Known], predictions: &Predictions) -> Errors {
    let times = modes
        .iter()
        .map(|mode| (mode.time_us, predictions.time[mode.id]));
    let powers = predictions.power.as_ref().map(|power| {
        let known = modes
            .iter()
            .filter_map(|mode| Some((mode.power_mw?, power[mode.id])));
        mape(known)
    });
    Errors {
        time_mape: mape(times),
        power_mape: powers.flatten(),
    }
}

/// 100·mean |predicted − measured| / measured over (measured, predicted); `None` of nothing.
fn mape(pairs: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let errors: Vec<f64> = pairs
        .map(|(measured, predicted)| 100.0 * (predicted - measured).abs() / measured)
        .collect();
    (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
}

/// ln(measured / predicted) for each mode trained on: what the teacher says of it without
/// knowing it, plus what the export changed there.
fn residuals(
    used: &[Known],
    teacher: &Teacher,
    exported: &[f64],
    target: impl Fn(&Known) -> Option<f64>,
) -> Vec<f64> {
    let known = used.iter().filter(|mode| target(mode).is_some());
    let residual = |(mode, left_out): (&Known, &crate::gp::LeftOut)| {
        left_out.residual + teacher.log_predictions[mode.id] - exported[mode.id].ln()
    };
    known.zip(teacher.left_out()).map(residual).collect()
}

fn mape_of_residuals(residuals: &[f64]) -> f64 {
    let errors = residuals
        .iter()
        .map(|residual| 100.0 * ((-residual).exp() - 1.0).abs());
    errors.sum::<f64>() / residuals.len() as f64
}

fn coverage(guard: &GuardBand, held_out: &[Known], exported: &Predictions) -> Vec<Coverage> {
    let Some(power) = exported.power.as_ref() else {
        return Vec::new();
    };
    let known: Vec<(f64, f64)> = held_out
        .iter()
        .filter_map(|mode| Some((mode.power_mw?, power[mode.id])))
        .collect();
    if known.is_empty() {
        return Vec::new();
    }
    let of = |knot: &wattgate_runtime::Knot| {
        let ratio = f64::from(knot.q16) / 65_536.0;
        let within = known
            .iter()
            .filter(|(measured, predicted)| *measured <= predicted * ratio);
        Coverage {
            confidence: f64::from(knot.per_ten_thousand) / 1e4,
            power: within.count() as f64 / known.len() as f64,
        }
    };
    guard.knots().iter().map(of).collect()
}
