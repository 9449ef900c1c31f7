//! The teacher: mixtures of Gaussian processes for log time and log power.
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
use statrs::distribution::ContinuousCDF;
use wattgate_runtime::Grid;

use crate::corpus::modes::Known;
use crate::learn::gp::{Normal, Process, SingularKernel, Spec};
use crate::learn::mean::{KERNEL, Mean, Place, Prior, Scales};
use crate::learn::predictions::Target;

/// Maximum number of training modes.
pub const MAX_TRAINING_MODES: usize = 2_000;

/// How processes are weighted, and what a reference says of their priors.
pub struct Blend {
    /// Weight of the processes with a physical mean, of time and of power; the process without has
    /// the rest.
    physics: [f64; 2],
    /// Maximum share of a reference in that weight.
    most_share: f64,
    /// The prior of the process that a reference informs.
    near: fn(&Prior, &[f64]) -> Prior,
}

/// For any modes and a reference of any board: on few modes an unsuitable reference may seem to
/// fit.
pub const ANY_BOARD: Blend = Blend {
    physics: [0.5, 0.5],
    most_share: 0.25,
    near: between,
};

/// For planned modes and a reference of the same board. A limit keeps the modes in a corner, from
/// where physics extrapolates power better than the kernel. Chosen on simulated boards, on units
/// and workloads (lstm, vgg11, lenet) that no test has.
pub const SAME_BOARD: Blend = Blend {
    physics: [0.5, 0.8],
    most_share: 1.0,
    near: of_same_board,
};

/// Factor on the prior standard deviations of the mean's coefficients in a transfer, from any board
/// and from the same.
const NARROWED: f64 = 0.7;
const NARROWED_BY_SAME: f64 = 0.5;

/// Index of the noise among the hyperparameters; a transfer leaves its prior unchanged.
pub(super) const NOISE: usize = 6;

/// Share of the physical weight below which a reference is dropped.
const LEAST_SHARE: f64 = 0.01;

/// Places predicted at once; memory is proportional to this times the number of training modes.
const AT_ONCE: usize = 4_096;

/// Tolerance of a median, in ln units.
const MEDIAN_TOLERANCE: f64 = 1e-7;

/// Hyperparameters to transfer, of time and of power.
pub type Hyperparameters = [Option<Vec<f64>>; 2];

