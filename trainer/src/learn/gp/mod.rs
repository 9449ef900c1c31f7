//! A Gaussian process with a mean function whose coefficients are unknown.
//!
//! The covariance has a smooth, a linear and a stepped part (`covariance.rs`; Rasmussen and Williams, *Gaussian
//! Processes for Machine Learning*, 2006, equations 4.17 and 5.1). Point i has noise s²·e^ηᵢ with
//! ηᵢ ~ N(0, 1), so that a disturbed measurement may be noisier than the others. All hyperparameters θ have
//! normal priors.
//!
//! L-BFGS finds the most probable θ and η, the MAP estimate. A few points leave θ uncertain. So a process of at most
//! `SAMPLED` points has samples of θ, all with the estimated η; a process of more points has the estimated θ alone.
//! The first [`DECIDING`] points decide on θ. The estimate of η and the predictions use all points.

mod covariance;
mod hyper;

use std::f64::consts::TAU;

use faer::linalg::solvers::{DenseSolveCore, Llt, Solve};
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::{Mat, Par, Side};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use statrs::function::erf::erfc;
use thiserror::Error;

use self::covariance::Covariance;
use self::hyper::{Chain, Map};
use crate::learn::mean::{COVARIANCE_PARAMETERS, Mean, Place};
use crate::learn::priors::{Prior, Spec};
use crate::learn::standard::Standard;

/// Maximum number of points for which the hyperparameters are sampled. Sampling takes a time that grows with the
/// cube of the points, and changes the predictions less with each of them. At 50 points it still helps where
/// readings are disturbed.
const SAMPLED: usize = 99;

/// Maximum number of points from which hyperparameters are estimated.
pub const DECIDING: usize = 200;

/// Variance added to the diagonal: keeps the covariance matrix positive definite if points coincide.
const JITTER: f64 = 1e-7;

/// No hyperparameters gave a positive definite covariance matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the clocks and cores of these modes are too much alike to fit a model; measure modes that differ more"
)]
pub struct SingularCovariance;

/// Training points.
#[derive(Clone, Debug)]
struct Points {
    mean: Mean,
    places: Vec<Place>,
    standard: Standard,
    /// Standardised targets, one per place.
    targets: Vec<f64>,
}

/// The points under given hyperparameters.
struct Solved {
    /// Cholesky factor of the covariance matrix.
    factor: Llt<f64>,
    /// K⁻¹·(targets − mean).
    weights: Vec<f64>,
    /// The log marginal likelihood, up to a constant.
    log_likelihood: f64,
}

impl Points {
    fn new(mean: Mean, places: &[Place], targets: &[f64]) -> Self {
        Self::with(
            mean,
            places,
            targets,
            Standard::from_values(targets.iter().copied()),
        )
    }

    fn with(mean: Mean, places: &[Place], targets: &[f64], standard: Standard) -> Self {
        Self {
            mean,
            places: places.to_vec(),
            targets: targets.iter().map(|&y| standard.apply(y)).collect(),
            standard,
        }
    }

    fn len(&self) -> usize {
        self.places.len()
    }

    /// The first `count` points, standardised as before.
    fn first(&self, count: usize) -> Self {
        let mut few = self.clone();
        few.places.truncate(count);
        few.targets.truncate(count);
        few
    }

    fn solve(&self, theta: &[f64], noise: &[f64]) -> Result<Solved, SingularCovariance> {
        let covariance = Covariance::new(self.mean, theta);
        let columns = self.places.iter().enumerate();
        let covariances = columns.flat_map(|(j, y)| {
            let rest = self.places[j..].iter();
            rest.map(move |x| covariance.value(x, y))
        });
        let residuals = self.residuals(theta, |_| {});
        Solved::new(covariances, covariance.noise, noise, &residuals)
    }

