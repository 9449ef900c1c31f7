//! Methods side by side: each learns from the same modes and is scored on the others.

use std::collections::BTreeMap;
use std::time::Instant;

use indicatif::ProgressBar;
use rayon::prelude::*;
use serde::Serialize;
use wattgate_runtime::Shape;

use crate::corpus::Corpus;
use crate::corpus::modes::Known;
use crate::fit::{Coverage, coverage};
use crate::lab::LabError;
use crate::learn::predictions::{Accuracy, Errors, Target};
use crate::learn::reference::Reference;
use crate::learn::split::{Amount, Sampling, Split, SplitError};
use crate::methods::{Method, Trained};
use crate::train::Task;

/// What to compare on what.
pub struct Comparison<'a> {
    /// The corpus.
    pub corpus: &'a Corpus,
    /// Its name in results.
    pub name: &'a str,
    /// What methods that can transfer start from.
    pub reference: Option<&'a Reference>,
    /// The methods.
    pub methods: &'a [Box<dyn Method>],
    /// Numbers of modes to train on.
    pub amounts: &'a [Amount],
    /// How modes are chosen.
    pub samplings: &'a [Sampling],
    /// Runs of each combination, with the seeds from `seed` on.
    pub runs: u64,
    /// The first seed.
    pub seed: u64,
    /// The shape of an exported network.
    pub shape: Shape,
}

/// One run of one method.
pub struct Learned<'a> {
    /// The method.
    pub method: &'a dyn Method,
    /// How modes were chosen.
    pub sampling: Sampling,
    /// The seed.
    pub seed: u64,
    /// The modes of the run.
    pub split: Split,
    /// What was learned.
    pub trained: Box<dyn Trained>,
    /// Wall-clock time of the training.
    pub seconds: f64,
}

impl Comparison<'_> {
    /// The number of runs of all methods.
    pub fn trainings(&self) -> u64 {
        let combinations = self.methods.len() * self.amounts.len() * self.samplings.len();
        combinations as u64 * self.runs
    }

    /// What is compared on, as results say it.
    pub fn subject(&self) -> Subject {
        Subject {
            kind: self.corpus.kind.to_string(),
            corpus: self.name.to_owned(),
            reference: self.reference.map(|reference| reference.name().to_owned()),
        }
    }

    /// Trains every method on every split and looks at each with `look`, in a fixed order.
    pub fn run<T: Send>(
        &self,
        progress: &ProgressBar,
        look: impl Fn(&Learned<'_>) -> Result<T, LabError> + Sync,
    ) -> Result<Vec<T>, LabError> {
        for method in self.methods {
            method.prepare(self.reference);
        }
        let mut items = Vec::new();
        for &sampling in self.samplings {
            for &amount in self.amounts {
                for method in self.methods {
                    items
                        .extend((0..self.runs).map(|run| (sampling, amount, method.as_ref(), run)));
                }
            }
        }
        let one = |&(sampling, amount, method, run): &(Sampling, Amount, &dyn Method, u64)| {
            let seed = self.seed.wrapping_add(run);
            let split = Split::new(self.corpus, amount, sampling, seed)?;
            if split.held_out.is_empty() {
                let available = split.used.len();
                return Err(SplitError::NothingHeldOut { available }.into());
            }
            let start = Instant::now();
            let trained = method.train(&Task {
                corpus: self.corpus,
                used: &split.used,
                reference: self.reference,
                seed,
                shape: self.shape,
                progress: &ProgressBar::hidden(),
            })?;
            let learned = Learned {
                method,
                sampling,
                seed,
                split,
                trained,
                seconds: start.elapsed().as_secs_f64(),
            };
            let result = look(&learned);
            progress.inc(1);
            result
        };
        items.par_iter().map(one).collect()
    }
}

/// What results are about.
#[derive(Clone, Debug, Serialize)]
pub struct Subject {
    /// `measured` or `simulated`.
    pub kind: String,
    /// The corpus file.
    pub corpus: String,
    /// The reference that was transferred from.
    pub reference: Option<String>,
}

/// Median and quartiles over runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quartiles {
    /// Half of the runs reach this.
    pub median: f64,
    /// A quarter of the runs reaches this.
    pub q1: f64,
    /// Three quarters of the runs reach this.
    pub q3: f64,
}

impl Quartiles {
    /// Linear between the values next to a quantile; `None` of nothing.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        Some(Self {
            median: quantile(&sorted, 0.5)?,
            q1: quantile(&sorted, 0.25)?,
            q3: quantile(&sorted, 0.75)?,
        })
    }
}

/// Linear between the sorted values next to a quantile; `None` of nothing.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let at = q * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    Some(low + (high - low) * at.fract())
}

/// What the runs of a method reach for one target.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The method.
    pub method: &'static str,
    /// `time` or `power`.
    pub target: Target,
    /// Modes trained on in each run.
    pub modes: usize,
    /// How the modes were chosen.
    pub sampling: Sampling,
    /// The number of runs.
    pub runs: usize,
    /// Mean absolute percentage error on the held-out modes.
    pub mape: Quartiles,
    /// Share of the held-out modes that are predicted within 5 %, in percent.
    pub within_5_pct: Quartiles,
    /// The same within 10 %.
    pub within_10_pct: Quartiles,
    /// The same within 15 %.
    pub within_15_pct: Quartiles,
    /// The same within 20 %.
    pub within_20_pct: Quartiles,
    /// Root of the mean square error, in ms or mW.
    pub rmse: Quartiles,
    /// Mean absolute error, in ms or mW.
    pub mae: Quartiles,
    /// Wall-clock seconds of the training, of both targets together.
    pub seconds: Quartiles,
    /// Errors of the teacher of an exported network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teacher_mape: Option<Quartiles>,
    /// What distillation and rounding add: exported minus teacher, in points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added: Option<Quartiles>,
    /// For methods with a guard band, the median share of held-out modes within it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub coverage: Vec<Covered>,
}

