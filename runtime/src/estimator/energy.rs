//! Energy since the first reading, and means over the last second.

use heapless::Deque;

use crate::units::Milliseconds;

/// Number of stored energies, and how many of them a span has at most. They reach back two and a half times the span.
const ENERGIES: usize = 64;
const PER_SPAN: u64 = 25;

/// The span of means before another one is set, in ms.
const FIRST_SPAN: u64 = 430;

/// Cumulative energy in µJ at recent looks.
#[derive(Clone, Debug)]
pub struct Energy {
    /// The newest at the back. None before the first reading.
    energies: Deque<(Milliseconds, i64), ENERGIES>,
    energy: i64,
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
            energy: 0,
            rest: 0.0,
            interval: FIRST_SPAN.div_ceil(PER_SPAN),
        }
    }

    /// Sets the span of the means that are asked for.
    pub const fn set_span(&mut self, span: Milliseconds) {
        self.interval = span.0.div_ceil(PER_SPAN);
    }

    /// The time of the last look; `None` before the first reading.
    #[inline]
    pub fn last(&self) -> Option<Milliseconds> {
        self.energies.back().map(|(last, _)| *last)
    }

    /// Drops the history: the next look is a first one. The sum stays.
    pub fn clear(&mut self) {
        self.energies.clear();
    }

    /// Starts the history at a first look.
    pub fn begin(&mut self, now: Milliseconds) {
        let _ = self.energies.push_back((now, self.energy));
    }

    /// The sum in µJ.
    pub fn microjoules(&self) -> u64 {
        self.energy.max(0).unsigned_abs()
    }

    /// The mean power in mW over the `span` before the last look; `None` for an empty span or one
    /// that begins before the readings.
    pub fn mean(&self, span: Milliseconds) -> Option<f32> {
        let &(now, energy) = self.energies.back().filter(|_| span.0 > 0)?;
        let from = Milliseconds(now.0.checked_sub(span.0)?);
        // The last entry that is not after `from`, by bisection.
        let (mut low, mut high) = (0, self.energies.len());
        while low < high {
            let middle = (low + high) / 2;
            match self.energies.get(middle) {
                Some((at, _)) if *at <= from => low = middle + 1,
                _ => high = middle,
            }
        }
        let &(at, then) = self.energies.get(low.checked_sub(1)?)?;
        let part = match self.energies.get(low) {
            Some(&(end, more)) => {
                let part = from.since(at).0 as f32 / end.since(at).0 as f32;
                more.saturating_sub(then) as f32 * part
            }
            None => 0.0,
        };
        Some((energy.saturating_sub(then) as f32 - part) / span.0 as f32)
    }

    /// Adds the energies in µJ of all chips since the last look.
    pub fn add(&mut self, of_chips: impl Iterator<Item = f32>, now: Milliseconds) {
        let energy = of_chips.fold(self.rest, |sum, of_chip| sum + of_chip);
        let whole = libm::floorf(energy);
        self.rest = energy - whole;
        self.energy = self.energy.saturating_add(whole as i64);
        // The newest two may be closer than the interval.
        let mut newest = self.energies.iter().rev();
        let is_close = newest
            .next()
            .zip(newest.next())
            .is_some_and(|((last, _), (before, _))| last.since(*before).0 < self.interval);
        if is_close {
            self.energies.pop_back();
        } else if self.energies.is_full() {
            self.energies.pop_front();
        }
        let _ = self.energies.push_back((now, self.energy));
    }
}
