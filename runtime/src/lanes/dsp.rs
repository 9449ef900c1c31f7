//! Vectors for the DSP instructions of ARMv7E-M and ARMv7-R: two i16 in a core register, and two
//! modes in a vector.

#![allow(unsafe_code)]

use core::arch::asm;

use super::vector::{LANES, Pair, Tile, Vector};

/// One register per mode; the pair's first neuron is in the lower half.
#[derive(Clone, Copy, Debug)]
pub struct Dsp(u32, u32);

#[inline(always)]
fn word(pair: Pair) -> u32 {
    let [[low, high]] = pair.data.0;
    u32::from(low.cast_unsigned()) | u32::from(high.cast_unsigned()) << 16
}

#[inline(always)]
fn pair(word: u32) -> Pair {
    Pair::from([word as i16, (word >> 16) as i16])
}

/// The sums of both halves.
#[inline(always)]
fn sadd16(a: u32, b: u32) -> u32 {
    let sum;
    // SAFETY: only affects its registers and the GE flags.
    unsafe {
        asm!(
            "sadd16 {sum}, {a}, {b}",
            sum = lateout(reg) sum,
            a = in(reg) a,
            b = in(reg) b,
            options(pure, nomem, nostack),
        );
    }
    sum
}

/// Both halves saturated to 0 … 2^15 − 1: the positive parts.
#[inline(always)]
fn usat16(word: u32) -> u32 {
    let positive;
    // SAFETY: only affects its registers and the Q flag.
    unsafe {
        asm!(
            "usat16 {positive}, #15, {word}",
            positive = lateout(reg) positive,
            word = in(reg) word,
            options(pure, nomem, nostack),
        );
    }
    positive
}

/// sum + the products of both halves.
#[inline(always)]
fn smlad(a: u32, b: u32, sum: i32) -> i32 {
    let total;
    // SAFETY: only affects its registers and the Q flag.
    unsafe {
        asm!(
            "smlad {total}, {a}, {b}, {sum}",
            total = lateout(reg) total,
            a = in(reg) a,
            b = in(reg) b,
            sum = in(reg) sum,
            options(pure, nomem, nostack),
        );
    }
    total
}

impl Vector for Dsp {
    type Sums = (i32, i32);

    #[inline(always)]
    fn load([a, b]: &Tile) -> Self {
        Self(word(*a), word(*b))
    }

    #[inline(always)]
    fn store(self) -> Tile {
        [pair(self.0), pair(self.1)]
    }

    #[inline(always)]
    fn splat(pair: Pair) -> Self {
        Self(word(pair), word(pair))
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(sadd16(self.0, other.0), sadd16(self.1, other.1))
    }

    #[inline(always)]
    fn relu(self) -> Self {
        Self(usat16(self.0), usat16(self.1))
    }

    #[inline(always)]
    fn splat_sum(sum: i32) -> Self::Sums {
        (sum, sum)
    }

    #[inline(always)]
    fn add_products(self, weights: Self, (a, b): Self::Sums) -> Self::Sums {
        (smlad(self.0, weights.0, a), smlad(self.1, weights.1, b))
    }

    #[inline(always)]
    fn activations([first, second]: [Self::Sums; 2], [shift, other]: [u32; 2]) -> Self {
        let neuron = |sum: i32, shift: u32| (sum >> (shift & 31)).clamp(0, 0x7FFF).cast_unsigned();
        Self(
            neuron(first.0, shift) | neuron(second.0, other) << 16,
            neuron(first.1, shift) | neuron(second.1, other) << 16,
        )
    }

    #[inline(always)]
    fn store_sums((a, b): Self::Sums) -> [i32; LANES] {
        [a, b]
    }
}
