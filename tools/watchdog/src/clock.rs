//! Time since boot. It counts while the board sleeps, and nobody can set it.

use rustix::time::{ClockId, clock_gettime};
use wattgate_runtime::Milliseconds;

/// Now.
pub fn now() -> Milliseconds {
    let time = clock_gettime(ClockId::Boottime);
    // Neither is negative.
    Milliseconds(time.tv_sec as u64 * 1_000 + time.tv_nsec as u64 / 1_000_000)
}
