//! A Gaussian process: a Matérn-5/2 kernel with a length for each input, plus a linear
//! kernel, plus noise.
//!
//! k(x, x′) = a²·(1 + r + r²/3)·e^(−r) + b²·(1 + x·x′) + s²·[x = x′], with
//! r² = 5·Σ ((xᵢ − x′ᵢ)/lᵢ)² (Rasmussen and Williams, *Gaussian Processes for Machine
//! Learning*, 2006, equations 4.17 and 5.1). The hyperparameters are the mode of their
//! posterior under broad log-normal priors, so that a dozen points suffice.

use std::cell::RefCell;
use std::fmt;

use argmin::core::{CostFunction, Executor, Gradient};
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::quasinewton::LBFGS;
use nalgebra::{Cholesky, DMatrix, DVector, Dyn};

use crate::standard::Standard;

/// The number of inputs: one for each axis.
const D: usize = 4;

/// Logarithms of the four lengths, of a, b and s.
const HYPER: usize = D + 3;

/// Mean of the priors of the logarithms: lengths of three standard deviations of the
/// inputs, kernels as wide as the targets, noise of 3 %.
const PRIOR_MEAN: [f64; HYPER] = [1.1, 1.1, 1.1, 1.1, 0.0, 0.0, -3.5];

/// Standard deviation of the priors of the logarithms.
const PRIOR_SD: [f64; HYPER] = [1.2, 1.2, 1.2, 1.2, 1.5, 1.5, 1.5];

/// More points do not change the hyperparameters and cost their cube.
const HYPER_POINTS: usize = 256;

/// Keeps the kernel matrix positive definite where two points coincide.
const JITTER: f64 = 1e-8;

/// The input of one mode.
pub type Input = [f64; D];

/// The kernel matrix was not positive definite, whatever the hyperparameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SingularKernel;

impl fmt::Display for SingularKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the Gaussian process has a singular kernel on these modes"
        )
    }
}

impl std::error::Error for SingularKernel {}

/// A process fitted to points.
#[derive(Clone, Debug)]
pub struct GaussianProcess {
    inputs: Vec<Input>,
    hyper: [f64; HYPER],
    weights: DVector<f64>,
    standard: Standard,
    left_out: Vec<LeftOut>,
}

/// What the process says of a point when that point is left out of its data.
#[derive(Clone, Copy, Debug)]
pub struct LeftOut {
    /// Target minus prediction.
    pub residual: f64,
    /// The process's own standard deviation, noise included.
    pub sd: f64,
}

impl GaussianProcess {
    /// Fits hyperparameters and weights. `inputs` should have a spread near one; `targets`
    /// may have any. The first 256 points decide the hyperparameters, so the order of the
    /// points should be random.
    pub fn fit(inputs: &[Input], targets: &[f64]) -> Result<Self, SingularKernel> {
        let standard = Standard::of(targets.iter().copied());
        let scaled: Vec<f64> = targets.iter().map(|&y| standard.apply(y)).collect();

        let few = inputs.len().min(HYPER_POINTS);
        let hyper = Posterior::new(&inputs[..few], &scaled[..few]).mode()?;
        let (cholesky, _) = factor(inputs, &hyper).ok_or(SingularKernel)?;
        let weights = cholesky.solve(&DVector::from_vec(scaled));
        let inverse = cholesky.inverse().diagonal();
        // Leave-one-out in closed form (Rasmussen and Williams, equations 5.12).
        let left_out = weights.iter().zip(&inverse).map(|(w, d)| LeftOut {
            residual: w / d * standard.sd,
            sd: d.sqrt().recip() * standard.sd,
        });
        Ok(Self {
            left_out: left_out.collect(),
            inputs: inputs.to_vec(),
            hyper,
            weights,
            standard,
        })
    }

    /// The posterior mean at each input.
    pub fn predict(&self, inputs: &[Input]) -> Vec<f64> {
        let kernel = Kernel::new(&self.hyper);
        let one = |at: &Input| -> f64 {
            let known = self.inputs.iter().zip(self.weights.iter());
            let sum: f64 = known.map(|(x, w)| w * kernel.value(at, x)).sum();
            self.standard.mean + self.standard.sd * sum
        };
        inputs.iter().map(one).collect()
    }

    /// For each point, in the order of the fit, what the others say of it.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }
}

struct Kernel {
    inverse_lengths: [f64; D],
    matern: f64,
    linear: f64,
    noise: f64,
}

impl Kernel {
    fn new(hyper: &[f64; HYPER]) -> Self {
        let [l0, l1, l2, l3, a, b, s] = *hyper;
        Self {
            inverse_lengths: [l0, l1, l2, l3].map(|l| (-l).exp()),
            matern: (2.0 * a).exp(),
            linear: (2.0 * b).exp(),
            noise: (2.0 * s).exp(),
        }
    }