    /// Finds the noise factor e^η of each point under given hyperparameters, starting from those in `noise`.
    /// Each round takes, for each point, the η with the largest posterior while all others stay. That posterior
    /// is the density that the other points give to the point's target (Rasmussen and Williams, equation 5.12),
    /// times the prior of η.
    fn find_noise(&self, theta: &[f64], noise: &mut [f64]) -> Result<(), SingularCovariance> {
        const NOISE_ROUNDS: usize = 3;
        for _ in 0..NOISE_ROUNDS {
            let solved = self.solve(theta, noise)?;
            let variance = Covariance::new(self.mean, theta).noise;
            let inverse = solved.factor.inverse();
            for (i, (noise, weight)) in noise.iter_mut().zip(&solved.weights).enumerate() {
                let of_others = inverse[(i, i)].recip();
                let residual = weight * of_others;
                let without_noise = (of_others - variance * *noise).max(JITTER);
                *noise = hyper::likeliest_noise(residual, without_noise, variance);
            }
        }
        Ok(())
    }

    /// Targets − mean. Shows `seen` the derivatives of each mean by its hyperparameters.
    fn residuals(&self, theta: &[f64], mut seen: impl FnMut(&[f64])) -> Vec<f64> {
        let mut gradient = vec![0.0; theta.len() - COVARIANCE_PARAMETERS];
        let pairs = self.places.iter().zip(&self.targets);
        let residual = |(place, y): (&Place, &f64)| {
            let mean = self.mean.value(place, theta, &mut gradient);
            seen(&gradient);
            y - mean / self.standard.sd
        };
        pairs.map(residual).collect()
    }
}

impl Solved {
    /// From the covariances of the points i ≥ j, column by column, without noise.
    fn new(
        mut covariances: impl Iterator<Item = f64>,
        variance: f64,
        noise: &[f64],
        residuals: &[f64],
    ) -> Result<Self, SingularCovariance> {
        let n = residuals.len();
        let mut matrix = Mat::zeros(n, n);
        for (j, noise) in noise.iter().enumerate() {
            let column = &mut matrix.col_as_slice_mut(j)[j..];
            column.fill_with(|| covariances.next().expect("one for each pair"));
            column[0] += variance * noise + JITTER;
        }
        let factor = Llt::new(matrix.as_ref(), Side::Lower).map_err(|_| SingularCovariance)?;
        drop(matrix);
        let solution = factor.solve(Mat::from_fn(n, 1, |i, _| residuals[i]));
        let weights = solution.col_as_slice(0).to_vec();
        let lower = factor.L();
        let half_log_determinant: f64 = (0..n).map(|i| lower[(i, i)].ln()).sum();
        let fit: f64 = residuals.iter().zip(&weights).map(|(r, w)| r * w).sum();
        let log_likelihood = -0.5 * fit - half_log_determinant;
        if !log_likelihood.is_finite() {
            return Err(SingularCovariance);
        }
        Ok(Self {
            factor,
            weights,
            log_likelihood,
        })
    }
}

/// A process fitted to points.
#[derive(Clone, Debug)]
pub struct Process {
    prior: Prior,
    points: Points,
    map: Map,
    samples: Vec<Sample>,
}

/// A process with given hyperparameters.
#[derive(Clone, Debug)]
struct Sample {
    /// Its share in the mixture; the shares of all samples sum to one.
    share: f64,
    theta: Vec<f64>,
    covariance: Covariance,
    factor: Llt<f64>,
    weights: Vec<f64>,
}

/// A normal predictive distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normal {
    /// The mean.
    pub mean: f64,
    /// The variance.
    pub variance: f64,
}

impl Normal {
    /// The probability density of a value.
    pub fn density(&self, at: f64) -> f64 {
        (-0.5 * (at - self.mean).powi(2) / self.variance).exp() / (TAU * self.variance).sqrt()
    }

    /// The probability of a lower value.
    pub fn below(&self, at: f64) -> f64 {
        0.5 * erfc((self.mean - at) / (2.0 * self.variance).sqrt())
    }
}

