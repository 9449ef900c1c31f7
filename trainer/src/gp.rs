//! A Gaussian process around a mean with unknown coefficients.
//!
//! k(x, x′) = a²·(1 + r + r²/3)·e^(−r) + b²·(1 + x·x′), with r² = 5·Σ ((xᵢ − x′ᵢ)/lᵢ)²
//! (Rasmussen and Williams, *Gaussian Processes for Machine Learning*, 2006, equations 4.17
//! and 5.1), plus noise s²·e^ηᵢ of point i with ηᵢ ~ N(0, 1), so that a disturbed
//! measurement may be noisier than the others. All hyperparameters θ have normal priors.
//!
//! The mode of the posterior of θ and η is found by L-BFGS; then θ is sampled given η by
//! elliptical slice sampling (Murray, Adams and MacKay 2010), because a dozen points leave
//! more than one θ open. Above [`SAMPLED`] points the mode for as many of them is taken and
//! the process conditioned on all.

use std::cell::RefCell;

use argmin::core::{CostFunction, Executor, Gradient};
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::quasinewton::LBFGS;
use faer::linalg::solvers::{DenseSolveCore, Llt, Solve};
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::{Mat, Par, Side};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;
use thiserror::Error;

use crate::mean::{KERNEL, Mean, Place, Prior};
use crate::standard::Standard;

/// Up to so many points decide the hyperparameters.
pub const SAMPLED: usize = 200;

/// Steps of the sampler, of which the first quarter is dropped.
const STEPS: usize = 600;

/// Samples that are kept.
const KEPT: usize = 40;

/// Keeps the kernel matrix positive definite where two points coincide.
const JITTER: f64 = 1e-7;

/// Farther from the prior mean, in standard deviations, no hyperparameter is looked for.
const REACH: f64 = 5.0;

/// The kernel matrix was not positive definite, whatever the hyperparameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the Gaussian process has a singular kernel on these modes")]
pub struct SingularKernel;

/// A mean with the prior of its hyperparameters.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The mean.
    pub mean: Mean,
    /// The prior.
    pub prior: Prior,
}

impl Spec {
    /// A mean with its own prior.
    pub fn of(mean: Mean) -> Self {
        Self {
            mean,
            prior: mean.prior(),
        }
    }
}

/// A process fitted to points.
#[derive(Clone, Debug)]
pub struct Process {
    mean: Mean,
    places: Vec<Place>,
    standard: Standard,
    /// Standardised targets.
    targets: Vec<f64>,
    /// e^ηᵢ.
    noise: Vec<f64>,
    /// The mode of the posterior.
    mode: Vec<f64>,
    /// The logarithm of the posterior there, up to a constant of the data.
    log_posterior: f64,
    samples: Vec<Sample>,
}

#[derive(Clone, Debug)]
struct Sample {
    theta: Vec<f64>,
    kernel: Kernel,
    factor: Llt<f64>,
    weights: Vec<f64>,
}

/// What is predicted of a place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normal {
    /// The mean.
    pub mean: f64,
    /// The variance.
    pub variance: f64,
}

impl Process {
    /// Fits hyperparameters by sampling. Targets are logarithms in any unit. Where there
    /// are many, the first decide, so the order of the points should be random.
    pub fn fit(
        spec: &Spec,
        places: &[Place],
        targets: &[f64],
        random: &mut ChaCha8Rng,
    ) -> Result<Self, SingularKernel> {
        let mut process = Self::start(spec, places, targets);
        if places.len() > SAMPLED {
            return Self::fit_mode(spec, places, targets);
        }
        let posterior = Posterior::new(spec, &process, true);
        let at = posterior.mode(spec)?;
        process.take_mode(&posterior, &at);
        let thetas = process.sample(spec, &at[..spec.prior.len()], random);
        process.condition(thetas)?;
        Ok(process)
    }

    /// Takes the mode of the hyperparameters, with the same noise in all points.
    pub fn fit_mode(
        spec: &Spec,
        places: &[Place],
        targets: &[f64],
    ) -> Result<Self, SingularKernel> {
        let mut process = Self::start(spec, places, targets);
        let few = places.len().min(SAMPLED);
        let mut subset = process.clone();
        subset.places.truncate(few);
        subset.targets.truncate(few);
        subset.noise.truncate(few);
        let posterior = Posterior::new(spec, &subset, false);
        let at = posterior.mode(spec)?;
        process.take_mode(&posterior, &at);
        process.condition(vec![process.mode.clone()])?;
        Ok(process)
    }

