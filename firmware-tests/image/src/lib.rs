//! Start, console, instruction counter and exit of an image, for each kind of processor.
//!
//! The panic handler refers to an undefined symbol, so an image with a reachable panic does not
//! link.

#![no_std]

use core::hint::black_box;

use wattgate_report::Console;

#[cfg_attr(processor = "aarch64", path = "aarch64.rs")]
#[cfg_attr(processor = "cortex_m", path = "cortex_m.rs")]
#[cfg_attr(processor = "linked", path = "linked.rs")]
#[cfg_attr(processor = "riscv", path = "riscv.rs")]
mod processor;
#[cfg(not(processor = "linked"))]
mod semihosted;
#[cfg(processor = "linked")]
use processor as host;
#[cfg(not(processor = "linked"))]
use semihosted as host;

/// The console of the host, through semihosting.
pub struct Semihosting;

impl Console for Semihosting {
    fn byte(&mut self, byte: u8) {
        host::write(byte);
    }
}

/// Ends the emulator.
pub fn exit(success: bool) -> ! {
    host::exit(success)
}

/// Instructions since the start of the clock at reset. Under `-icount shift=0` an instruction takes
/// one nanosecond of virtual time, so the board's clock counts instructions, with a resolution of
/// 1 (RISC-V) to 80 (Cortex-M3).
pub fn instructions() -> u64 {
    of_ticks(processor::ticks())
}

fn of_ticks(ticks: u64) -> u64 {
    const CLOCK_HZ: u64 = match u64::from_str_radix(env!("CLOCK_HZ"), 10) {
        Ok(hz) => hz,
        Err(_) => 1,
    };
    ticks * 1_000_000_000 / CLOCK_HZ
}

/// Counts the instructions of many calls. The clock may wrap between them.
pub struct Counter {
    calls: u64,
    sum: u64,
    most: u64,
}

impl Counter {
    /// Starts without a call.
    #[allow(clippy::new_without_default, reason = "images make it once")]
    pub const fn new() -> Self {
        Self {
            calls: 0,
            sum: 0,
            most: 0,
        }
    }

    /// Counts a call.
    pub fn count<T>(&mut self, call: impl FnOnce() -> T) -> T {
        counted_call_begins();
        let start = processor::ticks();
        let result = call();
        let passed = processor::ticks().wrapping_sub(start) & processor::MOST_TICKS;
        counted_call_ends();
        let passed = of_ticks(passed);
        self.calls += 1;
        self.sum += passed;
        self.most = self.most.max(passed);
        result
    }

    /// Prints the mean and the most of a call.
    pub fn print(&self, what: &str) {
        let mut console = Semihosting;
        let mean = self.sum.checked_div(self.calls).unwrap_or(0);
        console.text(what);
        console.field(", mean ", mean as u32, "\n");
        console.text(what);
        console.field(", most ", self.most as u32, "\n");
    }
}

/// The harness finds counted calls in QEMU's log by these functions.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn counted_call_begins() {
    black_box(());
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn counted_call_ends() {
    black_box(1);
}

/// The only reference to a static variable.
///
/// # Safety
///
/// Call once for each variable. Nothing else may access the variable.
pub unsafe fn only<T>(variable: *mut T) -> &'static mut T {
    // SAFETY: the caller guarantees exclusive access.
    unsafe { &mut *variable }
}

/// Prints the chosen mode with its instructions and stack, and ends the emulator.
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

/// Fill pattern of unused stack.
const PAINT: u32 = 0xC0DE_5AFE;

unsafe extern "C" {
    static mut __stack_bottom: u32;
    static mut __stack_top: u32;
}

/// Fills the free stack with the pattern. Call first in the image's main function.
#[inline(never)]
pub fn paint_stack() {
    let mut local = 0_u32;
    let mut word = &raw mut __stack_bottom;
    // Below this function's frame, with room for callees.
    let end = (&raw mut local).wrapping_sub(64);
    while word < end {
        // SAFETY: between the end of .bss and the stack pointer lies only free stack.
        unsafe { word.write_volatile(PAINT) };
        word = word.wrapping_add(1);
    }
}

/// High-water mark of the stack in bytes since [`paint_stack`].
pub fn used_stack() -> u32 {
    let top = &raw mut __stack_top;
    let mut word = &raw mut __stack_bottom;
    // SAFETY: the linker script maps the whole stack.
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
