//! The two clocks: time since boot, for control, and UTC, for schedules.

use rustix::time::{ClockId, clock_gettime};
use wattgate_runtime::Milliseconds;

/// A source of both times.
pub trait Clock {
    /// Time since boot. It is monotonic and includes suspend.
    fn now(&self) -> Milliseconds;

    /// Wall-clock time, which may jump.
    fn utc(&self) -> UtcSeconds;
}

/// The clocks of the kernel: `CLOCK_BOOTTIME` and `CLOCK_REALTIME`.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Clock for System {
    fn now(&self) -> Milliseconds {
        let time = clock_gettime(ClockId::Boottime);
        // Time since boot is never negative.
        Milliseconds(time.tv_sec as u64 * 1_000 + time.tv_nsec as u64 / 1_000_000)
    }

    fn utc(&self) -> UtcSeconds {
        UtcSeconds(clock_gettime(ClockId::Realtime).tv_sec)
    }
}

/// 2024-01-01T00:00Z. A clock before this date is not set: the program did not exist then.
const LEAST: i64 = 1_704_067_200;

/// Unix time in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtcSeconds(pub i64);

impl UtcSeconds {
    /// Whether the clock is plausible; a board without a clock battery boots in the past.
    pub fn is_set(self) -> bool {
        self.0 >= LEAST
    }

    /// Seconds since midnight UTC.
    pub fn of_day(self) -> u32 {
        self.0.rem_euclid(86_400) as u32
    }
}
