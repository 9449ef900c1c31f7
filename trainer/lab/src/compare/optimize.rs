//! Compares methods by their choices: under each power limit, the measured time and power of the
//! chosen mode.

use indicatif::ProgressBar;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, LogNormal};
use serde::Serialize;
use wattgate_runtime::Confidence;

use crate::compare::CompareError;
use crate::compare::evaluate::{Comparison, Quartiles, Subject, TrainedRun, quantile};
use crate::methods::{Ask, MethodError, Trained};
use wattgate_trainer::fit::REPEAT;
use wattgate_trainer::plan::{Sampling, Split};
use wattgate_trainer::read::Corpus;
use wattgate_trainer::read::{Known, profiled};

/// ChaCha stream of the repeats; trainings use others.
const REPEAT_STREAM: u64 = 5;

/// Number of automatic limits.
const AUTOMATIC: usize = 34;

/// Quantiles of the measured powers that are the lowest and the highest automatic limit.
const QUANTILES: [f64; 2] = [0.05, 0.95];

/// The power limits of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limits {
    /// 34 equally spaced limits from the 5 % to the 95 % quantile of the measured powers.
    Automatic,
    /// Lowest limit, highest limit and step, in mW.
    Range([f64; 3]),
}

impl Limits {
    /// The limits in mW, from the measured powers.
    pub fn resolve(self, powers: impl Iterator<Item = f64>) -> Vec<f64> {
        match self {
            Self::Automatic => {
                let mut sorted: Vec<f64> = powers.collect();
                sorted.sort_unstable_by(f64::total_cmp);
                let [Some(low), Some(high)] = QUANTILES.map(|q| quantile(&sorted, q)) else {
                    return Vec::new();
                };
                let step = (high - low) / (AUTOMATIC - 1) as f64;
                (0..AUTOMATIC).map(|i| low + step * i as f64).collect()
            }
            Self::Range([low, high, step]) => {
                let steps = ((high - low) / step * (1.0 + f64::EPSILON)).floor() as usize;
                (0..=steps).map(|i| low + step * i as f64).collect()
            }
        }
    }
}

/// Options of [`optimize`].
#[derive(Clone, Copy, Debug)]
pub struct Choosing {
    /// The limits.
    pub limits: Limits,
    /// Confidence of the guard band, for methods that have one.
    pub confidence: Confidence,
    /// Maximum number of modes to measure under each limit. If it exceeds one, the method chooses
    /// the fastest measured mode within the limit, training modes included.
    pub tries: usize,
}

/// The choice under one limit.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Solution {
    /// The limit, in mW.
    pub limit_mw: f64,
    /// The lowest measured time of any mode within the limit, in ms.
    pub best_time_ms: f64,
    /// The chosen mode: cores, CPU, GPU and EMC clock in kHz; `None` if the method chose none.
    pub mode: Option<[u32; 4]>,
    /// Measured time of the chosen mode, in ms; that of a repeat for a mode of the training.
    pub time_ms: Option<f64>,
    /// Its measured power in mW, likewise.
    pub power_mw: Option<f64>,
    /// Number of modes measured under this limit.
    pub tries: usize,
    /// The highest measured power under this limit, of the chosen mode and of all tries, in mW.
    pub highest_mw: Option<f64>,
}

impl Solution {
    fn penalty_pct(&self) -> Option<f64> {
        Some(100.0 * (self.time_ms? / self.best_time_ms - 1.0))
    }

    /// Power above the limit, in mW, of the chosen mode or of a tried one.
    fn excess(&self) -> f64 {
        self.highest_mw
            .map_or(0.0, |power| (power - self.limit_mw).max(0.0))
    }
}

/// The runs of one method, aggregated; each number is a median over runs.
#[derive(Clone, Debug, Serialize)]
pub struct OptimizationRow {
    /// The method.
    pub method: &'static str,
    /// Number of training modes.
    pub modes: usize,
    /// How the training modes were chosen.
    pub sampling: Sampling,
    /// The confidence of the guard band; `None` for a method without one.
    pub confidence: Option<f64>,
    /// Number of modes that may be measured under each limit.
    pub tries: usize,
    /// The number of runs.
    pub runs: usize,
    /// Median over limits of the time above the lowest time within the limit, in percent.
    pub time_penalty_pct: f64,
    /// Mean over limits of the power above the limit, in W.
    pub area_w: f64,
    /// Percentage of limits that the choice or a try exceeds.
    pub over_pct: f64,
    /// Percentage of limits that are exceeded by more than 2 %.
    pub over_2pct_pct: f64,
    /// Percentage of limits that are exceeded by more than 1 W.
    pub over_1w_pct: f64,
    /// Percentage of limits under which the method chose no mode although one would fit.
    pub unserved_pct: f64,
    /// Quartiles of the time penalty over runs.
    pub time_penalty_quartiles: Quartiles,
    /// The choices of the first run.
    pub solutions: Vec<Solution>,
}

