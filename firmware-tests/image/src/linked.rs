//! A processor for which images are linked to check sizes and symbols, but not run.

use core::ptr::write_volatile;

static mut OUTPUT: u8 = 0;

#[unsafe(no_mangle)]
extern "C" fn _start() -> ! {
    unsafe extern "C" {
        fn main() -> !;
    }
    // SAFETY: every image defines `main`.
    unsafe { main() }
}

pub fn write(byte: u8) {
    // SAFETY: nothing else accesses it.
    unsafe { write_volatile(&raw mut OUTPUT, byte) };
}

pub fn exit(_: bool) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// The highest value of [`ticks`]: these images do not run, so nothing counts.
pub const MOST_TICKS: u64 = 0;

pub fn ticks() -> u64 {
    0
}
