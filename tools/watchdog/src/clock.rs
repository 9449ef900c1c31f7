//! The two clocks: time since boot, which all control goes by, and the time of day, which
//! chooses an entry of a schedule.

use rustix::time::{ClockId, clock_gettime};
use wattgate_runtime::Milliseconds;

/// What shows the time.
pub trait Clock {
    /// Time since boot. It counts while the board sleeps, and nobody can set it.
    fn now(&self) -> Milliseconds;

    /// The time of day, which may jump.
    fn utc(&self) -> UtcSeconds;
}

/// The clocks of the system.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Clock for System {
    fn now(&self) -> Milliseconds {
        let time = clock_gettime(ClockId::Boottime);
        // Neither is negative.
        Milliseconds(time.tv_sec as u64 * 1_000 + time.tv_nsec as u64 / 1_000_000)
    }

    fn utc(&self) -> UtcSeconds {
        UtcSeconds(clock_gettime(ClockId::Realtime).tv_sec)
    }
}

/// 2024-01-01. This program is younger.
const LEAST: i64 = 1_704_067_200;

/// Seconds since 1970 in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtcSeconds(pub i64);

impl UtcSeconds {
    /// Whether the clock may be right.
    pub fn is_set(self) -> bool {
        self.0 >= LEAST
    }

    /// Seconds of the day.
    pub fn of_day(self) -> u32 {
        self.0.rem_euclid(86_400) as u32
    }
}