    fn start(spec: &Spec, places: &[Place], targets: &[f64]) -> Self {
        let standard = Standard::of(targets.iter().copied());
        Self {
            mean: spec.mean,
            places: places.to_vec(),
            targets: targets.iter().map(|&y| standard.apply(y)).collect(),
            standard,
            noise: vec![1.0; places.len()],
            mode: Vec::new(),
            log_posterior: 0.0,
            samples: Vec::new(),
        }
    }

    fn take_mode(&mut self, posterior: &Posterior<'_>, at: &[f64]) {
        self.log_posterior = -posterior.evaluate(at).0;
        let (theta, eta) = at.split_at(posterior.prior.len());
        self.mode = unwhitened(posterior.prior, theta);
        for (noise, eta) in self.noise.iter_mut().zip(eta) {
            *noise = eta.exp();
        }
    }

    /// Hyperparameters from their posterior, given the noise of each point.
    fn sample(&self, spec: &Spec, mode: &[f64], random: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
        let likelihood = |x: &[f64]| {
            let theta = unwhitened(&spec.prior, x);
            let solved = self.solve(&theta).ok();
            solved.map_or(f64::NEG_INFINITY, |solved| solved.log_likelihood)
        };
        let mut x = mode.to_vec();
        let mut at_x = likelihood(&x);
        let mut kept = Vec::new();
        let (first, apart) = (STEPS / 4, (STEPS - STEPS / 4).div_ceil(KEPT));
        for step in 0..STEPS {
            let direction: Vec<f64> = x.iter().map(|_| StandardNormal.sample(random)).collect();
            let threshold = at_x + random.random::<f64>().ln();
            let mut angle = random.random::<f64>() * std::f64::consts::TAU;
            let (mut low, mut high) = (angle - std::f64::consts::TAU, angle);
            // The bracket shrinks to where the walk stands, so a step ends.
            for _ in 0..60 {
                let (sin, cos) = angle.sin_cos();
                let pairs = x.iter().zip(&direction);
                let moved: Vec<f64> = pairs.map(|(x, d)| x * cos + d * sin).collect();
                let at_moved = likelihood(&moved);
                if at_moved > threshold {
                    (x, at_x) = (moved, at_moved);
                    break;
                }
                if angle < 0.0 {
                    low = angle;
                } else {
                    high = angle;
                }
                angle = low + (high - low) * random.random::<f64>();
            }
            if step >= first && (step - first) % apart == 0 {
                kept.push(unwhitened(&spec.prior, &x));
            }
        }
        kept
    }

    fn condition(&mut self, thetas: Vec<Vec<f64>>) -> Result<(), SingularKernel> {
        let samples: Result<Vec<Sample>, SingularKernel> = thetas
            .into_iter()
            .map(|theta| {
                let solved = self.solve(&theta)?;
                Ok(Sample {
                    kernel: Kernel::new(&theta),
                    theta,
                    factor: solved.factor,
                    weights: solved.weights,
                })
            })
            .collect();
        self.samples = samples?;
        Ok(())
    }

    fn solve(&self, theta: &[f64]) -> Result<Solved, SingularKernel> {
        let kernel = Kernel::new(theta);
        let n = self.places.len();
        let mut matrix = Mat::zeros(n, n);
        for j in 0..n {
            let column = matrix.col_as_slice_mut(j);
            for (slot, place) in column[j..].iter_mut().zip(&self.places[j..]) {
                *slot = kernel.value(place, &self.places[j]);
            }
            column[j] += kernel.noise * self.noise[j] + JITTER;
        }
        let factor = Llt::new(matrix.as_ref(), Side::Lower).map_err(|_| SingularKernel)?;
        drop(matrix);
        let mut gradient = vec![0.0; theta.len() - KERNEL];
        let residuals: Vec<f64> = self
            .places
            .iter()
            .zip(&self.targets)
            .map(|(place, y)| y - self.mean.value(place, theta, &mut gradient) / self.standard.sd)
            .collect();
        let solution = factor.solve(Mat::from_fn(n, 1, |i, _| residuals[i]));
        let weights = solution.col_as_slice(0).to_vec();
        let lower = factor.L();
        let half_log_determinant: f64 = (0..n).map(|i| lower[(i, i)].ln()).sum();
        let fit: f64 = residuals.iter().zip(&weights).map(|(r, w)| r * w).sum();
        let log_likelihood = -0.5 * fit - half_log_determinant;
        if !log_likelihood.is_finite() {
            return Err(SingularKernel);
        }
        Ok(Solved {
            factor,
            weights,
            log_likelihood,
        })
    }

