//! The teacher: mixtures of Gaussian processes for log time and log power.
//!
//! The two form a joint model, p(time) · p(power | time): power is learned from measured times and
//! predicted from the distribution of the predicted time.
//!
//! Each target mixes a process whose mean is physical (a roofline for time, the energy of a step
//! for power) with one whose mean has little or no physics. The exported network is distilled
//! from the mixtures' medians on the whole grid; the guard band follows from their spread.
//!
//! A transfer takes over hyperparameters, not predictions. A third process has a prior half-way
//! between the default prior and the reference's hyperparameters. Its weight depends on how well
//! it explains the corpus, so that an unsuitable reference is dropped. Knobs are fractions of the
//! board's highest value, which maps the axes of one board to those of another.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::join;
use rayon::prelude::*;
use wattgate_runtime::Grid;

use crate::corpus::modes::Known;
use crate::learn::expected::{Expected, LeftOut, Residual};
use crate::learn::gp::{Normal, Process, SAMPLED, SingularKernel};
use crate::learn::mean::{KERNEL, Mean, NOISE, Place, Scales};
use crate::learn::predictions::Target;
use crate::learn::priors::{Prior, Priors, Spec};

/// Maximum number of training modes.
pub const MAX_TRAINING_MODES: usize = 2_000;

/// The priors of the processes, how they are weighted, and what a reference says of their priors.
pub struct Blend<'a> {
    priors: &'a Priors,
    /// Which of the priors, for at most [`SAMPLED`] modes. More modes outweigh the prior, and have that of
    /// the known families.
    spec: fn(&Priors, Mean) -> Spec,
    /// Weight of the processes with a physical mean, of time and of power; the process without has
    /// the rest.
    physics: [f64; 2],
    /// Maximum share of a reference in that weight.
    most_share: f64,
    /// The prior of the process that a reference informs.
    near: fn(&Prior, &[f64]) -> Prior,
    /// How many modes the weights count for when the fit adjusts them ([`Teacher::stack`]). `None` keeps
    /// them as they are: on modes spread over the board, adjusting made the errors larger.
    stacking: Option<f64>,
}

impl<'a> Blend<'a> {
    /// For any modes and a reference of any board: on few modes an unsuitable reference may seem
    /// to fit.
    pub fn any_board(priors: &'a Priors) -> Self {
        Self {
            priors,
            spec: Priors::spec_of_another,
            physics: [0.6, 0.6],
            most_share: 0.25,
            near: between,
            stacking: None,
        }
    }

    /// With other weights of the processes with a physical mean, of time and of power, each 0 … 1.
    pub fn weighing(self, physics: [f64; 2]) -> Self {
        Self { physics, ..self }
    }

    /// For planned modes and a reference of the same board. A limit keeps the modes in a corner,
    /// from where physics extrapolates power better than the kernel. Chosen on simulated boards,
    /// on units and workloads (lstm, vgg11, lenet) that no test has.
    pub fn same_board(priors: &'a Priors) -> Self {
        Self {
            priors,
            spec: Priors::spec,
            physics: [0.5, 0.8],
            most_share: 1.0,
            near: of_same_board,
            stacking: Some(5.0),
        }
    }
}

/// Factor on the prior standard deviations of the mean's coefficients in a transfer, from any board
/// and from the same.
const NARROWED: f64 = 0.7;
const NARROWED_BY_SAME: f64 = 0.5;

/// Share of the physical weight below which a reference is dropped.
const LEAST_SHARE: f64 = 0.01;

/// Places predicted at once; memory is proportional to this times the number of training modes.
const AT_ONCE: usize = 4_096;

/// A fit may multiply the noise variance of new measurements by one of these factors. Where a surface is
/// rough, a process blames noise, which is the same in all modes; the true errors grow with the distance from
/// the training modes. The factors and their cost were set on the corpora that the bounds score.
const LESS_NOISE: [f64; 2] = [0.5, 0.2];

/// A factor must raise the log likelihood of the left-out modes by more than this (Akaike's criterion).
const COST_OF_NOISE: f64 = 1.0;

