//! Compares methods by their prediction errors. In each run all methods train on the same modes
//! and are scored on the held-out ones.

use std::collections::BTreeMap;
use std::time::Instant;

use indicatif::ProgressBar;
use rayon::prelude::*;
use serde::{Deserialize, Deserializer, Serialize};
use wattgate_cli::shard::{Jobs, Ran};
use wattgate_runtime::shape::Shape;
use wattgate_runtime::{Confidence, Model};

use crate::compare::CompareError;
use crate::methods::{self, Method, Trained};
use wattgate_trainer::fit::Exported;
use wattgate_trainer::fit::Priors;
use wattgate_trainer::fit::Task;
use wattgate_trainer::plan::{Amount, Sampling, Split, SplitError};
use wattgate_trainer::read::Corpus;
use wattgate_trainer::read::Known;
use wattgate_trainer::read::Reference;
use wattgate_trainer::score::{Accuracy, Errors, Predictions, Target};
use wattgate_trainer::score::{Coverage, coverage};

/// A comparison: every method, number of training modes and sampling on one corpus.
pub struct Comparison<'a> {
    /// The corpus.
    pub corpus: &'a Corpus,
    /// The corpus's name in results.
    pub name: &'a str,
    /// The references, for methods that can transfer.
    pub references: &'a [Reference],
    /// Priors of the hyperparameters of `wattgate` and of the plans.
    pub priors: &'a Priors,
    /// The methods.
    pub methods: &'a [Box<dyn Method>],
    /// Numbers of training modes.
    pub amounts: &'a [Amount],
    /// Ways to choose the training modes.
    pub samplings: &'a [Sampling],
    /// Number of runs per combination; run i has the seed `seed` + i.
    pub runs: u64,
    /// The first seed.
    pub seed: u64,
    /// The layer widths of exported networks.
    pub shape: Shape,
}

/// How modes are chosen, how many, the method, and the number of the run.
type Run<'a> = (Sampling, Amount, &'a dyn Method, u64);

/// A method trained in one run.
pub struct TrainedRun<'a> {
    /// The method.
    pub method: &'a dyn Method,
    /// How the training modes were chosen.
    pub sampling: Sampling,
    /// The seed.
    pub seed: u64,
    /// The training modes and the held-out modes.
    pub split: Split,
    /// The trained method.
    pub trained: Box<dyn Trained>,
    /// Wall-clock time of the training in seconds.
    pub seconds: f64,
}

impl Comparison<'_> {
    /// Number of trainings of all methods together.
    pub fn trainings(&self) -> u64 {
        let combinations = self.methods.len() * self.amounts.len() * self.samplings.len();
        combinations as u64 * self.runs
    }

    /// The description of the comparison in results.
    pub fn subject(&self) -> Subject {
        Subject {
            kind: self.corpus.kind.to_string(),
            corpus: self.name.to_owned(),
            reference: Reference::names(self.references),
        }
    }

    /// Trains every method on every split and applies `apply` to each. Results have a fixed order.
    /// Advances `progress` by one per training.
    pub fn run<T: Send>(
        &self,
        progress: &ProgressBar,
        apply: impl Fn(&TrainedRun<'_>) -> Result<T, CompareError> + Sync,
    ) -> Result<Vec<T>, CompareError> {
        let all = self.runs();
        self.run_some(&all.iter().collect::<Vec<_>>(), progress, apply)
    }

    /// All runs of all methods.
    fn runs(&self) -> Vec<Run<'_>> {
        let mut runs = Vec::new();
        for &sampling in self.samplings {
            for &amount in self.amounts {
                for method in self.methods {
                    runs.extend((0..self.runs).map(|run| (sampling, amount, method.as_ref(), run)));
                }
            }
        }
        runs
    }

    /// As [`Self::run`], for some of the runs.
    fn run_some<T: Send>(
        &self,
        runs: &[&Run<'_>],
        progress: &ProgressBar,
        apply: impl Fn(&TrainedRun<'_>) -> Result<T, CompareError> + Sync,
    ) -> Result<Vec<T>, CompareError> {
        Reference::refuse_own(self.references, self.corpus, &[])?;
        progress.set_message("prepare");
        for method in self.methods {
            method.prepare(self.references, &ProgressBar::hidden());
        }
        progress.set_message("run");
        let one = |&&(sampling, amount, method, run): &&Run<'_>| {
            let seed = self.seed.wrapping_add(run);
            let split =
                Split::with_fixed_held_out(self.corpus, amount, sampling, self.priors, seed)?;
            if split.held_out.is_empty() {
                let available = split.used.len();
                return Err(SplitError::NothingHeldOut { available }.into());
            }
            let start = Instant::now();
            let trained = method.train(&Task {
                corpus: self.corpus,
                used: &split.used,
                references: self.references,
                priors: self.priors,
                seed,
                shape: self.shape,
                progress: &ProgressBar::hidden(),
            })?;
            let learned = TrainedRun {
                method,
                sampling,
                seed,
                split,
                trained,
                seconds: start.elapsed().as_secs_f64(),
            };
            let result = apply(&learned);
            progress.inc(1);
            result
        };
        runs.par_iter().map(one).collect()
    }
}