    /// The hyperparameters at the mode of their posterior.
    pub fn mode(&self) -> &[f64] {
        &self.mode
    }

    /// The logarithm of the posterior at its mode, to compare priors on the same data.
    pub fn log_posterior(&self) -> f64 {
        self.log_posterior
    }

    /// The mean that each sample predicts at each place, in the unit of the targets.
    pub fn means(&self, places: &[Place]) -> Vec<Vec<f64>> {
        let of = |sample: &Sample| -> Vec<f64> {
            let mut gradient = vec![0.0; sample.theta.len() - KERNEL];
            let mut one = |at: &Place| {
                let pairs = self.places.iter().zip(&sample.weights);
                let sum: f64 = pairs.map(|(x, w)| w * sample.kernel.value(at, x)).sum();
                let mean = self.mean.value(at, &sample.theta, &mut gradient);
                self.standard.mean + mean + self.standard.sd * sum
            };
            places.iter().map(&mut one).collect()
        };
        self.samples.par_iter().map(of).collect()
    }

    /// What each sample predicts of a measurement at each place, noise included.
    pub fn predictions(&self, places: &[Place]) -> Vec<Vec<Normal>> {
        let means = self.means(places);
        let variance = self.standard.sd * self.standard.sd;
        let of = |(sample, means): (&Sample, Vec<f64>)| -> Vec<Normal> {
            let solved = self.whitened_columns(sample, places);
            let one = |(at, mean): (usize, f64)| {
                let explained: f64 = solved.col_as_slice(at).iter().map(|v| v * v).sum();
                let latent = (sample.kernel.variance(&places[at]) - explained).max(1e-12);
                Normal {
                    mean,
                    variance: variance * (latent + sample.kernel.noise),
                }
            };
            means.into_iter().enumerate().map(one).collect()
        };
        self.samples.par_iter().zip(means).map(of).collect()
    }

    /// L⁻¹·k(points, places).
    fn whitened_columns(&self, sample: &Sample, places: &[Place]) -> Mat<f64> {
        let mut columns = Mat::from_fn(self.places.len(), places.len(), |i, j| {
            sample.kernel.value(&self.places[i], &places[j])
        });
        solve_lower_triangular_in_place(sample.factor.L(), columns.as_mut(), Par::Seq);
        columns
    }

    /// For each sample and point, what the others say of a new measurement there
    /// (Rasmussen and Williams, equations 5.12).
    pub fn left_out(&self) -> Vec<Vec<Normal>> {
        let Standard { mean, sd } = self.standard;
        let of = |sample: &Sample| -> Vec<Normal> {
            let inverse = sample.factor.inverse();
            let one = |(i, weight): (usize, &f64)| {
                let own_noise = sample.kernel.noise * self.noise[i] + JITTER;
                let latent = (inverse[(i, i)].recip() - own_noise).max(1e-12);
                Normal {
                    mean: mean + sd * (self.targets[i] - weight / inverse[(i, i)]),
                    variance: sd * sd * (latent + sample.kernel.noise),
                }
            };
            sample.weights.iter().enumerate().map(one).collect()
        };
        self.samples.iter().map(of).collect()
    }

    /// The targets that were fitted, in their unit.
    pub fn targets(&self) -> impl Iterator<Item = f64> {
        let Standard { mean, sd } = self.standard;
        self.targets.iter().map(move |y| mean + sd * y)
    }

    /// The process after one more measurement, with the same hyperparameters.
    pub fn observe(&self, place: Place, target: f64) -> Result<Self, SingularKernel> {
        let mut more = self.clone();
        more.places.push(place);
        more.targets.push(self.standard.apply(target));
        more.noise.push(1.0);
        let thetas = self.samples.iter().map(|sample| sample.theta.clone());
        more.condition(thetas.collect())?;
        Ok(more)
    }

