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

/// The clocks of Linux: `CLOCK_BOOTTIME` and `CLOCK_REALTIME`.
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
const EARLIEST: i64 = 1_704_067_200;

/// Unix time in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtcSeconds(pub i64);

impl UtcSeconds {
    /// Whether the clock is plausible; a board without a clock battery boots in the past.
    pub fn is_set(self) -> bool {
        self.0 >= EARLIEST
    }

    /// The date in UTC, such as `2026-11-29`.
    pub fn date(self) -> String {
        // Civil from days (Howard Hinnant): the era begins on 1 March of year 0.
        let days = self.0.div_euclid(86_400) + 719_468;
        let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let (month, later) = if month < 10 {
            (month + 3, 0)
        } else {
            (month - 9, 1)
        };
        format!("{:04}-{month:02}-{day:02}", year + 400 * era + later)
    }

    /// Seconds since midnight UTC.
    pub fn of_day(self) -> u32 {
        self.0.rem_euclid(86_400) as u32
    }
}
