//! Rate limit: counts events in windows of one second. A window begins with its first event.

use wattgate_runtime::Milliseconds;

const SECOND: Milliseconds = Milliseconds(1_000);

/// Number of events in the current window.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateCounter {
    since: Option<Milliseconds>,
    count: u32,
}

impl RateCounter {
    /// Counts an event. Returns the number of events in the window, with this one.
    pub fn count(&mut self, now: Milliseconds) -> u32 {
        if self.is_over(now) {
            (self.since, self.count) = (Some(now), 0);
        }
        self.count = self.count.saturating_add(1);
        self.count
    }

    /// Whether another event is within the limit of `max` per window.
    pub fn has_room(&self, max: u32, now: Milliseconds) -> bool {
        self.is_over(now) || self.count < max
    }

    fn is_over(&self, now: Milliseconds) -> bool {
        self.since.is_none_or(|since| now.since(since) >= SECOND)
    }
}

/// At most `N` events in any second.
#[derive(Clone, Copy, Debug)]
pub struct Sliding<const N: usize> {
    /// The times of the last events, the oldest at `at`.
    last: [Option<Milliseconds>; N],
    at: usize,
}

impl<const N: usize> Default for Sliding<N> {
    fn default() -> Self {
        Self {
            last: [None; N],
            at: 0,
        }
    }
}

impl<const N: usize> Sliding<N> {
    /// Whether another event may happen now.
    pub fn has_room(&self, now: Milliseconds) -> bool {
        let oldest = self.last.get(self.at).copied().flatten();
        oldest.is_none_or(|oldest| now.since(oldest) >= SECOND)
    }

    /// Counts an event.
    pub fn count(&mut self, now: Milliseconds) {
        if let Some(oldest) = self.last.get_mut(self.at) {
            *oldest = Some(now);
            self.at = (self.at + 1) % N;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sliding_second_has_two_events_at_most() {
        let mut events = Sliding::<2>::default();
        let mut take = |now| {
            let now = Milliseconds(now);
            let has_room = events.has_room(now);
            if has_room {
                events.count(now);
            }
            has_room
        };
        let times = [0, 900, 999, 1_000, 1_899, 1_900, 1_901, 2_000];
        let taken = times.map(&mut take);
        assert_eq!(taken, [true, true, false, true, false, true, false, true]);
    }

    #[test]
    fn a_window_begins_with_its_first_event() {
        let mut rate = RateCounter::default();
        let mut count = |now| rate.count(Milliseconds(now));
        assert_eq!([count(700), count(1_000), count(1_699)], [1, 2, 3]);
        assert_eq!([count(1_700), count(1_701), count(9_000)], [1, 2, 1]);
        assert!(!rate.has_room(1, Milliseconds(9_999)));
        assert!(rate.has_room(1, Milliseconds(10_000)));
    }
}
