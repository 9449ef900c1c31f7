//! The teacher predicts log time and log power, each with a [`Mixture`] of Gaussian processes.
//!
//! The two form a joint model, p(time) · p(power | time): power is learned from measured times and
//! predicted from the distribution of the predicted time.
//!
//! A transfer adds a process around what references state of the same modes. Knobs are fractions of the board's
//! highest value, which maps the axes of one board to those of another.

use std::sync::Arc;

use indicatif::ProgressBar;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use wattgate_runtime::grid::Grid;

use crate::corpus::modes::Known;
use crate::learn::around::{Around, Statement, States};
use crate::learn::blend::Blend;
use crate::learn::expected::{Expected, LeftOut};
use crate::learn::gp::{Process, SingularCovariance};
use crate::learn::mean::{Place, Scales};
use crate::learn::mixture::{FOLDS, Mixture, PlacesOfFold};
use crate::learn::predictions::Target;
use crate::learn::priors::Priors;

/// Maximum number of training modes.
pub const MAX_TRAINING_MODES: usize = 2_000;

/// Progress steps of a fit of the processes of one target, on all modes or on those of all folds but one.
const OF_FIT: u64 = 100;

/// Progress steps of teachers: of two targets, a fit on all modes and one for each fold.
pub const TEACHER_PROGRESS: u64 = 2 * (1 + FOLDS as u64) * OF_FIT;

/// Hyperparameters of the physical processes, of time and of power.
pub type Hyperparameters = [Option<Vec<f64>>; 2];

/// The teachers of one workload on one board.
#[derive(Clone, Debug)]
pub struct Teachers {
    scales: Scales,
    time: Mixture,
    power: Option<Mixture>,
    /// The mean ln time of the training modes.
    centre: f64,
    /// Indices of the training modes with a power.
    powered: Vec<usize>,
    left_out: Vec<LeftOut>,
    around: Around<Teachers>,
}

impl Teachers {
    /// Fits teachers to the first [`MAX_TRAINING_MODES`] modes, which should be in random order.
    /// Fits power if at least one mode has it. Advances `progress` by [`TEACHER_PROGRESS`].
    pub fn fit(
        grid: &Grid,
        used: &[Known],
        references: &[Arc<Self>],
        blend: &Blend<'_>,
        seed: u64,
        progress: &ProgressBar,
    ) -> Result<Self, SingularCovariance> {
        let mut teachers = Self::fit_alone(grid, used, references, blend, seed)?;
        progress.inc(2 * OF_FIT);
        teachers.cross_validate(used, blend, seed, progress)?;
        Ok(teachers)
    }

    /// Like [`Teachers::fit`], but does not leave training modes out: [`Teachers::left_out`] is empty.
    pub fn fit_alone(
        grid: &Grid,
        used: &[Known],
        references: &[Arc<Self>],
        blend: &Blend<'_>,
        seed: u64,
    ) -> Result<Self, SingularCovariance> {
        let random = ChaCha8Rng::seed_from_u64(seed);
        Self::learn(grid, used, references, blend, Some(&random))
    }

    /// Like [`Teachers::fit`], but uses MAP estimates of the hyperparameters and no reference.
    pub fn fit_map(
        grid: &Grid,
        used: &[Known],
        priors: &Priors,
    ) -> Result<Self, SingularCovariance> {
        Self::learn(grid, used, &[], &Blend::any_board(priors), None)
    }

    fn learn(
        grid: &Grid,
        used: &[Known],
        references: &[Arc<Self>],
        blend: &Blend<'_>,
        random: Option<&ChaCha8Rng>,
    ) -> Result<Self, SingularCovariance> {
        let scales = Scales::from_grid(grid);
        let training = Training::from_modes(used);
        let mut around = Around::new(references, &scales, &training.knobs);
        training.weigh(&mut around, &scales, blend, |_| true)?;
        let process = |target: Target, places: &[Place]| {
            let learned = around.hyperparameters(target);
            let processes = blend.processes(target, places.len(), learned.as_deref());
            let logs = training.logs(target);
            Mixture::fit(&processes, places, &logs, random)
        };
        let places = around.places_of_training(&scales, &training.knobs);
        let time = process(Target::Time, &places)?;
        let power = match training.powered.len() {
            0 => None,
            _ => Some(process(Target::Power, &training.with_times(&places))?),
        };
        let Training {
            centre, powered, ..
        } = training;
        Ok(Self {
            scales,
            time,
            power,
            centre,
            powered,
            left_out: Vec::new(),
            around,
        })
    }

    /// The teacher of a target; `None` for power if it was not fitted.
    pub fn for_target(&self, target: Target) -> Option<&Mixture> {
        match target {
            Target::Time => Some(&self.time),
            Target::Power => self.power.as_ref(),
        }
    }