/// The leave-one-out prediction of a training mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeftOut {
    /// ln(measured / predicted).
    pub residual: f64,
    /// The predictive standard deviation of the residual.
    pub sd: f64,
}

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
        (blend, target): (&Blend, Target),
        random: Option<&ChaCha8Rng>,
    ) -> Result<Self, SingularKernel> {
        let physics = blend.physics[target as usize];
        let fit = |spec: &Spec, stream| match random {
            Some(random) => {
                let mut random = random.clone();
                random.set_stream(stream);
                Process::fit(spec, places, targets, &mut random)
            }
            None => Process::fit_map(spec, places, targets),
        };
        let own = Spec::of(mean);
        let (physical, (other, plain)) = join(
            || fit(&own, 1),
            || {
                let near = reference.map(|theta| Spec {
                    mean,
                    prior: (blend.near)(&own.prior, theta),
                });
                join(
                    || near.map(|near| fit(&near, 2)).transpose(),
                    || fit(&Spec::of(without), 3),
                )
            },
        );
        let (physical, other) = (physical?, other?);
        let mut parts = vec![(1.0 - physics, plain?)];
        match other {
            Some(other) => {
                let share = 1.0 / (1.0 + (physical.log_posterior() - other.log_posterior()).exp());
                let share = if share < LEAST_SHARE {
                    0.0
                } else {
                    share.min(blend.most_share)
                };
                parts.push((physics * (1.0 - share), physical));
                parts.push((physics * share, other));
                parts.retain(|(weight, _)| *weight > 0.0);
            }
            None => parts.push((physics, physical)),
        }
        Ok(Self { parts })
    }

    /// Predicts a measurement of the logarithm at each place.
    fn predict(&self, places: &[Place]) -> Vec<Expected> {
        let of = |places: &[Place]| -> Vec<Expected> {
            let samples = self.weighted(|process| process.predictions(places));
            let at = |place: usize| {
                let parts = samples
                    .iter()
                    .map(|(weight, sample)| (*weight, sample[place]));
                Expected::of(&parts.collect::<Vec<_>>())
            };
            (0..places.len()).into_par_iter().map(at).collect()
        };
        places.chunks(AT_ONCE).flat_map(of).collect()
    }

    /// Applies `of` to each process. Returns the result of each hyperparameter sample with its
    /// weight; the weights sum to one.
    fn weighted(&self, of: impl Fn(&Process) -> Vec<Vec<Normal>>) -> Vec<(f64, Vec<Normal>)> {
        let samples = self.parts.iter().flat_map(|(weight, process)| {
            let samples = of(process);
            let weight = weight / samples.len() as f64;
            samples.into_iter().map(move |sample| (weight, sample))
        });
        samples.collect()
    }

    /// The leave-one-out prediction of each training mode, in the order of the fit. Importance
    /// weights undo the influence of the left-out mode on the hyperparameter samples: each
    /// sample's weight is divided by the density that it gives the mode (Gelfand, Dey and Chang
    /// 1992).
    pub fn left_out(&self) -> Vec<LeftOut> {
        let samples = self.weighted(Process::left_out);
        let Some((_, process)) = self.parts.first() else {
            return Vec::new();
        };
        let of = |(at, target): (usize, f64)| {
            let ln_weight = |(weight, sample): &(f64, Vec<Normal>)| {
                let Normal { mean, variance } = sample[at];
                weight.ln() + 0.5 * (variance.ln() + (target - mean).powi(2) / variance)
            };
            let largest = samples
                .iter()
                .map(ln_weight)
                .fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = samples
                .iter()
                .map(|sample| (ln_weight(sample) - largest).exp())
                .collect();
            let total: f64 = weights.iter().sum();
            let pairs = weights.iter().zip(&samples);
            let parts: Vec<(f64, Normal)> = pairs
                .map(|(weight, (_, sample))| (weight / total, sample[at]))
                .collect();
            let Expected { median, sd } = Expected::of(&parts);
            LeftOut {
                residual: target - median,
                sd,
            }
        };
        process.targets().enumerate().map(of).collect()
    }

    fn observe(&self, place: Place, target: f64) -> Result<Self, SingularKernel> {
        let observe =
            |(weight, process): &(f64, Process)| Ok((*weight, process.observe(place, target)?));
        let parts: Result<Vec<_>, SingularKernel> = self.parts.iter().map(observe).collect();
        Ok(Self { parts: parts? })
    }

    /// The hyperparameters of the process with the physical mean and the default prior.
    fn hyperparameters(&self) -> Option<Vec<f64>> {
        self.parts.get(1).map(|(_, process)| process.map().to_vec())
    }
}

/// A summary of the predictive distribution of a logarithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// The median, as a few outlying samples hardly move it.
    pub median: f64,
    /// Root mean square deviation from the median.
    pub sd: f64,
}

impl From<Normal> for Expected {
    fn from(normal: Normal) -> Self {
        Self {
            median: normal.mean,
            sd: normal.variance.sqrt(),
        }
    }
}

impl Expected {
    /// Summarises a mixture of normal distributions whose weights sum to one.
    fn of(parts: &[(f64, Normal)]) -> Self {
        let standard = statrs::distribution::Normal::standard();
        let below = |at: f64| -> f64 {
            let part = |(weight, part): &(f64, Normal)| {
                weight * standard.cdf((at - part.mean) / part.variance.sqrt())
            };
            parts.iter().map(part).sum()
        };
        let means = parts.iter().map(|(_, part)| part.mean);
        let mut low = means.clone().fold(f64::INFINITY, f64::min);
        let mut high = means.fold(f64::NEG_INFINITY, f64::max);
        while high - low > MEDIAN_TOLERANCE {
            let middle = f64::midpoint(low, high);
            if below(middle) < 0.5 {
                low = middle;
            } else {
                high = middle;
            }
        }
        let median = f64::midpoint(low, high);
        let square = |(weight, part): &(f64, Normal)| {
            weight * (part.variance + (part.mean - median).powi(2))
        };
        Self {
            median,
            sd: parts.iter().map(square).sum::<f64>().sqrt(),
        }
    }
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
    /// The mean predicted ln time of the training modes.
    centre: f64,
}

