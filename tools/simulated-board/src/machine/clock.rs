//! Clocks that follow what is asked of them after a while (`jetson-platform.md`, section 8).

use std::collections::VecDeque;
use std::time::Duration;

/// From a request to its effect (section 8, Orin Nano): CPU.
pub const CPU_DELAY: Duration = Duration::from_millis(1);
/// The same of the GPU.
pub const GPU_DELAY: Duration = Duration::from_millis(5);
/// The same of the memory.
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
    /// A clock that has been asked for this for long.
    pub fn new(khz: u32, delay: Duration) -> Self {
        Self {
            khz,
            delay,
            coming: VecDeque::new(),
        }
    }

    /// What was asked for last.
    pub fn requested(&self) -> u32 {
        self.coming.back().map_or(self.khz, |(_, khz)| *khz)
    }

    /// Asks for a clock in kHz.
    pub fn request(&mut self, now: Duration, khz: u32) {
        if self.requested() != khz {
            self.coming.push_back((now + self.delay, khz));
        }
    }

    /// When the next request takes effect.
    pub fn due(&self) -> Option<Duration> {
        self.coming.front().map(|(due, _)| *due)
    }

    /// Takes what is due. Returns whether something was.
    pub fn follow(&mut self, now: Duration) -> bool {
        let mut is_changed = false;
        while self.due().is_some_and(|due| due <= now) {
            self.khz = self.coming.pop_front().expect("one is due").1;
            is_changed = true;
        }
        is_changed
    }
}
