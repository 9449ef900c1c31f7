//! Models of all kernels of a board, and their file.
//!
//! The file has eight bytes that name its form and version, the CRC-32 of the rest, and the rest:
//! [`KernelModels`] in postcard's encoding.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use postcard::ser_flavors::Size;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use wattgate_kernels::{Call, Kind};
use wattgate_runtime::format::crc32;

use super::corpus::{KernelCorpus, Row};
use super::corrected::{Corrected, value};
use super::evaluate::ScoreError;
use super::split::{HeldOut, LEAST_ROWS, parts};
use super::trees::Settings;
use super::tuned::Tuned;
use wattgate_trainer::score::Target;

/// The first bytes of a file. The last one is the version: the models of another version have other inputs.
const MAGIC: [u8; 8] = *b"wgkerns3";

/// Parts of the units that are left out in turn to see how far other units lie.
pub const FOLDS: usize = 5;

/// Rows of a kernel that train without a part of the units. How far units lie apart shows in fewer rows
/// than the models need.
const ROWS_OF_FOLD: usize = 60_000;

/// Models of the kernels of one board.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelModels {
    /// Whether the rows were simulated; else they were measured.
    pub is_simulated: bool,
    /// The board.
    pub device: String,
    /// The names of the units.
    pub units: Vec<String>,
    /// Number of rows.
    pub rows: u64,
    /// The values of cores, CPU, GPU and memory clock in kHz that occur; 0 for a knob that the board does
    /// not vary.
    pub knobs: [Vec<u32>; 4],
    /// One for each kernel with enough rows.
    kernels: Vec<KernelModel>,
}

/// Models of one kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelModel {
    /// Index in [`Kind::ALL`].
    kind: u8,
    time: Corrected,
    power: Corrected,
    /// The values of the call's parameters that does the least work: its time is that of a launch.
    least: Vec<u32>,
    /// For each unit: how far models that have not seen it are off.
    errors: Vec<UnitError>,
}

/// ln(measured / predicted) on a unit that a model has not seen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnitError {
    /// Index of the unit.
    pub unit: u16,
    /// Of the time: the mean and the standard deviation over the unit's rows.
    pub time: [f64; 2],
    /// The same of the power.
    pub power: [f64; 2],
}

impl KernelModel {
    /// The kind.
    pub fn kind(&self) -> Kind {
        Kind::ALL[usize::from(self.kind)]
    }

    /// The model of a target.
    pub fn for_target(&self, target: Target) -> &Corrected {
        match target {
            Target::Time => &self.time,
            Target::Power => &self.power,
        }
    }

    /// The call that does the least work.
    pub fn least(&self) -> Call {
        call(self.kind(), &self.least).expect("checked when the file was read")
    }

    /// The errors on each unit.
    pub fn errors(&self) -> &[UnitError] {
        &self.errors
    }
}

impl KernelModels {
    /// The model of a kind; `None` if the corpus had too few rows of it.
    pub fn for_kind(&self, kind: Kind) -> Option<&KernelModel> {
        self.kernels.iter().find(|model| model.kind() == kind)
    }

    /// A mode with a 0 for each knob that the corpus does not name.
    pub fn known_knobs(&self, mut mode: [u32; 4]) -> [u32; 4] {
        for (knob, known) in mode.iter_mut().zip(&self.knobs) {
            if known.iter().all(|value| *value == 0) {
                *knob = 0;
            }
        }
        mode
    }

    /// The kinds that have a model.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.kernels.iter().map(KernelModel::kind)
    }
}