impl Process {
    /// Samples the hyperparameters if there are at most `SAMPLED` points, else takes their MAP estimate. Targets
    /// are logarithms in any unit. Only the first [`DECIDING`] points decide on the hyperparameters, so the order of
    /// the points should be random.
    pub fn fit(
        spec: &Spec,
        places: &[Place],
        targets: &[f64],
        random: &mut ChaCha8Rng,
    ) -> Result<Self, SingularCovariance> {
        let points = Points::new(spec.mean, places, targets);
        if points.len() <= SAMPLED {
            let lengths = Chain::whole(points.len());
            return Self::sampled(points, spec, lengths, random);
        }
        let mut map = hyper::map(&points.first(DECIDING), &spec.prior, true)?;
        let theta = hyper::unwhitened(&spec.prior, &map.at);
        if points.len() > DECIDING {
            map.noise.resize(points.len(), 1.0);
            points.find_noise(&theta, &mut map.noise)?;
        }
        Self::with_thetas(points, vec![theta], &spec.prior, map)
    }

    fn sampled(
        points: Points,
        spec: &Spec,
        lengths: Chain,
        random: &mut ChaCha8Rng,
    ) -> Result<Self, SingularCovariance> {
        let map = hyper::map(&points, &spec.prior, true)?;
        let thetas = hyper::samples(&points, &spec.prior, &map, lengths, random)?;
        Self::with_thetas(points, thetas, &spec.prior, map)
    }

    /// Like [`Process::fit`], but by a shorter chain, for places that may all lie in one corner of the grid. Their targets
    /// say little about the mean and the spread of all targets. So `spread` gives the standard deviation
    /// over the grid, and the targets are assumed to lie around the prior's mean function.
    pub fn fit_in_corner(
        spec: &Spec,
        spread: f64,
        places: &[Place],
        targets: &[f64],
        random: &mut ChaCha8Rng,
    ) -> Result<Self, SingularCovariance> {
        let centre: Vec<f64> = spec.prior.iter().map(|[mean, _]| *mean).collect();
        let mut gradient = vec![0.0; centre.len() - COVARIANCE_PARAMETERS];
        let mut above = |(place, target): (&Place, &f64)| {
            target - spec.mean.value(place, &centre, &mut gradient)
        };
        let sum: f64 = places.iter().zip(targets).map(&mut above).sum();
        let standard = Standard {
            mean: sum / targets.len() as f64,
            sd: spread,
        };
        let points = Points::with(spec.mean, places, targets, standard);
        let lengths = Chain::part(points.len());
        Self::sampled(points, spec, lengths, random)
    }

    /// Uses the MAP estimate of the hyperparameters, with the same noise in all points.
    pub fn fit_map(
        spec: &Spec,
        places: &[Place],
        targets: &[f64],
    ) -> Result<Self, SingularCovariance> {
        let points = Points::new(spec.mean, places, targets);
        let mut map = hyper::map(&points.first(DECIDING), &spec.prior, false)?;
        map.noise = vec![1.0; points.len()];
        let theta = hyper::unwhitened(&spec.prior, &map.at);
        Self::with_thetas(points, vec![theta], &spec.prior, map)
    }

    /// A process before any measurement, with hyperparameters at their prior means. Its
    /// variances are those after measuring at `places`.
    pub fn unmeasured(spec: &Spec, places: &[Place]) -> Result<Self, SingularCovariance> {
        let points = Points::new(spec.mean, places, &vec![0.0; places.len()]);
        let map = Map {
            at: vec![0.0; spec.prior.len()],
            noise: vec![1.0; points.len()],
            log_posterior: 0.0,
        };
        let theta = hyper::unwhitened(&spec.prior, &map.at);
        Self::with_thetas(points, vec![theta], &spec.prior, map)
    }

