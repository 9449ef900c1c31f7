//! Summarises a corpus and reports defects and outliers.

use std::collections::BTreeSet;
use std::path::Path;

use indicatif::ProgressBar;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use wattgate_runtime::grid::Axis;

use crate::corpus::flat::flat;
use crate::corpus::modes::contradiction;
use crate::corpus::plausible::remarks;
use crate::corpus::{
    AXIS_COLUMNS, Corpus, CorpusError, Profile, Reading, Survey, median as of_runs,
};
use crate::learn::gp::Process;
use crate::learn::mean::{Mean, Place, Scales};
use crate::learn::priors::Priors;
use crate::learn::split::MIN_MODES;

/// Maximum number of defects, and of outliers, that are listed; all are counted.
pub const LISTED: usize = 20;

/// A repeat is an outlier if its ln ratio to the mode's median exceeds the first value, and the
/// second times the median deviation of all repeats.
const REPEAT_OUTLIER: (f64, f64) = (0.1, 8.0);

/// A mode is an outlier if its leave-one-out residual exceeds the first value in ln units, and the
/// second in predictive standard deviations.
const MODE_OUTLIER: (f64, f64) = (0.1, 5.0);

/// Modes per Gaussian process; the cost grows with the cube.
const MOST_MODES_OF_PROCESS: usize = 800;

/// The values of one axis.
#[derive(Clone, Debug, Serialize)]
pub struct AxisReport {
    /// The column's name.
    pub name: &'static str,
    /// All values in ascending order.
    pub values: Vec<u32>,
}

/// A summary of the time or power column.
#[derive(Clone, Debug, Serialize)]
pub struct TargetReport {
    /// Number of modes with a value.
    pub modes: usize,
    /// The lowest median of a mode, in the column's unit.
    pub least: f64,
    /// The highest median of a mode, in the column's unit.
    pub most: f64,
    /// Number of modes with more than one value.
    pub repeated_modes: usize,
    /// Median deviation of a repeat from its mode's median, in percent.
    pub repeat_noise_pct: Option<f64>,
    /// Number of modes whose runs disagree: no two of them are near the mode's median. The trainer leaves these
    /// modes out.
    pub contradictions: usize,
    /// Number of repeats that are outliers among the repeats of their mode.
    pub repeat_outliers: usize,
    /// Number of modes that are outliers among all modes.
    pub mode_outliers: usize,
    /// At most [`LISTED`]: runs that disagree, then outliers, each with the largest deviation first.
    pub outliers: Vec<Outlier>,
}

/// An outlier.
#[derive(Clone, Debug, Serialize)]
pub struct Outlier {
    /// Cores, CPU, GPU and EMC clock in kHz.
    pub mode: [u32; 4],
    /// `runs`, `repeat` or `mode`.
    pub of: &'static str,
    /// The value, in the column's unit; of runs that disagree, the lowest one.
    pub value: f64,
    /// The mode's median, or the leave-one-out prediction from the other modes; of runs that disagree, the
    /// highest one.
    pub expected: f64,
}

impl Outlier {
    /// |ln(value / expected)|.
    fn distance(&self) -> f64 {
        (self.value / self.expected).ln().abs()
    }
}

/// The summary of a corpus.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// The file.
    pub file: String,
    /// `measured`, `simulated` or `recorded`.
    pub kind: String,
    /// The board.
    pub device: String,
    /// The workload.
    pub workload: String,
    /// Samples in a minibatch; `None` where the file does not say.
    pub minibatch: Option<u32>,
    /// Loader workers, likewise.
    pub workers: Option<u32>,
    /// Storage of the data set, likewise.
    pub storage: Option<String>,
    /// Epoch from 0, likewise.
    pub epoch: Option<u32>,
    /// Number of rows without defects.
    pub rows: u64,
    /// Number of distinct modes, including unprofiled ones.
    pub modes: usize,
    /// Number of modes without time and power: the board has them, but they were not profiled.
    pub unprofiled_modes: usize,
    /// Modes in which the idle board was measured.
    pub idle_modes: usize,
    /// Those of them in which the idle board was read to draw more than under load.
    pub idle_above_load: usize,
    /// Number of modes of the grid that the axes span.
    pub modes_in_grid: u32,
    /// The axes in the order of the columns.
    pub axes: Vec<AxisReport>,
    /// The time column, in ms; `None` if it is blank.
    pub time_ms: Option<TargetReport>,
    /// The power column, in mW; `None` if it is blank.
    pub power_mw: Option<TargetReport>,
    /// What is probably not meant so.
    pub warnings: Vec<String>,
    /// Why the rows cannot be learned from, if so.
    pub flat: Option<String>,
    /// Number of rows skipped because of a defect.
    pub defect_count: u64,
    /// At most [`LISTED`] defects, in the order of the file.
    pub defects: Vec<String>,
}