/// The result of [`optimize`].
#[derive(Clone, Debug, Serialize)]
pub struct Optimization {
    /// The corpus and reference.
    #[serde(flatten)]
    pub subject: Subject,
    /// The limits, in mW.
    pub limits_mw: Vec<f64>,
    /// One row per method, number of training modes and sampling.
    pub results: Vec<OptimizationRow>,
    /// Measured power in mW and time in ms of every mode of the corpus, for plots.
    #[serde(skip)]
    pub measured: Vec<(f64, f64)>,
}

/// The choices of one trained method.
pub(super) struct LimitRun {
    method: &'static str,
    modes: usize,
    sampling: Sampling,
    guarded: bool,
    solutions: Vec<Solution>,
}

/// Chooses no mode.
struct NoChoice;

impl Trained for NoChoice {
    fn propose(&self, _: &Ask<'_>, _: &[Known]) -> Result<Option<Known>, MethodError> {
        Ok(None)
    }
}

/// What is asked of the methods of a comparison.
pub(super) struct Asked<'a> {
    choosing: &'a Choosing,
    limits_mw: Vec<f64>,
    /// Measured power in mW and time in ms of every mode of the corpus.
    measured: Vec<(f64, f64)>,
}

impl<'a> Asked<'a> {
    pub fn from_corpus(corpus: &Corpus, choosing: &'a Choosing) -> Result<Self, CompareError> {
        let all = profiled(corpus).into_iter();
        let measured = all.filter_map(|mode| Some((mode.power_mw?, mode.time_us / 1e3)));
        let measured: Vec<(f64, f64)> = measured.collect();
        let limits_mw = choosing
            .limits
            .resolve(measured.iter().map(|(power, _)| *power));
        match limits_mw.is_empty() {
            true => Err(MethodError::NoPower.into()),
            false => Ok(Self {
                choosing,
                limits_mw,
                measured,
            }),
        }
    }

    pub fn choices(&self, learned: &TrainedRun<'_>) -> Result<LimitRun, CompareError> {
        self.choices_of(learned, &*learned.trained)
    }

    /// Like [`Asked::choices`]. A model whose few modes do not support the confidence chooses no mode, so that all
    /// limits are unserved.
    pub fn choices_if_supported(&self, learned: &TrainedRun<'_>) -> Result<LimitRun, CompareError> {
        match self.choices(learned) {
            Err(CompareError::Method(MethodError::Guard(_))) => self.choices_of(learned, &NoChoice),
            choices => choices,
        }
    }

    fn choices_of(
        &self,
        learned: &TrainedRun<'_>,
        trained: &dyn Trained,
    ) -> Result<LimitRun, CompareError> {
        let Split {
            used,
            unused,
            held_out,
        } = &learned.split;
        let modes = [&repeated(used, learned.seed)[..], unused, held_out].concat();
        let offered: Vec<Known> = modes
            .into_iter()
            .filter(|mode| mode.power_mw.is_some())
            .collect();
        let mut solutions = Vec::new();
        for &limit_mw in &self.limits_mw {
            let ask = Ask {
                limit_mw,
                confidence: self.choosing.confidence,
                offered: &offered,
                used,
                tries: self.choosing.tries,
            };
            solutions.extend(solve(trained, &ask)?);
        }
        Ok(LimitRun {
            method: learned.method.name(),
            modes: used.len(),
            sampling: learned.sampling,
            guarded: learned.trained.model().is_some(),
            solutions,
        })
    }

    /// Aggregates the runs of a comparison.
    pub fn optimization(self, comparison: &Comparison<'_>, runs: &[LimitRun]) -> Optimization {
        let confidence = f64::from(self.choosing.confidence.per_ten_thousand()) / 1e4;
        let results = runs
            .chunks(comparison.runs as usize)
            .filter_map(|runs| row(runs, confidence, self.choosing.tries));
        Optimization {
            subject: comparison.subject(),
            limits_mw: self.limits_mw,
            results: results.collect(),
            measured: self.measured,
        }
    }
}

