//! Vectors of modes: the arithmetic of the sweep's innermost loops.
//!
//! A vector holds the same pair of neighbouring neurons for [`LANES`] modes, as i16. The widest
//! multiply-add of x86-64 (`pmaddwd`) and that of a Cortex-M4 (`smlad`) both sum two i16 products
//! into an i32; compilers do not find them from plain loops.
//!
//! [`plain`] defines each operation and serves every target. The other modules use instructions
//! that make a sweep at least twice as fast; they and `float.rs` contain the only unsafe code of this crate. To
//! measure the gain, put `WATTGATE_LANES=plain` in front of `tools/bench.sh` or
//! `firmware-tests/run.sh`: the build then takes [`plain`]. Unit tests compare each operation with
//! [`plain`]; the golden report compares whole sweeps.

#[cfg(lanes = "dsp")]
mod dsp;
#[cfg(lanes = "neon")]
mod neon;
#[cfg(any(test, lanes = "plain"))]
mod plain;
mod vector;
#[cfg(lanes = "x86")]
mod x86;

pub use vector::{BATCH, LANES, Pair, Tile, VECTORS, Vector, pair_of, value_of};

#[cfg(lanes = "dsp")]
pub use dsp::Dsp as Native;
#[cfg(lanes = "neon")]
pub use neon::Neon as Native;
#[cfg(lanes = "plain")]
pub use plain::Plain as Native;
#[cfg(lanes = "x86")]
pub use x86::X86 as Native;

#[cfg(test)]
mod tests {
    use super::plain::Plain;
    use super::{LANES, Native, Pair, Tile, Vector, pair_of, value_of};

    /// xorshift64 (Marsaglia 2003).
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }

        /// A value within ± `most`, often at an end of the range.
        fn within(&mut self, most: i32) -> i32 {
            match self.next() % 8 {
                0 => most,
                1 => -most,
                _ => ((self.next() % (2 * most as u64 + 1)) as i64 - i64::from(most)) as i32,
            }
        }

        fn tile(&mut self, most: i32) -> Tile {
            [(); LANES].map(|()| Pair::new(self.within(most) as i16, self.within(most) as i16))
        }
    }

    #[test]
    fn native_and_plain_operations_agree() {
        let mut random = Random(1);
        for _ in 0..10_000 {
            // Sums of three rows, a row, weights and activations, in the ranges of a network.
            let (tile, row) = (random.tile(3 * 8_191), random.tile(8_191));
            let (neurons, weights) = (random.tile(32_767), random.tile(127));
            let [pair, ..] = weights;
            let sums = [(); 2].map(|()| random.within(i32::MAX - 2 * 127 * 32_767));
            let shifts = [(); 2].map(|()| (random.next() % 32) as u32);
            let plain = operations::<Plain>(tile, row, neurons, pair, sums, shifts);
            assert_eq!(
                operations::<Native>(tile, row, neurons, pair, sums, shifts),
                plain
            );
        }
    }

    /// Every operation's result.
    fn operations<V: Vector>(
        tile: Tile,
        row: Tile,
        neurons: Tile,
        weights: Pair,
        sums: [i32; 2],
        shifts: [u32; 2],
    ) -> ([Tile; 3], [[i32; LANES]; 2]) {
        let added = V::load(&tile).add(V::load(&row));
        let weights = V::splat(weights);
        let sums = sums.map(|sum| V::load(&neurons).add_products(weights, V::splat_sum(sum)));
        let activations = V::activations(sums, shifts);
        let tiles = [added.store(), added.relu().store(), activations.store()];
        (tiles, sums.map(V::store_sums))
    }

    #[test]
    fn an_i32_goes_through_a_pair_unchanged() {
        for value in [0, 1, -1, 32_768, -32_769, i32::MIN, i32::MAX] {
            assert_eq!(value_of(pair_of(value)), value);
        }
    }
}
