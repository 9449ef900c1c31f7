//! Mixtures of Gaussian processes for the logarithm of one target.
//!
//! [`Blend`](crate::learn::blend::Blend) says which processes a mixture has. The exported network is distilled
//! from the medians of the mixtures on the whole grid; the guard band follows from their spread.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::learn::expected::Expected;
use crate::learn::gp::{Normal, Process, SingularCovariance};
use crate::learn::mean::Place;
use crate::learn::priors::Spec;

/// Places predicted at once; memory is proportional to this times the number of training modes.
const AT_ONCE: usize = 4_096;

/// Parts of the training modes that are left out in turn.
pub(super) const FOLDS: usize = 10;

/// What the samples of a process predict at one place, with the share of each.
type Samples = Vec<(f64, Normal)>;

/// The training modes of a fold by index, with what each process predicts of them.
type OfFold = Vec<(usize, Vec<Samples>)>;

/// The place of the physical process among the parts.
const PHYSICAL: usize = 1;

/// The places of a fold, one for each training mode.
pub(super) struct PlacesOfFold {
    /// Those of the training; `None` where they are those of the fit.
    pub training: Option<Vec<Place>>,
    /// Those to predict.
    pub predicted: Vec<Place>,
}

/// A mixture of Gaussian processes for the logarithm of one target.
#[derive(Clone, Debug)]
pub struct Mixture {
    /// Processes with their weights, which sum to one.
    parts: Vec<(f64, Process)>,
}

impl Mixture {
    /// Fits weighted processes; the second one is physical. If `random` is given, the hyperparameters are
    /// sampled; otherwise their MAP estimates are taken.
    pub(super) fn fit(
        processes: &[(f64, Spec)],
        places: &[Place],
        targets: &[f64],
        random: Option<&ChaCha8Rng>,
    ) -> Result<Self, SingularCovariance> {
        let fit = |(at, (weight, spec)): (usize, &(f64, Spec))| {
            let process = match random {
                Some(random) => {
                    let mut random = random.clone();
                    random.set_stream(at as u64 + 1);
                    Process::fit(spec, places, targets, &mut random)
                }
                None => Process::fit_map(spec, places, targets),
            };
            Ok((*weight, process?))
        };
        let parts: Result<Vec<_>, SingularCovariance> =
            processes.par_iter().enumerate().map(fit).collect();
        Ok(Self { parts: parts? })
    }

    /// Predicts a measurement of the logarithm at each place.
    pub(super) fn predict(&self, places: &[Place]) -> Vec<Expected> {
        let predicted = |places: &[Place]| -> Vec<Expected> {
            let parts = self.predictions(places);
            (0..places.len())
                .into_par_iter()
                .map(|at| self.blended(&parts.each(at)))
                .collect()
        };
        places.chunks(AT_ONCE).flat_map(predicted).collect()
    }

    /// The mean at each place, faster than [`Mixture::predict`].
    pub(super) fn means(&self, places: &[Place]) -> Vec<f64> {
        let mut means = vec![0.0; places.len()];
        for (weight, process) in &self.parts {
            for (share, of_sample) in process.shares().zip(process.means(places)) {
                let pairs = means.iter_mut().zip(of_sample);
                pairs.for_each(|(sum, mean)| *sum += weight * share * mean);
            }
        }
        means
    }

    /// The mean function of the physical process at each place.
    pub(super) fn physics(&self, places: &[Place]) -> Vec<f64> {
        let (_, physical) = &self.parts[PHYSICAL];
        physical.mean_function(places)
    }

    /// What each process predicts.
    fn predictions(&self, places: &[Place]) -> OfParts {
        let part = |(_, process): &(f64, Process)| OfPart {
            shares: process.shares().collect(),
            samples: process.predictions(places),
        };
        OfParts(self.parts.iter().map(part).collect())
    }

    /// Blends what processes predict at one place, one list of samples with their shares each.
    fn blended(&self, parts: &[Samples]) -> Expected {
        let pairs = self.parts.iter().zip(parts);
        let samples = pairs.flat_map(|((weight, _), samples)| {
            let samples = samples.iter();
            samples.map(move |(share, sample)| (weight * share, *sample))
        });
        Expected::from_mixture(&samples.collect::<Vec<_>>())
    }