    /// Forgets some points: estimates or samples the hyperparameters again from the others. The
    /// scale of the targets stays, and so do the noise factors of more than [`DECIDING`] points. `places` replaces those
    /// of all points.
    pub fn without(
        &self,
        forgotten: impl Fn(usize) -> bool,
        places: Option<&[Place]>,
        random: &mut ChaCha8Rng,
    ) -> Result<Self, SingularCovariance> {
        let kept: Vec<usize> = (0..self.points.len())
            .filter(|at| !forgotten(*at))
            .collect();
        let places = places.unwrap_or(&self.points.places);
        let points = Points {
            places: kept.iter().map(|&at| places[at]).collect(),
            targets: kept.iter().map(|&at| self.points.targets[at]).collect(),
            ..self.points.clone()
        };
        let near = Map {
            noise: kept.iter().map(|&at| self.map.noise[at]).collect(),
            ..self.map.clone()
        };
        let is_decided_by_all = self.points.len() <= DECIDING;
        let first = points.first(DECIDING);
        let mut map = hyper::map_near(&first, &self.prior, &near, is_decided_by_all);
        if !is_decided_by_all {
            map.noise = near.noise;
        }
        let thetas = match self.samples.len() {
            1 => vec![hyper::unwhitened(&self.prior, &map.at)],
            _ => {
                let lengths = Chain::part(points.len());
                hyper::samples(&points, &self.prior, &map, lengths, random)?
            }
        };
        Self::with_thetas(points, thetas, &self.prior, map)
    }

    fn with_thetas(
        points: Points,
        thetas: Vec<Vec<f64>>,
        prior: &Prior,
        map: Map,
    ) -> Result<Self, SingularCovariance> {
        let mut process = Self {
            prior: prior.clone(),
            points,
            map,
            samples: Vec::new(),
        };
        process.condition(thetas)?;
        Ok(process)
    }

    fn condition(&mut self, thetas: Vec<Vec<f64>>) -> Result<(), SingularCovariance> {
        let share = 1.0 / thetas.len() as f64;
        let samples: Result<Vec<Sample>, SingularCovariance> = thetas
            .into_iter()
            .map(|theta| {
                let solved = self.points.solve(&theta, &self.map.noise)?;
                Ok(Sample {
                    share,
                    covariance: Covariance::new(self.points.mean, &theta),
                    theta,
                    factor: solved.factor,
                    weights: solved.weights,
                })
            })
            .collect();
        self.samples = samples?;
        Ok(())
    }

    /// The samples of the hyperparameters.
    pub fn thetas(&self) -> impl Iterator<Item = &[f64]> {
        self.samples.iter().map(|sample| &sample.theta[..])
    }

    /// The shares of the samples in the mixture, in the order of the predictions.
    pub fn shares(&self) -> impl Iterator<Item = f64> {
        self.samples.iter().map(|sample| sample.share)
    }

    /// The places of the training points.
    pub fn places(&self) -> &[Place] {
        &self.points.places
    }

    /// The MAP estimate of the hyperparameters.
    pub fn map(&self) -> Vec<f64> {
        hyper::unwhitened(&self.prior, &self.map.at)
    }

    /// The mean of the targets that standardises them.
    pub fn level(&self) -> f64 {
        self.points.standard.mean
    }

    /// The log posterior density at the MAP estimate, to compare priors on the same data.
    pub fn log_posterior(&self) -> f64 {
        self.map.log_posterior
    }

    /// The values of the mean function at the maximum of the posterior.
    pub fn mean_function(&self, places: &[Place]) -> Vec<f64> {
        let theta = self.map();
        let mut gradient = vec![0.0; theta.len() - COVARIANCE_PARAMETERS];
        let mut value = |at: &Place| self.points.mean.value(at, &theta, &mut gradient);
        places.iter().map(&mut value).collect()
    }

    /// Predicted means by sample and place, in the unit of the targets.
    pub fn means(&self, places: &[Place]) -> Vec<Vec<f64>> {
        let means = |sample: &Sample| -> Vec<f64> {
            let mut gradient = vec![0.0; sample.theta.len() - COVARIANCE_PARAMETERS];
            let mut one = |at: &Place| {
                let pairs = self.points.places.iter().zip(&sample.weights);
                let sum: f64 = pairs.map(|(x, w)| w * sample.covariance.value(at, x)).sum();
                let mean = self.points.mean.value(at, &sample.theta, &mut gradient);
                self.points.standard.mean + mean + self.points.standard.sd * sum
            };
            places.iter().map(&mut one).collect()
        };
        self.samples.par_iter().map(means).collect()
    }

