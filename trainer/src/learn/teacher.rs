//! The teacher predicts log time and log power, each with a [`Mixture`] of Gaussian processes.
//!
//! The two form a joint model, p(time) · p(power | time): power is learned from measured times and
//! predicted from the distribution of the predicted time.
//!
//! A transfer takes over hyperparameters, not predictions. Knobs are fractions of the board's highest
//! value, which maps the axes of one board to those of another.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::join;
use rayon::prelude::*;
use wattgate_runtime::Grid;

use crate::corpus::modes::Known;
use crate::learn::blend::Blend;
use crate::learn::expected::{Expected, LeftOut};
use crate::learn::gp::SingularKernel;
use crate::learn::mean::{Mean, Place, Scales};
use crate::learn::mixture::{FOLDS, Mixture};
use crate::learn::predictions::Target;
use crate::learn::priors::Priors;

/// Maximum number of training modes.
pub const MAX_TRAINING_MODES: usize = 2_000;

/// Hyperparameters to transfer, of time and of power.
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
}

impl Teachers {
    /// Fits teachers to the first [`MAX_TRAINING_MODES`] modes, which should be in random order.
    /// Fits power if at least one mode has it.
    pub fn fit(
        grid: &Grid,
        used: &[Known],
        reference: Option<&Hyperparameters>,
        blend: &Blend<'_>,
        seed: u64,
    ) -> Result<Self, SingularKernel> {
        let mut teachers = Self::fit_alone(grid, used, reference, blend, seed)?;
        teachers.cross_validate(blend.stacking, seed)?;
        Ok(teachers)
    }

    /// Like [`Teachers::fit`], but does not leave training modes out: [`Teachers::left_out`] is empty.
    pub fn fit_alone(
        grid: &Grid,
        used: &[Known],
        reference: Option<&Hyperparameters>,
        blend: &Blend<'_>,
        seed: u64,
    ) -> Result<Self, SingularKernel> {
        let random = ChaCha8Rng::seed_from_u64(seed);
        Self::learn(grid, used, reference, blend, Some(&random))
    }

    /// Like [`Teachers::fit`], but uses MAP estimates of the hyperparameters and no reference.
    pub fn fit_map(grid: &Grid, used: &[Known], priors: &Priors) -> Result<Self, SingularKernel> {
        let blend = Blend {
            spec: Priors::spec,
            ..Blend::any_board(priors)
        };
        Self::learn(grid, used, None, &blend, None)
    }

    fn learn(
        grid: &Grid,
        used: &[Known],
        reference: Option<&Hyperparameters>,
        blend: &Blend<'_>,
        random: Option<&ChaCha8Rng>,
    ) -> Result<Self, SingularKernel> {
        let used = &used[..used.len().min(MAX_TRAINING_MODES)];
        let scales = Scales::of(grid);
        let learned = |target| reference.and_then(|learned| learned[target as usize].as_deref());
        let places: Vec<Place> = used.iter().map(|mode| scales.place(mode.knobs)).collect();
        let logs: Vec<f64> = used.iter().map(|mode| mode.time_us.ln()).collect();
        let time = Mixture::fit(
            [Mean::Time, Mean::Zero],
            &places,
            &logs,
            learned(Target::Time),
            (blend, Target::Time),
            random,
        )?;
        let centre = logs.iter().sum::<f64>() / logs.len() as f64;
        let mut teachers = Self {
            scales,
            time,
            power: None,
            centre,
            powered: Vec::new(),
            left_out: Vec::new(),
        };
        let (mut powered, mut logs_of_power) = (Vec::new(), Vec::new());
        for (at, (mode, place)) in used.iter().zip(places).enumerate() {
            if let Some(power) = mode.power_mw {
                teachers.powered.push(at);
                powered.push(teachers.after(place, mode));
                logs_of_power.push(power.ln());
            }
        }
        let (places, logs) = (powered, logs_of_power);
        if !places.is_empty() {
            teachers.power = Some(Mixture::fit(
                [Mean::Power, Mean::Starved],
                &places,
                &logs,
                learned(Target::Power),
                (blend, Target::Power),
                random,
            )?);
        }
        Ok(teachers)
    }

