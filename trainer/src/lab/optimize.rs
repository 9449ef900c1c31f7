//! What methods make of power limits: for each limit the mode that a method chooses, and
//! what was measured in it.

use indicatif::ProgressBar;
use serde::Serialize;
use wattgate_runtime::Confidence;

use crate::corpus::modes::{Known, profiled};
use crate::lab::LabError;
use crate::lab::evaluate::{Comparison, Quartiles, Subject, quantile};
use crate::learn::split::Sampling;
use crate::methods::{Ask, MethodError, Trained};

/// Limits where they are taken from the measured powers.
const AUTOMATIC: usize = 34;

/// Quantiles of the measured powers between which automatic limits lie.
const QUANTILES: [f64; 2] = [0.05, 0.95];

/// The power limits to choose under.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limits {
    /// 34 at equal distances from the 5 % to the 95 % quantile of the measured powers.
    Automatic,
    /// From the first to the second at a distance of the third, in mW.
    Range([f64; 3]),
}

impl Limits {
    fn of(self, powers: impl Iterator<Item = f64>) -> Vec<f64> {
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

/// How to choose.
#[derive(Clone, Copy, Debug)]
pub struct Choosing {
    /// The limits.
    pub limits: Limits,
    /// The probability with which a limit shall hold, for methods with a guard band.
    pub confidence: Confidence,
    /// Modes that may be measured under each limit before one is kept. With more than one,
    /// the fastest within the limit is kept of these and of the modes trained on.
    pub tries: usize,
}

/// What came of one limit.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Solution {
    /// The limit, in mW.
    pub limit_mw: f64,
    /// The least time that was measured within the limit, in ms.
    pub best_time_ms: f64,
    /// The mode that is kept: cores, CPU, GPU and EMC clock in kHz; `None` where none is.
    pub mode: Option<[u32; 4]>,
    /// Its measured time, in ms.
    pub time_ms: Option<f64>,
    /// Its measured power, in mW.
    pub power_mw: Option<f64>,
    /// Modes that were measured for it.
    pub tries: usize,
}

impl Solution {
    fn penalty_pct(&self) -> Option<f64> {
        Some(100.0 * (self.time_ms? / self.best_time_ms - 1.0))
    }

    /// In mW.
    fn excess(&self) -> f64 {
        self.power_mw
            .map_or(0.0, |power| (power - self.limit_mw).max(0.0))
    }
}

/// What the runs of a method reach, each number as a median over runs.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The method.
    pub method: &'static str,
    /// Modes trained on.
    pub modes: usize,
    /// How they were chosen.
    pub sampling: Sampling,
    /// The confidence of the guard band; `None` for a method without one.
    pub confidence: Option<f64>,
    /// Modes that may be measured under each limit.
    pub tries: usize,
    /// The number of runs.
    pub runs: usize,
    /// Median over limits of the time above the least time within the limit, in percent.
    pub time_penalty_pct: f64,
    /// Mean over limits of the power above the limit, in W.
    pub area_w: f64,
    /// Share of limits that are exceeded.
    pub over_pct: f64,
    /// Share of limits that are exceeded by more than 2 %.
    pub over_2pct_pct: f64,
    /// Share of limits that are exceeded by more than 1 W.
    pub over_1w_pct: f64,
    /// Share of limits for which no mode is kept although one would fit.
    pub unserved_pct: f64,
    /// Quartiles of the penalty over the runs.
    pub time_penalty_quartiles: Quartiles,
    /// What came of each limit in the first run.
    pub solutions: Vec<Solution>,
}

/// What all runs reach.
#[derive(Clone, Debug, Serialize)]
pub struct Optimization {
    /// What it is about.
    #[serde(flatten)]
    pub subject: Subject,
    /// The limits, in mW.
    pub limits_mw: Vec<f64>,
    /// One row for each method, number of modes and way to choose them.
    pub results: Vec<Row>,
    /// Measured power in mW and time in ms of every mode of the corpus, for plots.
    #[serde(skip)]
    pub measured: Vec<(f64, f64)>,
}

