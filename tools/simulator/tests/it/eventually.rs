//! Waiting for another process, with patience: a loaded machine is slow and no failure.

use std::thread;
use std::time::{Duration, Instant};

/// Nothing takes longer.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until there is something.
pub fn eventually<T>(what: &str, mut there: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = there() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "not in time: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