    fn value(&self, x: &Input, y: &Input) -> f64 {
        self.matern_part(x, y).value() + self.linear_part(x, y)
    }

    fn linear_part(&self, x: &Input, y: &Input) -> f64 {
        self.linear * (1.0 + x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>())
    }

    fn matern_part(&self, x: &Input, y: &Input) -> Matern {
        let mut squares = [0.0; D];
        for (i, square) in squares.iter_mut().enumerate() {
            *square = 5.0 * ((x[i] - y[i]) * self.inverse_lengths[i]).powi(2);
        }
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
    squares: [f64; D],
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

fn factor(inputs: &[Input], hyper: &[f64; HYPER]) -> Option<(Cholesky<f64, Dyn>, Kernel)> {
    let kernel = Kernel::new(hyper);
    let n = inputs.len();
    let mut matrix = DMatrix::zeros(n, n);
    for j in 0..n {
        for i in j..n {
            matrix[(i, j)] = kernel.value(&inputs[i], &inputs[j]);
        }
        matrix[(j, j)] += kernel.noise + JITTER;
    }
    let cholesky = Cholesky::new(matrix)?;
    let sound = cholesky.l_dirty().diagonal().iter().all(|d| d.is_finite());
    sound.then_some((cholesky, kernel))
}

/// A place, and cost and gradient there.
type Evaluated = (Vec<f64>, (f64, Vec<f64>));

/// The negative logarithm of the hyperparameters' posterior, with its gradient.
struct Posterior<'a> {
    inputs: &'a [Input],
    targets: DVector<f64>,
    /// The optimiser asks for cost and gradient at the same place one after the other.
    last: RefCell<Option<Evaluated>>,
}

impl<'a> Posterior<'a> {
    fn new(inputs: &'a [Input], targets: &[f64]) -> Self {
        Self {
            inputs,
            targets: DVector::from_row_slice(targets),
            last: RefCell::new(None),
        }
    }

    /// The hyperparameters of the highest posterior, from two starts.
    fn mode(&self) -> Result<[f64; HYPER], SingularKernel> {
        let mut short = PRIOR_MEAN;
        short[..D].iter_mut().for_each(|length| *length -= 1.0);
        let mut best: Option<(f64, [f64; HYPER])> = None;
        for start in [PRIOR_MEAN, short] {
            let hyper = self.descend(start);
            let (cost, _) = self.evaluate(&hyper);
            if cost.is_finite() && best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, hyper));
            }
        }
        best.map(|(_, hyper)| hyper).ok_or(SingularKernel)
    }

    /// L-BFGS; where a line search fails, the best place so far is the answer.
    fn descend(&self, start: [f64; HYPER]) -> [f64; HYPER] {
        let solver = LBFGS::new(MoreThuenteLineSearch::new(), 7)
            .with_tolerance_grad(1e-4)
            .and_then(|solver| solver.with_tolerance_cost(1e-9))
            .expect("tolerances are positive");
        let run = Executor::new(self, solver)
            .configure(|state| state.param(start.to_vec()).max_iters(100))
            .timer(false)
            .run();
        run.ok()
            .and_then(|mut result| result.state.take_best_param())
            .and_then(|best| best.try_into().ok())
            .unwrap_or(start)
    }

    fn evaluate(&self, hyper: &[f64]) -> (f64, Vec<f64>) {
        if let Some((at, known)) = &*self.last.borrow()
            && at == hyper
        {
            return known.clone();
        }
        let result = self.cost_and_gradient(hyper);
        *self.last.borrow_mut() = Some((hyper.to_vec(), result.clone()));
        result
    }

    fn cost_and_gradient(&self, hyper: &[f64]) -> (f64, Vec<f64>) {
        let hyper: &[f64; HYPER] = hyper.try_into().expect("the optimiser keeps the length");
        let mut cost = 0.0;
        let mut gradient = vec![0.0; HYPER];
        for i in 0..HYPER {
            let z = (hyper[i] - PRIOR_MEAN[i]) / PRIOR_SD[i];
            cost += 0.5 * z * z;
            gradient[i] = z / PRIOR_SD[i];
        }
        let in_reach = hyper.iter().all(|h| h.abs() < 20.0);
        let Some((cholesky, kernel)) = in_reach.then(|| factor(self.inputs, hyper)).flatten()
        else {
            // Far from anything sensible: the priors alone lead back.
            return (1e6 + cost, gradient);
        };
        let weights = cholesky.solve(&self.targets);
        let diagonal = cholesky.l_dirty().diagonal();
        cost += 0.5 * self.targets.dot(&weights) + diagonal.iter().map(|d| d.ln()).sum::<f64>();
        // ∂cost/∂θ = ½ Σ (K⁻¹ − ww′)ᵢⱼ ∂Kᵢⱼ/∂θ (Rasmussen and Williams, equation 5.9).
        let inverse = cholesky.inverse();
        for j in 0..self.inputs.len() {
            for i in j..self.inputs.len() {
                let once = inverse[(i, j)] - weights[i] * weights[j];
                let half = if i == j { 0.5 * once } else { once };
                let matern = kernel.matern_part(&self.inputs[i], &self.inputs[j]);
                for (length, slot) in gradient.iter_mut().take(D).enumerate() {
                    *slot += half * matern.by_length(length);
                }
                gradient[D] += half * 2.0 * matern.value();
                let linear = kernel.linear_part(&self.inputs[i], &self.inputs[j]);
                gradient[D + 1] += half * 2.0 * linear;
                if i == j {
                    gradient[D + 2] += half * 2.0 * kernel.noise;
                }
            }
        }
        (cost, gradient)
    }
}