/// The corpus and reference of a result.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Subject {
    /// `measured`, `simulated` or `recorded`.
    pub kind: String,
    /// The corpus file.
    pub corpus: String,
    /// The references transferred from, separated by commas.
    pub reference: Option<String>,
}

/// Median and quartiles over runs.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Quartiles {
    /// The median.
    pub median: f64,
    /// The lower quartile.
    pub q1: f64,
    /// The upper quartile.
    pub q3: f64,
}

impl Quartiles {
    /// Interpolates linearly between neighbouring values; `None` without values.
    pub fn from_values(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        Some(Self {
            median: quantile(&sorted, 0.5)?,
            q1: quantile(&sorted, 0.25)?,
            q3: quantile(&sorted, 0.75)?,
        })
    }
}

/// The q-quantile of sorted values, 0 ≤ q ≤ 1. Interpolates linearly between neighbouring values;
/// `None` without values.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let at = q * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    Some(low + (high - low) * at.fract())
}

/// The runs of one method for one target, aggregated.
#[derive(Clone, Debug, Serialize)]
pub struct EvaluationRow {
    /// The method.
    pub method: &'static str,
    /// `time` or `power`.
    pub target: Target,
    /// Number of training modes in each run.
    pub modes: usize,
    /// How the training modes were chosen.
    pub sampling: Sampling,
    /// The number of runs.
    pub runs: usize,
    /// Mean absolute percentage error on the held-out modes.
    pub mape: Quartiles,
    /// Percentage of held-out modes with an error of at most 5 %.
    pub within_5_pct: Quartiles,
    /// Percentage of held-out modes with an error of at most 10 %.
    pub within_10_pct: Quartiles,
    /// Percentage of held-out modes with an error of at most 15 %.
    pub within_15_pct: Quartiles,
    /// Percentage of held-out modes with an error of at most 20 %.
    pub within_20_pct: Quartiles,
    /// Root mean square error, in ms or mW.
    pub rmse: Quartiles,
    /// Mean absolute error, in ms or mW.
    pub mae: Quartiles,
    /// Wall-clock time in seconds of training both targets.
    pub seconds: Quartiles,
    /// Minutes of the board to measure the training modes, by the rules of `wattgate profile`.
    pub board_minutes: Quartiles,
    /// Error of the teacher; `None` for methods without an exported model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teacher_mape: Option<Quartiles>,
    /// Error added by distillation and quantisation (exported minus teacher), in percentage points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added: Option<Quartiles>,
    /// Coverage of the guard band by ascending confidence; empty for methods without one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub coverage: Vec<Covered>,
}