impl Teachers {
    /// Fits teachers to the first [`MAX_TRAINING_MODES`] modes, which should be in random order.
    /// Fits power if at least one mode has it.
    pub fn fit(
        grid: &Grid,
        used: &[Known],
        reference: Option<&Hyperparameters>,
        blend: &Blend,
        seed: u64,
    ) -> Result<Self, SingularKernel> {
        let random = ChaCha8Rng::seed_from_u64(seed);
        Self::learn(grid, used, reference, blend, Some(&random))
    }

    /// Like [`Teachers::fit`], but uses MAP estimates of the hyperparameters and no reference.
    pub fn fit_map(grid: &Grid, used: &[Known]) -> Result<Self, SingularKernel> {
        Self::learn(grid, used, None, &ANY_BOARD, None)
    }

    fn learn(
        grid: &Grid,
        used: &[Known],
        reference: Option<&Hyperparameters>,
        blend: &Blend,
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
        let log_times: Vec<f64> = time
            .predict(&places)
            .iter()
            .map(|time| time.median)
            .collect();
        let centre = log_times.iter().sum::<f64>() / log_times.len() as f64;
        let mut teachers = Self {
            scales,
            time,
            power: None,
            centre,
        };
        let measured = used.iter().zip(places).zip(log_times);
        let (places, logs): (Vec<Place>, Vec<f64>) = measured
            .filter_map(|((mode, place), log_time)| {
                let log_time = log_time - centre;
                Some((Place { log_time, ..place }, mode.power_mw?.ln()))
            })
            .unzip();
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
    /// order of `modes`.
    pub fn predict(&self, modes: &[[u32; 4]]) -> Vec<Vec<Expected>> {
        let places: Vec<Place> = modes
            .iter()
            .map(|&knobs| self.scales.place(knobs))
            .collect();
        let time = self.time.predict(&places);
        let power = self.power.as_ref().map(|teacher| {
            let places = self.with_log_times(places, time.iter().map(|time| time.median));
            teacher.predict(&places)
        });
        [Some(time), power].into_iter().flatten().collect()
    }

    fn with_log_times(
        &self,
        mut places: Vec<Place>,
        times: impl Iterator<Item = f64>,
    ) -> Vec<Place> {
        for (place, time) in places.iter_mut().zip(times) {
            place.log_time = time - self.centre;
        }
        places
    }

    /// Conditions the teachers on one more measurement, with unchanged hyperparameters.
    pub fn observe(&self, mode: &Known) -> Result<Self, SingularKernel> {
        let place = self.scales.place(mode.knobs);
        let log_time = self.time.predict(&[place])[0].median - self.centre;
        let power = self.power.as_ref().zip(mode.power_mw);
        let place_of_power = Place { log_time, ..place };
        Ok(Self {
            time: self.time.observe(place, mode.time_us.ln())?,
            power: power
                .map(|(teacher, power)| teacher.observe(place_of_power, power.ln()))
                .transpose()?,
            ..self.clone()
        })
    }

    /// The hyperparameters that a transfer to another workload or board may start from.
    pub fn hyperparameters(&self) -> Hyperparameters {
        Target::ALL.map(|target| self.of(target).and_then(Teacher::hyperparameters))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mixture_is_as_wide_as_its_parts_lie_apart() {
        let part = |mean| Normal {
            mean,
            variance: 1.0,
        };
        let of_two = Expected::of(&[(0.5, part(-2.0)), (0.5, part(2.0))]);
        assert!(of_two.median.abs() < 1e-6 && (of_two.sd - 5_f64.sqrt()).abs() < 1e-6);
        let far_off = Expected::of(&[(0.9, part(0.0)), (0.1, part(100.0))]);
        assert!(far_off.median < 0.2 && far_off.sd > 30.0);
    }

    #[test]
    fn a_reference_pulls_coefficients_half_way_and_leaves_the_noise() {
        let prior = Mean::Time.prior();
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