impl CostFunction for &Posterior<'_> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, hyper: &Vec<f64>) -> Result<f64, argmin::core::Error> {
        Ok(self.evaluate(hyper).0)
    }
}

impl Gradient for &Posterior<'_> {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, hyper: &Vec<f64>) -> Result<Vec<f64>, argmin::core::Error> {
        Ok(self.evaluate(hyper).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(n: usize) -> (Vec<Input>, Vec<f64>) {
        let spread = |i: usize, k: f64| ((i as f64 * k).fract() - 0.5) * 3.0;
        let inputs: Vec<Input> = (1..=n)
            .map(|i| {
                [
                    spread(i, 0.618),
                    spread(i, 0.414),
                    spread(i, 0.732),
                    spread(i, 0.236),
                ]
            })
            .collect();
        let target = |x: &Input| 5.0 + x[0] + (0.7 * x[1]).sin() - 0.3 * x[2] * x[3];
        let targets = inputs.iter().map(target).collect();
        (inputs, targets)
    }

    #[test]
    fn the_gradient_is_that_of_the_cost() {
        let (inputs, targets) = points(20);
        let posterior = Posterior::new(&inputs, &targets);
        let at = [0.3, 0.9, 1.4, 0.1, 0.2, -0.3, -2.0];
        let (_, gradient) = posterior.cost_and_gradient(&at);
        for i in 0..HYPER {
            let cost = |step: f64| {
                let mut moved = at;
                moved[i] += step;
                posterior.cost_and_gradient(&moved).0
            };
            let numeric = (cost(1e-5) - cost(-1e-5)) / 2e-5;
            assert!(
                (numeric - gradient[i]).abs() < 1e-5 * (1.0 + numeric.abs()),
                "{i}"
            );
        }
    }

    #[test]
    fn a_smooth_function_is_found_again_between_its_points() {
        let (inputs, targets) = points(140);
        let process = GaussianProcess::fit(&inputs[..100], &targets[..100]).expect("regular");
        let predicted = process.predict(&inputs[100..]);
        for (predicted, target) in predicted.iter().zip(&targets[100..]) {
            assert!((predicted - target).abs() < 0.05, "{predicted} {target}");
        }
    }

    #[test]
    fn leaving_one_out_in_closed_form_is_leaving_it_out() {
        let (inputs, targets) = points(25);
        let process = GaussianProcess::fit(&inputs, &targets).expect("regular");
        let (cholesky, kernel) = factor(&inputs[1..], &process.hyper).expect("regular");
        let scaled = targets[1..].iter().map(|&y| process.standard.apply(y));
        let weights = cholesky.solve(&DVector::from_iterator(24, scaled));
        let known = inputs[1..].iter().zip(weights.iter());
        let sum: f64 = known.map(|(x, w)| w * kernel.value(&inputs[0], x)).sum();
        let residual = targets[0] - (process.standard.mean + process.standard.sd * sum);
        assert!((residual - process.left_out()[0].residual).abs() < 1e-6);
    }

    #[test]
    fn a_constant_target_is_predicted_as_it_is() {
        let (inputs, _) = points(10);
        let process = GaussianProcess::fit(&inputs, &[2.5; 10]).expect("regular");
        assert!(
            process
                .predict(&[[0.0; D]])
                .iter()
                .all(|y| (y - 2.5).abs() < 1e-9)
        );
    }

    #[test]
    fn coinciding_points_are_no_singular_kernel() {
        let inputs = [[0.5; D]; 8];
        let process = GaussianProcess::fit(&inputs, &[1.0, 1.1, 0.9, 1.0, 1.2, 0.8, 1.0, 1.0]);
        let predicted = process
            .expect("noise keeps it regular")
            .predict(&[[0.5; D]]);
        assert!((predicted[0] - 1.0).abs() < 0.1);
    }
}
