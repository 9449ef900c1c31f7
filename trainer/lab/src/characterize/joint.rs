//! One model of time and power over modes and feedings.
//!
//! The feeding that was profiled in the most modes has teachers of its own; the teachers of the others
//! start from its hyperparameters, so a few modes of them are enough. Between two feedings that differ in
//! their minibatch alone, time and energy of a step are linear in the size: a step has a part that does not
//! depend on the size and one that is proportional to it. Between two that differ in their workers alone,
//! both are linear in 1/workers: workers share the loading, and each contends with the others. Nothing is
//! predicted beyond the profiled sizes and workers.

use std::cmp::Reverse;
use std::sync::Arc;

use thiserror::Error;
use wattgate_runtime::grid::Grid;

use wattgate_trainer::fit::Blend;
use wattgate_trainer::fit::Priors;
use wattgate_trainer::fit::SingularCovariance;
use wattgate_trainer::fit::Teachers;
use wattgate_trainer::read::Corpus;
use wattgate_trainer::read::Feeding;
use wattgate_trainer::read::{Known, profiled};

/// Least number of modes with time and power that a feeding needs.
pub const LEAST_MODES_OF_FEEDING: usize = 4;

/// Why a joint model cannot be fitted.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum JointError {
    /// No feeding has enough modes.
    #[error("no feeding has {LEAST_MODES_OF_FEEDING} modes with a time and a power; profile more")]
    TooFewModes,
    /// The covariance matrix of a Gaussian process is singular.
    #[error("{0}")]
    SingularCovariance(#[from] SingularCovariance),
}

/// A prediction of a step: medians, and standard deviations of their logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// Time of a step in µs.
    pub time_us: f64,
    /// Power in mW.
    pub power_mw: f64,
    /// Standard deviation of ln time.
    pub time_sd: f64,
    /// Standard deviation of ln power.
    pub power_sd: f64,
}

/// A profiled feeding.
#[derive(Clone, Debug)]
pub struct Fed {
    /// The feeding.
    pub feeding: Feeding,
    /// Modes with time and power.
    pub used: Vec<Known>,
    teachers: Arc<Teachers>,
}

/// Models of all feedings of a corpus.
#[derive(Clone, Debug)]
pub struct Joint {
    /// The modes of all feedings.
    pub grid: Grid,
    /// The profiled feedings: later epochs before first ones, then that with the most modes first.
    pub fed: Vec<Fed>,
    /// Feedings with fewer than [`LEAST_MODES_OF_FEEDING`] modes.
    pub skipped: Vec<Feeding>,
}