    /// For each candidate, how much a measurement there would lower the variance of the
    /// predictions at the other places, on average and in the square of the targets' unit:
    /// mean of cov(place, candidate)² / var(measurement), by the first sample.
    pub fn gains(&self, places: &[Place], candidates: &[Place]) -> Vec<f64> {
        let sample = &self.samples[0];
        let of_places = self.whitened_columns(sample, places);
        let of_candidates = self.whitened_columns(sample, candidates);
        let scale = self.standard.sd * self.standard.sd / places.len() as f64;
        let one = |at: usize| {
            let known = of_candidates.col_as_slice(at);
            let explained: f64 = known.iter().map(|v| v * v).sum();
            let latent = (sample.kernel.variance(&candidates[at]) - explained).max(1e-12);
            let covariance = |place: usize| {
                let shared = of_places.col_as_slice(place).iter().zip(known);
                let prior = sample.kernel.value(&places[place], &candidates[at]);
                prior - shared.map(|(a, b)| a * b).sum::<f64>()
            };
            let squares: f64 = (0..places.len()).map(|at| covariance(at).powi(2)).sum();
            scale * squares / (latent + sample.kernel.noise)
        };
        (0..candidates.len()).map(one).collect()
    }

    /// A process that knows nothing but where it would be measured, with hyperparameters
    /// at the mean of their prior.
    pub fn unmeasured(spec: &Spec, places: &[Place]) -> Result<Self, SingularKernel> {
        let mut process = Self::start(spec, places, &vec![0.0; places.len()]);
        process.mode = spec.prior.iter().map(|[mean, _]| *mean).collect();
        process.condition(vec![process.mode.clone()])?;
        Ok(process)
    }
}

struct Solved {
    factor: Llt<f64>,
    weights: Vec<f64>,
    log_likelihood: f64,
}

/// Hyperparameters from standard deviations from their prior means.
fn unwhitened(prior: &Prior, x: &[f64]) -> Vec<f64> {
    prior
        .iter()
        .zip(x)
        .map(|([mean, sd], x)| mean + sd * x)
        .collect()
}

#[derive(Clone, Copy, Debug)]
struct Kernel {
    inverse_lengths: [f64; 4],
    matern: f64,
    linear: f64,
    noise: f64,
}

impl Kernel {
    fn new(theta: &[f64]) -> Self {
        Self {
            inverse_lengths: std::array::from_fn(|i| (-theta[i]).exp()),
            matern: (2.0 * theta[4]).exp(),
            linear: (2.0 * theta[5]).exp(),
            noise: (2.0 * theta[6]).exp(),
        }
    }

    fn value(&self, x: &Place, y: &Place) -> f64 {
        self.matern_part(x, y).value() + self.linear_part(x, y)
    }

    /// Of one place with itself.
    fn variance(&self, x: &Place) -> f64 {
        self.matern + self.linear_part(x, x)
    }

    fn linear_part(&self, x: &Place, y: &Place) -> f64 {
        self.linear
            * (1.0
                + x.input
                    .iter()
                    .zip(&y.input)
                    .map(|(x, y)| x * y)
                    .sum::<f64>())
    }

    fn matern_part(&self, x: &Place, y: &Place) -> Matern {
        let squares: [f64; 4] = std::array::from_fn(|i| {
            5.0 * ((x.input[i] - y.input[i]) * self.inverse_lengths[i]).powi(2)
        });
        let r = squares.iter().sum::<f64>().sqrt();
        Matern {
            squares,
            r,
            scale: self.matern * (-r).exp(),
        }
    }
}

struct Matern {
    /// Each input's part of r².
    squares: [f64; 4],
    r: f64,
    /// a²·e^(−r).
    scale: f64,
}

impl Matern {
    fn value(&self) -> f64 {
        self.scale * (1.0 + self.r + self.r * self.r / 3.0)
    }

    /// The derivative by the logarithm of length i: a²·e^(−r)·(1 + r)/3 · (part of r²).
    fn by_length(&self, i: usize) -> f64 {
        self.scale * (1.0 + self.r) / 3.0 * self.squares[i]
    }
}

/// A place, and cost and gradient there.
type Evaluated = (Vec<f64>, (f64, Vec<f64>));

/// The negative logarithm of the posterior of hyperparameters and, where they are free,
/// of each point's η, all in standard deviations from their prior means.
struct Posterior<'a> {
    process: RefCell<Process>,
    prior: &'a Prior,
    free_noise: bool,
    /// The optimiser asks for cost and gradient at the same place one after the other.
    last: RefCell<Option<Evaluated>>,
}

impl<'a> Posterior<'a> {
    fn new(spec: &'a Spec, process: &Process, free_noise: bool) -> Self {
        Self {
            process: RefCell::new(process.clone()),
            prior: &spec.prior,
            free_noise,
            last: RefCell::new(None),
        }
    }

