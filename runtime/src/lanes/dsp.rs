//! Vectors for the DSP instructions of ARMv7E-M and ARMv7-R: two i16 in a core register.

#![allow(unsafe_code)]

use core::arch::asm;

use super::{LANES, Pair, Tile, Vector};

/// A register for each mode; the pair's first unit in the lower half.
#[derive(Clone, Copy, Debug)]
pub struct Dsp([u32; LANES]);

fn word(pair: Pair) -> u32 {
    let [[low, high]] = pair.data.0;
    u32::from(low.cast_unsigned()) | u32::from(high.cast_unsigned()) << 16
}

fn pair(word: u32) -> Pair {
    Pair::new(word as i16, (word >> 16) as i16)
}

impl Vector for Dsp {
    type Sums = [i32; LANES];

    #[inline(always)]
    fn load(tile: &Tile) -> Self {
        Self(tile.map(word))
    }

    #[inline(always)]
    fn store(self) -> Tile {
        self.0.map(pair)
    }

    #[inline(always)]
    fn splat(pair: Pair) -> Self {
        Self([word(pair); LANES])
    }

    #[inline(always)]
    fn add(self, Self(others): Self) -> Self {
        let Self(mut pairs) = self;
        for (pair, other) in pairs.iter_mut().zip(others) {
            // SAFETY: touches its registers and the GE flags only.
            unsafe {
                asm!(
                    "sadd16 {pair}, {pair}, {other}",
                    pair = inout(reg) *pair,
                    other = in(reg) other,
                    options(pure, nomem, nostack),
                );
            }
        }
        Self(pairs)
    }

    #[inline(always)]
    fn relu(self) -> Self {
        Self(self.0.map(|pair| {
            let positive: u32;
            // SAFETY: touches its registers and the Q flag only. Saturation to 0 … 2^15 − 1 is
            // the positive part.
            unsafe {
                asm!(
                    "usat16 {positive}, #15, {pair}",
                    pair = in(reg) pair,
                    positive = lateout(reg) positive,
                    options(pure, nomem, nostack),
                );
            }
            positive
        }))
    }

    #[inline(always)]
    fn splat_sum(sum: i32) -> [i32; LANES] {
        [sum; LANES]
    }

    #[inline(always)]
    fn add_products(self, Self(weights): Self, mut sums: [i32; LANES]) -> [i32; LANES] {
        for ((sum, pair), weights) in sums.iter_mut().zip(self.0).zip(weights) {
            // SAFETY: touches its registers and the Q flag only.
            unsafe {
                asm!(
                    "smlad {sum}, {pair}, {weights}, {sum}",
                    pair = in(reg) pair,
                    weights = in(reg) weights,
                    sum = inout(reg) *sum,
                    options(pure, nomem, nostack),
                );
            }
        }
        sums
    }

    #[inline(always)]
    fn activations([a, b]: [[i32; LANES]; 2], [shift_a, shift_b]: [u32; 2]) -> Self {
        let unit = |sum: i32, shift: u32| sum.unbounded_shr(shift).clamp(0, 0x7FFF).cast_unsigned();
        let mut pairs = [0; LANES];
        for ((pair, a), b) in pairs.iter_mut().zip(a).zip(b) {
            *pair = unit(a, shift_a) | unit(b, shift_b) << 16;
        }
        Self(pairs)
    }

    #[inline(always)]
    fn store_sums(sums: [i32; LANES]) -> [i32; LANES] {
        sums
    }
}
