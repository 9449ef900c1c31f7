//! The layers between the first one and the outputs, and the sums of the first layer's rows, for
//! vectors of modes.

use crate::lanes::{LANES, Pair, Tile, Vector, pair_of, value_of};

/// Two units of a later hidden layer: [`DENSE_HEAD`] pairs, then their interleaved weights.
#[derive(Debug)]
pub struct Dense<'a> {
    biases: [i32; 2],
    shifts: [u32; 2],
    weights: &'a [[Pair; 2]],
}

/// Two biases, and two shifts in one pair.
pub const DENSE_HEAD: usize = 3;

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

    /// Copies two rows of a file, each with `inputs` weights and a tail.
    pub fn write(pairs: &mut [Pair], rows: [&[u8]; 2], inputs: usize) {
        let Some(([bias_a, bias_b, shifts], weights)) = pairs.split_first_chunk_mut::<DENSE_HEAD>()
        else {
            return;
        };
        let [a, b] = rows.map(|row| row.split_at_checked(inputs).unwrap_or_default());
        let shift = |tail: &[u8]| tail.get(4).map_or(0, |shift| i16::from(*shift));
        (*bias_a, *bias_b) = (bias_of(a.1), bias_of(b.1));
        *shifts = Pair::new(shift(a.1), shift(b.1));
        for (index, two) in weights.as_chunks_mut().0.iter_mut().enumerate() {
            *two = [a.0, b.0].map(|weights| weights_at(weights, index));
        }
    }

    /// The activations of these two units, from those of the previous layer.
    #[inline(always)]
    pub fn activations<V: Vector>(&self, inputs: &[Tile]) -> Tile {
        V::activations(self.products::<V>(inputs), self.shifts).store()
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
}

/// The bias at the start of a row's tail; 0 for an absent row.
pub fn bias_of(tail: &[u8]) -> Pair {
    pair_of(tail.first_chunk().map_or(0, |b| i32::from_le_bytes(*b)))
}

/// Two neighbouring weights of a row; 0 for an absent row.
pub fn weights_at(weights: &[u8], index: usize) -> Pair {
    match weights.get(2 * index..) {
        Some([a, b, ..]) => Pair::new(i16::from(a.cast_signed()), i16::from(b.cast_signed())),
        _ => Pair::zeros(),
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
pub fn activate<V: Vector>(tile: &[Tile], row: &[Pair], units: &mut [Tile]) {
    for ((tile, row), units) in tile.iter().zip(row).zip(units) {
        *units = V::load(tile).add(V::splat(*row)).relu().store();
    }
}
