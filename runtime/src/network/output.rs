//! The outputs, for vectors of modes.

use super::dense::{bias_of, weights_at};
use crate::lanes::{LANES, Pair, Tile, Vector, value_of};
use crate::shape::OUTPUTS;

/// Sums of each mode of a vector: log time, log power, and the power's spread.
pub type Outputs = [[i32; LANES]; OUTPUTS];

/// The output layer: a pair for each bias, then the interleaved weights. Outputs that a model does
/// not have are zero.
#[derive(Debug)]
pub struct OutputLayer<'a> {
    biases: [i32; OUTPUTS],
    weights: &'a [[Pair; OUTPUTS]],
}

/// The pairs of an output layer after a hidden layer of a width.
pub const fn output_pairs(width: usize) -> usize {
    OUTPUTS * (1 + width / 2)
}

impl<'a> OutputLayer<'a> {
    pub fn read(pairs: &'a [Pair]) -> Option<Self> {
        let (biases, weights) = pairs.split_first_chunk::<OUTPUTS>()?;
        let (weights, _) = weights.as_chunks();
        Some(Self {
            biases: biases.map(value_of),
            weights,
        })
    }

    /// Copies rows of a file, each with `inputs` weights and a tail.
    pub fn write(pairs: &mut [Pair], rows: [&[u8]; OUTPUTS], inputs: usize) {
        let Some((biases, weights)) = pairs.split_first_chunk_mut::<OUTPUTS>() else {
            return;
        };
        let rows = rows.map(|row| row.split_at_checked(inputs).unwrap_or_default());
        *biases = rows.map(|(_, tail)| bias_of(tail));
        for (index, weights) in weights.as_chunks_mut().0.iter_mut().enumerate() {
            *weights = rows.map(|(row, _)| weights_at(row, index));
        }
    }

    #[inline(always)]
    fn biases<V: Vector>(&self) -> [V::Sums; OUTPUTS] {
        self.biases.map(V::splat_sum)
    }

    /// The outputs for the activations of the last hidden layer.
    #[inline(always)]
    pub fn of_units<V: Vector>(&self, units: &[Tile]) -> Outputs {
        let mut sums = self.biases::<V>();
        for (units, weights) in units.iter().zip(self.weights) {
            add::<V>(&mut sums, V::load(units), weights.map(V::splat));
        }
        sums.map(V::store_sums)
    }

    /// The outputs of a network with one hidden layer, from a tile and the row to add. The
    /// activations stay in registers.
    #[inline(always)]
    pub fn of_row<V: Vector>(&self, tile: &[Tile], row: &[Pair]) -> Outputs {
        let mut sums = self.biases::<V>();
        for ((tile, row), weights) in tile.iter().zip(row).zip(self.weights) {
            let units = V::load(tile).add(V::splat(*row)).relu();
            add::<V>(&mut sums, units, weights.map(V::splat));
        }
        sums.map(V::store_sums)
    }

    /// [`OutputLayer::of_row`] for two rows, each plus a common row. Both share the loaded tile and
    /// weights.
    #[inline(always)]
    pub fn of_rows<V: Vector>(
        &self,
        tile: &[Tile],
        common: &[Pair],
        rows: [&[Pair]; 2],
    ) -> [Outputs; 2] {
        let (mut sums, mut next) = (self.biases::<V>(), self.biases::<V>());
        let [row, next_row] = rows;
        let tiles = tile.iter().zip(common);
        let rows = row.iter().zip(next_row);
        for (((tile, common), (row, next_row)), weights) in tiles.zip(rows).zip(self.weights) {
            let tile = V::load(tile).add(V::splat(*common));
            let weights = weights.map(V::splat);
            add::<V>(&mut sums, tile.add(V::splat(*row)).relu(), weights);
            add::<V>(&mut next, tile.add(V::splat(*next_row)).relu(), weights);
        }
        [sums, next].map(|sums| sums.map(V::store_sums))
    }
}

#[inline(always)]
fn add<V: Vector>(sums: &mut [V::Sums; OUTPUTS], units: V, weights: [V; OUTPUTS]) {
    for (sum, weights) in sums.iter_mut().zip(weights) {
        *sum = units.add_products(weights, *sum);
    }
}