    /// Predictive distributions of a measurement, noise included, by sample and place.
    pub fn predictions(&self, places: &[Place]) -> Vec<Vec<Normal>> {
        let Standard { mean: level, sd } = self.points.standard;
        let predictions = |sample: &Sample| -> Vec<Normal> {
            let mut columns = self.columns(sample, places);
            let mut gradient = vec![0.0; sample.theta.len() - COVARIANCE_PARAMETERS];
            let mut mean = |(at, place): (usize, &Place)| {
                let pairs = columns.col_as_slice(at).iter().zip(&sample.weights);
                let sum: f64 = pairs.map(|(k, w)| w * k).sum();
                let physics = self.mean_over_times(sample, place, &mut gradient);
                Normal {
                    mean: level + physics.mean + sd * sum,
                    ..physics
                }
            };
            let means: Vec<Normal> = places.iter().enumerate().map(&mut mean).collect();
            whiten(&sample.factor, &mut columns);
            let one = |(at, known): (usize, Normal)| {
                let explained: f64 = columns.col_as_slice(at).iter().map(|v| v * v).sum();
                let latent = (sample.covariance.variance(&places[at]) - explained).max(1e-12);
                Normal {
                    mean: known.mean,
                    variance: known.variance + sd * sd * (latent + sample.covariance.noise),
                }
            };
            means.into_iter().enumerate().map(one).collect()
        };
        self.samples.par_iter().map(predictions).collect()
    }

    /// The mean function at a place, to the first order in the deviation of the place's log time.
    fn mean_over_times(&self, sample: &Sample, place: &Place, gradient: &mut [f64]) -> Normal {
        let mean = self.points.mean.value(place, &sample.theta, gradient);
        let slope = self.points.mean.by_log_time(gradient);
        Normal {
            mean,
            variance: (slope * place.log_time_sd).powi(2),
        }
    }

    /// k(points, places), one column per place.
    fn columns(&self, sample: &Sample, places: &[Place]) -> Mat<f64> {
        Mat::from_fn(self.points.places.len(), places.len(), |i, j| {
            sample.covariance.value(&self.points.places[i], &places[j])
        })
    }

    /// Predicts the effects β of groups of points, where ln targets are those of this process plus Zβ and β is normal around
    /// 0 with standard deviations `sds`: (Z′V⁻¹Z + Λ⁻¹)⁻¹·Z′V⁻¹·(targets − mean), with the covariance V of the points, noise
    /// included. `designs` are the columns of Z.
    pub fn random_effects(
        &self,
        targets: &[f64],
        designs: &[Vec<f64>],
        sds: &[f64],
    ) -> Result<Vec<f64>, SingularCovariance> {
        let (sample, standard) = (&self.samples[0], self.points.standard);
        let points = Points {
            targets: targets.iter().map(|&y| standard.apply(y)).collect(),
            ..self.points.clone()
        };
        let residuals = points.residuals(&sample.theta, |_| {});
        let (n, parts) = (residuals.len(), designs.len());
        let z = Mat::from_fn(n, parts, |i, j| designs[j][i]);
        let whitened = sample.factor.solve(&z);
        let matrix = Mat::from_fn(parts, parts, |i, j| {
            let sum: f64 = (0..n).map(|at| z[(at, i)] * whitened[(at, j)]).sum();
            let prior = if i == j {
                (standard.sd / sds[i]).powi(2)
            } else {
                0.0
            };
            sum + prior
        });
        let right = Mat::from_fn(parts, 1, |i, _| {
            (0..n)
                .map(|at| whitened[(at, i)] * residuals[at])
                .sum::<f64>()
        });
        let factor = Llt::new(matrix.as_ref(), Side::Lower).map_err(|_| SingularCovariance)?;
        let solved = factor.solve(right);
        Ok(solved
            .col_as_slice(0)
            .iter()
            .map(|effect| effect * standard.sd)
            .collect())
    }

