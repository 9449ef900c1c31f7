//! Searches hyper-parameters of the boosted trees. Successive halving (Jamieson and Talwalkar 2016) tries many
//! settings on few rows and keeps the best for more rows. A tree-structured Parzen estimator (Bergstra et
//! al. 2011) proposes settings from the results so far. MIRAGE's authors combined both as BOHB (Falkner et al.
//! 2018), and the space of the settings is theirs.
//!
//! A bracket tries nine settings on a ninth of the rows, the three best on a third, and the best of these
//! on all. A setting is scored on units that it was not trained on. All is determined by the seed and the
//! results, so a search goes on where it was interrupted: results that are known are not computed again.

use std::io;
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use thiserror::Error;
use wattgate_kernels::Kind;

use super::corpus::{KernelCorpus, Row};
use super::corrected::{Corrected, value};
use super::split::{HeldOut, LEAST_ROWS, parts};
use super::trees::Settings;
use super::tuned::{Trial, target};
use wattgate_trainer::score::Target;

/// Settings of a bracket's first rung; each rung keeps a third.
const BRACKET_WIDTH: usize = 9;

/// The rungs: the divisor of the rows that train.
const RUNGS: [usize; 3] = [9, 3, 1];

/// Trainings on all rows that a bracket is worth: one for each rung.
pub const BRACKET: u32 = RUNGS.len() as u32;

/// Share of the settings that are drawn at random, so that the model cannot miss a part of the space.
const AT_RANDOM: f64 = 0.25;

/// Results on a rung from which the model proposes.
const LEAST_RESULTS: usize = 8;

/// Proposals of which the most promising is taken.
const PROPOSALS: usize = 32;

/// The dimensions of the space: least and most, and whether the logarithm is uniform.
const SPACE: [(f64, f64, bool); 8] = [
    (100.0, 3_000.0, false),
    (5.0, 11.0, false),
    (5.0, 8.0, false),
    (0.8, 1.0, false),
    (0.8, 1.0, false),
    (0.005, 0.1, true),
    (1e-4, 1e-2, true),
    (1e-4, 1e-2, true),
];

/// A place in the space, each number 0 … 1.
type Point = [f64; SPACE.len()];

fn settings(point: &Point) -> Settings {
    let at = |i: usize| {
        let (least, most, is_log) = SPACE[i];
        match is_log {
            true => least * (most / least).powf(point[i]),
            false => least + (most - least) * point[i],
        }
    };
    // Written with few digits, so that a file gives the same settings.
    let digits = |value: f64| (value * 1e6).round() / 1e6;
    Settings {
        n_estimators: at(0).round() as u32,
        max_depth: at(1).round() as u32,
        min_child_weight: digits(at(2)),
        subsample: digits(at(3)),
        colsample: digits(at(4)),
        learning_rate: digits(at(5)),
        reg_alpha: digits(at(6)),
        reg_lambda: digits(at(7)),
    }
}

/// Why a file of results cannot be used.
#[derive(Debug, Error)]
pub enum SearchError {
    /// The file cannot be read.
    #[error("{}: cannot read: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// A line is defective.
    #[error("{}: not a file of `wattgate-lab kernels search`: {why}; name one that it wrote", path.display())]
    Defect { path: PathBuf, why: String },
    /// The results are those of another search.
    #[error("{}: the results are those of another corpus or seed; name another file", path.display())]
    Other { path: PathBuf },
    /// No kernel has enough rows.
    #[error("no kernel has {LEAST_ROWS} rows to train on and one to score; measure more rows")]
    TooFewRows,
}

/// Reads results.
pub fn read(path: &Path) -> Result<Vec<Trial>, SearchError> {
    let text = std::fs::read(path).map_err(|source| SearchError::Io {
        path: path.to_owned(),
        source,
    })?;
    let mut reader = csv::Reader::from_reader(&*text);
    let trials: Result<Vec<Trial>, csv::Error> = reader.deserialize().collect();
    let defect = |why: String| SearchError::Defect {
        path: path.to_owned(),
        why,
    };
    let trials = trials.map_err(|why| defect(why.to_string()))?;
    if trials.is_empty() {
        return Err(defect("it has no result".to_owned()));
    }
    for trial in &trials {
        let known = Kind::named(&trial.kernel).is_some() && target(&trial.target).is_some();
        let is_loss = (0.0..f64::INFINITY).contains(&trial.loss);
        if !known || !trial.settings().are_valid() || !is_loss {
            return Err(defect(format!("no result: {trial:?}")));
        }
    }
    Ok(trials)
}

/// Results as CSV.
pub fn to_csv(trials: &[Trial]) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for trial in trials {
        writer.serialize(trial).expect("memory takes all text");
    }
    writer.into_inner().expect("memory takes all text")
}

/// Rows of one kernel that train and that score.
struct Task<'a> {
    kind: Kind,
    target: Target,
    training: Vec<&'a Row>,
    test: Vec<&'a Row>,
}

