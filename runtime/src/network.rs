//! The network: per-axis features, integer layers, log time and log power out.
//!
//! **Layer 1 is a sum of table rows.** Every input feature depends on one axis only, so
//! the product of the first layer's weights with a mode's features is a sum of four
//! rows, one for each axis value. The rows are computed once, 60 on the largest board.
//!
//! **Integers from there on.** Rows are i16, weights i8, sums i32. Integer sums do not
//! depend on the order of their terms, so every target and every compiler gives the
//! same bits, with or without a floating-point unit. The bounds leave no overflow: an entry of
//! a row lies within −8,192 … 8,191, so that four add up to an i16; at most 256 inputs of at
//! most 32,767 × 127 and a bias within ±2³⁰ stay below 2³¹.
//!
//! The output is the logarithm of time and power in units that the file states. Modes
//! are compared by these integers; only the points of a front are converted.

use nalgebra::Vector3;

use crate::grid::{Axis, Grid};
use crate::lanes::{BATCH, LANES, Pair, Tile, Vector, pair_of, value_of};
use crate::shape::FIRST_TAIL;

/// Features of each axis: logarithm, inverse and value of the knob.
pub const FEATURES: usize = 3;

/// Inputs of the first layer: [`FEATURES`] for each axis, in the order of the axes.
pub const INPUTS: usize = FEATURES * Axis::ALL.len();

/// An entry of the first layer's tables is at most this value, and at least −1 − this value.
pub const ROW_LIMIT: i16 = 8_191;

/// The bias of a later layer lies within ± this value.
pub const BIAS_LIMIT: i32 = 1 << 30;

/// The units of a first-layer row scale: 1/256 of a row's unit for each weight unit.
pub const ROW_SCALE_ONE: f32 = 256.0;

/// What the network says of one mode: logarithms as integers in the file's units, to be
/// compared as they are and converted by [`Model::time`](crate::Model::time) and
/// [`Model::power`](crate::Model::power).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prediction {
    /// Logarithm of the time.
    pub log_time: i32,
    /// Logarithm of the power; 0 for a model without power.
    pub log_power: i32,
}

/// The features of the values of one axis.
#[derive(Clone, Copy, Debug)]
pub struct AxisFeatures {
    first: f32,
    /// Of the last value: ln r, 1 − 1/r and r − 1, with r its ratio to the first.
    top: Vector3<f32>,
}

impl AxisFeatures {
    /// For an axis from `first` to `last`.
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
    pub fn of(&self, value: u32) -> [f32; FEATURES] {
        if self.top == Vector3::zeros() {
            return [0.0; FEATURES];
        }
        let parts = curves(value as f32 / self.first);
        let scaled = parts.zip_map(&self.top, |part, top| 2.0 * (part / top) - 1.0);
        scaled.into()
    }

    /// The features of up to [`TOGETHER`] values.
    fn of_each(&self, values: &[u32]) -> Inputs {
        let mut inputs = [[0.0; TOGETHER]; FEATURES];
        for (place, value) in (0..TOGETHER).zip(values) {
            for (inputs, feature) in inputs.iter_mut().zip(self.of(*value)) {
                if let Some(input) = inputs.get_mut(place) {
                    *input = feature;
                }
            }
        }
        inputs
    }
}

/// The values of an axis whose table entries are computed together: several where memory is
/// plentiful and a vector holds as many.
pub(crate) const TOGETHER: usize = if cfg!(target_arch = "x86_64") {
    BATCH
} else {
    1
};

/// The features of values of an axis, feature by feature.
type Inputs = [[f32; TOGETHER]; FEATURES];

/// Ratios to the first value keep every term near one, where f32 is exact enough.
fn curves(ratio: f32) -> Vector3<f32> {
    Vector3::new(libm::logf(ratio), 1.0 - 1.0 / ratio, ratio - 1.0)
}

/// The bytes of a unit of the first layer: weights, scale (u16), bias (i16).
const FIRST_UNIT: usize = INPUTS + FIRST_TAIL;