struct Run {
    method: &'static str,
    modes: usize,
    sampling: Sampling,
    guarded: bool,
    solutions: Vec<Solution>,
}

/// Compares methods by what they choose.
pub fn optimize(
    comparison: &Comparison<'_>,
    choosing: &Choosing,
    progress: &ProgressBar,
) -> Result<Optimization, LabError> {
    let measured = || {
        let all = profiled(comparison.corpus).into_iter();
        all.filter_map(|mode| Some((mode.power_mw?, mode.time_us / 1e3)))
    };
    let limits_mw = choosing.limits.of(measured().map(|(power, _)| power));
    if limits_mw.is_empty() {
        return Err(MethodError::NoPower.into());
    }
    let runs = comparison.run(progress, |learned| {
        let modes = [&learned.split.used[..], &learned.split.held_out].concat();
        let offered: Vec<Known> = modes
            .into_iter()
            .filter(|mode| mode.power_mw.is_some())
            .collect();
        let mut solutions = Vec::new();
        for &limit_mw in &limits_mw {
            let ask = Ask {
                limit_mw,
                confidence: choosing.confidence,
                offered: &offered,
                used: &learned.split.used,
                tries: choosing.tries,
            };
            solutions.extend(solve(&*learned.trained, &ask)?);
        }
        Ok(Run {
            method: learned.method.name(),
            modes: learned.split.used.len(),
            sampling: learned.sampling,
            guarded: learned.trained.model().is_some(),
            solutions,
        })
    })?;
    let confidence = f64::from(choosing.confidence.per_ten_thousand()) / 1e4;
    let results = runs
        .chunks(comparison.runs as usize)
        .filter_map(|runs| row(runs, confidence, choosing.tries));
    Ok(Optimization {
        subject: comparison.subject(),
        limits_mw,
        results: results.collect(),
        measured: measured().collect(),
    })
}

/// What a method makes of one limit; `None` where no mode at all fits it.
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
    // Who may try one mode only keeps it unseen; others know what they measured.
    let kept = if ask.tries == 1 {
        tried.first()
    } else {
        tried.iter().chain(ask.used).filter(within).min_by(by_time)
    };
    Ok(Some(Solution {
        limit_mw: ask.limit_mw,
        best_time_ms: best.time_us / 1e3,
        mode: kept.map(|mode| mode.knobs),
        time_ms: kept.map(|mode| mode.time_us / 1e3),
        power_mw: kept.and_then(|mode| mode.power_mw),
        tries: tried.len(),
    }))
}

fn row(runs: &[Run], confidence: f64, tries: usize) -> Option<Row> {
    let first = runs.first()?;
    let median = |of: &dyn Fn(&[Solution]) -> Option<f64>| {
        Quartiles::of(runs.iter().filter_map(|run| of(&run.solutions)))
    };
    let mean = |of: &dyn Fn(&Solution) -> f64| {
        let of = |all: &[Solution]| Some(all.iter().map(of).sum::<f64>() / all.len() as f64);
        Some(median(&of)?.median)
    };
    let share = |of: &dyn Fn(&Solution) -> bool| mean(&|s| if of(s) { 100.0 } else { 0.0 });
    let penalty = median(&|all| {
        let penalties = all.iter().filter_map(Solution::penalty_pct);
        Some(Quartiles::of(penalties)?.median)
    })?;
    Some(Row {
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
        let limits = Limits::Automatic.of(powers());
        assert_eq!(limits.len(), 34);
        assert!((limits[0] - 5.0).abs() < 1e-9 && (limits[33] - 95.0).abs() < 1e-9);
        let limits = Limits::Range([3000.0, 4000.0, 100.0]).of(powers());
        assert_eq!((limits.len(), limits[10]), (11, 4000.0));
        assert!(Limits::Automatic.of([].into_iter()).is_empty());
    }
}