impl Task<'_> {
    /// The loss of some settings that train on every `divisor`-th row.
    fn loss(&self, settings: &Settings, divisor: usize, seed: u64) -> f64 {
        let training: Vec<&Row> = self.training.iter().copied().step_by(divisor).collect();
        let hidden = ProgressBar::hidden();
        let fitted = Corrected::fit(&training, self.target, settings, seed, &hidden);
        let logs = fitted.predict_rows(&self.test);
        let squares = self.test.iter().zip(logs).map(|(row, log)| {
            let measured = value(row, self.target).expect("kept for its value");
            f64::from(measured.ln() - log).powi(2)
        });
        let square: f64 = squares.sum();
        (square / self.test.len() as f64).sqrt()
    }
}

/// How much is searched.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Number of brackets for each kernel and target.
    pub brackets: u32,
    /// Seed of the parts, the proposals and the trees.
    pub seed: u64,
}

impl Budget {
    /// Number of trials of [`search`].
    pub fn trials(&self, corpus: &KernelCorpus) -> u64 {
        let kernels = corpus.rows.iter().filter(|rows| !rows.is_empty()).count();
        let of_bracket: usize = (0..RUNGS.len())
            .map(|rung| BRACKET_WIDTH / 3_usize.pow(rung as u32))
            .sum();
        2 * kernels as u64 * u64::from(self.brackets) * of_bracket as u64
    }
}

/// Searches settings of every kernel and target. `known` are the results of an interrupted search, from
/// `path`. `each` sees all results after each new one. `progress` advances by one for each trial.
pub fn search<E: From<SearchError>>(
    corpus: &KernelCorpus,
    budget: Budget,
    (path, known): (&Path, Vec<Trial>),
    mut each: impl FnMut(&[Trial]) -> Result<(), E>,
    progress: &ProgressBar,
) -> Result<Vec<Trial>, E> {
    let mut trials: Vec<Trial> = Vec::new();
    let other = || SearchError::Other {
        path: path.to_owned(),
    };
    for (kind, rows) in Kind::ALL.into_iter().zip(&corpus.rows) {
        for target in Target::ALL {
            let Some(task) = task(corpus, kind, rows, target, budget.seed) else {
                continue;
            };
            let mut results: Vec<(usize, Point, f64)> = Vec::new();
            let mut random = ChaCha8Rng::seed_from_u64(budget.seed);
            random.set_stream(2 * kind as u64 + target as u64);
            for bracket in 0..budget.brackets {
                let mut points: Vec<Point> = Vec::new();
                let mut of_bracket = known.iter().filter(|trial| {
                    trial.kernel == kind.name()
                        && trial.target == target.to_string()
                        && trial.bracket == bracket
                });
                for _ in 0..BRACKET_WIDTH {
                    points.push(propose(&results, &mut random));
                }
                for (rung, divisor) in RUNGS.into_iter().enumerate() {
                    let mut scored = Vec::new();
                    for point in points {
                        let settings = settings(&point);
                        let rows = task.training.len().div_ceil(divisor);
                        let loss = match of_bracket.next() {
                            Some(known) if known.rows == rows && known.settings() == settings => {
                                trials.push(known.clone());
                                known.loss
                            }
                            Some(_) => return Err(other().into()),
                            None => {
                                let loss = task.loss(&settings, divisor, budget.seed);
                                trials.push(trial(&task, bracket, rows, &settings, loss));
                                each(&trials)?;
                                loss
                            }
                        };
                        progress.inc(1);
                        scored.push((loss, point));
                        results.push((rung, point, loss));
                    }
                    scored.sort_by(|(a, _), (b, _)| a.total_cmp(b));
                    let kept = scored.len().div_ceil(3);
                    points = scored
                        .into_iter()
                        .take(kept)
                        .map(|(_, point)| point)
                        .collect();
                }
            }
        }
    }
    // Results of a longer search stay.
    let more: Vec<Trial> = known
        .into_iter()
        .filter(|trial| !trials.contains(trial))
        .collect();
    trials.extend(more);
    match trials.is_empty() {
        true => Err(SearchError::TooFewRows.into()),
        false => Ok(trials),
    }
}

fn trial(task: &Task<'_>, bracket: u32, rows: usize, settings: &Settings, loss: f64) -> Trial {
    Trial {
        kernel: task.kind.name().to_owned(),
        target: task.target.to_string(),
        bracket,
        rows,
        n_estimators: settings.n_estimators,
        max_depth: settings.max_depth,
        learning_rate: settings.learning_rate,
        subsample: settings.subsample,
        colsample: settings.colsample,
        min_child_weight: settings.min_child_weight,
        reg_lambda: settings.reg_lambda,
        reg_alpha: settings.reg_alpha,
        loss,
    }
}

