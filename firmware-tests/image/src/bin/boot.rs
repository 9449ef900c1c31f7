//! From reset to a power mode, as a bootloader or a coprocessor would run it. Sizes, stack and
//! instructions from reset of this image have budgets.

#![no_std]
#![no_main]

use core::hint::black_box;

use wattgate_image::{end, only, paint_stack};
use wattgate_runtime::network::{Workspace, workspace_pairs};
use wattgate_runtime::shape::Shape;
use wattgate_runtime::{Confidence, Front, Milliwatts, Model, Query};

/// A section of its own, read at run time like a model in separate flash.
#[unsafe(link_section = ".models")]
static MODEL: [u8; include_bytes!("../../../../weights/tx1-image5000.wgt").len()] =
    *include_bytes!("../../../../weights/tx1-image5000.wgt");

/// A TX1 has 4 numbers of cores, 17 CPU clocks and 5 memory clocks.
static mut WORKSPACE: Workspace<{ workspace_pairs(Shape::Wide32, 4 + 17 + 5) }> = Workspace::new();
static mut FRONT: Front<96> = Front::new();

/// Called by the reset code.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    paint_stack();
    // SAFETY: main runs once.
    let (workspace, front) = unsafe { (only(&raw mut WORKSPACE), only(&raw mut FRONT)) };
    end(choose(workspace, front))
}

#[inline(never)]
fn choose<const PAIRS: usize>(
    workspace: &mut Workspace<PAIRS>,
    front: &mut Front<96>,
) -> Option<[u32; 4]> {
    // A model is the largest value on the stack, so it is borrowed, not moved.
    let parsed = Model::parse(black_box(&MODEL));
    let model = parsed.as_ref().ok()?;
    let mut network = workspace.network(model).ok()?;
    front.rebuild(&mut network, &model.profiled(), Confidence::P95);
    let query = Query {
        power_limit: Some(black_box(Milliwatts(5_000))),
        ..Query::default()
    };
    let choice = front.select(&query).ok()?;
    let mode = model.grid().mode(choice.mode)?;
    planted(mode.cores);
    Some(mode.knobs())
}

/// The planted faults, which the checks of a linked image must detect.
fn planted(_number: u32) {
    #[cfg(feature = "planted-panic")]
    assert!(_number < 100, "planted");
    #[cfg(feature = "planted-format")]
    {
        struct Sink;
        impl core::fmt::Write for Sink {
            fn write_str(&mut self, text: &str) -> core::fmt::Result {
                wattgate_report::Console::text(&mut wattgate_image::Semihosting, text);
                Ok(())
            }
        }
        let _ = core::fmt::Write::write_fmt(&mut Sink, format_args!("{_number}"));
    }
    #[cfg(feature = "planted-allocator")]
    black_box(extern_alloc::boxed(_number));
}

#[cfg(feature = "planted-allocator")]
mod extern_alloc {
    extern crate alloc;

    use core::alloc::{GlobalAlloc, Layout};

    /// An allocator that returns the same memory for every request.
    struct One;

    static mut MEMORY: u64 = 0;

    // SAFETY: the image is linked but never run.
    unsafe impl GlobalAlloc for One {
        #[inline(never)]
        unsafe fn alloc(&self, _: Layout) -> *mut u8 {
            (&raw mut MEMORY).cast()
        }

        unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
    }

    #[global_allocator]
    static ONE: One = One;

    pub fn boxed(number: u32) -> alloc::boxed::Box<u32> {
        alloc::boxed::Box::new(number)
    }
}
