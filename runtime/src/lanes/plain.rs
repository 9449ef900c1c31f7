//! Vectors in plain Rust, for every target.

use nalgebra::{SMatrix, SVector};

use super::{LANES, Pair, Tile, Vector};

/// Column j holds the pair of mode j.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain(SMatrix<i16, 2, LANES>);

impl Vector for Plain {
    type Sums = SVector<i32, LANES>;

    #[inline(always)]
    fn load(tile: &Tile) -> Self {
        Self(SMatrix::from_columns(tile))
    }

    #[inline(always)]
    fn store(self) -> Tile {
        self.0.data.0.map(Pair::from)
    }

    #[inline(always)]
    fn splat(pair: Pair) -> Self {
        Self(SMatrix::from_columns(&[pair; LANES]))
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    #[inline(always)]
    fn relu(self) -> Self {
        Self(self.0.map(|unit| unit.max(0)))
    }

    #[inline(always)]
    fn splat_sum(sum: i32) -> Self::Sums {
        SVector::repeat(sum)
    }

    #[inline(always)]
    fn add_products(self, weights: Self, mut sums: Self::Sums) -> Self::Sums {
        let pairs = self.0.data.0.iter().zip(&weights.0.data.0);
        for (sum, ([a, b], [v, w])) in sums.iter_mut().zip(pairs) {
            *sum += i32::from(*a) * i32::from(*v) + i32::from(*b) * i32::from(*w);
        }
        sums
    }

    #[inline(always)]
    fn activations([a, b]: [Self::Sums; 2], [shift_a, shift_b]: [u32; 2]) -> Self {
        let unit =
            |sum: i32, shift: u32| sum.unbounded_shr(shift).clamp(0, i32::from(i16::MAX)) as i16;
        let mut units = SMatrix::zeros();
        for ((pair, a), b) in units.data.0.iter_mut().zip(&a).zip(&b) {
            *pair = [unit(*a, shift_a), unit(*b, shift_b)];
        }
        Self(units)
    }

    #[inline(always)]
    fn store_sums(sums: Self::Sums) -> [i32; LANES] {
        let [sums] = sums.data.0;
        sums
    }
}
