//! How often something may happen: so many times in a second, counted from the first.

use wattgate_runtime::Milliseconds;

const SECOND: Milliseconds = Milliseconds(1_000);

/// Counts within a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateCounter {
    since: Option<Milliseconds>,
    count: u32,
}

impl RateCounter {
    /// Counts one more. Returns the number within this second.
    pub fn count(&mut self, now: Milliseconds) -> u32 {
        if self.is_over(now) {
            (self.since, self.count) = (Some(now), 0);
        }
        self.count = self.count.saturating_add(1);
        self.count
    }

    /// Whether fewer than `max` came within this second.
    pub fn has_room(&self, max: u32, now: Milliseconds) -> bool {
        self.is_over(now) || self.count < max
    }

    fn is_over(&self, now: Milliseconds) -> bool {
        self.since.is_none_or(|since| now.since(since) >= SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_counted_from_its_first() {
        let mut rate = RateCounter::default();
        let mut count = |now| rate.count(Milliseconds(now));
        assert_eq!([count(700), count(1_000), count(1_699)], [1, 2, 3]);
        assert_eq!([count(1_700), count(1_701), count(9_000)], [1, 2, 1]);
        assert!(!rate.has_room(1, Milliseconds(9_999)));
        assert!(rate.has_room(1, Milliseconds(10_000)));
    }
}
