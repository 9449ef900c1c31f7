//! The layers after the first one, and the sums of the first layer's rows, for vectors of modes.

use crate::lanes::{LANES, Pair, Tile, Vector, pair_of, value_of};

/// Two units or outputs of a later layer: [`DENSE_HEAD`] pairs, then their interleaved weights.
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

    /// Copies two rows of a file, each with `inputs` weights and a tail. The second may be empty.
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

    /// The activations of these two units, from those of the previous layer.
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

    /// The outputs of a network with one hidden layer, from a tile and the row to add. The
    /// activations stay in registers.
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

    /// [`Dense::outputs_of_row`] for two rows, each plus a common row. Both share the loaded tile
    /// and weights.
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
pub type Outputs = [[i32; LANES]; 2];

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