    /// The mode, from two starts: the prior mean, and shorter lengths.
    fn mode(&self, spec: &Spec) -> Result<Vec<f64>, SingularKernel> {
        let points = self.process.borrow().places.len();
        let free = if self.free_noise { points } else { 0 };
        let centre = vec![0.0; spec.prior.len() + free];
        let mut short = centre.clone();
        for (length, [_, sd]) in short.iter_mut().zip(&spec.prior).take(4) {
            *length = -1.0 / sd;
        }
        let mut best: Option<(f64, Vec<f64>)> = None;
        for start in [centre, short] {
            let at = self.descend(start);
            let (cost, _) = self.evaluate(&at);
            if cost < OUT_OF_REACH && best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, at));
            }
        }
        best.map(|(_, at)| at).ok_or(SingularKernel)
    }

    /// L-BFGS; where a line search fails, the best place so far is the answer.
    fn descend(&self, start: Vec<f64>) -> Vec<f64> {
        let solver = LBFGS::new(MoreThuenteLineSearch::new(), 7)
            .with_tolerance_grad(1e-4)
            .and_then(|solver| solver.with_tolerance_cost(1e-9))
            .expect("tolerances are positive");
        let run = Executor::new(self, solver)
            .configure(|state| state.param(start.clone()).max_iters(150))
            .timer(false)
            .run();
        run.ok()
            .and_then(|mut result| result.state.take_best_param())
            .unwrap_or(start)
    }

    fn evaluate(&self, at: &[f64]) -> (f64, Vec<f64>) {
        if let Some((last, known)) = &*self.last.borrow()
            && last == at
        {
            return known.clone();
        }
        let result = self.cost_and_gradient(at);
        *self.last.borrow_mut() = Some((at.to_vec(), result.clone()));
        result
    }

    fn cost_and_gradient(&self, at: &[f64]) -> (f64, Vec<f64>) {
        let mut cost: f64 = at.iter().map(|x| 0.5 * x * x).sum();
        let mut gradient = at.to_vec();
        let (x, eta) = at.split_at(self.prior.len());
        let theta = unwhitened(self.prior, x);
        let mut process = self.process.borrow_mut();
        for (noise, eta) in process.noise.iter_mut().zip(eta) {
            *noise = eta.exp();
        }
        let in_reach = at.iter().all(|x| x.abs() <= REACH);
        let Some(solved) = in_reach.then(|| process.solve(&theta).ok()).flatten() else {
            // Far from anything sensible: the priors alone lead back.
            return (OUT_OF_REACH + cost, gradient);
        };
        cost -= solved.log_likelihood;
        let weights = &solved.weights;
        let kernel = Kernel::new(&theta);
        let places = &process.places;
        // ∂cost/∂θ = ½ Σ (K⁻¹ − ww′)ᵢⱼ ∂Kᵢⱼ/∂θ (Rasmussen and Williams, equation 5.9).
        let inverse = solved.factor.inverse();
        let mut by_theta = vec![0.0; theta.len()];
        for j in 0..places.len() {
            for i in j..places.len() {
                let once = inverse[(i, j)] - weights[i] * weights[j];
                let half = if i == j { 0.5 * once } else { once };
                let matern = kernel.matern_part(&places[i], &places[j]);
                for (length, slot) in by_theta.iter_mut().take(4).enumerate() {
                    *slot += half * matern.by_length(length);
                }
                by_theta[4] += half * 2.0 * matern.value();
                by_theta[5] += half * 2.0 * kernel.linear_part(&places[i], &places[j]);
                if i == j {
                    let by_noise = half * kernel.noise * process.noise[i];
                    by_theta[6] += 2.0 * by_noise;
                    if let Some(slot) = gradient.get_mut(theta.len() + i) {
                        *slot += by_noise;
                    }
                }
            }
        }
        let mut by_mean = vec![0.0; theta.len() - KERNEL];
        for (place, weight) in places.iter().zip(weights) {
            process.mean.value(place, &theta, &mut by_mean);
            for (slot, by_mean) in by_theta[KERNEL..].iter_mut().zip(&by_mean) {
                *slot -= weight * by_mean / process.standard.sd;
            }
        }
        for ((slot, by), [_, sd]) in gradient.iter_mut().zip(by_theta).zip(self.prior) {
            *slot += sd * by;
        }
        (cost, gradient)
    }
}

/// The cost where there is none.
const OUT_OF_REACH: f64 = 1e6;

impl CostFunction for &Posterior<'_> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, at: &Vec<f64>) -> Result<f64, argmin::core::Error> {
        Ok(self.evaluate(at).0)
    }
}