/// Learns time and power of each kernel from all units, then again without each part of the units in turn.
/// `progress` advances by at most [`steps`].
pub fn fit(
    corpus: &KernelCorpus,
    tuned: &Tuned,
    seed: u64,
    progress: &ProgressBar,
) -> Result<KernelModels, ScoreError> {
    if corpus.units.len() < 2 {
        return Err(ScoreError::OneUnit);
    }
    let mut models = KernelModels {
        is_simulated: corpus.kind != wattgate_runtime::format::Kind::Measured,
        device: corpus.device.clone(),
        units: corpus.units.clone(),
        rows: corpus.rows.iter().map(|rows| rows.len() as u64).sum(),
        knobs: std::array::from_fn(|at| {
            let rows = corpus.rows.iter().flatten();
            let mut values: Vec<u32> = rows.map(|row| row.knobs[at]).collect();
            values.sort_unstable();
            values.dedup();
            values
        }),
        kernels: Vec::new(),
    };
    for (kind, rows) in Kind::ALL.into_iter().zip(&corpus.rows) {
        let enough = |target| {
            rows.iter()
                .filter(|row| value(row, target).is_some())
                .count()
        };
        if Target::ALL
            .map(enough)
            .iter()
            .any(|count| *count < LEAST_ROWS)
        {
            progress.inc(
                Target::ALL
                    .map(|target| steps_of_kernel(corpus, tuned.for_kernel(kind, target)))
                    .iter()
                    .sum(),
            );
            continue;
        }
        let all: Vec<&Row> = rows.iter().collect();
        let learn = |rows: &[&Row], target| {
            Corrected::fit(rows, target, tuned.for_kernel(kind, target), seed, progress)
        };
        let least = all.iter().min_by_key(|row| work(&row.call));
        let least = least.expect("some rows").call;
        models.kernels.push(KernelModel {
            kind: kind as u8,
            time: learn(&all, Target::Time),
            power: learn(&all, Target::Power),
            least: values(&least),
            errors: errors(corpus, rows, learn, seed),
        });
    }
    match models.kernels.is_empty() {
        true => Err(ScoreError::TooFewRows),
        false => Ok(models),
    }
}

/// How much a call does, to find the one that does least.
fn work(call: &Call) -> u64 {
    call.flop() + call.input_bytes() + call.weight_bytes() + call.output_bytes()
}

/// The largest number of steps by which [`fit`] advances.
pub fn steps(corpus: &KernelCorpus, tuned: &Tuned) -> u64 {
    let kernels = Kind::ALL.into_iter().zip(&corpus.rows);
    let kernels = kernels.filter(|(_, rows)| !rows.is_empty());
    let steps = |(kind, _)| {
        Target::ALL.map(|target| steps_of_kernel(corpus, tuned.for_kernel(kind, target)))
    };
    kernels.flat_map(steps).sum()
}

fn steps_of_kernel(corpus: &KernelCorpus, settings: &Settings) -> u64 {
    let trainings = 1 + FOLDS.min(corpus.units.len()) as u64;
    trainings * u64::from(settings.n_estimators)
}

/// The errors on each unit of models that have not seen it.
fn errors(
    corpus: &KernelCorpus,
    rows: &[Row],
    learn: impl Fn(&[&Row], Target) -> Corrected,
    seed: u64,
) -> Vec<UnitError> {
    let (part_of, folds) = parts(corpus, rows, &HeldOut::Folds(FOLDS), seed);
    let mut found: Vec<UnitError> = Vec::new();
    for fold in 0..folds {
        let split = |is_test: bool| -> Vec<&Row> {
            let pairs = rows.iter().zip(&part_of);
            let pairs = pairs.filter(|(_, part)| (**part == fold) == is_test);
            pairs.map(|(row, _)| row).collect()
        };
        let mut training = split(false);
        let every = training.len().div_ceil(ROWS_OF_FOLD);
        training = training.into_iter().step_by(every.max(1)).collect();
        let test = split(true);
        let residuals_by_unit = |target: Target| -> Vec<(u16, f64)> {
            let has = |row: &&&Row| value(row, target).is_some();
            if test.iter().filter(has).count() == 0
                || training.iter().filter(has).count() < LEAST_ROWS
            {
                return Vec::new();
            }
            let logs = learn(&training, target).predict_rows(&test);
            let pairs = test.iter().zip(logs);
            let error = |(row, log): (&&Row, f32)| {
                Some((row.unit, f64::from(value(row, target)?.ln() - log)))
            };
            pairs.filter_map(error).collect()
        };
        let [times, powers] = Target::ALL.map(residuals_by_unit);
        for unit in 0..corpus.units.len() as u16 {
            if let (Some(time), Some(power)) = (moments(&times, unit), moments(&powers, unit)) {
                found.push(UnitError { unit, time, power });
            }
        }
    }
    found.sort_unstable_by_key(|error| error.unit);
    found
}