/// Reads a corpus, skips rows with defects and looks for outliers. Each feeding of a file has a summary;
/// the defects are those of the file, and stand in the first one.
pub fn check(
    path: &Path,
    reading: Reading<'_>,
    progress: &ProgressBar,
) -> Result<Vec<Check>, CorpusError> {
    let Survey {
        corpora,
        defects,
        defect_count,
    } = Corpus::survey(path, reading, LISTED, progress)?;
    let file = path.display().to_string();
    let mut checks: Vec<Check> = corpora
        .iter()
        .map(|corpus| summary(&file, corpus, progress))
        .collect();
    if let Some(first) = checks.first_mut() {
        first.defect_count = defect_count;
        first.defects = defects.iter().map(ToString::to_string).collect();
    }
    Ok(checks)
}

/// The summary of one feeding, without defects.
fn summary(file: &str, corpus: &Corpus, progress: &ProgressBar) -> Check {
    let feeding = &corpus.feeding;
    progress.set_message("compare");
    progress.set_length(2 * corpus.modes.len() as u64);
    progress.set_position(0);
    let (time_ms, power_mw) = rayon::join(
        || target(corpus, |mode| &mode.times, Profile::time, progress),
        || target(corpus, |mode| &mode.powers, Profile::power, progress),
    );
    let axes = AXIS_COLUMNS
        .into_iter()
        .zip(Axis::ALL)
        .map(|(name, axis)| AxisReport {
            name,
            values: corpus.grid.axis(axis).to_vec(),
        });
    let idle: BTreeSet<[u32; 4]> = corpus.idle.iter().map(|it| it.knobs).collect();
    let above = idle.iter().filter(|knobs| {
        let mode = corpus.modes.iter().find(|mode| mode.knobs == **knobs);
        let load = mode.and_then(Profile::power);
        let mut readings = corpus.idle.iter().filter(|it| it.knobs == **knobs);
        load.is_some_and(|load| readings.any(|it| it.power_mw > load))
    });
    let unprofiled = |mode: &&Profile| mode.times.is_empty() && mode.powers.is_empty();
    Check {
        file: file.to_owned(),
        kind: corpus.kind.to_string(),
        device: corpus.device.clone(),
        workload: corpus.workload.clone(),
        minibatch: feeding.minibatch,
        workers: feeding.workers,
        storage: feeding.storage.clone(),
        epoch: feeding.epoch,
        rows: corpus.rows,
        modes: corpus.modes.len(),
        unprofiled_modes: corpus.modes.iter().filter(unprofiled).count(),
        idle_modes: idle.len(),
        idle_above_load: above.count(),
        modes_in_grid: corpus.grid.modes(),
        axes: axes.collect(),
        time_ms,
        power_mw,
        warnings: remarks(corpus).iter().map(ToString::to_string).collect(),
        flat: flat(corpus).map(|it| it.to_string()),
        defect_count: 0,
        defects: Vec::new(),
    }
}

