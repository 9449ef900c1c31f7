//! RISC-V in machine mode, as QEMU's `virt` machine starts an image without firmware.

use core::arch::{asm, global_asm};

// Reset: any exception ends the image; clears .bss and sets the stack pointer.
global_asm!(
    ".section .text.boot, \"ax\"",
    ".option push",
    ".option arch, +zicsr",
    ".global _start",
    "_start:",
    "la t0, fault",
    "csrw mtvec, t0",
    "la t0, __bss_start",
    "la t1, __bss_end",
    "1: beq t0, t1, 2f",
    "sw zero, 0(t0)",
    "addi t0, t0, 4",
    "j 1b",
    "2: la sp, __stack_top",
    "call main",
    ".balign 4",
    "fault:",
    "call image_failed",
    ".option pop",
);

/// The highest value of [`ticks`], before they wrap: they are the lower half of the counter.
pub const MOST_TICKS: u64 = u32::MAX as u64;

/// The counter of retired instructions, which starts at reset.
pub fn ticks() -> u64 {
    let ticks: u32;
    // SAFETY: reads a counter.
    unsafe {
        asm!(
            ".option push",
            ".option arch, +zicsr",
            "csrr {}, minstret",
            ".option pop",
            out(reg) ticks,
            options(nomem, nostack)
        );
    };
    u64::from(ticks)
}
