//! The posterior of the hyperparameters: its maximum (MAP) and samples.
//!
//! Here hyperparameters are whitened: in standard deviations from their prior means.

use std::cell::RefCell;
use std::collections::HashMap;

use argmin::core::{CostFunction, Executor, Gradient};
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::quasinewton::LBFGS;
use faer::linalg::solvers::DenseSolveCore;
use nuts_rs::{
    Chain as _, CpuLogpFunc, CpuMath, CpuMathError, DiagNutsSettings, HasDims, LogpError, Settings,
};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use thiserror::Error;

use super::covariance::{Covariance, Pairs};
use super::{Points, SingularCovariance, Solved};
use crate::learn::mean::{COVARIANCE_PARAMETERS, NOISE};
use crate::learn::priors::Prior;

/// Distance of a chain's start from the maximum, in standard deviations of the prior.
const START_DISTANCE: f64 = 1e-3;

/// Bound of each hyperparameter, in standard deviations from its prior mean.
const REACH: f64 = 5.0;

/// A chain for few points is at most this many times as long as one for 50.
const MOST_TIMES: f64 = 3.3;

/// Penalty for infeasible hyperparameters.
const OUT_OF_REACH: f64 = 1e6;

/// Lengths of a chain of samples.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    /// Draws that tune the sampler and are dropped.
    tune: u64,
    /// Samples that are kept.
    kept: u64,
    /// Draws for each of them.
    apart: u64,
    /// Maximum depth of a trajectory's tree: at most 2ⁿ steps for a draw.
    doublings: u64,
}

impl Chain {
    /// For a fit to some points. Few points leave several maxima of the posterior, between which a chain
    /// moves slowly; they are cheap, so their chains are longer.
    pub fn whole(points: usize) -> Self {
        let times = Self::times(points);
        Self {
            tune: (150.0 * times.min(2.0)) as u64,
            kept: 40,
            apart: (4.0 * times - 1.0).ceil() as u64,
            doublings: 6,
        }
    }

    /// For one of many fits to some points.
    pub fn part(points: usize) -> Self {
        let share = Self::times(points) / MOST_TIMES;
        Self {
            tune: (100.0 * share) as u64,
            kept: (40.0 * share) as u64,
            apart: (2.0 * share).ceil() as u64,
            doublings: 4,
        }
    }

    /// How many times as long a chain is as for 50 points.
    fn times(points: usize) -> f64 {
        (50.0 / points as f64).clamp(1.0, MOST_TIMES)
    }
}

/// The maximum of a posterior.
#[derive(Clone, Debug)]
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
pub fn map(points: &Points, prior: &Prior, free_noise: bool) -> Result<Map, SingularCovariance> {
    let posterior = Posterior::new(points, prior, None);
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
    let (cost, mut at) = best.ok_or(SingularCovariance)?;
    let eta = at.split_off(prior.len());
    Ok(Map {
        at,
        noise: posterior.noise(&eta),
        log_posterior: -cost,
    })
}

/// Searches a maximum of the posterior for some points, from the maximum for similar points on. Without
/// `free_noise` the noise factors stay.
pub fn map_near(points: &Points, prior: &Prior, near: &Map, free_noise: bool) -> Map {
    let given = (!free_noise).then(|| &near.noise[..points.len()]);
    let posterior = Posterior::new(points, prior, given);
    let mut start = near.at.clone();
    if free_noise {
        start.extend(near.noise.iter().map(|noise| noise.ln()));
    }
    let mut at = posterior.descend(start);
    let (cost, _) = posterior.evaluate(&at);
    let eta = at.split_off(prior.len());
    Map {
        at,
        noise: posterior.noise(&eta),
        log_posterior: -cost,
    }
}