impl Gradient for &Posterior<'_> {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, at: &Vec<f64>) -> Result<Vec<f64>, argmin::core::Error> {
        Ok(self.evaluate(at).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn points(n: usize) -> (Vec<Place>, Vec<f64>) {
        let spread = |i: usize, k: f64| ((i as f64 * k).fract() - 0.5) * 3.0;
        let places: Vec<Place> = (1..=n)
            .map(|i| {
                let input = [0.618, 0.414, 0.732, 0.236].map(|k| spread(i, k));
                Place {
                    input,
                    log: input.map(|x| 0.3 * x),
                    load: 0.5 + 0.1 * input[0],
                    log_time: 0.2 * input[1],
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
    fn the_gradient_is_that_of_the_cost() {
        let (places, targets) = points(12);
        for mean in [Mean::Zero, Mean::Starved, Mean::Time, Mean::Power] {
            let spec = Spec::of(mean);
            let process = Process::start(&spec, &places, &targets);
            let posterior = Posterior::new(&spec, &process, true);
            let at: Vec<f64> = (0..spec.prior.len() + 12)
                .map(|i| 0.3 * ((i as f64 * 0.7).fract() - 0.4))
                .collect();
            let (_, gradient) = posterior.cost_and_gradient(&at);
            for i in 0..at.len() {
                let cost = |step: f64| {
                    let mut moved = at.clone();
                    moved[i] += step;
                    posterior.cost_and_gradient(&moved).0
                };
                let numeric = (cost(1e-5) - cost(-1e-5)) / 2e-5;
                assert!(
                    (numeric - gradient[i]).abs() < 1e-4 * (1.0 + numeric.abs()),
                    "{mean:?} {i}: {numeric} {}",
                    gradient[i]
                );
            }
        }
    }

    #[test]
    fn a_smooth_function_is_found_again_between_its_points() {
        let (places, targets) = points(140);
        let spec = Spec::of(Mean::Zero);
        let process = Process::fit(&spec, &places[..100], &targets[..100], &mut random());
        let predicted = process.expect("regular").predictions(&places[100..]);
        for sample in predicted {
            for (predicted, target) in sample.iter().zip(&targets[100..]) {
                let error = (predicted.mean - target).abs();
                assert!(error < 0.1 && error < 6.0 * predicted.variance.sqrt());
            }
        }
    }

    #[test]
    fn leaving_one_out_in_closed_form_is_leaving_it_out() {
        let (places, targets) = points(25);
        let spec = Spec::of(Mean::Time);
        let process = Process::fit(&spec, &places, &targets, &mut random()).expect("regular");
        let mut others = process.clone();
        others.places.remove(0);
        others.targets.remove(0);
        others.noise.remove(0);
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
    fn a_measurement_lowers_the_variance_as_foretold() {
        let (places, targets) = points(60);
        let spec = Spec::of(Mean::Zero);
        let process = Process::fit_mode(&spec, &places[..20], &targets[..20]).expect("regular");
        let (elsewhere, candidate) = (&places[21..], &places[20..21]);
        let gain = process.gains(elsewhere, candidate)[0];
        let more = process.observe(candidate[0], targets[20]).expect("regular");
        let variance = |process: &Process| {
            let predictions = &process.predictions(elsewhere)[0];
            let sum: f64 = predictions.iter().map(|normal| normal.variance).sum();
            sum / elsewhere.len() as f64
        };
        let lowered = variance(&process) - variance(&more);
        assert!((gain / lowered - 1.0).abs() < 1e-3, "{gain} {lowered}");
    }

    #[test]
    fn a_constant_target_is_predicted_as_it_is() {
        let (places, _) = points(10);
        let spec = Spec::of(Mean::Zero);
        let process = Process::fit(&spec, &places, &[2.5; 10], &mut random()).expect("regular");
        for sample in process.means(&points(11).0[10..]) {
            assert!((sample[0] - 2.5).abs() < 1e-6);
        }
    }

    #[test]
    fn coinciding_points_are_no_singular_kernel() {
        let places = [points(1).0[0]; 8];
        let targets = [1.0, 1.1, 0.9, 1.0, 1.2, 0.8, 1.0, 1.0];
        let spec = Spec::of(Mean::Zero);
        let process = Process::fit(&spec, &places, &targets, &mut random());
        for sample in process.expect("noise keeps it regular").means(&places[..1]) {
            assert!((sample[0] - 1.0).abs() < 0.2);
        }
    }
}
