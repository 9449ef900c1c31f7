//! The layers between the first one and the outputs, and the sums of the first layer's rows, for
//! vectors of modes.

use crate::lanes::{LANES, Pair, Tile, Vector, pair_of, value_of};
use crate::shape::Layer;

/// Two neurons of a later hidden layer: [`HEAD`] pairs, then their interleaved weights.
#[derive(Debug)]
pub struct Dense<'a> {
    biases: [i32; 2],
    shifts: [u32; 2],
    weights: &'a [[Pair; 2]],
}

/// The pairs before the weights: two biases and two shifts, or three biases.
pub const HEAD: usize = 3;

impl<'a> Dense<'a> {
    pub fn read(pairs: &'a [Pair]) -> Option<Self> {
        let (&[a, b, shifts], weights) = pairs.split_first_chunk::<HEAD>()?;
        let (weights, _) = weights.as_chunks();
        let [shifts] = shifts.data.0;
        Some(Self {
            biases: [a, b].map(value_of),
            shifts: shifts.map(|shift| u32::from(shift.cast_unsigned())),
            weights,
        })
    }

    /// Computes the activations of these two neurons from the activations of the previous layer.
    #[inline(always)]
    pub fn activations<V: Vector>(&self, inputs: &[Tile]) -> Tile {
        V::activations(self.products::<V>(inputs), self.shifts).store()
    }

    #[inline(always)]
    fn products<V: Vector>(&self, inputs: &[Tile]) -> [V::Sums; 2] {
        let [bias_a, bias_b] = self.biases;
        let (mut sum_a, mut sum_b) = (V::splat_sum(bias_a), V::splat_sum(bias_b));
        for (neurons, [a, b]) in inputs.iter().zip(self.weights) {
            let neurons = V::load(neurons);
            sum_a = neurons.add_products(V::splat(*a), sum_a);
            sum_b = neurons.add_products(V::splat(*b), sum_b);
        }
        [sum_a, sum_b]
    }
}

/// Copies the rows of neurons that are computed together: a pair for each bias, the shifts of two
/// hidden neurons in one pair, then the interleaved weights. An absent row is zero.
#[inline(never)]
pub fn write_neurons(pairs: &mut [Pair], rows: &[u8], layer: &Layer, together: usize) {
    let (head, weights) = pairs.split_at_mut_checked(HEAD).unwrap_or_default();
    let mut rows = rows.chunks_exact(layer.row());
    let mut shifts = 0;
    for neuron in 0..together {
        let row = rows.next().unwrap_or_default();
        let (from, tail) = row.split_at_checked(layer.inputs).unwrap_or_default();
        if let Some(bias) = head.get_mut(neuron) {
            *bias = pair_of(tail.first_chunk().map_or(0, |b| i32::from_le_bytes(*b)));
        }
        if let [_, _, _, _, shift] = tail {
            shifts |= i32::from(*shift) << (16 * neuron);
        }
        let places = weights.iter_mut().skip(neuron).step_by(together.max(1));
        for (index, place) in places.enumerate() {
            *place = match from.get(2 * index..) {
                Some([a, b, ..]) => {
                    Pair::new(i16::from(a.cast_signed()), i16::from(b.cast_signed()))
                }
                _ => Pair::zeros(),
            };
        }
    }
    if let (2, [_, _, pair]) = (together, head) {
        *pair = pair_of(shifts);
    }
}

/// Writes the sum of two rows.
#[inline(always)]
pub fn add_rows<V: Vector>(sum: &mut [Pair], row: &[Pair], other: &[Pair]) {
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

/// Layer 1 for the modes of a tile: ReLU of tile + row.
#[inline(always)]
pub fn activate<V: Vector>(tile: &[Tile], row: &[Pair], neurons: &mut [Tile]) {
    for ((tile, row), neurons) in tile.iter().zip(row).zip(neurons) {
        *neurons = V::load(tile).add(V::splat(*row)).relu().store();
    }
}
