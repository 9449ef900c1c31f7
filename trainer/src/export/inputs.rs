//! The network's inputs: the runtime's features of the modes of a grid, and the levels of its clocks.

use nalgebra::{DMatrix, DVector, Matrix2};
use wattgate_runtime::grid::{Axis, Grid};
use wattgate_runtime::network::{AxisFeatures, LEVEL_ONE};
use wattgate_runtime::shape::{CURVES, FEATURES, INPUTS, LEVELLED};

/// The largest absolute level.
const MOST_LEVEL: f64 = 127.0;

/// Marginal means that are this close to a curve, in ln units, need no level.
const LEAST_BUMP: f64 = 1e-3;

/// The inputs of one mode: the features of its four knobs, then the levels of its clocks.
pub type Inputs = [f32; INPUTS];

/// The inputs of each value of a grid's axes.
#[derive(Clone, Debug)]
pub struct GridInputs {
    /// Features by axis and axis value.
    pub features: [Vec<[f32; FEATURES]>; 4],
    /// Levels by axis of [`LEVELLED`] and axis value.
    pub levels: [Vec<i8>; LEVELLED.len()],
}

impl GridInputs {
    /// Of a grid with predictions of each output by mode id, in ln units. A level is what the means over
    /// all modes with a clock deviate from the best curve of its features: their first principal
    /// component over the outputs.
    pub fn new(grid: &Grid, targets: &[Vec<f64>]) -> Self {
        let features = Axis::ALL.map(|axis| {
            let values = grid.axis(axis);
            let (first, last) = (values[0], values[values.len() - 1]);
            let scale = AxisFeatures::new(first, last);
            values
                .iter()
                .map(|&value| scale.at(value))
                .collect::<Vec<_>>()
        });
        let levels = LEVELLED.map(|axis| {
            let features_of_axis = &features[axis as usize];
            let mut bumps = targets
                .iter()
                .map(|target| bump(features_of_axis, &means(grid, axis, target)));
            match [bumps.next(), bumps.next()] {
                [Some(time), Some(power)] => levels(&principal(&time, &power)),
                [Some(time), None] => levels(&time),
                _ => vec![0; features_of_axis.len()],
            }
        });
        Self { features, levels }
    }

    /// The inputs of every mode, indexed by mode id.
    pub fn of_modes(&self) -> Vec<Inputs> {
        let lengths = self.features.each_ref().map(Vec::len);
        let modes = 0..lengths.iter().product();
        modes.map(|id| self.of_mode(indices(lengths, id))).collect()
    }

    fn of_mode(&self, at: [usize; 4]) -> Inputs {
        std::array::from_fn(|input| match input.checked_sub(CURVES) {
            None => {
                let axis = input / FEATURES;
                self.features[axis][at[axis]][input % FEATURES]
            }
            Some(levelled) => self.level(levelled, at[LEVELLED[levelled] as usize]),
        })
    }

    /// What the runtime makes of a level.
    pub fn level(&self, levelled: usize, value: usize) -> f32 {
        f32::from(self.levels[levelled][value]) / LEVEL_ONE
    }
}

/// The indices of a mode's values, from its id.
fn indices(lengths: [usize; 4], mut id: usize) -> [usize; 4] {
    let mut at = [0; 4];
    for (at, length) in at.iter_mut().zip(lengths).rev() {
        (*at, id) = (id % length, id / length);
    }
    at
}

/// The mean of a target over all modes with each value of an axis.
fn means(grid: &Grid, axis: Axis, target: &[f64]) -> DVector<f64> {
    let lengths = Axis::ALL.map(|axis| grid.axis(axis).len());
    let values = lengths[axis as usize];
    let mut sums = DVector::zeros(values);
    for (id, target) in target.iter().enumerate() {
        sums[indices(lengths, id)[axis as usize]] += target;
    }
    sums * (values as f64 / target.len() as f64)
}

/// What values deviate from the best curve of the features.
fn bump(features: &[[f32; FEATURES]], means: &DVector<f64>) -> DVector<f64> {
    let curve = DMatrix::from_fn(features.len(), FEATURES + 1, |value, feature| {
        feature
            .checked_sub(1)
            .map_or(1.0, |at| f64::from(features[value][at]))
    });
    match curve.clone().svd(true, true).solve(means, 1e-9) {
        Ok(weights) => means - curve * weights,
        Err(_) => means * 0.0,
    }
}

/// The first principal component of two deviations.
fn principal(time: &DVector<f64>, power: &DVector<f64>) -> DVector<f64> {
    let product = time.dot(power);
    let square = Matrix2::new(time.dot(time), product, product, power.dot(power));
    let eigen = square.symmetric_eigen();
    let direction = eigen.eigenvectors.column(eigen.eigenvalues.imax());
    time * direction[0] + power * direction[1]
}

fn levels(bump: &DVector<f64>) -> Vec<i8> {
    let most = bump.amax();
    let level = |deviation: &f64| match most < LEAST_BUMP {
        true => 0,
        false => (MOST_LEVEL * deviation / most).round() as i8,
    };
    bump.iter().map(level).collect()
}
