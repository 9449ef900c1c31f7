//! The rate of over-current events.

use std::collections::VecDeque;

use wattgate_runtime::Milliseconds;

/// The time over which events are counted.
const COUNTED_WINDOW: Milliseconds = Milliseconds(60_000);

/// Counts are kept at most once a second.
const KEPT_COUNTS: usize = 64;

/// Counts of events with their times, over the last minute. Does not allocate after its creation.
#[derive(Debug)]
pub(super) struct Rates(VecDeque<(Milliseconds, [Option<i64>; 3])>);

impl Rates {
    pub(super) fn new() -> Self {
        Self(VecDeque::with_capacity(KEPT_COUNTS))
    }

    /// Takes the counts since the boot. Returns the events of the last minute, or since the first
    /// call; `None` for an event without a counter.
    pub(super) fn add(&mut self, now: Milliseconds, counts: [Option<i64>; 3]) -> [Option<u64>; 3] {
        let is_old = |(at, _): &(Milliseconds, _)| now.since(*at) > COUNTED_WINDOW;
        while self.0.len() == KEPT_COUNTS || self.0.front().is_some_and(is_old) {
            self.0.pop_front();
        }
        self.0.push_back((now, counts));
        let (_, first) = self.0[0];
        std::array::from_fn(|event| {
            let passed = counts[event]?.saturating_sub(first[event]?);
            u64::try_from(passed).ok()
        })
    }
}
