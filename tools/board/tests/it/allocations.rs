//! An allocator that counts, for tests of code that must not allocate.
#![allow(unsafe_code)] // The allocator forwards to the system's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: all memory comes from the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Calls `call`. Returns the number of its allocations on this thread, and its result.
pub fn allocations<T>(call: impl FnOnce() -> T) -> (usize, T) {
    let before = ALLOCATIONS.get();
    let result = call();
    (ALLOCATIONS.get() - before, result)
}
