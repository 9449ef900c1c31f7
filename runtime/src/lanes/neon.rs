//! Vectors for the Advanced SIMD instructions of AArch64, on targets that enable them.

#![allow(unsafe_code)]

use core::arch::aarch64::{
    int16x8_t, int16x8x2_t, int32x4_t, vaddq_s16, vcombine_s16, vdupq_n_s16, vdupq_n_s32,
    vget_low_s16, vld2q_s16, vmaxq_s16, vmlal_high_s16, vmlal_s16, vqmovn_s32, vshlq_s32,
    vst1q_s32, vst2q_s16,
};

use super::vector::{LANES, Pair, Tile, Vector};

/// One register holds the first neuron of every pair, the other the second.
#[derive(Clone, Copy, Debug)]
pub struct Neon([int16x8_t; 2]);

// SAFETY of every intrinsic below: build.rs selects this module only if the target enables Advanced
// SIMD. Intrinsics that take pointers have their own comment.
impl Vector for Neon {
    type Sums = [int32x4_t; 2];

    #[inline(always)]
    fn load(tile: &Tile) -> Self {
        // SAFETY: reads LANES × 2 i16; a tile has exactly these, without padding.
        let int16x8x2_t(a, b) = unsafe { vld2q_s16(tile.as_ptr().cast()) };
        Self([a, b])
    }

    #[inline(always)]
    fn store(self) -> Tile {
        let Self([a, b]) = self;
        let mut tile = [Pair::zeros(); LANES];
        // SAFETY: writes LANES × 2 i16; a tile has exactly these, without padding.
        unsafe { vst2q_s16(tile.as_mut_ptr().cast(), int16x8x2_t(a, b)) };
        tile
    }

    #[inline(always)]
    fn splat(pair: Pair) -> Self {
        let [neurons] = pair.data.0;
        Self(neurons.map(|neuron| unsafe { vdupq_n_s16(neuron) }))
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        let (Self([a, b]), Self([c, d])) = (self, other);
        Self(unsafe { [vaddq_s16(a, c), vaddq_s16(b, d)] })
    }

    #[inline(always)]
    fn relu(self) -> Self {
        Self(
            self.0
                .map(|neurons| unsafe { vmaxq_s16(neurons, vdupq_n_s16(0)) }),
        )
    }

    #[inline(always)]
    fn splat_sum(sum: i32) -> Self::Sums {
        [unsafe { vdupq_n_s32(sum) }; 2]
    }

    #[inline(always)]
    fn add_products(self, weights: Self, sums: Self::Sums) -> Self::Sums {
        let (Self([a, b]), Self([v, w]), [low, high]) = (self, weights, sums);
        unsafe {
            let low = vmlal_s16(low, vget_low_s16(a), vget_low_s16(v));
            let high = vmlal_high_s16(high, a, v);
            [
                vmlal_s16(low, vget_low_s16(b), vget_low_s16(w)),
                vmlal_high_s16(high, b, w),
            ]
        }
    }

    #[inline(always)]
    fn activations([a, b]: [Self::Sums; 2], [shift_a, shift_b]: [u32; 2]) -> Self {
        // A left shift by a negative count shifts right; narrowing saturates.
        let neurons = |[low, high]: Self::Sums, shift: u32| unsafe {
            let count = vdupq_n_s32(-shift.cast_signed());
            let narrow = |sums| vqmovn_s32(vshlq_s32(sums, count));
            vcombine_s16(narrow(low), narrow(high))
        };
        Self([neurons(a, shift_a), neurons(b, shift_b)]).relu()
    }

    #[inline(always)]
    fn store_sums([low, high]: Self::Sums) -> [i32; LANES] {
        let mut sums = [[0; LANES / 2]; 2];
        for (sums, register) in sums.iter_mut().zip([low, high]) {
            // SAFETY: writes four i32.
            unsafe { vst1q_s32(sums.as_mut_ptr(), register) };
        }
        let mut all = [0; LANES];
        for (one, sum) in all.iter_mut().zip(sums.as_flattened()) {
            *one = *sum;
        }
        all
    }
}