    /// Leave-one-out predictive distributions of a new measurement with unchanged hyperparameters, by
    /// sample and point (Rasmussen and Williams, equations 5.12).
    pub fn left_out(&self) -> Vec<Vec<Normal>> {
        let Standard { mean, sd } = self.points.standard;
        let left_out = |sample: &Sample| -> Vec<Normal> {
            let inverse = sample.factor.inverse();
            let one = |(i, weight): (usize, &f64)| {
                let own_noise = sample.covariance.noise * self.map.noise[i] + JITTER;
                let latent = (inverse[(i, i)].recip() - own_noise).max(1e-12);
                Normal {
                    mean: mean + sd * (self.points.targets[i] - weight / inverse[(i, i)]),
                    variance: sd * sd * (latent + sample.covariance.noise),
                }
            };
            sample.weights.iter().enumerate().map(one).collect()
        };
        self.samples.iter().map(left_out).collect()
    }

    /// The training targets in their original unit.
    pub fn targets(&self) -> impl Iterator<Item = f64> {
        let Standard { mean, sd } = self.points.standard;
        self.points.targets.iter().map(move |y| mean + sd * y)
    }

    /// Conditions the process on one more measurement. The samples of the hyperparameters stay; their
    /// shares become proportional to share × predicted density of the measurement (Bayes' theorem).
    /// Also returns that density under all samples.
    pub fn observe(&self, place: Place, target: f64) -> Result<(Self, f64), SingularCovariance> {
        let predicted = self.predictions(&[place]);
        let densities = predicted.iter().map(|at| at[0].density(target));
        let joint: Vec<f64> = self.shares().zip(densities).map(|(s, d)| s * d).collect();
        let density: f64 = joint.iter().sum();
        let mut more = self.clone();
        more.points.places.push(place);
        more.points.targets.push(self.points.standard.apply(target));
        more.map.noise.push(1.0);
        let thetas = self.samples.iter().map(|sample| sample.theta.clone());
        more.condition(thetas.collect())?;
        // A measurement that no sample thinks possible says nothing of the shares.
        if density > 0.0 {
            let shares = more.samples.iter_mut().zip(joint);
            shares.for_each(|(sample, joint)| sample.share = joint / density);
        }
        Ok((more, density))
    }

    /// For each candidate, the reduction of the mean predictive variance over `places` that a
    /// measurement there would bring, in the squared unit of the targets: the mean of
    /// cov(place, candidate)² / var(measurement), for the first sample. The coefficients of the mean count
    /// as unknown, with the spread of their prior; the mean is taken as linear in them.
    pub fn gains(&self, places: &[Place], candidates: &[Place]) -> Vec<f64> {
        let sample = &self.samples[0];
        let slopes = |places: &[Place]| -> Vec<Vec<f64>> {
            places
                .iter()
                .map(|place| self.slopes(sample, place))
                .collect()
        };
        let value = |(x, of_x): (&Place, &[f64]), (y, of_y): (&Place, &[f64])| {
            let by_mean: f64 = of_x.iter().zip(of_y).map(|(a, b)| a * b).sum();
            sample.covariance.value(x, y) + by_mean
        };
        let points = &self.points.places;
        let [of_points, of_places, of_candidates] = [points, places, candidates].map(slopes);
        let covariances = (0..points.len()).flat_map(|j| {
            let (of_points, y) = (&of_points, (&points[j], &of_points[j][..]));
            (j..points.len()).map(move |i| value((&points[i], &of_points[i]), y))
        });
        let noise = &self.map.noise;
        let zeros = vec![0.0; points.len()];
        let Ok(solved) = Solved::new(covariances, sample.covariance.noise, noise, &zeros) else {
            return vec![0.0; candidates.len()];
        };
        let whitened = |places: &[Place], of_places: &[Vec<f64>]| {
            let mut columns = Mat::from_fn(points.len(), places.len(), |i, j| {
                value((&points[i], &of_points[i]), (&places[j], &of_places[j]))
            });
            whiten(&solved.factor, &mut columns);
            columns
        };
        let known_of_places = whitened(places, &of_places);
        let known_of_candidates = whitened(candidates, &of_candidates);
        let scale = self.points.standard.sd * self.points.standard.sd / places.len() as f64;
        let one = |at: usize| {
            let known = known_of_candidates.col_as_slice(at);
            let candidate = (&candidates[at], &of_candidates[at][..]);
            let explained: f64 = known.iter().map(|v| v * v).sum();
            let latent = (value(candidate, candidate) - explained).max(1e-12);
            let covariance = |place: usize| {
                let shared = known_of_places.col_as_slice(place).iter().zip(known);
                let prior = value((&places[place], &of_places[place]), candidate);
                prior - shared.map(|(a, b)| a * b).sum::<f64>()
            };
            let squares: f64 = (0..places.len()).map(|at| covariance(at).powi(2)).sum();
            scale * squares / (latent + sample.covariance.noise)
        };
        (0..candidates.len()).map(one).collect()
    }