/// Hyperparameters to transfer, of time and of power.
pub type Hyperparameters = [Option<Vec<f64>>; 2];

/// Parts of the training modes that are left out in turn.
const FOLDS: usize = 10;

/// A mixture of Gaussian processes for the logarithm of one target.
#[derive(Clone, Debug)]
pub struct Teacher {
    /// Processes with their weights, which sum to one.
    parts: Vec<(f64, Process)>,
}

impl Teacher {
    /// Fits processes with the physical mean, with that mean and the reference's prior (if any),
    /// and with the mean `without` physics. Samples the hyperparameters if `random` is given;
    /// otherwise takes their MAP estimates.
    fn fit(
        [mean, without]: [Mean; 2],
        places: &[Place],
        targets: &[f64],
        reference: Option<&[f64]>,
        (blend, target): (&Blend<'_>, Target),
        random: Option<&ChaCha8Rng>,
    ) -> Result<Self, SingularKernel> {
        let physics = blend.physics[target as usize];
        let spec = match places.len() > SAMPLED {
            true => Priors::spec,
            false => blend.spec,
        };
        let fit = |spec: &Spec, stream| match random {
            Some(random) => {
                let mut random = random.clone();
                random.set_stream(stream);
                Process::fit(spec, places, targets, &mut random)
            }
            None => Process::fit_map(spec, places, targets),
        };
        let own = spec(blend.priors, mean);
        let (physical, (near, plain)) = join(
            || fit(&own, 1),
            || {
                let near = reference.map(|theta| Spec {
                    mean,
                    prior: (blend.near)(&own.prior, theta),
                });
                join(
                    || near.map(|near| fit(&near, 2)).transpose(),
                    || fit(&spec(blend.priors, without), 3),
                )
            },
        );
        let physical = physical?;
        let near = near?.map(|near| {
            let share = 1.0 / (1.0 + (physical.log_posterior() - near.log_posterior()).exp());
            let share = share.min(blend.most_share);
            (if share < LEAST_SHARE { 0.0 } else { share }, near)
        });
        let of_near = near.as_ref().map_or(0.0, |(share, _)| *share);
        let mut parts = vec![
            (1.0 - physics, plain?),
            (physics * (1.0 - of_near), physical),
        ];
        parts.extend(near.map(|(share, near)| (physics * share, near)));
        parts.retain(|(weight, _)| *weight > 0.0);
        Ok(Self { parts })
    }

    /// Predicts a measurement of the logarithm at each place.
    fn predict(&self, places: &[Place]) -> Vec<Expected> {
        let of = |places: &[Place]| -> Vec<Expected> {
            let parts = self.predictions(places);
            (0..places.len())
                .into_par_iter()
                .map(|at| self.blended(&parts.each(at)))
                .collect()
        };
        places.chunks(AT_ONCE).flat_map(of).collect()
    }

    /// What each process predicts.
    fn predictions(&self, places: &[Place]) -> OfParts {
        let of = |(_, process): &(f64, Process)| OfPart {
            shares: process.shares().collect(),
            samples: process.predictions(places),
        };
        OfParts(self.parts.iter().map(of).collect())
    }

    /// Blends what processes predict at one place, one list of samples with their shares each.
    fn blended(&self, parts: &[Vec<(f64, Normal)>]) -> Expected {
        let pairs = self.parts.iter().zip(parts);
        let samples = pairs.flat_map(|((weight, _), samples)| {
            let samples = samples.iter();
            samples.map(move |(share, sample)| (weight * share, *sample))
        });
        Expected::of(&samples.collect::<Vec<_>>())
    }

    /// Weights each process by how well it predicts targets that it was not trained on (stacking of
    /// predictive distributions, Yao et al. 2018). `left_out` has these predictions by target and process.
    /// The present weights count like `prior` more targets.
    fn stack(&mut self, left_out: &[Vec<Vec<(f64, Normal)>>], prior: f64) {
        let density = |samples: &Vec<(f64, Normal)>, target: f64| -> f64 {
            let densities = samples.iter();
            densities
                .map(|(share, sample)| share * sample.density(target))
                .sum()
        };
        let densities: Vec<Vec<f64>> = left_out
            .iter()
            .zip(self.targets())
            .map(|(parts, target)| parts.iter().map(|part| density(part, target)).collect())
            .collect();
        let before: Vec<f64> = self
            .parts
            .iter()
            .map(|(weight, _)| prior * weight)
            .collect();
        let stacked = stacked(&before, &densities);
        for ((weight, _), stacked) in self.parts.iter_mut().zip(stacked) {
            *weight = stacked;
        }
    }

    /// Predicts the training modes. Each is predicted by the teacher of its fold, which was trained without
    /// it. `modes` has the index of each mode in the fit, and `places` the place to predict. The predictions
    /// decide on the noise of new measurements and, with `stacking`, on the weights of the processes.
    fn leave_out(
        &mut self,
        folds: &mut [Self],
        modes: &[usize],
        places: &[Place],
        stacking: Option<f64>,
    ) -> Vec<Expected> {
        let mut of = |noise: f64| -> Vec<Vec<Vec<(f64, Normal)>>> {
            folds.iter_mut().for_each(|fold| fold.set_noise(noise));
            let pairs = modes.iter().zip(places);
            pairs
                .map(|(at, place)| folds[at % FOLDS].predictions(&[*place]).each(0))
                .collect()
        };
        let blended = |of: &[Vec<Vec<(f64, Normal)>>]| -> Vec<Expected> {
            of.iter().map(|parts| self.blended(parts)).collect()
        };
        let targets: Vec<f64> = self.targets().collect();
        let fits = |of: &[Vec<Vec<(f64, Normal)>>]| {
            let pairs = blended(of).into_iter().zip(&targets);
            let residuals: Vec<Residual> = pairs
                .map(|(expected, target)| expected.residual(*target))
                .collect();
            shape_likelihood(&residuals)
        };
        let mut best = of(1.0);
        let (mut noise, mut most) = (1.0, fits(&best) + COST_OF_NOISE);
        for less in LESS_NOISE {
            let others = of(less);
            let found = fits(&others);
            if found > most {
                (best, noise, most) = (others, less, found);
            }
        }
        self.set_noise(noise);
        if let Some(prior) = stacking {
            self.stack(&best, prior);
        }
        best.iter().map(|parts| self.blended(parts)).collect()
    }

    /// Learns again without the training modes of a fold. `is_of_fold` marks them by index.
    fn without(
        &self,
        is_of_fold: impl Fn(usize) -> bool + Copy,
        (seed, fold): (u64, usize),
    ) -> Result<Self, SingularKernel> {
        let one = |(at, (weight, process)): (usize, &(f64, Process))| {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            // Streams 1 to 3 are those of the fit.
            random.set_stream((4 * (fold + 1) + at) as u64);
            Ok((*weight, process.without(is_of_fold, &mut random)?))
        };
        let parts = self.parts.iter().enumerate().map(one);
        let parts: Result<Vec<_>, SingularKernel> = parts.collect();
        Ok(Self { parts: parts? })
    }

    /// Sets the noise of new measurements ([`Process::set_noise`]).
    fn set_noise(&mut self, noise: f64) {
        let processes = self.parts.iter_mut().map(|(_, process)| process);
        processes.for_each(|process| process.set_noise(noise));
    }

    /// Conditions each process on one more measurement. The weights become proportional to
    /// weight × predicted density of the measurement.
    fn observe(&self, place: Place, target: f64) -> Result<Self, SingularKernel> {
        let observe = |(weight, process): &(f64, Process)| {
            let (process, density) = process.observe(place, target)?;
            Ok((*weight, density, process))
        };
        let parts: Result<Vec<_>, SingularKernel> = self.parts.iter().map(observe).collect();
        let parts = parts?;
        let sum: f64 = parts
            .iter()
            .map(|(weight, density, _)| weight * density)
            .sum();
        let parts = parts.into_iter().map(|(weight, density, process)| {
            // A measurement that no process thinks possible says nothing of the weights.
            let weight = match sum > 0.0 {
                true => weight * density / sum,
                false => weight,
            };
            (weight, process)
        });
        Ok(Self {
            parts: parts.collect(),
        })
    }

    /// The places of the training modes.
    fn places(&self) -> &[Place] {
        self.parts
            .first()
            .map_or(&[], |(_, process)| process.places())
    }

    /// The targets of the training modes.
    fn targets(&self) -> impl Iterator<Item = f64> {
        self.parts
            .first()
            .into_iter()
            .flat_map(|(_, process)| process.targets())
    }

    /// The hyperparameters of the process with the physical mean and the default prior.
    fn hyperparameters(&self) -> Option<Vec<f64>> {
        self.parts.get(1).map(|(_, process)| process.map())
    }
}

/// What the processes predict at some places.
struct OfParts(Vec<OfPart>);

/// What a process predicts: the shares of its samples, and their predictions by place.
struct OfPart {
    shares: Vec<f64>,
    samples: Vec<Vec<Normal>>,
}

impl OfParts {
    /// The samples of each process at one place, with their shares.
    fn each(&self, at: usize) -> Vec<Vec<(f64, Normal)>> {
        let of = |part: &OfPart| {
            let pairs = part.shares.iter().zip(&part.samples);
            pairs.map(|(share, all)| (*share, all[at])).collect()
        };
        self.0.iter().map(of).collect()
    }
}

/// The weights w, of sum one, that maximise Σ ln Σ w·p + Σ prior·ln w for densities p by target and
/// part, found by expectation maximisation.
fn stacked(prior: &[f64], densities: &[Vec<f64>]) -> Vec<f64> {
    const ROUNDS: usize = 200;
    let normalised = |counts: Vec<f64>| -> Vec<f64> {
        let sum: f64 = counts.iter().sum();
        counts.into_iter().map(|count| count / sum).collect()
    };
    (0..ROUNDS).fold(normalised(prior.to_vec()), |weights, _| {
        let mut counts = prior.to_vec();
        for parts in densities {
            let shares = weights
                .iter()
                .zip(parts)
                .map(|(weight, density)| weight * density);
            let sum: f64 = shares.clone().sum();
            // A target that no part thinks possible says nothing of the weights.
            if sum > 0.0 {
                counts
                    .iter_mut()
                    .zip(shares)
                    .for_each(|(count, share)| *count += share / sum);
            }
        }
        normalised(counts)
    })
}

/// How well standard deviations fit their residuals, as a log likelihood without its constant. A common factor
/// on all deviations does not matter, since the guard bands find it. The likelihood is that of Laplace's
/// distribution with the best factor: residuals have heavy tails.
fn shape_likelihood(residuals: &[Residual]) -> f64 {
    let n = residuals.len() as f64;
    let sds: f64 = residuals.iter().map(|residual| residual.sd.ln()).sum();
    let sum: f64 = residuals
        .iter()
        .map(|residual| (residual.log / residual.sd).abs())
        .sum();
    -sds - n * sum.ln()
}

/// A prior with means half-way between the default prior and a reference's hyperparameters.
fn between(prior: &Prior, reference: &[f64]) -> Prior {
    let pairs = prior.iter().zip(reference).enumerate();
    pairs
        .map(|(at, (&[mean, sd], learned))| match at {
            NOISE => [mean, sd],
            0..KERNEL => [f64::midpoint(mean, *learned), sd],
            _ => [f64::midpoint(mean, *learned), NARROWED * sd],
        })
        .collect()
}

/// A prior with the mean's coefficients of a reference of the same board. Voltages and static power
/// are the board's; what differs between workloads, the modes must show.
pub(super) fn of_same_board(prior: &Prior, reference: &[f64]) -> Prior {
    let mut near = prior.clone();
    let coefficients = near.iter_mut().zip(reference).skip(KERNEL);
    coefficients.for_each(|([mean, sd], learned)| {
        *mean = *learned;
        *sd *= NARROWED_BY_SAME;
    });
    near
}

/// The teachers of one workload on one board.
#[derive(Clone, Debug)]
pub struct Teachers {
    scales: Scales,
    time: Teacher,
    power: Option<Teacher>,
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
        let time = Teacher::fit(
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
            teachers.power = Some(Teacher::fit(
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
    pub fn of(&self, target: Target) -> Option<&Teacher> {
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
        let (mut times, powers): (Vec<Teacher>, Vec<Option<Teacher>>) = folds
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
            let mut folds: Vec<Teacher> = powers.into_iter().flatten().collect();
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
        Target::ALL.map(|target| self.of(target).and_then(Teacher::hyperparameters))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::modes::all_modes;

    /// Processes that were learned again have fewer samples; each counts in full.
    #[test]
    fn all_samples_of_a_left_out_part_count() {
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
        let others = teachers.time.without(|at| at % FOLDS == 0, (1, 0));
        for teacher in [&teachers.time, &others.expect("regular")] {
            let parts = teacher.predictions(&teacher.places()[..1]).each(0);
            for (part, (_, process)) in parts.iter().zip(&teacher.parts) {
                assert_eq!(part.len(), process.thetas().count());
                let sum: f64 = part.iter().map(|(share, _)| share).sum();
                assert!((sum - 1.0).abs() < 1e-12, "{sum}");
            }
        }
        // The summary of a mixture whose weights do not sum to one would be wider or narrower.
        let shown: Vec<f64> = teachers.left_out().iter().map(|of| of.time.sd).collect();
        assert!(shown.iter().all(|sd| *sd < 0.5), "{shown:?}");
    }

    #[test]
    fn standard_deviations_that_follow_the_residuals_are_likelier_at_any_scale() {
        let of = |sds: [f64; 4]| {
            let logs = [0.1, -0.4, 0.2, -0.8];
            let pairs = logs.into_iter().zip(sds);
            let residuals: Vec<Residual> = pairs.map(|(log, sd)| Residual { log, sd }).collect();
            shape_likelihood(&residuals)
        };
        let [follow, scaled, flat] = [[0.1, 0.4, 0.2, 0.8], [0.3, 1.2, 0.6, 2.4], [0.3; 4]].map(of);
        assert!(follow > flat && (follow - scaled).abs() < 1e-12);
    }

    #[test]
    fn stacking_prefers_the_part_that_predicts_unless_the_prior_counts_more() {
        // One part is right in three of four targets.
        let densities = [[9.0, 1.0], [9.0, 1.0], [9.0, 1.0], [1.0, 9.0], [0.0, 0.0]];
        let densities: Vec<Vec<f64>> = densities.iter().map(|parts| parts.to_vec()).collect();
        let gain = |w: f64| 3.0 * (8.0 * w + 1.0).ln() + (9.0 - 8.0 * w).ln();
        let weights = stacked(&[1e-9, 1e-9], &densities);
        assert!((weights[0] + weights[1] - 1.0).abs() < 1e-12);
        let best = gain(weights[0]);
        assert!(best > gain(weights[0] - 0.01) && best > gain(weights[0] + 0.01));
        let held = stacked(&[200.0, 200.0], &densities);
        assert!((0.5..0.51).contains(&held[0]), "{held:?}");
        // A part that was dropped stays so.
        assert_eq!(stacked(&[0.0, 1.0], &densities), [0.0, 1.0]);
    }

    #[test]
    fn a_reference_pulls_coefficients_half_way_and_leaves_the_noise() {
        let prior = Priors::theory().spec(Mean::Time).prior;
        let reference: Vec<f64> = prior.iter().map(|[mean, _]| mean + 1.0).collect();
        for (at, ([mean, sd], [new, narrow])) in
            prior.iter().zip(between(&prior, &reference)).enumerate()
        {
            let moved = if at == NOISE { 0.0 } else { 0.5 };
            assert!((new - mean - moved).abs() < 1e-12);
            assert_eq!(narrow, if at < KERNEL { *sd } else { NARROWED * sd });
        }
    }
}
