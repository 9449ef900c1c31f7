//! The posterior of the hyperparameters: its maximum (MAP) and samples.
//!
//! Here hyperparameters are whitened: in standard deviations from their prior means.

use std::cell::RefCell;
use std::f64::consts::TAU;

use argmin::core::{CostFunction, Executor, Gradient};
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::quasinewton::LBFGS;
use faer::linalg::solvers::DenseSolveCore;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::kernel::Kernel;
use super::{Points, SingularKernel};
use crate::learn::mean::KERNEL;
use crate::learn::priors::Prior;

/// Steps of the sampler; the first quarter is burn-in.
const STEPS: usize = 600;

/// Samples kept after thinning.
const KEPT: usize = 40;

/// Bound of each hyperparameter, in standard deviations from its prior mean.
const REACH: f64 = 5.0;

/// Penalty for infeasible hyperparameters.
const OUT_OF_REACH: f64 = 1e6;

/// The maximum of a posterior.
pub struct Map {
    /// The whitened hyperparameters at the maximum.
    pub at: Vec<f64>,
    /// Noise factor e^ηᵢ of each point.
    pub noise: Vec<f64>,
    /// The log posterior density, up to a constant that depends on the points alone.
    pub log_posterior: f64,
}

/// Maximises the posterior for some points. With `free_noise` each point has its own noise factor,
/// otherwise all factors are one.
pub fn map(points: &Points, prior: &Prior, free_noise: bool) -> Result<Map, SingularKernel> {
    let posterior = Posterior {
        points,
        prior,
        last: RefCell::new(None),
    };
    let free = if free_noise { points.len() } else { 0 };
    let centre = vec![0.0; prior.len() + free];
    // A second start with shorter length scales, as the posterior may have several maxima.
    let mut short = centre.clone();
    for (length, [_, sd]) in short.iter_mut().zip(prior).take(4) {
        *length = -1.0 / sd;
    }
    let mut best: Option<(f64, Vec<f64>)> = None;
    for start in [centre, short] {
        let at = posterior.descend(start);
        let (cost, _) = posterior.evaluate(&at);
        if cost < OUT_OF_REACH && best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, at));
        }
    }
    let (cost, mut at) = best.ok_or(SingularKernel)?;
    let eta = at.split_off(prior.len());
    Ok(Map {
        at,
        noise: posterior.noise(&eta),
        log_posterior: -cost,
    })
}

/// Draws hyperparameters from their posterior, given the noise factor of each point. Elliptical
/// slice sampling (Murray, Adams and MacKay 2010), started at `start`.
pub fn samples(
    points: &Points,
    prior: &Prior,
    start: &Map,
    random: &mut ChaCha8Rng,
) -> Vec<Vec<f64>> {
    let likelihood = |x: &[f64]| {
        let solved = points.solve(&unwhitened(prior, x), &start.noise).ok();
        solved.map_or(f64::NEG_INFINITY, |solved| solved.log_likelihood)
    };
    let mut x = start.at.clone();
    let mut at_x = likelihood(&x);
    let mut kept = Vec::new();
    let (first, apart) = (STEPS / 4, (STEPS - STEPS / 4).div_ceil(KEPT));
    for step in 0..STEPS {
        let direction: Vec<f64> = x.iter().map(|_| StandardNormal.sample(random)).collect();
        let threshold = at_x + random.random::<f64>().ln();
        let mut angle = random.random::<f64>() * TAU;
        let (mut low, mut high) = (angle - TAU, angle);
        // The bracket shrinks towards the current state, so the loop accepts or stays.
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
            kept.push(unwhitened(prior, &x));
        }
    }
    kept
}

/// Undoes the whitening of hyperparameters.
pub fn unwhitened(prior: &Prior, x: &[f64]) -> Vec<f64> {
    let pairs = prior.iter().zip(x);
    pairs.map(|([mean, sd], x)| mean + sd * x).collect()
}

/// Whitened hyperparameters, and the cost and gradient there.
type Evaluated = (Vec<f64>, (f64, Vec<f64>));

/// The negative log posterior of the hyperparameters and, where the noise is free, of each
/// point's η, which follow them.
struct Posterior<'a> {
    points: &'a Points,
    prior: &'a Prior,
    /// The last evaluation: the optimiser asks for cost and gradient at the same point in turn.
    last: RefCell<Option<Evaluated>>,
}

impl Posterior<'_> {
    /// Noise factor e^ηᵢ of each point; one if `eta` is empty.
    fn noise(&self, eta: &[f64]) -> Vec<f64> {
        if eta.is_empty() {
            return vec![1.0; self.points.len()];
        }
        eta.iter().map(|eta| eta.exp()).collect()
    }

    /// Runs L-BFGS. If a line search fails, returns the best point so far.
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
        let noise = self.noise(eta);
        let in_reach = at.iter().all(|x| x.abs() <= REACH);
        let Some(solved) = in_reach
            .then(|| self.points.solve(&theta, &noise).ok())
            .flatten()
        else {
            // Infeasible: the gradient of the prior leads back.
            return (OUT_OF_REACH + cost, gradient);
        };
        cost -= solved.log_likelihood;
        let weights = &solved.weights;
        let kernel = Kernel::new(&theta);
        let places = &self.points.places;
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
                    let by_noise = half * kernel.noise * noise[i];
                    by_theta[6] += 2.0 * by_noise;
                    if let Some(slot) = gradient.get_mut(theta.len() + i) {
                        *slot += by_noise;
                    }
                }
            }
        }
        let mut by_mean = vec![0.0; theta.len() - KERNEL];
        for (place, weight) in places.iter().zip(weights) {
            self.points.mean.value(place, &theta, &mut by_mean);
            for (slot, by_mean) in by_theta[KERNEL..].iter_mut().zip(&by_mean) {
                *slot -= weight * by_mean / self.points.standard.sd;
            }
        }
        for ((slot, by), [_, sd]) in gradient.iter_mut().zip(by_theta).zip(self.prior) {
            *slot += sd * by;
        }
        (cost, gradient)
    }
}

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
    use crate::learn::gp::tests::points;
    use crate::learn::mean::Mean;
    use crate::learn::priors::Priors;

    #[test]
    fn the_gradient_matches_finite_differences() {
        let (places, targets) = points(12);
        for mean in [Mean::Zero, Mean::Starved, Mean::Time, Mean::Power] {
            let spec = Priors::theory().spec(mean);
            let posterior = Posterior {
                points: &Points::new(mean, &places, &targets),
                prior: &spec.prior,
                last: RefCell::new(None),
            };
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
}