/// The rows of a kernel with a target, a fifth of the units held out; `None` if they are too few.
fn task<'a>(
    corpus: &KernelCorpus,
    kind: Kind,
    rows: &'a [Row],
    target: Target,
    seed: u64,
) -> Option<Task<'a>> {
    const SEARCH_FOLDS: usize = 5;
    let (part_of, _) = parts(corpus, rows, &HeldOut::Folds(SEARCH_FOLDS), seed);
    let split = |is_test: bool| -> Vec<&Row> {
        let pairs = rows.iter().zip(&part_of);
        let pairs =
            pairs.filter(|(row, part)| (**part == 0) == is_test && value(row, target).is_some());
        pairs.map(|(row, _)| row).collect()
    };
    let (training, test) = (split(false), split(true));
    let enough = training.len() >= LEAST_ROWS * RUNGS[0] && !test.is_empty();
    enough.then_some(Task {
        kind,
        target,
        training,
        test,
    })
}

/// The next point: at random, or the one of some proposals that good results make most likely compared
/// with the others, by results on the highest rung that has enough.
fn propose(results: &[(usize, Point, f64)], random: &mut ChaCha8Rng) -> Point {
    let rung = (0..RUNGS.len()).rev().find(|rung| {
        let of_rung = results.iter().filter(|(reached, ..)| reached == rung);
        of_rung.count() >= LEAST_RESULTS
    });
    let anywhere = std::array::from_fn(|_| random.random_range(0.0..1.0));
    let (Some(rung), false) = (rung, random.random_bool(AT_RANDOM)) else {
        return anywhere;
    };
    let of_rung = results.iter().filter(|(reached, ..)| *reached == rung);
    let mut sorted: Vec<(f64, Point)> = of_rung.map(|(_, point, loss)| (*loss, *point)).collect();
    sorted.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let points: Vec<Point> = sorted.into_iter().map(|(_, point)| point).collect();
    let (good, bad) = points.split_at(points.len().div_ceil(4).max(2));
    let (good, bad) = (Parzen::from_points(good), Parzen::from_points(bad));
    let proposals = (0..PROPOSALS).map(|_| good.draw(random));
    let ratio = |point: &Point| good.log_density(point) - bad.log_density(point);
    let best = proposals.max_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    best.unwrap_or(anywhere)
}

/// A density of normal kernels around some points.
struct Parzen<'a> {
    points: &'a [Point],
    widths: Point,
}

impl<'a> Parzen<'a> {
    /// Scott's rule for the widths, at least a twentieth of the space.
    fn from_points(points: &'a [Point]) -> Self {
        let n = points.len() as f64;
        let factor = n.powf(-1.0 / (SPACE.len() as f64 + 4.0));
        let width = |at: usize| {
            let mean = points.iter().map(|point| point[at]).sum::<f64>() / n;
            let square: f64 = points.iter().map(|point| (point[at] - mean).powi(2)).sum();
            (factor * (square / n).sqrt()).max(0.05)
        };
        Self {
            points,
            widths: std::array::from_fn(width),
        }
    }

    fn draw(&self, random: &mut ChaCha8Rng) -> Point {
        let centre = self.points[random.random_range(0..self.points.len())];
        std::array::from_fn(|at| {
            let normal: f64 = StandardNormal.sample(random);
            (centre[at] + self.widths[at] * normal).clamp(0.0, 1.0)
        })
    }

    /// Up to a constant.
    fn log_density(&self, at: &Point) -> f64 {
        let of_point = |point: &Point| {
            let axes = point.iter().zip(at).zip(&self.widths);
            let square: f64 = axes.map(|((p, x), w)| ((p - x) / w).powi(2)).sum();
            (-0.5 * square).exp()
        };
        let sum: f64 = self.points.iter().map(of_point).sum();
        let width: f64 = self.widths.iter().map(|width| width.ln()).sum();
        (sum / self.points.len() as f64).max(f64::MIN_POSITIVE).ln() - width
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_stay_in_the_space_of_the_paper() {
        let low = settings(&[0.0; 8]);
        assert_eq!((low.n_estimators, low.max_depth), (100, 5));
        assert_eq!((low.learning_rate, low.reg_alpha), (0.005, 1e-4));
        let high = settings(&[1.0; 8]);
        assert_eq!((high.n_estimators, high.max_depth), (3_000, 11));
        assert_eq!((high.subsample, high.reg_lambda), (1.0, 0.01));
        assert!(low.are_valid() && high.are_valid());
    }

    #[test]
    fn proposals_gather_where_results_are_good() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut results = Vec::new();
        for _ in 0..40 {
            let point: Point = std::array::from_fn(|_| random.random_range(0.0..1.0));
            results.push((0, point, (point[5] - 0.8).abs()));
        }
        let near = |results: &[(usize, Point, f64)]| {
            let mut random = ChaCha8Rng::seed_from_u64(2);
            let drawn = (0..200).filter(|_| (propose(results, &mut random)[5] - 0.8).abs() < 0.15);
            drawn.count()
        };
        // Without results three of ten would lie there.
        assert!((40..80).contains(&near(&[])), "{}", near(&[]));
        assert!(near(&results) > 110, "{}", near(&results));
    }
}