/// The share of held-out modes within a guard band.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Covered {
    /// What the band promises.
    pub confidence: f64,
    /// What held-out modes show, as a median over runs.
    pub share: f64,
    /// Measured over predicted that the band allows, as a median over runs.
    pub ratio: f64,
}

/// One run of one method.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The method.
    pub method: &'static str,
    /// Modes trained on.
    pub modes: usize,
    /// How the modes were chosen.
    pub sampling: Sampling,
    /// The seed.
    pub seed: u64,
    /// Errors of the time.
    pub time: Option<Accuracy>,
    /// Errors of the power.
    pub power: Option<Accuracy>,
    /// Errors of the teacher of an exported network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teacher: Option<Errors>,
    /// How well the guard bands of an exported model hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub coverage: Vec<Coverage>,
    /// The length of an exported file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<usize>,
    /// Wall-clock time of the training.
    pub seconds: f64,
    /// Measured and predicted value of each held-out mode, for plots: µs, then mW.
    #[serde(skip)]
    pub pairs: [Vec<(f64, f64)>; 2],
}

/// What all runs reach.
#[derive(Clone, Debug, Serialize)]
pub struct Evaluation {
    /// What it is about.
    #[serde(flatten)]
    pub subject: Subject,
    /// One row for each method, target, number of modes and way to choose them.
    pub results: Vec<Row>,
    /// Every run.
    pub runs: Vec<Run>,
}

/// Compares methods by the errors of their predictions. Methods that predict nothing are
/// left out.
pub fn evaluate(
    comparison: &Comparison<'_>,
    progress: &ProgressBar,
) -> Result<Evaluation, LabError> {
    let runs = comparison.run(progress, |learned| Ok(run(learned)))?;
    let runs: Vec<Run> = runs.into_iter().flatten().collect();
    let mut groups: BTreeMap<(Sampling, usize, usize, Target), Vec<&Run>> = BTreeMap::new();
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
    Ok(Evaluation {
        subject: comparison.subject(),
        results: rows.collect(),
        runs,
    })
}

fn run(learned: &Learned<'_>) -> Option<Run> {
    let held_out = &learned.split.held_out;
    let predictions = learned.trained.predictions()?;
    let model = learned.trained.model();
    let accuracy = |target| predictions.accuracy(target, held_out);
    let pairs = |target: Target| {
        let pair = |mode: &Known| {
            let predicted = target.predicted(predictions)?[mode.id];
            Some((target.measured(mode)?, predicted))
        };
        held_out.iter().filter_map(pair).collect()
    };
    Some(Run {
        method: learned.method.name(),
        modes: learned.split.used.len(),
        sampling: learned.sampling,
        seed: learned.seed,
        time: accuracy(Target::Time),
        power: accuracy(Target::Power),
        teacher: model.map(|model| model.teacher.errors(held_out)),
        coverage: model.map_or(Vec::new(), |model| coverage(model, held_out)),
        bytes: model.map(|model| model.bytes.len()),
        seconds: learned.seconds,
        pairs: Target::ALL.map(pairs),
    })
}

impl Run {
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

/// The runs of one method on one number of modes.
fn row(target: Target, runs: &[&Run]) -> Option<Row> {
    let accuracies = runs.iter().filter_map(|run| run.accuracy(target));
    let of = |measure: fn(&Accuracy) -> f64| Quartiles::of(accuracies.clone().map(measure));
    let teacher = runs.iter().filter_map(|run| run.teacher_mape(target));
    let added = runs
        .iter()
        .filter_map(|run| Some(run.accuracy(target)?.mape - run.teacher_mape(target)?));
    let first = runs.first()?;
    Some(Row {
        method: first.method,
        target,
        modes: first.modes,
        sampling: first.sampling,
        runs: runs.len(),
        mape: of(|accuracy| accuracy.mape)?,
        within_5_pct: of(|accuracy| accuracy.within_5_pct)?,
        within_10_pct: of(|accuracy| accuracy.within_10_pct)?,
        within_15_pct: of(|accuracy| accuracy.within_15_pct)?,
        within_20_pct: of(|accuracy| accuracy.within_20_pct)?,
        rmse: of(|accuracy| accuracy.rmse)?,
        mae: of(|accuracy| accuracy.mae)?,
        seconds: Quartiles::of(runs.iter().map(|run| run.seconds))?,
        teacher_mape: Quartiles::of(teacher),
        added: Quartiles::of(added),
        coverage: covered(target, runs),
    })
}

fn covered(target: Target, runs: &[&Run]) -> Vec<Covered> {
    let knots = runs.first().map_or(0, |run| run.coverage.len());
    let of = |at: usize| {
        let shares = runs.iter().filter_map(|run| match target {
            Target::Time => run.coverage[at].time,
            Target::Power => run.coverage[at].power,
        });
        let ratios = runs.iter().filter_map(|run| match target {
            Target::Time => Some(run.coverage[at].time_ratio),
            Target::Power => run.coverage[at].power_ratio,
        });
        Some(Covered {
            confidence: runs.first()?.coverage[at].confidence,
            share: Quartiles::of(shares)?.median,
            ratio: Quartiles::of(ratios)?.median,
        })
    };
    (0..knots).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_their_neighbours() {
        let quartiles = Quartiles::of([4.0, 1.0, 3.0, 2.0]);
        let expected = Quartiles {
            median: 2.5,
            q1: 1.75,
            q3: 3.25,
        };
        assert_eq!(quartiles, Some(expected));
        assert_eq!(Quartiles::of([]), None);
    }
}