    /// Weights each process by how well it predicts targets that it was not trained on (stacking of
    /// predictive distributions, Yao et al. 2018). `left_out` has these predictions by target and process.
    /// The present weights count like `prior` more targets.
    fn stack(&mut self, left_out: &[Vec<Samples>], prior: f64) {
        let density = |samples: &Samples, target: f64| -> f64 {
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

    /// Predicts each training mode by a mixture that was learned again without the modes of its fold. `modes` has the
    /// index of each mode in the fit of the teachers. `places` gives those of a fold: of the training, if they differ
    /// from those of the fit, and to predict. With `stacking` the predictions decide on the weights of the processes.
    /// Keeps the predictions of a fold, not its mixture, which needs memory for the square of the modes. Calls `fitted` after each
    /// fold.
    pub(super) fn leave_out(
        &mut self,
        modes: &[usize],
        places: impl Fn(usize) -> PlacesOfFold + Sync,
        stacking: Option<f64>,
        seed: u64,
        fitted: impl Fn() + Sync,
    ) -> Result<Vec<Expected>, SingularCovariance> {
        let of_fold = |fold: usize| {
            let is_of_fold = |at: usize| modes[at] % FOLDS == fold;
            let members: Vec<usize> = (0..modes.len()).filter(|&at| is_of_fold(at)).collect();
            if members.is_empty() {
                fitted();
                return Ok(Vec::new());
            }
            let places = places(fold);
            let others = self.without(is_of_fold, places.training.as_deref(), (seed, fold))?;
            fitted();
            let predicted = |at: usize| (at, others.predictions(&[places.predicted[at]]).each(0));
            Ok(members.into_iter().map(predicted).collect())
        };
        let folds: Result<Vec<OfFold>, SingularCovariance> =
            (0..FOLDS).into_par_iter().map(of_fold).collect();
        let mut left_out = vec![Vec::new(); modes.len()];
        for (at, parts) in folds?.into_iter().flatten() {
            left_out[at] = parts;
        }
        if let Some(prior) = stacking {
            self.stack(&left_out, prior);
        }
        Ok(left_out.iter().map(|parts| self.blended(parts)).collect())
    }

    /// Learns again without the training modes of a fold. `is_of_fold` marks them by index.
    fn without(
        &self,
        is_of_fold: impl Fn(usize) -> bool + Copy,
        places: Option<&[Place]>,
        (seed, fold): (u64, usize),
    ) -> Result<Self, SingularCovariance> {
        let one = |(at, (weight, process)): (usize, &(f64, Process))| {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            // Streams 1 to 3 are those of the fit.
            random.set_stream((4 * (fold + 1) + at) as u64);
            Ok((*weight, process.without(is_of_fold, places, &mut random)?))
        };
        let parts = self.parts.iter().enumerate().map(one);
        let parts: Result<Vec<_>, SingularCovariance> = parts.collect();
        Ok(Self { parts: parts? })
    }

    /// Conditions each process on one more measurement. The weights become proportional to
    /// weight × predicted density of the measurement.
    pub(super) fn observe(&self, place: Place, target: f64) -> Result<Self, SingularCovariance> {
        let observe = |(weight, process): &(f64, Process)| {
            let (process, density) = process.observe(place, target)?;
            Ok((*weight, density, process))
        };
        let parts: Result<Vec<_>, SingularCovariance> = self.parts.iter().map(observe).collect();
        let parts = parts?;
        let sum: f64 = parts
            .iter()
            .map(|(weight, density, _)| weight * density)
            .sum();
        let parts = parts.into_iter().map(|(weight, density, process)| {
            // A measurement to which every process gives a density of 0 leaves the weights as they are.
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
    pub(super) fn places(&self) -> &[Place] {
        self.parts
            .first()
            .map_or(&[], |(_, process)| process.places())
    }

    /// The targets of the training modes.
    pub(super) fn targets(&self) -> impl Iterator<Item = f64> {
        self.parts
            .first()
            .into_iter()
            .flat_map(|(_, process)| process.targets())
    }

    /// The hyperparameters of the physical process.
    pub(super) fn hyperparameters(&self) -> Option<Vec<f64>> {
        self.parts.get(PHYSICAL).map(|(_, process)| process.map())
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
    fn each(&self, at: usize) -> Vec<Samples> {
        let samples = |part: &OfPart| {
            let pairs = part.shares.iter().zip(&part.samples);
            pairs.map(|(share, all)| (*share, all[at])).collect()
        };
        self.0.iter().map(samples).collect()
    }
}

/// The weights w, of sum one, that maximise Σ ln Σ w·p + Σ prior·ln w for densities p by target and
/// part, found by expectation maximisation.
fn stacked(prior: &[f64], densities: &[Vec<f64>]) -> Vec<f64> {
    const MAXIMISATION_ROUNDS: usize = 200;
    let normalised = |counts: Vec<f64>| -> Vec<f64> {
        let sum: f64 = counts.iter().sum();
        counts.into_iter().map(|count| count / sum).collect()
    };
    (0..MAXIMISATION_ROUNDS).fold(normalised(prior.to_vec()), |weights, _| {
        let mut counts = prior.to_vec();
        for parts in densities {
            let shares = weights
                .iter()
                .zip(parts)
                .map(|(weight, density)| weight * density);
            let sum: f64 = shares.clone().sum();
            // A target to which every part gives a density of 0 cannot tell the parts apart.
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

#[cfg(test)]
mod tests {
    use wattgate_runtime::grid::Grid;

    use super::*;
    use crate::corpus::modes::all_modes;
    use crate::learn::blend::Blend;
    use crate::learn::mean::Scales;
    use crate::learn::predictions::Target;
    use crate::learn::priors::Priors;

    /// Processes that were learned again have fewer samples; each counts in full.
    #[test]
    fn the_shares_of_all_samples_sum_to_one() {
        let grid = Grid::new([&[1, 2], &[100, 200, 400], &[100, 300], &[50, 90]]).expect("a grid");
        let scales = Scales::from_grid(&grid);
        let modes: Vec<[u32; 4]> = all_modes(&grid).collect();
        let places: Vec<Place> = modes.iter().map(|&knobs| scales.place(knobs)).collect();
        let times = modes
            .iter()
            .map(|knobs| -f64::from(knobs[1] + knobs[2]).ln());
        let targets: Vec<f64> = times.collect();
        let blend = Blend::any_board(Priors::shipped());
        let random = ChaCha8Rng::seed_from_u64(1);
        let processes = blend.processes(Target::Time, places.len(), None);
        let all = Mixture::fit(&processes, &places, &targets, Some(&random));
        let all = all.expect("regular");
        let fewer = all
            .without(|at| at % FOLDS == 0, None, (1, 0))
            .expect("regular");
        for mixture in [&all, &fewer] {
            let parts = mixture.predictions(&places[..1]).each(0);
            for (part, (_, process)) in parts.iter().zip(&mixture.parts) {
                assert_eq!(part.len(), process.thetas().count());
                let sum: f64 = part.iter().map(|(share, _)| share).sum();
                assert!((sum - 1.0).abs() < 1e-12, "{sum}");
            }
        }
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
}
