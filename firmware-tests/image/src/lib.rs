//! What an image needs to start, to speak, to count and to end, on each kind of processor.
//!
//! The panic handler refers to a symbol that does not exist: if the optimiser leaves one panic
//! reachable anywhere in an image, the image does not link.

#![no_std]

use wattgate_report::Console;

#[cfg_attr(processor = "aarch64", path = "aarch64.rs")]
#[cfg_attr(processor = "cortex_m", path = "cortex_m.rs")]
#[cfg_attr(processor = "linked", path = "linked.rs")]
mod processor;

/// The host's console.
pub struct Semihosting;

impl Console for Semihosting {
    fn byte(&mut self, byte: u8) {
        processor::write(byte);
    }
}

/// Ends the emulator.
pub fn exit(success: bool) -> ! {
    processor::exit(success)
}

/// Instructions since the clock was started, which is at reset or soon after. Under
/// `-icount shift=0` an instruction takes one nanosecond of the emulator's time, so that the
/// board's clock counts instructions, in steps of 16 (AArch64) to 80 (Cortex-M3).
pub fn instructions() -> u64 {
    const CLOCK_HZ: u64 = match u64::from_str_radix(env!("CLOCK_HZ"), 10) {
        Ok(hz) => hz,
        Err(_) => 1,
    };
    processor::ticks() * 1_000_000_000 / CLOCK_HZ
}

/// A static variable as the only reference to it.
///
/// # Safety
///
/// To be called once for each variable, which nothing else may touch.
pub unsafe fn only<T>(variable: *mut T) -> &'static mut T {
    // SAFETY: as the caller has promised.
    unsafe { &mut *variable }
}

/// Says which mode was chosen and what it took, and ends the emulator.
pub fn end(chosen: Option<[u32; 4]>) -> ! {
    let instructions = instructions();
    let stack = used_stack();
    let mut console = Semihosting;
    if let Some([cores, cpu, gpu, emc]) = chosen {
        console.field("", cores, " cores ");
        console.field("", cpu, "/");
        console.field("", gpu, "/");
        console.field("", emc, " kHz\n");
        console.field(
            "instructions from reset to this mode ",
            instructions as u32,
            "\n",
        );
        console.field("stack ", stack, "\n");
    }
    exit(chosen.is_some())
}

/// What stands in memory that nobody has used.
const PAINT: u32 = 0xC0DE_5AFE;

unsafe extern "C" {
    static mut __stack_bottom: u32;
    static mut __stack_top: u32;
}

/// Paints the free stack. To be called first, from the image's main function.
#[inline(never)]
pub fn paint_stack() {
    let mut local = 0_u32;
    let mut word = &raw mut __stack_bottom;
    // Below this function's own frame, with room for what it calls.
    let end = (&raw mut local).wrapping_sub(64);
    while word < end {
        // SAFETY: between the end of .bss and the stack pointer lies only free stack.
        unsafe { word.write_volatile(PAINT) };
        word = word.wrapping_add(1);
    }
}

/// The bytes of stack that were ever used since [`paint_stack`].
pub fn used_stack() -> u32 {
    let top = &raw mut __stack_top;
    let mut word = &raw mut __stack_bottom;
    // SAFETY: all of the stack is memory.
    while word < top && unsafe { word.read_volatile() } == PAINT {
        word = word.wrapping_add(1);
    }
    (top.addr() - word.addr()) as u32
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    #[cfg(feature = "microflow")]
    exit(false);
    #[cfg(not(feature = "microflow"))]
    {
        unsafe extern "C" {
            fn this_image_contains_a_reachable_panic() -> !;
        }
        // SAFETY: never runs: an image that refers to this symbol does not link.
        unsafe { this_image_contains_a_reachable_panic() }
    }
}
