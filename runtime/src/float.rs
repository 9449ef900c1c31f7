//! Functions of `f32` that are slow in `core` and `libm` on some processors. The bits are the same on
//! all.
//!
//! `libm` computes a square root with integers, also on processors that have an instruction for it. Both results are
//! correctly rounded, so they are equal. On a Cortex-M4F, [`f32::max`] and [`f32::min`] are function calls.

#![allow(unsafe_code)]

/// The square root of an `x` of at least 0.
#[inline]
#[cfg(all(target_arch = "arm", target_abi = "eabihf"))]
pub fn sqrt(x: f32) -> f32 {
    let mut bits = x.to_bits();
    // The compiler refuses floating-point registers as operands on these targets, so the code
    // restores the one that it uses.
    // SAFETY: only affects its operands and the flags of FPSCR.
    unsafe {
        core::arch::asm!(
            "vmov {saved}, s0",
            "vmov s0, {bits}",
            "vsqrt.f32 s0, s0",
            "vmov {bits}, s0",
            "vmov s0, {saved}",
            saved = out(reg) _,
            bits = inout(reg) bits,
            options(pure, nomem, nostack),
        );
    }
    f32::from_bits(bits)
}

/// The square root of an `x` of at least 0.
#[inline]
#[cfg(not(all(target_arch = "arm", target_abi = "eabihf")))]
pub fn sqrt(x: f32) -> f32 {
    libm::sqrtf(x)
}

/// The larger of two numbers; `b` if `a` is no number.
#[inline(always)]
pub fn max(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// The smaller of two numbers; `b` if `a` is no number.
#[inline(always)]
pub fn min(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}
