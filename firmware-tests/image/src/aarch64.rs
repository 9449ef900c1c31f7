//! AArch64 at exception level 1, as QEMU's `virt` machine starts a Linux kernel.

use core::arch::{asm, global_asm};

// Reset: enables floating point, clears .bss and sets the stack pointer.
global_asm!(
    ".section .text.boot, \"ax\"",
    ".global _start",
    "_start:",
    "mov x0, #(3 << 20)",
    "msr cpacr_el1, x0",
    "isb",
    "ldr x0, =__bss_start",
    "ldr x1, =__bss_end",
    "1: cmp x0, x1",
    "b.eq 2f",
    "stp xzr, xzr, [x0], #16",
    "b 1b",
    "2: ldr x0, =__stack_top",
    "mov sp, x0",
    "b main",
);

/// The highest value of [`ticks`]: the counter has 64 bits.
pub const MOST_TICKS: u64 = u64::MAX;

/// The virtual counter, which starts at reset.
pub fn ticks() -> u64 {
    let ticks;
    // SAFETY: reads a counter. The barrier prevents reordering.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
    ticks
}
