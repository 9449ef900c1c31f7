//! Vectors in plain Rust, for every target.

use super::vector::{LANES, Pair, Tile, Vector};

/// Mode after mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain(Tile);

impl Vector for Plain {
    type Sums = [i32; LANES];

    #[inline(always)]
    fn load(tile: &Tile) -> Self {
        Self(*tile)
    }

    #[inline(always)]
    fn store(self) -> Tile {
        self.0
    }

    #[inline(always)]
    fn splat(pair: Pair) -> Self {
        Self([pair; LANES])
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        let Self(mut pairs) = self;
        for (a, b) in pairs.iter_mut().zip(other.0) {
            *a = Pair::new(a.x + b.x, a.y + b.y);
        }
        Self(pairs)
    }

    #[inline(always)]
    fn relu(self) -> Self {
        let Self(mut pairs) = self;
        for pair in &mut pairs {
            *pair = Pair::new(pair.x.max(0), pair.y.max(0));
        }
        Self(pairs)
    }

    #[inline(always)]
    fn splat_sum(sum: i32) -> Self::Sums {
        [sum; LANES]
    }

    #[inline(always)]
    fn add_products(self, weights: Self, mut sums: Self::Sums) -> Self::Sums {
        for (sum, (a, w)) in sums.iter_mut().zip(self.0.iter().zip(weights.0)) {
            *sum += i32::from(a.x) * i32::from(w.x) + i32::from(a.y) * i32::from(w.y);
        }
        sums
    }

    #[inline(always)]
    fn activations([a, b]: [Self::Sums; 2], [shift_a, shift_b]: [u32; 2]) -> Self {
        let unit = |sum: i32, shift: u32| {
            let shifted = sum >> (shift & 31);
            shifted.clamp(0, i32::from(i16::MAX)) as i16
        };
        let mut pairs = [Pair::new(0, 0); LANES];
        for (pair, (a, b)) in pairs.iter_mut().zip(a.into_iter().zip(b)) {
            *pair = Pair::new(unit(a, shift_a), unit(b, shift_b));
        }
        Self(pairs)
    }

    #[inline(always)]
    fn store_sums(sums: Self::Sums) -> [i32; LANES] {
        sums
    }
}
