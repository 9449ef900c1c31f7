//! When to look at a chip of the sensor next: soon after it has a new result, and seldom in
//! between.
//!
//! A result comes once in a period. When one is seen, it came after the look before; so the next
//! one comes a period after that, and looks are close to each other around then. The chip's
//! clock is not ours: its period is estimated from the results themselves.

use crate::units::Milliseconds;

/// Between two looks while no result is due: a quarter of a period, up to this.
const SELDOM_MS: u64 = 100;

/// Between two looks while one is: a 43rd of a period, within these.
const LEAST_OFTEN_MS: u64 = 4;
const MOST_OFTEN_MS: u64 = 10;

/// The least uncertainty of a result's time is a 70th of the period, the greatest a 16th.
const LEAST_SLACK: u64 = 70;
const MOST_SLACK: u64 = 16;

/// Results that were not seen, as they were equal to those before, do not spoil an estimate of
/// the period up to this number.
const MOST_PERIODS: u64 = 8;

/// When results come. Times in it are in ms.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    nominal: u64,
    /// As estimated, within an eighth of the nominal one.
    period: u64,
    /// How far a result may be off.
    slack: u64,
    /// The last look.
    last: Option<u64>,
    /// When the last result came that was seen at once.
    exact: Option<u64>,
    /// The next result is due from the first to the second.
    due: Option<(u64, u64)>,
}

impl Pace {
    /// For a sensor of this period.
    pub fn new(period: Milliseconds) -> Self {
        let nominal = period.0.max(1);
        Self {
            nominal,
            period: nominal,
            slack: nominal / MOST_SLACK,
            last: None,
            exact: None,
            due: None,
        }
    }

    /// From one result to the next, as estimated.
    pub fn period(&self) -> Milliseconds {
        Milliseconds(self.period)
    }

    /// Takes a look into account. Returns when to look next.
    pub fn looked(&mut self, now: Milliseconds, is_new: bool) -> Milliseconds {
        let now = now.0;
        let before = self.last.replace(now);
        if let Some(before) = before.filter(|_| is_new) {
            self.result(before, now);
        }
        if let Some((from, to)) = self.due.filter(|(_, to)| now > *to) {
            self.due = self.missed(from, to, now);
        }
        let after = |ms: u64| now.saturating_add(ms);
        let seldom = after(SELDOM_MS.min(self.nominal / 4));
        let next = match self.due {
            Some((from, _)) if now >= from => after(self.often()),
            Some((from, _)) => seldom.min(from),
            None => seldom,
        };
        Milliseconds(next.max(after(1)))
    }

    /// Between two looks while a result is due.
    fn often(&self) -> u64 {
        (self.nominal / 43).clamp(LEAST_OFTEN_MS, MOST_OFTEN_MS)
    }

    /// A result came between two looks.
    fn result(&mut self, before: u64, now: u64) {
        if now.saturating_sub(before) <= self.often() + self.often() / 2
            && let Some(exact) = self.exact.replace(now)
        {
            let elapsed = now.saturating_sub(exact);
            let periods = self.periods(elapsed.saturating_add(self.period / 2));
            let found = elapsed.checked_div(periods).unwrap_or(0);
            let is_likely = found.abs_diff(self.nominal) <= self.nominal / 8;
            if is_likely && periods <= MOST_PERIODS {
                self.period = (3 * self.period + found + 2) / 4;
                self.slack = (self.slack / 2).max(self.nominal / LEAST_SLACK);
            }
        }
        self.due = Some(self.later(before, now, self.period));
    }

    /// The next one after one that came late, or was equal to the one before.
    fn missed(&mut self, from: u64, to: u64, now: u64) -> Option<(u64, u64)> {
        self.slack = (2 * self.slack).min(self.nominal / MOST_SLACK);
        let periods = self.periods(now.saturating_sub(to)).saturating_add(1);
        let due = self.later(from, to, periods.saturating_mul(self.period));
        // What is due at any time is due at none.
        Some(due).filter(|(from, to)| to.saturating_sub(*from) < self.period / 2)
    }

    fn later(&self, from: u64, to: u64, time: u64) -> (u64, u64) {
        let from = from.saturating_add(time).saturating_sub(self.slack);
        (from, to.saturating_add(time).saturating_add(self.slack))
    }

    /// Whole periods in a time.
    fn periods(&self, time: u64) -> u64 {
        time.checked_div(self.period).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use super::*;

    /// How long after they came results were seen, and the looks in a second.
    fn delays(
        nominal: u64,
        period: f64,
        seconds: u64,
        is_equal: impl Fn(u64) -> bool,
    ) -> (Vec<u64>, u64) {
        let mut pace = Pace::new(Milliseconds(nominal));
        let (mut now, mut seen, mut looks) = (Milliseconds(17), 0, 0);
        let mut delays = Vec::new();
        while now.0 < seconds * 1_000 {
            let result = (now.0 as f64 / period) as u64;
            let is_new = result > seen && !is_equal(result);
            if is_new {
                delays.push(now.0 - (result as f64 * period) as u64);
                seen = result;
            }
            looks += 1;
            let next = pace.looked(now, is_new);
            assert!(
                next > now && next.0 <= now.0 + SELDOM_MS,
                "{now:?}, {next:?}"
            );
            now = next;
        }
        (delays, looks / seconds)
    }

    #[test]
    fn results_are_seen_within_ten_milliseconds() {
        for period in [385.0, 410.0, 425.0, 430.0, 430.08, 440.0, 475.0] {
            let (delays, looks) = delays(430, period, 60, |_| false);
            let late = delays.iter().skip(16).filter(|delay| **delay > 10).count();
            assert_eq!(late, 0, "{period} ms: {delays:?}");
            assert!(looks <= 20, "{period} ms: {looks} looks a second");
        }
    }

    #[test]
    fn results_of_a_fast_sensor_are_seen_within_five_milliseconds() {
        for period in [50.0, 53.8, 54.3, 59.0] {
            let (delays, looks) = delays(54, period, 20, |_| false);
            let late = delays.iter().skip(16).filter(|delay| **delay > 5).count();
            assert!(late * 50 <= delays.len(), "{period} ms: {delays:?}");
            assert!(looks <= 120, "{period} ms: {looks} looks a second");
        }
    }

    #[test]
    fn results_that_are_equal_do_not_lose_the_phase() {
        let (delays, looks) = delays(430, 433.0, 120, |result| result % 3 == 0);
        let late = delays.iter().skip(8).filter(|delay| **delay > 10).count();
        assert!(
            late * 50 <= delays.len(),
            "{late} of {}: {delays:?}",
            delays.len()
        );
        assert!(looks <= 24, "{looks} looks a second");
    }

    #[test]
    fn without_results_looks_are_seldom() {
        let (_, looks) = delays(430, 430.0, 60, |result| result > 20);
        assert!(looks <= 13, "{looks} looks a second");
    }

    /// As after a suspend.
    #[test]
    fn a_gap_is_no_reason_to_hurry() {
        let mut pace = Pace::new(Milliseconds(430));
        pace.looked(Milliseconds(0), false);
        pace.looked(Milliseconds(5), true);
        let next = pace.looked(Milliseconds(10_000_000), false);
        assert!(next.0 > 10_000_000 && next.0 <= 10_000_100, "{next:?}");
    }
}