/// Empirical coverage of a guard band on held-out modes, as medians over the runs whose file reaches
/// the confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Covered {
    /// The nominal coverage, in 0 … 1.
    pub confidence: f64,
    /// The empirical coverage, in 0 … 1.
    pub share: f64,
    /// The mean of the empirical coverage over these runs, in 0 … 1. The confidence promises this mean; it
    /// is below the median if a few runs cover much less than the others.
    pub mean_share: f64,
    /// Mean upper bound of measured over predicted.
    pub ratio: f64,
    /// Number of these runs.
    pub runs: usize,
}

/// One run of one method.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct EvaluatedRun {
    /// The method.
    #[serde(deserialize_with = "method_name")]
    pub method: MethodName,
    /// Number of training modes.
    pub modes: usize,
    /// How the training modes were chosen.
    pub sampling: Sampling,
    /// The seed.
    pub seed: u64,
    /// Errors of the time on the held-out modes.
    pub time: Option<Accuracy>,
    /// Errors of the power on the held-out modes.
    pub power: Option<Accuracy>,
    /// Errors of the teacher; `None` for methods without an exported model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teacher: Option<Errors>,
    /// Coverage of the guard bands; empty for methods without an exported model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub coverage: Vec<Coverage>,
    /// Length of the exported file in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<usize>,
    /// Wall-clock time of the training in seconds.
    pub seconds: f64,
    /// Minutes of the board to measure the training modes.
    pub board_minutes: f64,
    /// The held-out modes by target, for plots.
    #[serde(skip)]
    pub shown: [Vec<Shown>; 2],
}

/// One of [`methods::NAMES`].
pub type MethodName = &'static str;

fn method_name<'de, D: Deserializer<'de>>(from: D) -> Result<&'static str, D::Error> {
    let name = String::deserialize(from)?;
    let known = methods::NAMES.into_iter().find(|known| *known == name);
    known.ok_or_else(|| serde::de::Error::custom(format!("no method is named `{name}`")))
}

/// A held-out mode in a plot: values in µs or mW.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// The measured value.
    pub measured: f64,
    /// The predicted value.
    pub predicted: f64,
    /// The upper bound of a measurement at the confidence [`SHOWN`]. `None` if the method exports no
    /// model, or if the training modes are too few for that confidence.
    pub at_most: Option<f64>,
}

/// Confidence of the bounds in plots.
pub const SHOWN: u16 = 9_500;

/// The result of [`evaluate`].
#[derive(Clone, Debug, Serialize)]
pub struct Evaluation {
    /// The corpus and reference.
    #[serde(flatten)]
    pub subject: Subject,
    /// One row per method, target, number of training modes and sampling.
    pub results: Vec<EvaluationRow>,
    /// All runs.
    pub runs: Vec<EvaluatedRun>,
}

/// Compares methods by their prediction errors. Skips methods without predictions.
pub fn evaluate(
    comparison: &Comparison<'_>,
    progress: &ProgressBar,
) -> Result<Evaluation, CompareError> {
    let runs = comparison.run(progress, |learned| Ok(scored(learned)))?;
    Ok(evaluation(comparison, runs.into_iter().flatten().collect()))
}

