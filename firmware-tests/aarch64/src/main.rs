//! An AArch64 image that selects a power mode on bare metal, without operating system,
//! heap, or any code that could panic.
//!
//! The panic handler refers to a symbol that does not exist: if the optimiser leaves one
//! panic reachable anywhere in the image, the image does not link.

#![no_std]
#![no_main]

use core::arch::global_asm;

use semihosting::sys::arm_compat::sys_writec;
use wattgate_report::{Console, run};

// Reset: floating point on, .bss cleared, stack set.
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

struct Semihosting;

impl Console for Semihosting {
    fn byte(&mut self, byte: u8) {
        sys_writec(byte);
    }
}

macro_rules! models {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_bytes!(concat!("../../../weights/", $name)).as_slice())),*]
    };
}

/// Called by the reset code.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    // The models of the golden report, in its order.
    let models = models![
        "golden/wide-16.wgt",
        "golden/wide-16-time-only.wgt",
        "golden/deep-8x8.wgt",
        "golden/deep-16x16.wgt",
        "tx1-image5000.wgt",
    ];
    // Files in flash: the optimiser must not read them.
    for (name, bytes) in core::hint::black_box(models) {
        run(&mut Semihosting, name, bytes);
    }
    semihosting::process::exit(0)
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    unsafe extern "C" {
        fn this_image_contains_a_reachable_panic() -> !;
    }
    // SAFETY: never runs: an image that refers to this symbol does not link.
    unsafe { this_image_contains_a_reachable_panic() }
}