impl Joint {
    /// Fits teachers to each feeding of a corpus.
    pub fn fit(corpora: &[Corpus], seed: u64) -> Result<Self, JointError> {
        let mut all: Vec<(Feeding, Vec<Known>)> = corpora
            .iter()
            .map(|corpus| {
                let mut known = profiled(corpus);
                known.retain(|mode| mode.power_mw.is_some());
                (corpus.feeding.clone(), known)
            })
            .collect();
        // Stable, so the first in the file comes first. A training has many later epochs and one first.
        all.sort_by_key(|(feeding, known)| (feeding.is_first_epoch(), Reverse(known.len())));
        let (all, skipped): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|(_, known)| known.len() >= LEAST_MODES_OF_FEEDING);
        let grid = corpora[0].grid.clone();
        let blend = Blend::any_board(Priors::shipped());
        let mut fed: Vec<Fed> = Vec::new();
        for (feeding, used) in all {
            let reference = fed.first().map(|first| Arc::clone(&first.teachers));
            let teachers = Teachers::fit_alone(&grid, &used, reference.as_slice(), &blend, seed)?;
            let teachers = Arc::new(teachers);
            fed.push(Fed {
                feeding,
                used,
                teachers,
            });
        }
        match fed.is_empty() {
            true => Err(JointError::TooFewModes),
            false => Ok(Self {
                grid,
                fed,
                skipped: skipped.into_iter().map(|(feeding, _)| feeding).collect(),
            }),
        }
    }

    /// Whether a feeding was profiled.
    pub fn is_profiled(&self, feeding: &Feeding) -> bool {
        self.fed.iter().any(|fed| fed.feeding == *feeding)
    }

    /// Predicts modes with every profiled feeding.
    pub fn on(&self, modes: &[[u32; 4]]) -> OnModes<'_> {
        OnModes {
            joint: self,
            profiled: self.fed.iter().map(|fed| fed.predict(modes)).collect(),
        }
    }

    /// Whether a feeding was profiled or lies between two that were.
    pub fn covers(&self, feeding: &Feeding) -> bool {
        self.is_profiled(feeding) || self.between(feeding).is_some()
    }

    /// The nearest profiled feedings on both sides of one, and its place between them, 0 … 1.
    fn between(&self, feeding: &Feeding) -> Option<(usize, usize, f64)> {
        let size = |fed: &Feeding| fed.minibatch.map(f64::from);
        // Without workers the main process loads: there is nothing in between.
        let workers = |fed: &Feeding| {
            let workers = fed.workers.filter(|workers| *workers > 0)?;
            Some(1.0 / f64::from(workers))
        };
        let same_but = |fed: &Feeding, size: bool| match size {
            true => Feeding {
                minibatch: feeding.minibatch,
                ..fed.clone()
            },
            false => Feeding {
                workers: feeding.workers,
                ..fed.clone()
            },
        };
        for is_size in [true, false] {
            let place = |fed: &Feeding| if is_size { size(fed) } else { workers(fed) };
            let Some(at) = place(feeding) else { continue };
            let on_line = || {
                let line = self.fed.iter().enumerate();
                let line = line.filter(|(_, fed)| same_but(&fed.feeding, is_size) == *feeding);
                line.filter_map(|(index, fed)| Some((place(&fed.feeding)?, index)))
            };
            let by = |a: &(f64, usize), b: &(f64, usize)| a.0.total_cmp(&b.0);
            let low = on_line().filter(|(place, _)| *place < at).max_by(by);
            let high = on_line().filter(|(place, _)| *place > at).min_by(by);
            if let (Some((from, low)), Some((to, high))) = (low, high) {
                return Some((low, high, (at - from) / (to - from)));
            }
        }
        None
    }
}

/// Predictions of some modes.
pub struct OnModes<'a> {
    joint: &'a Joint,
    /// By profiled feeding, then by mode.
    profiled: Vec<Vec<Predicted>>,
}

impl OnModes<'_> {
    /// The predictions with a feeding that was profiled, or that lies between two; `None` for another.
    pub fn with(&self, feeding: &Feeding) -> Option<Vec<Predicted>> {
        let fed = self.joint.fed.iter();
        if let Some(at) = fed.clone().position(|fed| fed.feeding == *feeding) {
            return Some(self.profiled[at].clone());
        }
        let (low, high, part) = self.joint.between(feeding)?;
        let pairs = self.profiled[low].iter().zip(&self.profiled[high]);
        let mix = |(low, high): (&Predicted, &Predicted)| {
            let blend = |low: f64, high: f64| low + part * (high - low);
            let time_us = blend(low.time_us, high.time_us);
            let energy = blend(low.time_us * low.power_mw, high.time_us * high.power_mw);
            Predicted {
                time_us,
                power_mw: energy / time_us,
                time_sd: low.time_sd.max(high.time_sd),
                power_sd: low.power_sd.max(high.power_sd),
            }
        };
        Some(pairs.map(mix).collect())
    }
}

impl Fed {
    fn predict(&self, modes: &[[u32; 4]]) -> Vec<Predicted> {
        let expected = self.teachers.predict(modes);
        let pairs = expected[0].iter().zip(&expected[1]);
        pairs
            .map(|(time, power)| Predicted {
                time_us: time.median.exp(),
                power_mw: power.median.exp(),
                time_sd: time.sd,
                power_sd: power.sd,
            })
            .collect()
    }
}
