//! Least squares with priors, robust against single residuals: Levenberg-Marquardt with numeric derivatives.

use nalgebra::{DMatrix, DVector};

/// Residuals beyond this multiple of their deviation count less and less (soft L1).
const ROBUST: f64 = 2.0;

/// Maximum number of iterations.
const ITERATIONS: usize = 60;

/// Step of the numeric derivatives, relative to the deviation of the prior.
const STEP: f64 = 1e-3;

/// What is known of a parameter beforehand: mean and standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior {
    pub mean: f64,
    pub sd: f64,
}

/// The parameters of the least cost.
#[derive(Clone, Debug)]
pub struct Solution {
    pub values: Vec<f64>,
    pub cost: f64,
    /// Standard deviations after the fit.
    pub sd: Vec<f64>,
}

/// Finds the parameters with the least cost from a start. The residuals are in multiples of their deviation.
pub fn least_squares(
    residuals: &impl Fn(&[f64]) -> Vec<f64>,
    priors: &[Prior],
    start: &[f64],
) -> Solution {
    let cost = |values: &[f64], residuals: &[f64]| {
        let data = residuals.iter().map(|r| {
            let robust = (1.0 + (r / ROBUST).powi(2)).sqrt() - 1.0;
            2.0 * ROBUST.powi(2) * robust
        });
        let prior = values.iter().zip(priors);
        let prior = prior.map(|(value, prior)| ((value - prior.mean) / prior.sd).powi(2));
        data.sum::<f64>() + prior.sum::<f64>()
    };
    let mut values = start.to_vec();
    let mut at = residuals(&values);
    let mut now = cost(&values, &at);
    let mut damping = 1e-2;
    let mut normal = normal_equations(residuals, priors, &values, &at);
    for _ in 0..ITERATIONS {
        let (matrix, gradient) = &normal;
        let mut better = None;
        while damping < 1e8 {
            let mut damped = matrix.clone();
            for at in 0..values.len() {
                damped[(at, at)] *= 1.0 + damping;
            }
            let step = damped.cholesky().map(|factors| factors.solve(gradient));
            let tried = step.map(|step| {
                // A step stays where the derivatives tell something.
                let far = step
                    .iter()
                    .zip(priors)
                    .map(|(step, prior)| step.abs() / prior.sd);
                let part = 1.0 / far.fold(1.0, f64::max);
                let moved = values.iter().zip(&step);
                let tried: Vec<f64> = moved.map(|(value, step)| value - part * step).collect();
                let there = residuals(&tried);
                (cost(&tried, &there), tried, there)
            });
            match tried {
                Some((cost, tried, there)) if cost < now => {
                    damping = (damping / 5.0).max(1e-9);
                    better = Some((cost, tried, there));
                    break;
                }
                _ => damping *= 4.0,
            }
        }
        let Some((cost, tried, there)) = better else {
            break;
        };
        let is_done = now - cost < 1e-6 * now.max(1e-9);
        (now, values, at) = (cost, tried, there);
        normal = normal_equations(residuals, priors, &values, &at);
        if is_done {
            break;
        }
    }
    let sd = deviations(normal.0);
    Solution {
        values,
        cost: now,
        sd,
    }
}

/// The weighted normal equations: a matrix and the half gradient.
fn normal_equations(
    residuals: &impl Fn(&[f64]) -> Vec<f64>,
    priors: &[Prior],
    values: &[f64],
    at: &[f64],
) -> (DMatrix<f64>, DVector<f64>) {
    let count = values.len();
    let derivatives: Vec<Vec<f64>> = (0..count)
        .map(|parameter| {
            let step = STEP * priors[parameter].sd;
            let [above, below] = [step, -step].map(|step| {
                let mut moved = values.to_vec();
                moved[parameter] += step;
                residuals(&moved)
            });
            let pairs = above.iter().zip(&below);
            pairs.map(|(a, b)| (a - b) / (2.0 * step)).collect()
        })
        .collect();
    let weights: Vec<f64> = at
        .iter()
        .map(|r| 1.0 / (1.0 + (r / ROBUST).powi(2)).sqrt())
        .collect();
    let dot = |a: &[f64], b: &[f64]| {
        let terms = a.iter().zip(b).zip(&weights);
        terms.map(|((a, b), weight)| a * b * weight).sum::<f64>()
    };
    let mut matrix = DMatrix::zeros(count, count);
    let mut gradient = DVector::zeros(count);
    for row in 0..count {
        for column in 0..=row {
            let value = dot(&derivatives[row], &derivatives[column]);
            matrix[(row, column)] = value;
            matrix[(column, row)] = value;
        }
        let prior = priors[row];
        matrix[(row, row)] += prior.sd.powi(-2);
        gradient[row] = dot(&derivatives[row], at) + (values[row] - prior.mean) / prior.sd.powi(2);
    }
    (matrix, gradient)
}

/// The standard deviations of the parameters: the roots of the inverse's diagonal.
fn deviations(matrix: DMatrix<f64>) -> Vec<f64> {
    let count = matrix.nrows();
    match matrix.cholesky() {
        Some(factors) => {
            let inverse = factors.inverse();
            inverse
                .diagonal()
                .iter()
                .map(|variance| variance.sqrt())
                .collect()
        }
        None => vec![f64::INFINITY; count],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_recovered_despite_an_outlier() {
        let truth = [1.5, -0.7, 0.3];
        let curve = |values: &[f64], x: f64| values[0] + (values[1] * x).exp() + values[2] * x * x;
        let xs: Vec<f64> = (0..30).map(|n| f64::from(n) / 10.0).collect();
        let mut measured: Vec<f64> = xs.iter().map(|x| curve(&truth, *x)).collect();
        measured[7] += 5.0;
        let residuals = |values: &[f64]| -> Vec<f64> {
            let pairs = xs.iter().zip(&measured);
            pairs.map(|(x, y)| (curve(values, *x) - y) / 0.01).collect()
        };
        let priors = [Prior { mean: 0.0, sd: 3.0 }; 3];
        let found = least_squares(&residuals, &priors, &[0.0; 3]);
        for ((found, truth), sd) in found.values.iter().zip(truth).zip(&found.sd) {
            assert!((found - truth).abs() < 0.02, "{found} {truth}");
            assert!((0.0..0.1).contains(sd), "{sd}");
        }
    }

    #[test]
    fn without_data_the_prior_is_left() {
        let priors = [Prior { mean: 0.4, sd: 0.5 }];
        let found = least_squares(&|_: &[f64]| Vec::new(), &priors, &[2.0]);
        assert!((found.values[0] - 0.4).abs() < 1e-6);
        assert!((found.sd[0] - 0.5).abs() < 1e-6);
    }
}