fn target(
    corpus: &Corpus,
    values: fn(&Profile) -> &Vec<f32>,
    median: fn(&Profile) -> Option<f64>,
    progress: &ProgressBar,
) -> Option<TargetReport> {
    let medians = corpus.modes.iter();
    let medians: Vec<f64> = medians.filter_map(|mode| of_runs(values(mode))).collect();
    let (least, most) = medians
        .iter()
        .fold((f64::MAX, 0.0_f64), |(least, most), &value| {
            (least.min(value), most.max(value))
        });
    let repeats = || {
        let repeated = corpus.modes.iter().filter(|mode| {
            let runs = values(mode);
            runs.len() > 1 && contradiction(runs).is_none()
        });
        repeated.flat_map(|mode| {
            let expected = median(mode).expect("a mode with values");
            values(mode).iter().map(move |&value| Outlier {
                mode: mode.knobs,
                of: "repeat",
                value: f64::from(value),
                expected,
            })
        })
    };
    let noise =
        upper_median(repeats().map(|repeat| (repeat.value / repeat.expected - 1.0).abs() as f32));
    let (part, times) = REPEAT_OUTLIER;
    let far = noise.map_or(part, |noise| part.max(times * noise));
    let contradictions = corpus.modes.iter().filter_map(|mode| {
        let [value, expected] = contradiction(values(mode))?;
        Some(Outlier {
            mode: mode.knobs,
            of: "runs",
            value,
            expected,
        })
    });
    let mut contradicted = Farthest::default();
    contradictions.for_each(|runs| contradicted.push(runs));
    let mut outliers = Farthest::default();
    repeats()
        .filter(|repeat| repeat.distance() > far)
        .for_each(|repeat| outliers.push(repeat));
    let repeat_outliers = outliers.count;
    let known = corpus.modes.iter();
    let known: Vec<([u32; 4], f64)> = known
        .filter_map(|mode| Some((mode.knobs, median(mode)?)))
        .collect();
    odd_modes(corpus, &known, progress)
        .into_iter()
        .for_each(|mode| outliers.push(mode));
    let mode_outliers = outliers.count - repeat_outliers;
    let mut all = contradicted.kept;
    all.extend(outliers.kept);
    all.truncate(LISTED);
    (!medians.is_empty()).then_some(TargetReport {
        modes: medians.len(),
        least,
        most,
        repeated_modes: corpus
            .modes
            .iter()
            .filter(|mode| values(mode).len() > 1)
            .count(),
        repeat_noise_pct: noise.map(|noise| 100.0 * noise),
        contradictions: contradicted.count,
        repeat_outliers,
        mode_outliers,
        outliers: all,
    })
}

/// Counts outliers and keeps the [`LISTED`] largest, as a corpus may have millions.
#[derive(Default)]
struct Farthest {
    count: usize,
    kept: Vec<Outlier>,
}

impl Farthest {
    fn push(&mut self, outlier: Outlier) {
        self.count += 1;
        let farther = |kept: &Outlier| kept.distance() >= outlier.distance();
        let at = self.kept.partition_point(farther);
        self.kept.insert(at, outlier);
        self.kept.truncate(LISTED);
    }
}

/// The upper median.
fn upper_median(values: impl Iterator<Item = f32>) -> Option<f64> {
    let mut values: Vec<f32> = values.collect();
    let at = values.len() / 2;
    let (_, middle, _) =
        (at < values.len()).then(|| values.select_nth_unstable_by(at, f32::total_cmp))?;
    Some(f64::from(*middle))
}

/// Outliers by leave-one-out prediction with a Gaussian process. Chunks of fewer than
/// 2 · [`MIN_MODES`] modes are not judged.
fn odd_modes(corpus: &Corpus, known: &[([u32; 4], f64)], progress: &ProgressBar) -> Vec<Outlier> {
    let scales = Scales::from_grid(&corpus.grid);
    let mut shuffled = known.to_vec();
    shuffled.shuffle(&mut ChaCha8Rng::seed_from_u64(0));
    let parts = shuffled.len().div_ceil(MOST_MODES_OF_PROCESS).max(1);
    let size = shuffled.len().div_ceil(parts).max(1);
    let (part, times) = MODE_OUTLIER;
    let odd = |modes: &[([u32; 4], f64)]| -> Vec<Outlier> {
        if modes.len() < 2 * MIN_MODES {
            return Vec::new();
        }
        let places: Vec<Place> = modes
            .iter()
            .map(|&(knobs, _)| scales.place(knobs))
            .collect();
        let logs: Vec<f64> = modes.iter().map(|&(_, value)| value.ln()).collect();
        let process = Process::fit_map(&Priors::shipped().spec(Mean::Zero), &places, &logs);
        progress.inc(modes.len() as u64);
        let Ok(process) = process else {
            return Vec::new();
        };
        let expected = process.left_out().swap_remove(0);
        let triples = modes.iter().zip(&logs).zip(expected);
        let far = triples.filter(|((_, log), expected)| {
            (*log - expected.mean).abs() > part.max(times * expected.variance.sqrt())
        });
        far.map(|((&(mode, value), _), expected)| Outlier {
            mode,
            of: "mode",
            value,
            expected: expected.mean.exp(),
        })
        .collect()
    };
    shuffled.chunks(size).flat_map(odd).collect()
}
