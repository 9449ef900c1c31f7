//! The posterior of a process's hyperparameters: its mode, and samples of it.
//!
//! Hyperparameters count in standard deviations from their prior means here.

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
use crate::learn::mean::{KERNEL, Prior};

/// Steps of the sampler, of which the first quarter is dropped.
const STEPS: usize = 600;

/// Samples that are kept.
const KEPT: usize = 40;

/// Farther from the prior mean, in standard deviations, no hyperparameter is looked for.
const REACH: f64 = 5.0;

/// The cost where there is none.
const OUT_OF_REACH: f64 = 1e6;

/// The mode of a posterior.
pub struct Mode {
    /// The hyperparameters there, in standard deviations from their prior means.
    pub at: Vec<f64>,
    /// e^ηᵢ of each point.
    pub noise: Vec<f64>,
    /// The logarithm of the posterior, up to a constant of the points.
    pub log_posterior: f64,
}

/// The mode for some points, with the noise of each point free or the same in all.
pub fn mode(points: &Points, prior: &Prior, free_noise: bool) -> Result<Mode, SingularKernel> {
    let posterior = Posterior {
        points,
        prior,
        last: RefCell::new(None),
    };
    let free = if free_noise { points.len() } else { 0 };
    let centre = vec![0.0; prior.len() + free];
    // A second start with shorter lengths.
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
    Ok(Mode {
        at,
        noise: posterior.noise(&eta),
        log_posterior: -cost,
    })
}

/// Hyperparameters drawn from their posterior, given the noise of each point, by elliptical
/// slice sampling from `start` on (Murray, Adams and MacKay 2010).
pub fn samples(
    points: &Points,
    prior: &Prior,
    start: &Mode,
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
            kept.push(unwhitened(prior, &x));
        }
    }
    kept
}

/// Hyperparameters from standard deviations from their prior means.
pub fn unwhitened(prior: &Prior, x: &[f64]) -> Vec<f64> {
    let pairs = prior.iter().zip(x);
    pairs.map(|([mean, sd], x)| mean + sd * x).collect()
}

/// A place, and cost and gradient there.
type Evaluated = (Vec<f64>, (f64, Vec<f64>));

/// The negative logarithm of the posterior of hyperparameters and, where they are free, of
/// each point's η, which stand after them.
struct Posterior<'a> {
    points: &'a Points,
    prior: &'a Prior,
    /// The optimiser asks for cost and gradient at the same place one after the other.
    last: RefCell<Option<Evaluated>>,
}

impl Posterior<'_> {
    /// e^ηᵢ of each point; one where they are not free.
    fn noise(&self, eta: &[f64]) -> Vec<f64> {
        if eta.is_empty() {
            return vec![1.0; self.points.len()];
        }
        eta.iter().map(|eta| eta.exp()).collect()
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
        let noise = self.noise(eta);
        let in_reach = at.iter().all(|x| x.abs() <= REACH);
        let Some(solved) = in_reach
            .then(|| self.points.solve(&theta, &noise).ok())
            .flatten()
        else {
            // Far from anything sensible: the priors alone lead back.
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
    use crate::learn::gp::Spec;
    use crate::learn::gp::tests::points;
    use crate::learn::mean::Mean;

    #[test]
    fn the_gradient_is_that_of_the_cost() {
        let (places, targets) = points(12);
        for mean in [Mean::Zero, Mean::Starved, Mean::Time, Mean::Power] {
            let spec = Spec::of(mean);
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
