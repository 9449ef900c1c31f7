//! When to look at the sensor next: soon after it has a new result, and seldom in between.
//!
//! A result comes once in a period. When one is seen, it came after the look before; so the next
//! one comes a period after that, and looks are close to each other around then. The sensor's
//! clock is not ours: its period is estimated from the results themselves.

use wattgate_runtime::Milliseconds;

/// Between two looks while no result is due.
pub const SELDOM: Milliseconds = Milliseconds(100);

/// Between two looks while one is.
pub const OFTEN: Milliseconds = Milliseconds(10);

/// The least uncertainty of a period.
const LEAST_SLACK_MS: u64 = 6;

/// Results that were not seen, as they were equal to those before, do not spoil an estimate of
/// the period up to this number.
const MOST_PERIODS: u64 = 8;

/// When results come.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    nominal_ms: u64,
    /// As estimated.
    period_ms: u64,
    /// How far a result may be off.
    slack_ms: u64,
    last: Option<Milliseconds>,
    /// When the last result came that was seen at once.
    exact: Option<Milliseconds>,
    /// The next result is due from the first to the second.
    due: Option<(Milliseconds, Milliseconds)>,
}

impl Pace {
    /// For a sensor of this period.
    pub fn new(period: Milliseconds) -> Self {
        let nominal_ms = period.0.max(1);
        Self {
            nominal_ms,
            period_ms: nominal_ms,
            slack_ms: nominal_ms / 16,
            last: None,
            exact: None,
            due: None,
        }
    }

    /// Takes a look into account. Returns when to look next.
    pub fn looked(&mut self, now: Milliseconds, is_new: bool) -> Milliseconds {
        let before = self.last.replace(now);
        if let Some(before) = before.filter(|_| is_new) {
            self.result(before, now);
        }
        let (from, to) = match self.due {
            Some((_, to)) if now > to => {
                // Late, or equal to the one before.
                self.slack_ms = (2 * self.slack_ms).min(self.nominal_ms / 16);
                let passed = 1 + now.since(to).0 / self.period_ms;
                let due = self.due.map(|(from, to)| {
                    let moved = passed * self.period_ms;
                    let from = (from.0 + moved).saturating_sub(self.slack_ms);
                    (
                        Milliseconds(from),
                        Milliseconds(to.0 + moved + self.slack_ms),
                    )
                });
                // What is due at any time is due at none.
                self.due = due.filter(|(from, to)| to.since(*from).0 < self.period_ms / 2);
                self.due.unwrap_or((Milliseconds(u64::MAX), now))
            }
            Some(due) => due,
            None => (Milliseconds(u64::MAX), now),
        };
        let seldom = Milliseconds(now.0.saturating_add(SELDOM.0));
        match now >= from && now <= to {
            true => Milliseconds(now.0 + OFTEN.0),
            false => seldom.min(from).max(Milliseconds(now.0 + 1)),
        }
    }

    /// A result came between two looks.
    fn result(&mut self, before: Milliseconds, now: Milliseconds) {
        if now.since(before).0 <= OFTEN.0 + OFTEN.0 / 2
            && let Some(exact) = self.exact.replace(now)
        {
            let elapsed = now.since(exact).0;
            let periods = (elapsed + self.period_ms / 2) / self.period_ms;
            let found = elapsed.checked_div(periods).unwrap_or(0);
            let is_likely = found.abs_diff(self.nominal_ms) <= self.nominal_ms / 8;
            if is_likely && periods <= MOST_PERIODS {
                self.period_ms = (3 * self.period_ms + found + 2) / 4;
                self.slack_ms = (self.slack_ms / 2).max(LEAST_SLACK_MS);
            }
        }
        let from = (before.0 + self.period_ms).saturating_sub(self.slack_ms);
        let to = now.0 + self.period_ms + self.slack_ms;
        self.due = Some((Milliseconds(from), Milliseconds(to)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long after they came results were seen, and the looks in a second.
    fn delays(period_ms: f64, seconds: u64, is_equal: impl Fn(u64) -> bool) -> (Vec<u64>, u64) {
        let mut pace = Pace::new(Milliseconds(430));
        let (mut now, mut seen, mut looks) = (Milliseconds(17), 0, 0);
        let mut delays = Vec::new();
        while now.0 < seconds * 1_000 {
            let result = (now.0 as f64 / period_ms) as u64;
            let is_new = result > seen && !is_equal(result);
            if is_new {
                delays.push(now.0 - (result as f64 * period_ms) as u64);
                seen = result;
            }
            looks += 1;
            let next = pace.looked(now, is_new);
            assert!(
                next > now && next.0 <= now.0 + SELDOM.0,
                "{now:?}, {next:?}"
            );
            now = next;
        }
        (delays, looks / seconds)
    }

    #[test]
    fn results_are_seen_within_ten_milliseconds() {
        for period in [410.0, 425.0, 430.0, 430.08, 440.0, 455.0] {
            let (delays, looks) = delays(period, 60, |_| false);
            let late = delays[8..].iter().filter(|delay| **delay > 10).count();
            assert_eq!(late, 0, "{period} ms: {delays:?}");
            assert!(looks <= 20, "{period} ms: {looks} looks a second");
        }
    }

    #[test]
    fn results_that_are_equal_do_not_lose_the_phase() {
        let (delays, looks) = delays(433.0, 120, |result| result % 3 == 0);
        let late = delays[8..].iter().filter(|delay| **delay > 10).count();
        assert!(
            late * 50 <= delays.len(),
            "{late} of {}: {delays:?}",
            delays.len()
        );
        assert!(looks <= 24, "{looks} looks a second");
    }

    #[test]
    fn without_results_looks_are_seldom() {
        let (_, looks) = delays(430.0, 60, |result| result > 20);
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
