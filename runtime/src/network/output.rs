//! The outputs, for vectors of modes.

use super::dense::HEAD;
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
    HEAD + OUTPUTS * (width / 2)
}

impl<'a> OutputLayer<'a> {
    pub fn read(pairs: &'a [Pair]) -> Option<Self> {
        let (biases, weights) = pairs.split_first_chunk::<HEAD>()?;
        let (weights, _) = weights.as_chunks();
        Some(Self {
            biases: biases.map(value_of),
            weights,
        })
    }

    #[inline(always)]
    fn biases<V: Vector>(&self) -> Sums<V> {
        let [time, power, spread] = self.biases;
        Sums {
            time: V::splat_sum(time),
            power: V::splat_sum(power),
            spread: V::splat_sum(spread),
        }
    }

    /// The outputs for the activations of the last hidden layer.
    #[inline(always)]
    pub fn of_neurons<V: Vector>(&self, neurons: &[Tile]) -> Outputs {
        let mut sums = self.biases::<V>();
        for (neurons, weights) in neurons.iter().zip(self.weights) {
            sums.add(V::load(neurons), Weights::splat(weights));
        }
        sums.store()
    }

    /// The outputs of a network with one hidden layer, from a tile and the row to add. The
    /// activations stay in registers.
    #[inline(always)]
    pub fn of_row<V: Vector>(&self, tile: &[Tile], row: &[Pair]) -> Outputs {
        let mut sums = self.biases::<V>();
        for ((tile, row), weights) in tile.iter().zip(row).zip(self.weights) {
            let neurons = V::load(tile).add(V::splat(*row)).relu();
            sums.add(neurons, Weights::splat(weights));
        }
        sums.store()
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
            let weights = Weights::splat(weights);
            sums.add(tile.add(V::splat(*row)).relu(), weights);
            next.add(tile.add(V::splat(*next_row)).relu(), weights);
        }
        [sums.store(), next.store()]
    }
}

/// The sums of a vector. Separate fields stay in registers at every optimisation level; an array may
/// not.
struct Sums<V: Vector> {
    time: V::Sums,
    power: V::Sums,
    spread: V::Sums,
}

impl<V: Vector> Sums<V> {
    #[inline(always)]
    fn add(&mut self, neurons: V, weights: Weights<V>) {
        self.time = neurons.add_products(weights.time, self.time);
        self.power = neurons.add_products(weights.power, self.power);
        self.spread = neurons.add_products(weights.spread, self.spread);
    }

    #[inline(always)]
    fn store(self) -> Outputs {
        [
            V::store_sums(self.time),
            V::store_sums(self.power),
            V::store_sums(self.spread),
        ]
    }
}

/// The weights of a pair of neurons.
#[derive(Clone, Copy)]
struct Weights<V> {
    time: V,
    power: V,
    spread: V,
}

impl<V: Vector> Weights<V> {
    #[inline(always)]
    fn splat([time, power, spread]: &[Pair; OUTPUTS]) -> Self {
        Self {
            time: V::splat(*time),
            power: V::splat(*power),
            spread: V::splat(*spread),
        }
    }
}
