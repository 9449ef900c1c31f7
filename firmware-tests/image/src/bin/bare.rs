//! The baseline image: it starts, copies and clears memory, prints and ends. The size of the engine
//! is the size of `boot` minus the size of this image.

#![no_std]
#![no_main]

use core::hint::black_box;

use wattgate_image::{end, only, paint_stack};

static mut MODE: [u32; 128] = [0; 128];
static mut COPY: [u32; 128] = [0; 128];

/// Called by the reset code.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    paint_stack();
    // SAFETY: main runs once.
    let (mode, copy) = unsafe { (only(&raw mut MODE), only(&raw mut COPY)) };
    clear_and_copy(mode, copy);
    end(black_box(copy).first_chunk().copied())
}

#[inline(never)]
fn clear_and_copy(from: &mut [u32; 128], to: &mut [u32; 128]) {
    black_box(&mut *from).fill(0);
    *to = *from;
}
