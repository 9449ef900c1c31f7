//! Prints the report of all golden models.

#![no_std]
#![no_main]

use core::hint::black_box;

use wattgate_image::{Semihosting, exit, only};
use wattgate_report::{MODELS, WORKSPACE, run};
use wattgate_runtime::network::Workspace;

static mut MEMORY: Workspace<WORKSPACE> = Workspace::new();

/// Called by the reset code.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    // SAFETY: main runs once.
    let workspace = unsafe { only(&raw mut MEMORY) };
    // Prevents the optimiser from evaluating the files.
    for &(name, bytes) in black_box(MODELS) {
        run(&mut Semihosting, workspace, name, bytes);
    }
    exit(true)
}