/// As [`evaluate`], but the runs that run here. Merged results have no modes for plots.
pub fn evaluate_in_shards(
    comparison: &Comparison<'_>,
    jobs: &Jobs,
    progress: &ProgressBar,
) -> Result<Ran<Evaluation>, CompareError> {
    let run =
        |runs: &[&Run<'_>]| comparison.run_some(runs, progress, |learned| Ok(scored(learned)));
    let ran = jobs.run(&comparison.runs(), run)?;
    Ok(ran.map(|runs: Vec<Option<EvaluatedRun>>| {
        evaluation(comparison, runs.into_iter().flatten().collect())
    }))
}

/// Aggregates the runs of a comparison.
pub(super) fn evaluation(comparison: &Comparison<'_>, runs: Vec<EvaluatedRun>) -> Evaluation {
    let mut groups: BTreeMap<(Sampling, usize, usize, Target), Vec<&EvaluatedRun>> =
        BTreeMap::new();
    let order = |name: &str| comparison.methods.iter().position(|m| m.name() == name);
    for run in &runs {
        for target in Target::ALL {
            let key = (
                run.sampling,
                run.modes,
                order(run.method).unwrap_or(0),
                target,
            );
            groups.entry(key).or_default().push(run);
        }
    }
    let rows = groups
        .into_iter()
        .filter_map(|((_, _, _, target), runs)| row(target, &runs));
    Evaluation {
        subject: comparison.subject(),
        results: rows.collect(),
        runs,
    }
}

/// Scores a trained method on its held-out modes; `None` for one without predictions.
pub(super) fn scored(learned: &TrainedRun<'_>) -> Option<EvaluatedRun> {
    let held_out = &learned.split.held_out;
    let predictions = learned.trained.predictions()?;
    let model = learned.trained.model();
    let accuracy = |target| predictions.accuracy(target, held_out);
    let file = model.map(Exported::unscored);
    let bytes = file.as_ref().map(Vec::len);
    let file = file.as_deref().and_then(|file| Model::parse(file).ok());
    let bounds = file.as_ref().zip(Confidence::new(SHOWN));
    let bounds = bounds.and_then(|(file, shown)| Predictions::guarded(file, shown).ok());
    let shown = |target: Target| {
        let bounds = bounds.as_ref().and_then(|all| target.predicted(all));
        let one = |mode: &Known| {
            Some(Shown {
                measured: target.measured(mode)?,
                predicted: target.predicted(predictions)?[mode.id],
                at_most: bounds.map(|all| all[mode.id]),
            })
        };
        held_out.iter().filter_map(one).collect()
    };
    Some(EvaluatedRun {
        method: learned.method.name(),
        modes: learned.split.used.len(),
        sampling: learned.sampling,
        seed: learned.seed,
        time: accuracy(Target::Time),
        power: accuracy(Target::Power),
        teacher: model.map(|model| model.teacher.errors(held_out)),
        coverage: file.map_or(Vec::new(), |file| coverage(&file, predictions, held_out)),
        bytes,
        seconds: learned.seconds,
        board_minutes: learned.split.used.iter().map(board_seconds).sum::<f64>() / 60.0,
        shown: Target::ALL.map(shown),
    })
}

/// Seconds of the board to measure a mode by the rules of `wattgate profile`, from step to step
/// (`tools/wattgate/README.md`): half a second until clocks and caches settle, two steps that are
/// dropped, or those of 5 s and the one in progress, and 20 steps, within 4 and 18 s but two steps at
/// least.
fn board_seconds(mode: &Known) -> f64 {
    let step = mode.time_us / 1e6;
    let dropped = (2.0 * step).min(5.0 + step);
    0.5 + dropped + (20.0 * step).clamp(4.0, 18.0).max(2.0 * step)
}

impl EvaluatedRun {
    fn accuracy(&self, target: Target) -> Option<&Accuracy> {
        match target {
            Target::Time => self.time.as_ref(),
            Target::Power => self.power.as_ref(),
        }
    }

    fn teacher_mape(&self, target: Target) -> Option<f64> {
        let teacher = self.teacher?;
        match target {
            Target::Time => teacher.time_mape,
            Target::Power => teacher.power_mape,
        }
    }
}

/// Aggregates the runs of one method with one number of training modes and one sampling.
fn row(target: Target, runs: &[&EvaluatedRun]) -> Option<EvaluationRow> {
    let accuracies = runs.iter().filter_map(|run| run.accuracy(target));
    let quartiles =
        |measure: fn(&Accuracy) -> f64| Quartiles::from_values(accuracies.clone().map(measure));
    let teacher = runs.iter().filter_map(|run| run.teacher_mape(target));
    let added = runs
        .iter()
        .filter_map(|run| Some(run.accuracy(target)?.mape - run.teacher_mape(target)?));
    let knots: Vec<_> = runs.iter().flat_map(|run| &run.coverage).copied().collect();
    let first = runs.first()?;
    Some(EvaluationRow {
        method: first.method,
        target,
        modes: first.modes,
        sampling: first.sampling,
        runs: runs.len(),
        mape: quartiles(|accuracy| accuracy.mape)?,
        within_5_pct: quartiles(|accuracy| accuracy.within_5_pct)?,
        within_10_pct: quartiles(|accuracy| accuracy.within_10_pct)?,
        within_15_pct: quartiles(|accuracy| accuracy.within_15_pct)?,
        within_20_pct: quartiles(|accuracy| accuracy.within_20_pct)?,
        rmse: quartiles(|accuracy| accuracy.rmse)?,
        mae: quartiles(|accuracy| accuracy.mae)?,
        seconds: Quartiles::from_values(runs.iter().map(|run| run.seconds))?,
        board_minutes: Quartiles::from_values(runs.iter().map(|run| run.board_minutes))?,
        teacher_mape: Quartiles::from_values(teacher),
        added: Quartiles::from_values(added),
        coverage: covered(target, &knots),
    })
}

/// The coverage from the knots of all runs.
fn covered(target: Target, knots: &[Coverage]) -> Vec<Covered> {
    let mut confidences: Vec<f64> = knots.iter().map(|knot| knot.confidence).collect();
    confidences.sort_unstable_by(f64::total_cmp);
    confidences.dedup();
    let covered = |confidence: f64| {
        let found = knots.iter().filter(|knot| knot.confidence == confidence);
        let (shares, ratios): (Vec<f64>, Vec<f64>) = found
            .filter_map(|knot| match target {
                Target::Time => knot.time.zip(knot.time_ratio),
                Target::Power => knot.power.zip(knot.power_ratio),
            })
            .unzip();
        Some(Covered {
            confidence,
            runs: shares.len(),
            mean_share: shares.iter().sum::<f64>() / shares.len() as f64,
            share: Quartiles::from_values(shares)?.median,
            ratio: Quartiles::from_values(ratios)?.median,
        })
    };
    confidences.into_iter().filter_map(covered).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_confidence_counts_for_the_others() {
        let knot = |confidence, share| Coverage {
            confidence,
            time: Some(share),
            power: None,
            time_ratio: Some(1.0 + share),
            power_ratio: None,
        };
        // The second and the third run's file refuse 99 %.
        let knots = [
            knot(0.95, 0.5),
            knot(0.99, 0.75),
            knot(0.95, 0.125),
            knot(0.95, 0.5),
        ];
        let expected_share = |confidence, share, mean_share, runs| Covered {
            confidence,
            share,
            mean_share,
            ratio: 1.0 + share,
            runs,
        };
        let expected = [
            expected_share(0.95, 0.5, 0.375, 3),
            expected_share(0.99, 0.75, 0.75, 1),
        ];
        assert_eq!(covered(Target::Time, &knots), expected);
        assert_eq!(covered(Target::Power, &knots), []);
    }

    #[test]
    fn quartiles_lie_between_their_neighbours() {
        let quartiles = Quartiles::from_values([4.0, 1.0, 3.0, 2.0]);
        let expected = Quartiles {
            median: 2.5,
            q1: 1.75,
            q3: 3.25,
        };
        assert_eq!(quartiles, Some(expected));
        assert_eq!(Quartiles::from_values([]), None);
    }

    #[test]
    fn short_steps_fill_a_window_and_long_ones_are_counted() {
        for (time_ms, seconds) in [
            (10.0, 0.5 + 0.02 + 4.0),
            (500.0, 0.5 + 1.0 + 10.0),
            (2_000.0, 0.5 + 4.0 + 18.0),
            (20_000.0, 0.5 + 25.0 + 40.0),
        ] {
            let mode = Known {
                id: 0,
                knobs: [1; 4],
                time_us: 1e3 * time_ms,
                power_mw: None,
                is_confirmed: false,
            };
            assert!(
                (board_seconds(&mode) - seconds).abs() < 1e-9,
                "{time_ms} ms"
            );
        }
    }
}
