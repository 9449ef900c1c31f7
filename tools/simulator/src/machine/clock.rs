//! Clocks that follow their requests after a delay (`jetson-platform.md`, section 8).

use std::collections::VecDeque;
use std::time::Duration;

/// Delay of the CPU clocks from a request to its effect (section 8, Orin Nano). On Thor these are
/// 8, 107 and 26 ms (addendum).
pub const CPU_DELAY: Duration = Duration::from_millis(1);
/// Delay of the GPU clock.
pub const GPU_DELAY: Duration = Duration::from_millis(5);
/// Delay of the memory clock.
pub const EMC_DELAY: Duration = Duration::from_millis(8);

/// A clock that follows its request after a delay.
#[derive(Clone, Debug)]
pub struct Clock {
    /// The effective clock in kHz.
    pub khz: u32,
    delay: Duration,
    coming: VecDeque<(Duration, u32)>,
}

impl Clock {
    /// A clock without a pending request.
    pub fn new(khz: u32, delay: Duration) -> Self {
        Self {
            khz,
            delay,
            coming: VecDeque::new(),
        }
    }

    /// Sets the delay of later requests.
    pub fn set_delay(&mut self, delay: Duration) {
        self.delay = delay;
    }

    /// The last request, in kHz.
    pub fn requested(&self) -> u32 {
        self.coming.back().map_or(self.khz, |(_, khz)| *khz)
    }

    /// Requests a clock in kHz.
    pub fn request(&mut self, now: Duration, khz: u32) {
        if self.requested() != khz {
            // A shorter delay does not overtake an earlier request.
            let after = self.coming.back().map_or(Duration::ZERO, |(due, _)| *due);
            self.coming.push_back((after.max(now + self.delay), khz));
        }
    }

    /// When the next request takes effect.
    pub fn due(&self) -> Option<Duration> {
        self.coming.front().map(|(due, _)| *due)
    }

    /// Applies the requests that are due. Returns whether any was.
    pub fn follow(&mut self, now: Duration) -> bool {
        let mut is_changed = false;
        while self.due().is_some_and(|due| due <= now) {
            self.khz = self.coming.pop_front().expect("one is due").1;
            is_changed = true;
        }
        is_changed
    }
}
