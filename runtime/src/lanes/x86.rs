//! Vectors for x86-64 targets that enable SSE2: one AVX2 register if the build enables AVX2, else
//! two SSE2 registers.

#![allow(unsafe_code)]

use core::arch::x86_64::_mm_cvtsi32_si128;
#[cfg(not(target_feature = "avx2"))]
use core::arch::x86_64::{
    __m128i as Register, _mm_add_epi16 as add_i16, _mm_add_epi32 as add_i32,
    _mm_bsrli_si128 as shift_right_bytes, _mm_madd_epi16 as multiply_add, _mm_max_epi16 as max_i16,
    _mm_packs_epi32 as pack_i32, _mm_set1_epi32 as repeat_i32, _mm_sra_epi32 as shift_right_i32,
    _mm_unpacklo_epi16 as interleave_i16,
};
#[cfg(target_feature = "avx2")]
use core::arch::x86_64::{
    __m256i as Register, _mm256_add_epi16 as add_i16, _mm256_add_epi32 as add_i32,
    _mm256_bsrli_epi128 as shift_right_bytes, _mm256_madd_epi16 as multiply_add,
    _mm256_max_epi16 as max_i16, _mm256_packs_epi32 as pack_i32, _mm256_set1_epi32 as repeat_i32,
    _mm256_sra_epi32 as shift_right_i32, _mm256_unpacklo_epi16 as interleave_i16,
};
use core::mem::transmute;

use super::vector::{LANES, Pair, Tile, Vector};

const REGISTERS: usize = size_of::<Tile>() / size_of::<Register>();

/// Mode after mode, as in memory.
#[derive(Clone, Copy, Debug)]
pub struct X86([Register; REGISTERS]);

impl X86 {
    #[inline(always)]
    fn with(self, Self(others): Self, f: impl Fn(Register, Register) -> Register) -> Self {
        let Self(mut registers) = self;
        for (register, other) in registers.iter_mut().zip(others) {
            *register = f(*register, other);
        }
        Self(registers)
    }
}

// SAFETY of every intrinsic call below: the target has the feature. build.rs selects this module
// only if SSE2 is enabled, and the AVX2 names are compiled only if AVX2 is.
impl Vector for X86 {
    type Sums = Self;

    #[inline(always)]
    fn load(tile: &Tile) -> Self {
        // SAFETY: both are LANES × 2 i16 without padding, and any bits are valid.
        Self(unsafe { transmute::<Tile, [Register; REGISTERS]>(*tile) })
    }

    #[inline(always)]
    fn store(self) -> Tile {
        // SAFETY: as in `load`.
        unsafe { transmute::<[Register; REGISTERS], Tile>(self.0) }
    }

    #[inline(always)]
    fn splat(pair: Pair) -> Self {
        // SAFETY: two i16 are an i32.
        Self::splat_sum(unsafe { transmute::<Pair, i32>(pair) })
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.with(other, |a, b| unsafe { add_i16(a, b) })
    }

    #[inline(always)]
    fn relu(self) -> Self {
        self.with(Self::splat_sum(0), |a, b| unsafe { max_i16(a, b) })
    }

    #[inline(always)]
    fn splat_sum(sum: i32) -> Self {
        Self([unsafe { repeat_i32(sum) }; REGISTERS])
    }

    #[inline(always)]
    fn add_products(self, weights: Self, sums: Self) -> Self {
        let products = self.with(weights, |a, b| unsafe { multiply_add(a, b) });
        sums.with(products, |a, b| unsafe { add_i32(a, b) })
    }

    #[inline(always)]
    fn activations([a, b]: [Self; 2], [shift_a, shift_b]: [u32; 2]) -> Self {
        let shifted = |Self(sums): Self, shift: u32| {
            // Counts above 31 leave only sign bits.
            let count = unsafe { _mm_cvtsi32_si128(shift.cast_signed()) };
            Self(sums.map(|sums| unsafe { shift_right_i32(sums, count) }))
        };
        let neurons = shifted(a, shift_a).with(shifted(b, shift_b), |a, b| {
            // Packing saturates to i16: four of a, four of b. The shuffle then puts each neuron
            // beside its pair.
            unsafe {
                let packed = pack_i32(a, b);
                interleave_i16(packed, shift_right_bytes::<8>(packed))
            }
        });
        neurons.relu()
    }

    #[inline(always)]
    fn store_sums(sums: Self) -> [i32; LANES] {
        // SAFETY: LANES i32 without padding, and any bits are valid.
        unsafe { transmute::<[Register; REGISTERS], [i32; LANES]>(sums.0) }
    }
}
