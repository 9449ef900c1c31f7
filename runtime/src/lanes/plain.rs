//! Vectors as matrices: the reference definition of each operation, for every target.

use nalgebra::{RowSVector, SMatrix};

use super::vector::{LANES, Pair, Tile, Vector};

/// Two neighbouring neurons (rows) of a batch of modes (columns).
type Neurons<T> = SMatrix<T, 2, LANES>;

/// A batch of modes. With the weights of a layer in pairs, the sum of
/// [`add_products`](Vector::add_products) over all pairs is the matrix product weights × neurons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain(Neurons<i16>);

impl Vector for Plain {
    type Sums = RowSVector<i32, LANES>;

    #[inline(always)]
    fn load(tile: &Tile) -> Self {
        Self(Neurons::from_columns(tile))
    }

    #[inline(always)]
    fn store(self) -> Tile {
        self.0.data.0.map(Pair::from)
    }

    #[inline(always)]
    fn splat(pair: Pair) -> Self {
        Self(Neurons::from_columns(&[pair; LANES]))
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    #[inline(always)]
    fn relu(self) -> Self {
        Self(self.0.map(|neuron| neuron.max(0)))
    }

    #[inline(always)]
    fn splat_sum(sum: i32) -> Self::Sums {
        Self::Sums::repeat(sum)
    }

    #[inline(always)]
    fn add_products(self, weights: Self, sums: Self::Sums) -> Self::Sums {
        let products = self
            .0
            .zip_map(&weights.0, |a, w| i32::from(a) * i32::from(w));
        sums + products.row_sum()
    }

    #[inline(always)]
    fn activations([a, b]: [Self::Sums; 2], [shift_a, shift_b]: [u32; 2]) -> Self {
        let neuron = |sum: i32, shift: u32| {
            let shifted = sum >> (shift & 31);
            shifted.clamp(0, i32::from(i16::MAX)) as i16
        };
        let (a, b) = (
            a.map(|sum| neuron(sum, shift_a)),
            b.map(|sum| neuron(sum, shift_b)),
        );
        Self(Neurons::from_rows(&[a, b]))
    }

    #[inline(always)]
    fn store_sums(sums: Self::Sums) -> [i32; LANES] {
        sums.data.0.map(|[sum]| sum)
    }
}