/// Training modes as a second run would measure them: each value times a lognormal factor with the deviation
/// of repeats. They score a choice, so that no mode is scored by the row that was trained on.
pub fn repeated(used: &[Known], seed: u64) -> Vec<Known> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(REPEAT_STREAM);
    let noise = LogNormal::new(0.0, REPEAT).expect("a deviation");
    let again = |mode: &Known| Known {
        time_us: mode.time_us * noise.sample(&mut random),
        power_mw: mode.power_mw.map(|power| power * noise.sample(&mut random)),
        ..*mode
    };
    used.iter().map(again).collect()
}

/// Compares methods by their choices under power limits.
pub fn optimize(
    comparison: &Comparison<'_>,
    choosing: &Choosing,
    progress: &ProgressBar,
) -> Result<Optimization, CompareError> {
    let asked = Asked::from_corpus(comparison.corpus, choosing)?;
    let runs = comparison.run(progress, |learned| asked.choices(learned))?;
    Ok(asked.optimization(comparison, &runs))
}

/// Lets a method choose under one limit; `None` if no measured mode fits the limit.
fn solve(trained: &dyn Trained, ask: &Ask<'_>) -> Result<Option<Solution>, MethodError> {
    let within = |mode: &&Known| mode.power_mw.is_some_and(|power| power <= ask.limit_mw);
    let by_time = |a: &&Known, b: &&Known| a.time_us.total_cmp(&b.time_us);
    let Some(best) = ask.offered.iter().filter(within).min_by(by_time) else {
        return Ok(None);
    };
    let mut tried: Vec<Known> = Vec::new();
    while tried.len() < ask.tries {
        match trained.propose(ask, &tried)? {
            Some(mode) => tried.push(mode),
            None => break,
        }
    }
    // With a single try the choice is final; with more the method may discard what it measured.
    let kept = if ask.tries == 1 {
        tried.first()
    } else {
        tried.iter().chain(ask.used).filter(within).min_by(by_time)
    };
    let kept = kept.and_then(|kept| ask.offered.iter().find(|mode| mode.id == kept.id));
    let highest = tried.iter().chain(kept).filter_map(|mode| mode.power_mw);
    Ok(Some(Solution {
        limit_mw: ask.limit_mw,
        best_time_ms: best.time_us / 1e3,
        mode: kept.map(|mode| mode.knobs),
        time_ms: kept.map(|mode| mode.time_us / 1e3),
        power_mw: kept.and_then(|mode| mode.power_mw),
        highest_mw: highest.max_by(f64::total_cmp),
        tries: tried.len(),
    }))
}

fn row(runs: &[LimitRun], confidence: f64, tries: usize) -> Option<OptimizationRow> {
    let first = runs.first()?;
    let median = |figure: &dyn Fn(&[Solution]) -> Option<f64>| {
        Quartiles::from_values(runs.iter().filter_map(|run| figure(&run.solutions)))
    };
    let mean = |figure: &dyn Fn(&Solution) -> f64| {
        let mean_of_run =
            |all: &[Solution]| Some(all.iter().map(figure).sum::<f64>() / all.len() as f64);
        Some(median(&mean_of_run)?.median)
    };
    let share = |holds: &dyn Fn(&Solution) -> bool| mean(&|s| if holds(s) { 100.0 } else { 0.0 });
    let penalty = median(&|all| {
        let penalties = all.iter().filter_map(Solution::penalty_pct);
        Some(Quartiles::from_values(penalties)?.median)
    })?;
    Some(OptimizationRow {
        method: first.method,
        modes: first.modes,
        sampling: first.sampling,
        confidence: first.guarded.then_some(confidence),
        tries,
        runs: runs.len(),
        time_penalty_pct: penalty.median,
        area_w: mean(&|solution| solution.excess() / 1e3)?,
        over_pct: share(&|solution| solution.excess() > 0.0)?,
        over_2pct_pct: share(&|solution| solution.excess() > 0.02 * solution.limit_mw)?,
        over_1w_pct: share(&|solution| solution.excess() > 1e3)?,
        unserved_pct: share(&|solution| solution.mode.is_none())?,
        time_penalty_quartiles: penalty,
        solutions: first.solutions.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_reach_both_ends() {
        let powers = || (0..=100).map(f64::from);
        let limits = Limits::Automatic.resolve(powers());
        assert_eq!(limits.len(), 34);
        assert!((limits[0] - 5.0).abs() < 1e-9 && (limits[33] - 95.0).abs() < 1e-9);
        let limits = Limits::Range([3000.0, 4000.0, 100.0]).resolve(powers());
        assert_eq!((limits.len(), limits[10]), (11, 4000.0));
        assert!(Limits::Automatic.resolve([].into_iter()).is_empty());
    }
}
