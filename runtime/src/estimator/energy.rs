//! Energy since the first reading, and means over the last second.

use heapless::Deque;

use crate::quantities::Milliseconds;

/// Number of stored energies, and how many of them a span has at most. They reach back two and a half times the span.
const ENERGIES: usize = 64;
const PER_SPAN: u64 = 25;

/// The span of means before another one is set, in ms.
const FIRST_SPAN: u64 = 430;

/// Maximum energy in µJ and maximum time in ms between two samples. If more has passed, the history begins anew.
const MOST_ENERGY: u64 = 1 << 30;
const MOST_TIME: u64 = 1 << 30;

/// A time in ms and the energy in µJ until then, both modulo 2³². The history is so short that differences are exact.
#[derive(Clone, Copy, Debug)]
struct Stored {
    at: u32,
    energy: u32,
}

impl Stored {
    /// Time in ms since an earlier one.
    fn since(self, earlier: Self) -> u32 {
        self.at.wrapping_sub(earlier.at)
    }

    /// Energy in µJ since an earlier one.
    fn energy_since(self, earlier: Self) -> i32 {
        self.energy.wrapping_sub(earlier.energy).cast_signed()
    }
}

/// Cumulative energy at recent samples.
#[derive(Clone, Debug)]
pub struct Energy {
    /// The newest at the back.
    energies: Deque<Stored, ENERGIES>,
    /// The time of the last sample; `None` before the first reading.
    last: Option<Milliseconds>,
    /// In µJ, and what of it lies between the oldest and the newest entry.
    energy: i64,
    held: i64,
    /// The part of a µJ that is not in `energy` yet.
    rest: f32,
    /// Minimum interval in ms between stored energies.
    interval: u64,
}

impl Energy {
    /// Creates an empty record.
    pub const fn new() -> Self {
        Self {
            energies: Deque::new(),
            last: None,
            energy: 0,
            held: 0,
            rest: 0.0,
            interval: FIRST_SPAN.div_ceil(PER_SPAN),
        }
    }

    /// Sets the span of the means that are asked for.
    pub const fn set_span(&mut self, span: Milliseconds) {
        self.interval = span.0.div_ceil(PER_SPAN);
    }

    /// The time of the last sample; `None` before the first reading.
    #[inline]
    pub fn last(&self) -> Option<Milliseconds> {
        self.last
    }

    /// Drops the history: the next sample is a first one. The sum stays.
    pub fn clear(&mut self) {
        self.energies.clear();
        self.last = None;
    }

    /// Starts the history at a first sample.
    pub fn begin(&mut self, now: Milliseconds) {
        self.energies.clear();
        self.held = 0;
        self.store(now, 0);
    }

    fn forget_oldest(&mut self) {
        let oldest = self.energies.pop_front();
        let next = self.energies.front();
        let between = oldest.zip(next).map_or(self.held, |(oldest, next)| {
            i64::from(next.energy_since(oldest))
        });
        self.held -= between;
    }

    fn store(&mut self, now: Milliseconds, energy: u32) {
        self.last = Some(now);
        let at = now.0 as u32;
        let _ = self.energies.push_back(Stored { at, energy });
    }

    /// The sum in µJ.
    pub fn microjoules(&self) -> u64 {
        self.energy.max(0).unsigned_abs()
    }

    /// The mean power in mW over the `span` before the last sample; `None` for an empty span or one
    /// that begins before the readings.
    pub fn mean(&self, span: Milliseconds) -> Option<f32> {
        let last = *self.energies.back()?;
        let span = u32::try_from(span.0).ok().filter(|span| *span > 0)?;
        // The first entry in the span, by bisection.
        let (mut low, mut high) = (0, self.energies.len());
        while low < high {
            let middle = (low + high) / 2;
            match self.energies.get(middle) {
                Some(stored) if last.since(*stored) >= span => low = middle + 1,
                _ => high = middle,
            }
        }
        let before = *self.energies.get(low.checked_sub(1)?)?;
        let first = self.energies.get(low)?;
        let part = (last.since(before) - span) as f32 / first.since(before) as f32;
        let outside = first.energy_since(before) as f32 * part;
        Some((last.energy_since(before) as f32 - outside) / span as f32)
    }

    /// Adds the energies in µJ of all chips since the last sample.
    pub fn add(&mut self, of_chips: impl Iterator<Item = f32>, now: Milliseconds) {
        let energy = of_chips.fold(self.rest, |sum, of_chip| sum + of_chip);
        let whole = libm::floorf(energy);
        self.rest = energy - whole;
        let whole = whole as i64;
        self.energy = self.energy.saturating_add(whole);
        let passed = self.last.map_or(0, |last| now.since(last).0);
        if whole.unsigned_abs() > MOST_ENERGY || passed > MOST_TIME {
            return self.begin(now);
        }
        let before = self.energies.back().map_or(0, |last| last.energy);
        // The newest two may be closer than the interval.
        let mut newest = self.energies.iter().rev();
        let is_close = newest
            .next()
            .zip(newest.next())
            .is_some_and(|(last, before)| u64::from(last.since(*before)) < self.interval);
        if is_close {
            self.energies.pop_back();
        }
        self.held += whole;
        // The differences of what is kept fit into 32 bits.
        while self.energies.is_full() || self.held.unsigned_abs() > 2 * MOST_ENERGY - 1 {
            self.forget_oldest();
        }
        self.store(now, before.wrapping_add(whole.cast_unsigned() as u32));
    }
}