/// The factor e^η that maximises N(residual; 0, others + variance·e^η)·N(η; 0, 1), by golden-section search.
pub fn likeliest_noise(residual: f64, others: f64, variance: f64) -> f64 {
    const SEARCH_STEPS: usize = 40;
    const GOLDEN: f64 = 0.618_033_988_749_895;
    let cost = |eta: f64| {
        let variance = others + variance * eta.exp();
        0.5 * (variance.ln() + residual.powi(2) / variance + eta.powi(2))
    };
    let (mut low, mut high) = (-REACH, REACH);
    for _ in 0..SEARCH_STEPS {
        let inner = GOLDEN * (high - low);
        match cost(high - inner) < cost(low + inner) {
            true => high = low + inner,
            false => low = high - inner,
        }
    }
    f64::midpoint(low, high).exp()
}

/// Draws hyperparameters from their posterior, given the noise factor of each point. The No-U-Turn
/// sampler (Hoffman and Gelman 2014), started at `start`.
pub fn samples(
    points: &Points,
    prior: &Prior,
    start: &Map,
    lengths: Chain,
    random: &mut ChaCha8Rng,
) -> Result<Vec<Vec<f64>>, SingularCovariance> {
    let posterior = Posterior::new(points, prior, Some(&start.noise));
    let mut settings = DiagNutsSettings {
        num_tune: lengths.tune,
        num_draws: lengths.kept * lengths.apart,
        maxdepth: lengths.doublings,
        ..DiagNutsSettings::default()
    };
    // The scales of the prior are a better start than those of one gradient.
    let scales = &mut settings.adapt_options.mass_matrix_options;
    scales.use_grad_based_estimate = false;
    let failed = |_| SingularCovariance;
    // The sampler refuses a gradient with a zero, which it may be at the maximum.
    let mut moved = |x: &f64| {
        let away: f64 = StandardNormal.sample(random);
        (x + START_DISTANCE * away).clamp(-REACH, REACH)
    };
    let near: Vec<f64> = start.at.iter().map(&mut moved).collect();
    let mut chain = settings
        .new_chain(0, CpuMath::new(posterior), random)
        .map_err(failed)?;
    chain.set_position(&near).map_err(failed)?;
    let mut after = |draws: u64| {
        for _ in 1..draws {
            chain.draw().map_err(failed)?;
        }
        Ok(unwhitened(prior, &chain.draw().map_err(failed)?.0))
    };
    after(lengths.tune)?;
    (0..lengths.kept).map(|_| after(lengths.apart)).collect()
}

/// A density of zero, from where the sampler turns back.
#[derive(Clone, Copy, Debug, Error)]
#[error("the hyperparameters are infeasible")]
struct Infeasible;

impl LogpError for Infeasible {
    fn is_recoverable(&self) -> bool {
        true
    }
}

impl HasDims for Posterior<'_> {
    fn dim_sizes(&self) -> HashMap<String, u64> {
        HashMap::from([(
            "unconstrained_parameter".to_owned(),
            self.prior.len() as u64,
        )])
    }
}

impl CpuLogpFunc for Posterior<'_> {
    type LogpError = Infeasible;
    type FlowParameters = ();
    type ExpandedVector = Vec<f64>;

    fn dim(&self) -> usize {
        self.prior.len()
    }

    fn logp(&mut self, position: &[f64], gradient: &mut [f64]) -> Result<f64, Infeasible> {
        let (cost, by) = self.cost_and_gradient(position);
        for (slot, by) in gradient.iter_mut().zip(by) {
            *slot = -by;
        }
        (cost < OUT_OF_REACH).then_some(-cost).ok_or(Infeasible)
    }

    fn expand_vector<R: Rng + ?Sized>(
        &mut self,
        _: &mut R,
        position: &[f64],
    ) -> Result<Vec<f64>, CpuMathError> {
        Ok(position.to_vec())
    }
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
    pairs: Pairs,
    prior: &'a Prior,
    /// The noise factor of each point, where it is not free.
    noise: Option<&'a [f64]>,
    /// The last evaluation: the optimiser asks for cost and gradient at the same point in turn.
    last: RefCell<Option<Evaluated>>,
}

impl<'a> Posterior<'a> {
    fn new(points: &'a Points, prior: &'a Prior, noise: Option<&'a [f64]>) -> Self {
        Self {
            points,
            pairs: Pairs::from_places(points.mean, &points.places),
            prior,
            noise,
            last: RefCell::new(None),
        }
    }

