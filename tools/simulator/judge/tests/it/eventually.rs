//! Waits for another process. The timeout is long, because a loaded machine is slow.

use std::thread;
use std::time::{Duration, Instant};

/// Timeout of each wait.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Polls until `found` returns a value. `what` names it in the message of a timeout.
pub fn eventually<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = found() {
            return value;
        }
        assert!(start.elapsed() < TIMEOUT, "timeout: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
