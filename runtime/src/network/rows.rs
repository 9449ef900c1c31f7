//! The first layer: features of the axes, and its table rows.

use nalgebra::Vector3;

use crate::grid::{Axis, Grid};
use crate::lanes::{BATCH, Pair};
use crate::model::Model;
use crate::shape::{CURVES, FEATURES, FIRST_TAIL};

/// Range of an entry of the first layer's tables: at most this value, at least −1 − this value.
pub const ROW_LIMIT: i16 = 8_191;

/// The resolution of a first-layer row scale: 1/256 of a row's step for each step of a weight.
pub const ROW_SCALE_ONE: f32 = 256.0;

/// The features of the values of one axis.
#[derive(Clone, Copy, Debug)]
pub struct AxisFeatures {
    first: f32,
    /// Features of the last value: ln r, 1 − 1/r and r − 1, with r its ratio to the first.
    top: Vector3<f32>,
}

impl AxisFeatures {
    /// The scaling of an axis from `first` to `last`.
    pub fn new(first: u32, last: u32) -> Self {
        let first = first as f32;
        Self {
            first,
            top: curves(last as f32 / first),
        }
    }

    pub(crate) fn of_axis(grid: &Grid, axis: Axis) -> Self {
        let values = grid.axis(axis);
        let (first, last) = (values.first(), values.last());
        Self::new(*first.unwrap_or(&1), *last.unwrap_or(&1))
    }

    /// The features of an axis value v: ln v, −1/v and v, each scaled to −1 … 1 over the axis
    /// and rising with v. Zero on an axis with one value.
    pub fn at(&self, value: u32) -> [f32; FEATURES] {
        if self.top == Vector3::zeros() {
            return [0.0; FEATURES];
        }
        let parts = curves(value as f32 / self.first);
        let scaled = parts.zip_map(&self.top, |part, top| 2.0 * (part / top) - 1.0);
        scaled.into()
    }
}

/// Units of a level.
pub const LEVEL_ONE: f32 = 128.0;

/// What the rows of one axis are computed from.
#[derive(Clone, Copy)]
pub struct AxisInputs<'a> {
    pub axis: Axis,
    pub features: AxisFeatures,
    pub values: &'a [u32],
    /// Of each value, as i8; empty if the axis has none.
    pub levels: &'a [u8],
    /// The weight of the level in each neuron, as i8; empty if the axis has none.
    pub level_weights: &'a [u8],
}

impl<'a> AxisInputs<'a> {
    pub fn of_model(model: &'a Model<'_>, axis: Axis) -> Self {
        let [levels, level_weights] = model.levels(axis);
        Self {
            axis,
            features: AxisFeatures::of_axis(model.grid(), axis),
            values: model.grid().axis(axis),
            levels,
            level_weights,
        }
    }

    /// The inputs of up to [`TOGETHER`] values from the first one on: their features and levels.
    fn of_each(&self, first: usize) -> Inputs {
        let mut inputs = [[0.0; TOGETHER]; FEATURES + 1];
        let values = self.values.iter().skip(first);
        for (place, (at, value)) in (0..TOGETHER).zip((first..).zip(values)) {
            let [a, b, c] = self.features.at(*value);
            let level = self.levels.get(at).map_or(0, |level| level.cast_signed());
            let level = f32::from(level) / LEVEL_ONE;
            for (inputs, of_value) in inputs.iter_mut().zip([a, b, c, level]) {
                if let Some(input) = inputs.get_mut(place) {
                    *input = of_value;
                }
            }
        }
        inputs
    }
}

/// Number of values whose table entries are computed together: several where memory is plentiful
/// and a vector holds as many.
pub const TOGETHER: usize = if cfg!(target_arch = "x86_64") {
    BATCH
} else {
    1
};

/// The features of values of an axis, feature by feature, then their levels.
type Inputs = [[f32; TOGETHER]; FEATURES + 1];

/// The features are functions of the ratio to the first value, which keeps every term near one,
/// where f32 is accurate enough.
fn curves(ratio: f32) -> Vector3<f32> {
    Vector3::new(libm::logf(ratio), 1.0 - 1.0 / ratio, ratio - 1.0)
}

/// The bytes of a neuron of the first layer: weights, scale (u16), bias (i16).
const FIRST_NEURON: usize = CURVES + FIRST_TAIL;

/// Writes the table rows of an axis's values from the first one on, until `rows` is full. `neurons` are
/// the first layer's neurons as stored in a file.
#[inline(never)]
pub fn write_rows(
    rows: &mut [Pair],
    neurons: &[u8],
    inputs_of_axis: &AxisInputs<'_>,
    mut first: usize,
) {
    let (neurons, _) = neurons.as_chunks::<FIRST_NEURON>();
    // `max(1)` tells the compiler that the length is not 0.
    let pairs = (neurons.len() / 2).max(1);
    for rows in rows.chunks_mut(TOGETHER * pairs) {
        let inputs = inputs_of_axis.of_each(first);
        first += TOGETHER;
        let mut weights = inputs_of_axis.level_weights.iter();
        for (pair, neurons) in neurons.as_chunks::<2>().0.iter().enumerate() {
            let [a, b] = neurons.each_ref().map(|neuron| {
                // Without levels, it is multiplied by 0.
                let weight = weights.next().map_or(0, |weight| weight.cast_signed());
                entries(neuron, f32::from(weight), inputs_of_axis.axis, &inputs)
            });
            for ((row, a), b) in rows.chunks_exact_mut(pairs).zip(a).zip(b) {
                if let Some(pair) = row.get_mut(pair) {
                    *pair = Pair::new(a, b);
                }
            }
        }
    }
}

/// The entries of one neuron with its weight of the level. The first axis includes the bias.
fn entries(
    neuron: &[u8; FIRST_NEURON],
    level_weight: f32,
    axis: Axis,
    inputs: &Inputs,
) -> [i16; TOGETHER] {
    let [weights @ .., s0, s1, b0, b1] = neuron;
    let weights = weights.as_chunks().0.get(axis as usize);
    let [u, v, w] = weights.map_or([0.0; FEATURES], |w| w.map(|w| f32::from(w.cast_signed())));
    let scale = f32::from(u16::from_le_bytes([*s0, *s1])) / ROW_SCALE_ONE;
    let bias = match axis {
        Axis::Cores => f32::from(i16::from_le_bytes([*b0, *b1])),
        _ => 0.0,
    };
    let mut entries = [0; TOGETHER];
    let [a, b, c, d] = inputs;
    let inputs = a.iter().zip(b).zip(c).zip(d);
    for (entry, (((a, b), c), d)) in entries.iter_mut().zip(inputs) {
        *entry = round((u * a + v * b + w * c + level_weight * d) * scale + bias);
    }
    entries
}

/// Rounds to the nearest entry, ties to even. `value` is within ± 2²², as every sum of four
/// weights and a bias is.
#[inline(always)]
fn round(value: f32) -> i16 {
    // In this range the f32 spacing is 1: the addition rounds, and the low bits are the integer.
    const STEP_IS_ONE: f32 = 12_582_912.0;
    let sum = (value + STEP_IS_ONE).to_bits().cast_signed();
    let (least, most) = (-i32::from(ROW_LIMIT) - 1, i32::from(ROW_LIMIT));
    (sum.wrapping_sub(STEP_IS_ONE.to_bits().cast_signed())).clamp(least, most) as i16
}
