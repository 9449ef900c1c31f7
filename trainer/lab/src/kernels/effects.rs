//! How each unit of a corpus differs from the average unit. All rows of a unit show this difference, its
//! *effect*. The effect is estimated from these rows and subtracted from them, so that the trees learn the
//! average unit, from rows with less noise.
//!
//! An effect is a linear function of some inputs, on the logarithm of the target: for example, a slow CPU
//! lengthens small kernels most, and a chip that leaks adds most to low powers. A ridge regression finds the
//! coefficients of each unit, and their mean over the units is subtracted. Mixed-effects forests also alternate
//! between trees and effects (Hajjem et al. 2014).

use nalgebra::{Cholesky, DMatrix, DVector, Dyn};
use rayon::prelude::*;

use super::features::Columns;

/// The ridge: it acts like this many rows that show no effect.
const RIDGE: f64 = 10.0;

/// The effects of units on some rows.
pub struct Effects {
    /// Standardised inputs, column by column; the first is one.
    inputs: Vec<Vec<f32>>,
    units: Vec<Unit>,
    /// The effect on each row.
    of_rows: Vec<f32>,
}

/// A unit of several.
struct Unit {
    rows: Vec<u32>,
    normal_equations: Cholesky<f64, Dyn>,
}

impl Effects {
    /// Effects that are zero so far. `units` has the unit of each row, and `inputs` what effects are linear in.
    pub fn new(units: &[u16], inputs: &Columns) -> Self {
        let rows = units.len();
        let standardised = |column: &Vec<f32>| {
            let n = rows as f64;
            let mean = column.iter().map(|value| f64::from(*value)).sum::<f64>() / n;
            let square = |value: &f32| (f64::from(*value) - mean).powi(2);
            let sd = (column.iter().map(square).sum::<f64>() / n).sqrt();
            let standardise = |value: &f32| ((f64::from(*value) - mean) / sd) as f32;
            (sd > 1e-6).then(|| column.iter().map(standardise).collect())
        };
        let varying = inputs.columns.iter().filter_map(standardised);
        let inputs: Vec<Vec<f32>> = [vec![1.0; rows]].into_iter().chain(varying).collect();
        let highest = units.iter().max().map_or(0, |unit| usize::from(*unit));
        let mut rows_of = vec![Vec::new(); highest + 1];
        for (row, unit) in units.iter().enumerate() {
            rows_of[usize::from(*unit)].push(row as u32);
        }
        rows_of.retain(|rows| !rows.is_empty());
        if rows_of.len() == 1 {
            rows_of.clear();
        }
        let of_unit = |rows: Vec<u32>| {
            let entry = |i: usize, j: usize| {
                let product = |&row: &u32| {
                    let [a, b] = [i, j].map(|at: usize| f64::from(inputs[at][row as usize]));
                    a * b
                };
                rows.iter().map(product).sum::<f64>() + if i == j { RIDGE } else { 0.0 }
            };
            let matrix = DMatrix::from_fn(inputs.len(), inputs.len(), entry);
            let normal_equations = Cholesky::new(matrix).expect("a ridge makes it regular");
            Unit {
                rows,
                normal_equations,
            }
        };
        let units = rows_of.into_par_iter().map(of_unit).collect();
        Self {
            inputs,
            units,
            of_rows: vec![0.0; rows],
        }
    }

    /// Estimates the effects again. The residuals come with the old effects subtracted, and leave with the new
    /// ones subtracted.
    pub fn refit(&mut self, residuals: &mut [f32]) {
        let Self {
            inputs,
            units,
            of_rows,
        } = self;
        if units.is_empty() {
            return;
        }
        let coefficients: Vec<DVector<f64>> = units
            .par_iter()
            .map(|unit| {
                let sum = |column: &Vec<f32>| {
                    let products = unit.rows.iter().map(|&row| {
                        let row = row as usize;
                        f64::from(column[row]) * f64::from(residuals[row] + of_rows[row])
                    });
                    products.sum::<f64>()
                };
                let sums = DVector::from_iterator(inputs.len(), inputs.iter().map(sum));
                unit.normal_equations.solve(&sums)
            })
            .collect();
        let mean = coefficients.iter().sum::<DVector<f64>>() / coefficients.len() as f64;
        for (unit, coefficients) in units.iter().zip(coefficients) {
            let coefficients = coefficients - &mean;
            for &row in &unit.rows {
                let row = row as usize;
                let pairs = inputs.iter().zip(coefficients.iter());
                let effect =
                    pairs.map(|(column, coefficient)| f64::from(column[row]) * coefficient);
                let effect = effect.sum::<f64>() as f32;
                residuals[row] += of_rows[row] - effect;
                of_rows[row] = effect;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 3 units × 400 rows: one is slower by a fifth, one where an input is high.
    #[test]
    fn effects_of_units_are_told_from_the_rows_and_have_no_mean() {
        let rows = 1_200;
        let input: Vec<f32> = (0..rows)
            .map(|row| (row % 100) as f32 / 50.0 - 1.0)
            .collect();
        let units: Vec<u16> = (0..rows).map(|row| (row % 3) as u16).collect();
        let truth = |row: usize| [0.2, 0.0, 0.1 * input[row]][row % 3];
        let mut residuals: Vec<f32> = (0..rows).map(truth).collect();
        let inputs = Columns {
            columns: vec![input.clone(), vec![3.0; rows]],
        };
        let mut effects = Effects::new(&units, &inputs);
        effects.refit(&mut residuals);
        // What all units have in common is none of theirs.
        let common = |row: usize| (0.2 + 0.1 * input[row]) / 3.0;
        for (row, residual) in residuals.iter().enumerate() {
            assert!((residual - common(row)).abs() < 0.01, "{row}: {residual}");
        }
        let before = residuals.clone();
        effects.refit(&mut residuals);
        let change = residuals.iter().zip(&before).map(|(a, b)| (a - b).abs());
        assert!(change.fold(0.0, f32::max) < 0.005);
    }

    #[test]
    fn one_unit_and_few_rows_have_no_effect() {
        let inputs = Columns {
            columns: vec![vec![1.0, 2.0, 3.0]],
        };
        let mut residuals = [0.3, -0.1, 0.5];
        Effects::new(&[4, 4, 4], &inputs).refit(&mut residuals);
        assert_eq!(residuals, [0.3, -0.1, 0.5]);
    }
}