    /// The derivatives of the mean function by its coefficients, each in standard deviations of its prior.
    fn slopes(&self, sample: &Sample, place: &Place) -> Vec<f64> {
        let mut slopes = vec![0.0; sample.theta.len() - COVARIANCE_PARAMETERS];
        self.points.mean.value(place, &sample.theta, &mut slopes);
        let priors = self.prior.iter().skip(COVARIANCE_PARAMETERS);
        slopes.iter_mut().zip(priors).for_each(|(slope, [_, sd])| {
            *slope *= sd / self.points.standard.sd;
        });
        slopes
    }
}

/// Multiplies columns by L⁻¹.
fn whiten(factor: &Llt<f64>, columns: &mut Mat<f64>) {
    solve_lower_triangular_in_place(factor.L(), columns.as_mut(), Par::Seq);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::priors::Priors;
    use rand::SeedableRng;
    use wattgate_cli::planning::MOST_REFERENCES;

    /// `n` places and a smooth function of them.
    pub fn points(n: usize) -> (Vec<Place>, Vec<f64>) {
        let spread = |i: usize, k: f64| ((i as f64 * k).fract() - 0.5) * 3.0;
        let places: Vec<Place> = (1..=n)
            .map(|i| {
                let mut input = [0.618, 0.414, 0.732, 0.236].map(|k| spread(i, k));
                // Clocks have few values, which places share.
                input[1..3]
                    .iter_mut()
                    .for_each(|x| *x = (4.0 * *x).round() / 4.0);
                Place {
                    input,
                    log: input.map(|x| 0.3 * x),
                    above: [0.5 + 0.2 * input[0], 0.5 + 0.2 * input[1]],
                    log_time: 0.2 * input[1],
                    log_time_sd: 0.0,
                    stated: [0.0; 2],
                    unexplained: [0.0; 2],
                    stated_by_each: [[0.0; 2]; MOST_REFERENCES],
                }
            })
            .collect();
        let target = |at: &Place| {
            let x = at.input;
            5.0 + x[0] + (0.7 * x[1]).sin() - 0.3 * x[2] * x[3]
        };
        let targets = places.iter().map(target).collect();
        (places, targets)
    }

    fn random() -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(1)
    }

    #[test]
    fn a_smooth_function_is_interpolated() {
        let (places, targets) = points(140);
        let spec = Priors::theory().spec(Mean::Zero);
        let process = Process::fit(&spec, &places[..100], &targets[..100], &mut random());
        let predicted = process.expect("regular").predictions(&places[100..]);
        for sample in predicted {
            for (predicted, target) in sample.iter().zip(&targets[100..]) {
                let error = (predicted.mean - target).abs();
                assert!(error < 0.1 && error < 6.0 * predicted.variance.sqrt());
            }
        }
    }

    /// Points beyond those that determine the hyperparameters have a noise of their own, too.
    #[test]
    fn many_points_do_not_follow_a_disturbed_one() {
        let (places, truth) = points(DECIDING + 60);
        let mut targets = truth.clone();
        let disturbed: Vec<usize> = (5..targets.len()).step_by(10).collect();
        disturbed.iter().for_each(|&at| targets[at] += 1.0);
        let spec = Priors::theory().spec(Mean::Zero);
        let process = Process::fit(&spec, &places, &targets, &mut random()).expect("regular");
        let noise = &process.map.noise;
        let quiet = (0..noise.len()).filter(|at| !disturbed.contains(at));
        let loudest = quiet.map(|at| noise[at]).fold(0.0, f64::max);
        assert!(
            disturbed.iter().all(|&at| noise[at] > 2.0 * loudest),
            "{noise:?}"
        );
        let alike = vec![1.0; noise.len()];
        let error = |process: &Process| {
            let pairs = process.predictions(&places).remove(0);
            let errors = pairs
                .iter()
                .zip(&truth)
                .map(|(predicted, truth)| (predicted.mean - truth).abs());
            errors.sum::<f64>() / truth.len() as f64
        };
        let mut same = process.clone();
        same.map.noise = alike;
        same.condition(vec![process.samples[0].theta.clone()])
            .expect("regular");
        assert!(error(&process) < 0.5 * error(&same));
    }

    #[test]
    fn closed_form_leave_one_out_equals_refitting_without_the_point() {
        let (places, targets) = points(25);
        let spec = Priors::theory().spec(Mean::Time);
        let process = Process::fit(&spec, &places, &targets, &mut random()).expect("regular");
        let mut others = process.clone();
        others.points.places.remove(0);
        others.points.targets.remove(0);
        others.map.noise.remove(0);
        let thetas = process.samples.iter().map(|sample| sample.theta.clone());
        others.condition(thetas.collect()).expect("regular");
        let expected = others.predictions(&places[..1]);
        for (found, expected) in process.left_out().iter().zip(expected) {
            assert!((found[0].mean - expected[0].mean).abs() < 1e-6);
            let ratio = found[0].variance / expected[0].variance;
            assert!((ratio - 1.0).abs() < 1e-4, "{ratio}");
        }
    }

    #[test]
    fn a_measurement_lowers_the_variance_by_the_predicted_gain() {
        let (places, targets) = points(60);
        let spec = Priors::theory().spec(Mean::Zero);
        let process = Process::fit_map(&spec, &places[..20], &targets[..20]).expect("regular");
        let (elsewhere, candidate) = (&places[21..], &places[20..21]);
        let gain = process.gains(elsewhere, candidate)[0];
        let (more, _) = process.observe(candidate[0], targets[20]).expect("regular");
        let variance = |process: &Process| {
            let predictions = &process.predictions(elsewhere)[0];
            let sum: f64 = predictions.iter().map(|normal| normal.variance).sum();
            sum / elsewhere.len() as f64
        };
        let lowered = variance(&process) - variance(&more);
        assert!((gain / lowered - 1.0).abs() < 1e-3, "{gain} {lowered}");
    }

    #[test]
    fn a_constant_target_is_predicted_exactly() {
        let (places, _) = points(10);
        let spec = Priors::theory().spec(Mean::Zero);
        let process = Process::fit(&spec, &places, &[2.5; 10], &mut random()).expect("regular");
        for sample in process.means(&points(11).0[10..]) {
            assert!((sample[0] - 2.5).abs() < 1e-6);
        }
    }

    #[test]
    fn coinciding_points_do_not_make_the_covariance_singular() {
        let places = [points(1).0[0]; 8];
        let targets = [1.0, 1.1, 0.9, 1.0, 1.2, 0.8, 1.0, 1.0];
        let spec = Priors::theory().spec(Mean::Zero);
        let process = Process::fit(&spec, &places, &targets, &mut random());
        for sample in process.expect("noise keeps it regular").means(&places[..1]) {
            assert!((sample[0] - 1.0).abs() < 0.2);
        }
    }
}
