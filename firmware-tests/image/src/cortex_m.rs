//! Cortex-M: a vector table, reset, and SysTick as the clock.

use core::arch::global_asm;

global_asm!(
    ".section .text.boot, \"ax\"",
    ".syntax unified",
    ".word __stack_top",
    ".word _start",
    ".rept 14",
    ".word fault",
    ".endr",
    ".thumb_func",
    ".global _start",
    "_start:",
    "ldr r0, =__bss_start",
    "ldr r1, =__bss_end",
    "movs r2, #0",
    "1: cmp r0, r1",
    "beq 2f",
    "str r2, [r0]",
    "adds r0, #4",
    "b 1b",
    "2:",
    // SysTick: maximum reload value, processor clock, no interrupt.
    "ldr r0, =0xE000E010",
    "ldr r1, =0x00FFFFFF",
    "str r1, [r0, #4]",
    "str r1, [r0, #8]",
    "movs r1, #5",
    "str r1, [r0]",
    "b 3f",
    ".pool",
    "3:",
);

// Enables the floating-point unit, if any.
#[cfg(target_abi = "eabihf")]
global_asm!(
    ".section .text.boot, \"ax\"",
    "ldr r0, =0xE000ED88",
    "ldr r1, [r0]",
    "ldr r2, =(0xF << 20)",
    "orrs r1, r2",
    "str r1, [r0]",
    "dsb",
    "isb",
    "b 4f",
    ".pool",
    "4:",
);

global_asm!(
    ".section .text.boot, \"ax\"",
    "bl main",
    ".thumb_func",
    "fault:",
    "bl image_failed",
    ".pool",
);

/// The highest value of [`ticks`], before they wrap: SysTick has 24 bits.
pub const MOST_TICKS: u64 = 0x00FF_FFFF;

/// SysTick starts at 0 and then counts down from 2²⁴ − 1. [`instructions`](crate::instructions) is for images that end before SysTick wraps.
pub fn ticks() -> u64 {
    let current = 0xE000_E018 as *const u32;
    // SAFETY: SYST_CVR, which every Cortex-M with SysTick has.
    let current = unsafe { current.read_volatile() };
    u64::from(current.wrapping_neg() & 0x00FF_FFFF)
}