    /// Predicts ln(time in µs), then ln(power in mW) if it was fitted: one list per target, in the
    /// order of `modes`. Power is predicted from the predicted time and its spread.
    pub fn predict(&self, modes: &[[u32; 4]]) -> Vec<Vec<Expected>> {
        let places = self.around.places(&self.scales, modes);
        let time = self.time.predict(&places);
        let power = self.power.as_ref().map(|teacher| {
            let pairs = places.into_iter().zip(&time);
            let places: Vec<Place> = pairs
                .map(|(place, time)| self.before(place, time))
                .collect();
            teacher.predict(&places)
        });
        [Some(time), power].into_iter().flatten().collect()
    }

    /// For each training mode, in the order of the fit: the errors of teachers that were trained without
    /// it.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// Cross-validation: [`FOLDS`] times all processes and their hyperparameters are learned again
    /// without a part of the modes, and several references are weighed again. Where the blend asks for stacking, the
    /// result decides on the weights of the processes. The power of a mode is predicted from its predicted time.
    fn cross_validate(
        &mut self,
        used: &[Known],
        blend: &Blend<'_>,
        seed: u64,
        progress: &ProgressBar,
    ) -> Result<(), SingularCovariance> {
        let fitted = || progress.inc(OF_FIT);
        let stacking = Target::ALL.map(|target| {
            let is_transfer = self.around.hyperparameters(target).is_some();
            blend.stacking(is_transfer)
        });
        let training = Training::from_modes(used);
        let of_folds = self.places_of_folds(&training, blend)?;
        let modes: Vec<usize> = (0..self.time.places().len()).collect();
        let places = self.time.places().to_vec();
        let of_fold = |fold: usize| PlacesOfFold {
            predicted: of_folds[fold].as_ref().unwrap_or(&places).clone(),
            training: of_folds[fold].clone(),
        };
        let time = self
            .time
            .leave_out(&modes, of_fold, stacking[0], seed, fitted)?;
        let mut left_out: Vec<LeftOut> = time
            .iter()
            .zip(self.time.targets())
            .map(|(time, target)| LeftOut {
                time: time.residual(target),
                power: None,
            })
            .collect();
        if let Some(mut power) = self.power.take() {
            let of_fit = power.places().to_vec();
            let of_fold = |fold: usize| {
                let training = of_folds[fold]
                    .as_ref()
                    .map(|places_of_fold| training.with_times(places_of_fold));
                let places = training.as_ref().unwrap_or(&of_fit).iter();
                let predicted = |(&at, place): (&usize, &Place)| self.before(*place, &time[at]);
                PlacesOfFold {
                    predicted: self.powered.iter().zip(places).map(predicted).collect(),
                    training,
                }
            };
            let (powered, prior) = (&self.powered, stacking[1]);
            let expected = power.leave_out(powered, of_fold, prior, seed, fitted)?;
            let pairs = self.powered.iter().zip(&expected).zip(power.targets());
            for ((&at, expected), target) in pairs {
                left_out[at].power = Some(expected.residual(target));
            }
            self.power = Some(power);
        } else {
            progress.inc(FOLDS as u64 * OF_FIT);
        }
        self.left_out = left_out;
        Ok(())
    }

    /// For each fold, the places of all training modes if several references are weighed without the fold's modes.
    /// Weights that knew these modes would make the fold's errors too small. `None` where there is nothing to weigh.
    fn places_of_folds(
        &self,
        training: &Training<'_>,
        blend: &Blend<'_>,
    ) -> Result<Vec<Option<Vec<Place>>>, SingularCovariance> {
        let of_fold = |fold: usize| {
            if !Target::ALL
                .iter()
                .any(|target| self.around.are_weighed(*target))
            {
                return Ok(None);
            }
            let mut around = self.around.clone();
            training.weigh(&mut around, &self.scales, blend, |at| at % FOLDS != fold)?;
            Ok(Some(
                around.places_of_training(&self.scales, &training.knobs),
            ))
        };
        (0..FOLDS).into_par_iter().map(of_fold).collect()
    }

    /// A place of the power's processes for a mode whose time is predicted.
    fn before(&self, place: Place, time: &Expected) -> Place {
        Place {
            log_time: time.median - self.centre,
            log_time_sd: time.sd,
            ..place
        }
    }

    /// Conditions the teachers on one more measurement, which also weights the processes and the samples
    /// of their hyperparameters anew.
    pub fn observe(&self, mode: &Known) -> Result<Self, SingularCovariance> {
        let place = self.around.places(&self.scales, &[mode.knobs])[0];
        let mut more = Self {
            time: self.time.observe(place, mode.time_us.ln())?,
            ..self.clone()
        };
        if let Some((teacher, power)) = self.power.as_ref().zip(mode.power_mw) {
            more.power = Some(teacher.observe(measured(place, mode, self.centre), power.ln())?);
            more.powered.push(self.time.places().len());
        }
        Ok(more)
    }

    /// The averages of the hyperparameters of the physical processes of several workloads, which a forecast of
    /// another one of the same board may start from.
    pub fn mean_hyperparameters(all: &[Arc<Self>]) -> Hyperparameters {
        Target::ALL.map(|target| {
            let each = all
                .iter()
                .filter_map(|teachers| teachers.hyperparameters(target));
            let each: Vec<Vec<f64>> = each.collect();
            let mean = |at: usize| {
                let sum: f64 = each.iter().map(|theta| theta[at]).sum();
                sum / each.len() as f64
            };
            let first = each.first()?;
            Some((0..first.len()).map(mean).collect())
        })
    }
}