/// Writes the table rows of values of an axis, as many as there is room for. `units` are those of
/// the first layer as they stand in a file.
#[inline(never)]
pub(crate) fn write_rows(
    rows: &mut [Pair],
    units: &[u8],
    axis: Axis,
    features: AxisFeatures,
    values: &[u32],
) {
    let (units, _) = units.as_chunks::<FIRST_UNIT>();
    // Never 0, which the compiler has to know.
    let pairs = (units.len() / 2).max(1);
    for (rows, values) in rows
        .chunks_mut(TOGETHER * pairs)
        .zip(values.chunks(TOGETHER))
    {
        let inputs = features.of_each(values);
        for (pair, [a, b]) in units.as_chunks::<2>().0.iter().enumerate() {
            let (a, b) = (entries(a, axis, &inputs), entries(b, axis, &inputs));
            for ((row, a), b) in rows.chunks_exact_mut(pairs).zip(a).zip(b) {
                if let Some(pair) = row.get_mut(pair) {
                    *pair = Pair::new(a, b);
                }
            }
        }
    }
}

/// The entries of one unit. The bias goes with the first axis.
fn entries(unit: &[u8; FIRST_UNIT], axis: Axis, inputs: &Inputs) -> [i16; TOGETHER] {
    let [weights @ .., s0, s1, b0, b1] = unit;
    let weights = weights.as_chunks().0.get(axis as usize);
    let [u, v, w] = weights.map_or([0.0; FEATURES], |w| w.map(|w| f32::from(w.cast_signed())));
    let scale = f32::from(u16::from_le_bytes([*s0, *s1])) / ROW_SCALE_ONE;
    let bias = match axis {
        Axis::Cores => f32::from(i16::from_le_bytes([*b0, *b1])),
        _ => 0.0,
    };
    let mut entries = [0; TOGETHER];
    let [a, b, c] = inputs;
    for (entry, ((a, b), c)) in entries.iter_mut().zip(a.iter().zip(b).zip(c)) {
        *entry = round((u * a + v * b + w * c) * scale + bias);
    }
    entries
}

/// To the nearest entry, ties to even. `value` is within ± 2²², as every sum of three weights and
/// a bias is.
#[inline(always)]
fn round(value: f32) -> i16 {
    // Here a step of f32 is one, so that the addition rounds, and its last bits are the integer.
    const STEP_IS_ONE: f32 = 12_582_912.0;
    let sum = (value + STEP_IS_ONE).to_bits().cast_signed();
    let (least, most) = (-i32::from(ROW_LIMIT) - 1, i32::from(ROW_LIMIT));
    (sum.wrapping_sub(STEP_IS_ONE.to_bits().cast_signed())).clamp(least, most) as i16
}

/// Two units or outputs of a later layer: [`DENSE_HEAD`] pairs, then their weights in turn.
#[derive(Debug)]
pub(crate) struct Dense<'a> {
    biases: [i32; 2],
    shifts: [u32; 2],
    weights: &'a [[Pair; 2]],
}

/// Two biases, and two shifts in one pair.
pub(crate) const DENSE_HEAD: usize = 3;

impl<'a> Dense<'a> {
    pub fn read(pairs: &'a [Pair]) -> Option<Self> {
        let (&[a, b, shifts], weights) = pairs.split_first_chunk::<DENSE_HEAD>()?;
        let (weights, _) = weights.as_chunks();
        let [shifts] = shifts.data.0;
        Some(Self {
            biases: [a, b].map(value_of),
            shifts: shifts.map(|shift| u32::from(shift.cast_unsigned())),
            weights,
        })
    }

    /// Takes two rows of a file over, each of `inputs` weights and what follows them. The second
    /// may be empty.
    pub fn write(pairs: &mut [Pair], rows: [&[u8]; 2], inputs: usize) {
        let Some(([bias_a, bias_b, shifts], weights)) = pairs.split_first_chunk_mut::<DENSE_HEAD>()
        else {
            return;
        };
        let [a, b] = rows.map(|row| row.split_at_checked(inputs).unwrap_or_default());
        let bias = |tail: &[u8]| pair_of(tail.first_chunk().map_or(0, |b| i32::from_le_bytes(*b)));
        let shift = |tail: &[u8]| tail.get(4).map_or(0, |shift| i16::from(*shift));
        (*bias_a, *bias_b) = (bias(a.1), bias(b.1));
        *shifts = Pair::new(shift(a.1), shift(b.1));
        let pair = |weights: &[u8], index: usize| match weights.get(2 * index..) {
            Some([a, b, ..]) => Pair::new(i16::from(a.cast_signed()), i16::from(b.cast_signed())),
            _ => Pair::zeros(),
        };
        for (index, two) in weights.as_chunks_mut().0.iter_mut().enumerate() {
            *two = [pair(a.0, index), pair(b.0, index)];
        }
    }