    /// The teacher of a target; `None` for power if it was not fitted.
    pub fn of(&self, target: Target) -> Option<&Mixture> {
        match target {
            Target::Time => Some(&self.time),
            Target::Power => self.power.as_ref(),
        }
    }

    /// Predicts ln(time in µs), then ln(power in mW) if it was fitted: one list per target, in the
    /// order of `modes`. Power is predicted from the predicted time and its spread.
    pub fn predict(&self, modes: &[[u32; 4]]) -> Vec<Vec<Expected>> {
        let places: Vec<Place> = modes
            .iter()
            .map(|&knobs| self.scales.place(knobs))
            .collect();
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
    /// without a part of the modes. The processes are weighted by the result if `stacking` says so. A
    /// power is predicted from the predicted time.
    fn cross_validate(&mut self, stacking: Option<f64>, seed: u64) -> Result<(), SingularKernel> {
        let of = |fold: usize| {
            let time = || self.time.without(|at| at % FOLDS == fold, (seed, fold));
            let is_of_fold = |at: usize| self.powered[at] % FOLDS == fold;
            let power = || {
                let power = self.power.as_ref();
                power
                    .map(|power| power.without(is_of_fold, (seed, fold)))
                    .transpose()
            };
            let (time, power) = join(time, power);
            Ok((time?, power?))
        };
        let count = self.time.places().len();
        let folds = (0..FOLDS.min(count)).into_par_iter().map(of);
        let (mut times, powers): (Vec<Mixture>, Vec<Option<Mixture>>) = folds
            .collect::<Result<Vec<_>, SingularKernel>>()?
            .into_iter()
            .unzip();
        let modes: Vec<usize> = (0..count).collect();
        let places = self.time.places().to_vec();
        let time = self.time.leave_out(&mut times, &modes, &places, stacking);
        let mut left_out: Vec<LeftOut> = time
            .iter()
            .zip(self.time.targets())
            .map(|(time, target)| LeftOut {
                time: time.residual(target),
                power: None,
            })
            .collect();
        if let Some(mut power) = self.power.take() {
            let pairs = self.powered.iter().zip(power.places());
            let places: Vec<Place> = pairs
                .map(|(&at, place)| self.before(*place, &time[at]))
                .collect();
            let mut folds: Vec<Mixture> = powers.into_iter().flatten().collect();
            let expected = power.leave_out(&mut folds, &self.powered, &places, stacking);
            let pairs = self.powered.iter().zip(&expected).zip(power.targets());
            for ((&at, expected), target) in pairs {
                left_out[at].power = Some(expected.residual(target));
            }
            self.power = Some(power);
        }
        self.left_out = left_out;
        Ok(())
    }

    /// A place of the power's processes for a measured mode.
    fn after(&self, place: Place, mode: &Known) -> Place {
        let log_time = mode.time_us.ln() - self.centre;
        Place { log_time, ..place }
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
    pub fn observe(&self, mode: &Known) -> Result<Self, SingularKernel> {
        let place = self.scales.place(mode.knobs);
        let mut more = Self {
            time: self.time.observe(place, mode.time_us.ln())?,
            ..self.clone()
        };
        if let Some((teacher, power)) = self.power.as_ref().zip(mode.power_mw) {
            more.power = Some(teacher.observe(self.after(place, mode), power.ln())?);
            more.powered.push(self.time.places().len());
        }
        Ok(more)
    }

    /// The hyperparameters that a transfer to another workload or board may start from.
    pub fn hyperparameters(&self) -> Hyperparameters {
        Target::ALL.map(|target| self.of(target).and_then(Mixture::hyperparameters))
    }
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
            })
            .collect();
        let blend = Blend::any_board(Priors::shipped());
        let teachers = Teachers::fit(&grid, &used, None, &blend, 1).expect("regular");
        // The summary of a mixture whose weights do not sum to one would be wider or narrower.
        let shown: Vec<f64> = teachers.left_out().iter().map(|of| of.time.sd).collect();
        assert!(shown.iter().all(|sd| *sd < 0.5), "{shown:?}");
    }
}