impl States for Teachers {
    /// Means, not medians: they take less time.
    fn state(&self, scales: &Scales, modes: &[[u32; 4]]) -> Vec<Statement<Vec<f64>>> {
        let here: Vec<[u32; 4]> = modes
            .iter()
            .map(|&knobs| scales.elsewhere(knobs, &self.scales))
            .collect();
        let places = self.around.places(&self.scales, &here);
        let statement = |teacher: &Mixture, places: &[Place]| {
            let log = teacher.means(places);
            let pairs = log.iter().zip(teacher.physics(places));
            let unexplained = pairs.map(|(log, physics)| log - physics).collect();
            Statement { log, unexplained }
        };
        let time = statement(&self.time, &places);
        let power = self.power.as_ref().map(|teacher| {
            let pairs = places.into_iter().zip(&time.log);
            let with_time = pairs.map(|(place, time)| Place {
                log_time: time - self.centre,
                ..place
            });
            statement(teacher, &with_time.collect::<Vec<_>>())
        });
        [Some(time), power].into_iter().flatten().collect()
    }

    fn hyperparameters(&self, target: Target) -> Option<Vec<f64>> {
        self.for_target(target).and_then(Mixture::hyperparameters)
    }
}

/// The training modes of teachers.
struct Training<'a> {
    used: &'a [Known],
    knobs: Vec<[u32; 4]>,
    /// The mean ln time.
    centre: f64,
    /// Indices of the modes with a power.
    powered: Vec<usize>,
}

impl<'a> Training<'a> {
    fn from_modes(used: &'a [Known]) -> Self {
        let used = &used[..used.len().min(MAX_TRAINING_MODES)];
        let times = used.iter().map(|mode| mode.time_us.ln());
        Self {
            used,
            knobs: used.iter().map(|mode| mode.knobs).collect(),
            centre: times.sum::<f64>() / used.len() as f64,
            powered: (0..used.len())
                .filter(|&at| used[at].power_mw.is_some())
                .collect(),
        }
    }

    /// ln of a target, of the modes that have it.
    fn logs(&self, target: Target) -> Vec<f64> {
        let measured = self.used.iter().filter_map(|mode| target.measured(mode));
        measured.map(f64::ln).collect()
    }

    /// The places of the power's processes for the measured times.
    fn with_times(&self, places: &[Place]) -> Vec<Place> {
        let with_time = |&at: &usize| measured(places[at], &self.used[at], self.centre);
        self.powered.iter().map(with_time).collect()
    }

    /// Weights references by their evidence on the modes that are kept.
    fn weigh(
        &self,
        around: &mut Around<Teachers>,
        scales: &Scales,
        blend: &Blend<'_>,
        is_kept: impl Fn(usize) -> bool,
    ) -> Result<(), SingularCovariance> {
        for target in Target::ALL {
            let evidence = |around: &Around<Teachers>| {
                let places = around.places_of_training(scales, &self.knobs);
                let (modes, places): (Vec<usize>, Vec<Place>) = match target {
                    Target::Time => ((0..self.used.len()).collect(), places),
                    Target::Power => (self.powered.clone(), self.with_times(&places)),
                };
                let all = modes.iter().zip(places).zip(self.logs(target));
                let kept = all.filter(|((at, _), _)| is_kept(**at));
                let (places, logs): (Vec<Place>, Vec<f64>) =
                    kept.map(|((_, place), log)| (place, log)).unzip();
                let learned = around.hyperparameters(target).unwrap_or_default();
                let spec = blend.corrected(target, places.len(), &learned);
                Ok(Process::fit_map(&spec, &places, &logs)?.log_posterior())
            };
            around.weigh(target, evidence)?;
        }
        Ok(())
    }
}

/// The place of a measured mode for the processes of power.
fn measured(place: Place, mode: &Known, centre: f64) -> Place {
    let log_time = mode.time_us.ln() - centre;
    Place { log_time, ..place }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::modes::all_modes;

    #[test]
    fn left_out_modes_have_narrow_predictions() {
        let grid = Grid::new([&[1, 2], &[100, 200, 400], &[100, 300], &[50, 90]]).expect("a grid");
        let used: Vec<Known> = all_modes(&grid)
            .enumerate()
            .map(|(id, knobs)| Known {
                id,
                knobs,
                time_us: 1e6 / f64::from(knobs[1] + knobs[2]),
                power_mw: None,
                is_confirmed: false,
            })
            .collect();
        let blend = Blend::any_board(Priors::shipped());
        let teachers = Teachers::fit(&grid, &used, &[], &blend, 1, &ProgressBar::hidden());
        let teachers = teachers.expect("regular");
        // The summary of a mixture whose weights do not sum to one would be wider or narrower.
        let shown: Vec<f64> = teachers
            .left_out()
            .iter()
            .map(|left_out| left_out.time.sd)
            .collect();
        assert!(shown.iter().all(|sd| *sd < 0.5), "{shown:?}");
    }
}