    /// Noise factor e^ηᵢ of each point; one if `eta` is empty.
    fn noise(&self, eta: &[f64]) -> Vec<f64> {
        if let Some(noise) = self.noise {
            return noise.to_vec();
        }
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
        let (covariance, pairs) = (Covariance::new(self.points.mean, &theta), &self.pairs);
        let materns = covariance.materns(pairs);
        let mut by_mean = Vec::new();
        let solve = || {
            let residuals = self
                .points
                .residuals(&theta, |by| by_mean.extend_from_slice(by));
            let covariances = covariance.of_pairs(pairs, &materns);
            Solved::new(covariances, covariance.noise, &noise, &residuals).ok()
        };
        let Some(solved) = in_reach.then(solve).flatten() else {
            // Infeasible: the gradient of the prior leads back.
            return (OUT_OF_REACH + cost, gradient);
        };
        cost -= solved.log_likelihood;
        let weights = &solved.weights;
        // ∂cost/∂θ = ½ Σ (K⁻¹ − ww′)ᵢⱼ ∂Kᵢⱼ/∂θ (Rasmussen and Williams, equation 5.9), where a pair
        // i > j stands for two.
        let inverse = solved.factor.inverse();
        let mut shares = Vec::with_capacity(pairs.len());
        let mut by_noise = 0.0;
        for (j, weight) in weights.iter().enumerate() {
            let column = inverse.col_as_slice(j)[j..].iter().zip(&weights[j..]);
            let diagonal = shares.len();
            shares.extend(column.map(|(inverse, other)| inverse - weight * other));
            shares[diagonal] *= 0.5;
            let by_own_noise = shares[diagonal] * covariance.noise * noise[j];
            by_noise += 2.0 * by_own_noise;
            if let Some(slot) = gradient.get_mut(theta.len() + j) {
                *slot += by_own_noise;
            }
        }
        let mut by_theta = vec![0.0; theta.len()];
        by_theta[..NOISE].copy_from_slice(&covariance.gradient(pairs, &materns, &shares));
        by_theta[NOISE] = by_noise;
        let means = by_mean.chunks_exact((theta.len() - COVARIANCE_PARAMETERS).max(1));
        for (by_mean, weight) in means.zip(weights) {
            for (slot, by_mean) in by_theta[COVARIANCE_PARAMETERS..].iter_mut().zip(by_mean) {
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
    use rand::SeedableRng;

    /// Chains of whitened hyperparameters from four seeds, by hyperparameter.
    fn chains(points: &Points, prior: &Prior, lengths: Chain) -> Vec<Vec<Vec<f64>>> {
        let start = map(points, prior, true).expect("a maximum");
        let of_seed = |seed| {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            samples(points, prior, &start, lengths, &mut random).expect("samples")
        };
        let all: Vec<Vec<Vec<f64>>> = (1..=4).map(of_seed).collect();
        let one = |at: usize| {
            let [mean, sd] = prior[at];
            let whitened = |theta: &Vec<f64>| (theta[at] - mean) / sd;
            let chain = |chain: &Vec<Vec<f64>>| chain.iter().map(whitened).collect();
            all.iter().map(chain).collect()
        };
        (0..prior.len()).map(one).collect()
    }

    fn moments(values: &[f64]) -> [f64; 2] {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let square = values.iter().map(|value| (value - mean).powi(2));
        [mean, square.sum::<f64>() / (n - 1.0)]
    }

    /// Split R̂ and the effective sample size of several chains (Gelman et al., *Bayesian Data
    /// Analysis*, third edition, equations 11.4 and 11.8).
    fn convergence(chains: &[Vec<f64>]) -> [f64; 2] {
        let half = chains[0].len() / 2;
        let halves: Vec<&[f64]> = chains
            .iter()
            .flat_map(|chain| chain.chunks_exact(half))
            .collect();
        let (m, n) = (halves.len() as f64, half as f64);
        let of_halves: Vec<[f64; 2]> = halves.iter().map(|half| moments(half)).collect();
        let means: Vec<f64> = of_halves.iter().map(|[mean, _]| *mean).collect();
        let within = of_halves.iter().map(|[_, variance]| variance).sum::<f64>() / m;
        let variance = (n - 1.0) / n * within + moments(&means)[1];
        let correlation = |lag: usize| {
            let of_half = |half: &&[f64]| {
                let pairs = half[lag..].iter().zip(*half).map(|(a, b)| (a - b).powi(2));
                pairs.sum::<f64>() / (n - lag as f64)
            };
            1.0 - halves.iter().map(of_half).sum::<f64>() / m / (2.0 * variance)
        };
        let pairs = (1..half - 1)
            .step_by(2)
            .map(|lag| correlation(lag) + correlation(lag + 1));
        let sum: f64 = pairs.take_while(|pair| *pair > 0.0).sum();
        [(variance / within).sqrt(), m * n / (1.0 + 2.0 * sum)]
    }

    #[test]
    fn chains_converge_and_their_samples_are_nearly_independent() {
        for n in [12, 15, 25, 50] {
            let (places, mut targets) = points(n);
            let mut random = ChaCha8Rng::seed_from_u64(8);
            for target in &mut targets {
                let noise: f64 = StandardNormal.sample(&mut random);
                *target += 0.05 * noise;
            }
            for mean in Mean::ALL {
                let prior = Priors::shipped().spec_of_another(mean).prior;
                let points = Points::new(mean, &places, &targets);
                for (at, chains) in chains(&points, &prior, Chain::whole(n)).iter().enumerate() {
                    let [r_hat, effective] = convergence(chains);
                    assert!(
                        r_hat < 1.15 && effective > 15.0,
                        "{mean:?}, {n} points, {at}: R̂ {r_hat:.3}, {effective:.0} of 160"
                    );
                }
            }
        }
    }

    /// The known posterior is that of importance sampling from the prior; few points leave many draws
    /// of it effective.
    #[test]
    fn samples_have_the_moments_of_a_known_posterior() {
        let (places, targets) = points(4);
        for mean in Mean::ALL {
            let prior = Priors::shipped().spec(mean).prior;
            let points = Points::new(mean, &places, &targets);
            let start = map(&points, &prior, true).expect("a maximum");
            let mut random = ChaCha8Rng::seed_from_u64(9);
            let mut draw = |_| {
                let x = prior.iter().map(|_| StandardNormal.sample(&mut random));
                let x: Vec<f64> = x.collect();
                let solved = points.solve(&unwhitened(&prior, &x), &start.noise);
                (x, solved.map_or(0.0, |solved| solved.log_likelihood.exp()))
            };
            let drawn: Vec<(Vec<f64>, f64)> = (0..100_000).map(&mut draw).collect();
            let total: f64 = drawn.iter().map(|(_, weight)| weight).sum();
            let squares: f64 = drawn.iter().map(|(_, weight)| weight * weight).sum();
            assert!(total * total / squares > 2_000.0, "{mean:?}");
            let lengths = Chain {
                kept: 1_000,
                apart: 1,
                ..Chain::whole(50)
            };
            for (at, chains) in chains(&points, &prior, lengths).iter().enumerate() {
                let expected = drawn.iter().map(|(x, weight)| weight * x[at]).sum::<f64>() / total;
                let square = drawn
                    .iter()
                    .map(|(x, weight)| weight * (x[at] - expected).powi(2));
                let sd = (square.sum::<f64>() / total).sqrt();
                let [found, variance] = moments(&chains.concat());
                let ratio = variance.sqrt() / sd;
                assert!(
                    (found - expected).abs() < 0.15 * sd && (0.9..1.1).contains(&ratio),
                    "{mean:?} {at}: mean {found:.3}, expected {expected:.3}, sd ratio {ratio:.3}"
                );
            }
        }
    }

    #[test]
    fn the_gradient_matches_finite_differences() {
        let (places, targets) = points(12);
        for mean in [Mean::Zero, Mean::Starved, Mean::Time, Mean::Power] {
            let spec = Priors::theory().spec(mean);
            let points = Points::new(mean, &places, &targets);
            let posterior = Posterior::new(&points, &spec.prior, None);
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