    /// The activations that these units make of those of the layer before.
    #[inline(always)]
    pub fn activations<V: Vector>(&self, inputs: &[Tile]) -> Tile {
        V::activations(self.products::<V>(inputs), self.shifts).store()
    }

    /// The outputs for the activations of the last hidden layer.
    #[inline(always)]
    pub fn outputs<V: Vector>(&self, inputs: &[Tile]) -> Outputs {
        self.products::<V>(inputs).map(V::store_sums)
    }

    #[inline(always)]
    fn products<V: Vector>(&self, inputs: &[Tile]) -> [V::Sums; 2] {
        let [bias_a, bias_b] = self.biases;
        let (mut sum_a, mut sum_b) = (V::splat_sum(bias_a), V::splat_sum(bias_b));
        for (units, [a, b]) in inputs.iter().zip(self.weights) {
            let units = V::load(units);
            sum_a = units.add_products(V::splat(*a), sum_a);
            sum_b = units.add_products(V::splat(*b), sum_b);
        }
        [sum_a, sum_b]
    }

    /// The outputs of a network with one hidden layer, whose activations never leave the
    /// registers: of a tile with a row on top.
    #[inline(always)]
    pub fn outputs_of_row<V: Vector>(&self, tile: &[Tile], row: &[Pair]) -> Outputs {
        let [bias_a, bias_b] = self.biases;
        let (mut sum_a, mut sum_b) = (V::splat_sum(bias_a), V::splat_sum(bias_b));
        for ((tile, row), [a, b]) in tile.iter().zip(row).zip(self.weights) {
            let units = V::load(tile).add(V::splat(*row)).relu();
            sum_a = units.add_products(V::splat(*a), sum_a);
            sum_b = units.add_products(V::splat(*b), sum_b);
        }
        [V::store_sums(sum_a), V::store_sums(sum_b)]
    }

    /// [`Dense::outputs_of_row`] for two rows, each with a common row on top, which share what
    /// is loaded.
    #[inline(always)]
    pub fn outputs_of_rows<V: Vector>(
        &self,
        tile: &[Tile],
        common: &[Pair],
        rows: [&[Pair]; 2],
    ) -> [Outputs; 2] {
        let [bias_a, bias_b] = self.biases;
        let (mut sum_a, mut sum_b) = (V::splat_sum(bias_a), V::splat_sum(bias_b));
        let (mut next_a, mut next_b) = (sum_a, sum_b);
        let [row, next_row] = rows;
        let tiles = tile.iter().zip(common);
        let rows = row.iter().zip(next_row);
        for (((tile, common), (row, next_row)), [a, b]) in tiles.zip(rows).zip(self.weights) {
            let tile = V::load(tile).add(V::splat(*common));
            let (a, b) = (V::splat(*a), V::splat(*b));
            let units = tile.add(V::splat(*row)).relu();
            sum_a = units.add_products(a, sum_a);
            sum_b = units.add_products(b, sum_b);
            let units = tile.add(V::splat(*next_row)).relu();
            next_a = units.add_products(a, next_a);
            next_b = units.add_products(b, next_b);
        }
        [
            [V::store_sums(sum_a), V::store_sums(sum_b)],
            [V::store_sums(next_a), V::store_sums(next_b)],
        ]
    }
}

/// Log time and log power of each mode of a vector.
pub(crate) type Outputs = [[i32; LANES]; 2];

/// Writes the sum of two rows.
#[inline(always)]
pub(crate) fn add_rows<V: Vector>(sum: &mut [Pair], row: &[Pair], other: &[Pair]) {
    let (sum, sum_end) = sum.as_chunks_mut::<LANES>();
    let (row, row_end) = row.as_chunks();
    let (other, other_end) = other.as_chunks();
    for (sum, (row, other)) in sum.iter_mut().zip(row.iter().zip(other)) {
        *sum = V::load(row).add(V::load(other)).store();
    }
    for (sum, (row, other)) in sum_end.iter_mut().zip(row_end.iter().zip(other_end)) {
        *sum = row + other;
    }
}

/// Layer 1 for the modes of a tile: the positive part of tile + row.
#[inline(always)]
pub(crate) fn activate<V: Vector>(tile: &[Tile], row: &[Pair], units: &mut [Tile]) {
    for ((tile, row), units) in tile.iter().zip(row).zip(units) {
        *units = V::load(tile).add(V::splat(*row)).relu().store();
    }
}