/// Mean and standard deviation of a unit's errors; `None` without errors.
fn moments(errors: &[(u16, f64)], unit: u16) -> Option<[f64; 2]> {
    let own = || {
        errors
            .iter()
            .filter(|(unit_of_error, _)| *unit_of_error == unit)
            .map(|(_, error)| *error)
    };
    let n = own().count() as f64;
    let mean = own().sum::<f64>() / n;
    let square = own().map(|error| (error - mean).powi(2)).sum::<f64>() / n;
    (n > 0.0).then_some([mean, square.sqrt()])
}

fn values(call: &Call) -> Vec<u32> {
    let parameters = call.kind().parameters().iter();
    parameters
        .filter_map(|&parameter| call.value(parameter))
        .collect()
}

fn call(kind: Kind, values: &[u32]) -> Option<Call> {
    let parameters = kind.parameters();
    let value = |parameter| {
        let at = parameters.iter().position(|known| *known == parameter)?;
        values.get(at).copied()
    };
    Call::from_parameters(kind, value).ok()
}

/// Why a file holds no models of kernels.
#[derive(Debug, Error)]
pub enum ModelsError {
    /// The file cannot be read.
    #[error("{}: cannot read: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// Another file.
    #[error("{}: not a file of `wattgate-lab kernels fit`; name one that it wrote", path.display())]
    NotModels { path: PathBuf },
    /// Written by another version of the trainer.
    #[error("{}: of another version of the trainer; run `kernels fit` again", path.display())]
    OtherVersion { path: PathBuf },
    /// Bytes are missing or were changed.
    #[error("{}: truncated or damaged; copy the file again, or run `kernels fit` again", path.display())]
    Damaged { path: PathBuf },
}

impl KernelModels {
    /// The bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        let sound = "lengths are known and the buffer suffices";
        let size = postcard::serialize_with_flavor(self, Size::default()).expect(sound);
        let mut bytes = vec![0; size];
        postcard::to_slice(self, &mut bytes).expect(sound);
        [&MAGIC[..], &crc32(&bytes).to_le_bytes(), &bytes].concat()
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, ModelsError> {
        let bytes = fs::read(path).map_err(|source| ModelsError::Io {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(path, &bytes)
    }

    /// Parses the bytes of a file; `path` is for messages.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, ModelsError> {
        let damaged = || ModelsError::Damaged {
            path: path.to_owned(),
        };
        let Some(rest) = bytes.strip_prefix(&MAGIC) else {
            let path = path.to_owned();
            let [form @ .., _] = &MAGIC;
            return Err(if MAGIC.starts_with(bytes) && !bytes.is_empty() {
                damaged()
            } else if bytes.starts_with(form) {
                ModelsError::OtherVersion { path }
            } else {
                ModelsError::NotModels { path }
            });
        };
        let (crc, rest) = rest.split_first_chunk().ok_or_else(damaged)?;
        if crc32(rest) != u32::from_le_bytes(*crc) {
            return Err(damaged());
        }
        let models: Self = postcard::from_bytes(rest).map_err(|_| damaged())?;
        let is_sound = |model: &KernelModel| {
            let kind = Kind::ALL.get(usize::from(model.kind));
            let least = kind.and_then(|kind| call(*kind, &model.least));
            least.is_some_and(|call| model.time.takes(&call) && model.power.takes(&call))
        };
        match models.kernels.iter().all(is_sound) {
            true => Ok(models),
            false => Err(damaged()),
        }
    }
}
