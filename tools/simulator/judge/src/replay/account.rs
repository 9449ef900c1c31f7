//! How long and how far the true power was over the limit, exact to the event.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::sliding::{Line, lines};
use crate::course::LIMIT_WINDOW;
use wattgate_simulated_board::load::Load;
use wattgate_simulated_board::machine::trace::Segment;

/// Windows over which the power is averaged: the limit's, and one slice of the ripple.
const WINDOWS: [Duration; 2] = [LIMIT_WINDOW, Duration::from_millis(10)];

/// How long and how far the mean power of one window was over the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OverLimit {
    /// The accounted time, in s.
    pub seconds: f64,
    /// The time over the limit, in s.
    pub over_s: f64,
    /// The longest stretch over the limit, in s.
    pub longest_s: f64,
    /// The greatest excess of a mean above the limit, as a part of the limit.
    pub excess: f64,
    /// The energy above the limit, in J.
    pub joules: f64,
    /// The length so far of the stretch over the limit that has not ended yet, in s.
    stretch_s: f64,
}

impl OverLimit {
    fn add(&mut self, line: &Line, limit: f64) {
        self.seconds += line.seconds;
        let Some([from, to]) = line.above(limit) else {
            self.stretch_s = 0.0;
            return;
        };
        if from > 0.0 {
            self.stretch_s = 0.0;
        }
        let above = to - from;
        self.stretch_s += above;
        self.longest_s = self.longest_s.max(self.stretch_s);
        if to < line.seconds {
            self.stretch_s = 0.0;
        }
        self.over_s += above;
        self.excess = self.excess.max(line.first.max(line.last) / limit - 1.0);
        let ends = [line.first, line.last].map(|mean| (mean - limit).max(0.0));
        self.joules += above * f64::midpoint(ends[0], ends[1]);
    }
}

/// Why the power jumped over the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JumpCause {
    /// More activity.
    Load,
    /// A lower limit.
    Limit,
}

/// A jump of load or limit after which the mean of 10 ms was over the limit.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct Event {
    /// Time of the jump since the start.
    pub at_ms: f64,
    /// What jumped.
    pub cause: JumpCause,
    /// Time from the jump until the mean of 10 ms was back at the limit, or to the end of the run.
    pub ms: f64,
    /// The greatest excess of a mean of 10 ms meanwhile, in % of the limit.
    pub excess_pct: f64,
}

/// How long and how far the power was over the limit, and after which jumps.
#[derive(Clone, Debug)]
pub struct LoadAccount {
    /// By the mean of 430 ms with the ripple.
    pub slow: OverLimit,
    /// By the mean of 10 ms without the ripple.
    pub fast: OverLimit,
    /// Events in the order of time.
    pub events: Vec<Event>,
    /// Minibatches after the start.
    pub minibatches: f64,
}

impl LoadAccount {
    /// Accounts for a trace that begins at zero. Power before `start` does not count. Power after
    /// the end of the load does not count, because a holder may read the sensor beyond the end.
    ///
    /// A mean is compared with the highest limit of its window: power drawn before the limit fell
    /// was within the old limit.
    pub fn from_trace(
        trace: &[Segment],
        load: &Load,
        limits: &[(Duration, u32)],
        start: Duration,
    ) -> Self {
        let [slow, fast] = WINDOWS;
        let trace = &trace[..trace.partition_point(|segment| segment.until <= load.length())];
        let noisy = trace.iter().map(|segment| (segment.until, segment.watts));
        let calm = trace
            .iter()
            .map(|segment| (segment.until, segment.calm_watts));
        let mut account = Self {
            slow: OverLimit::default(),
            fast: OverLimit::default(),
            events: Vec::new(),
            minibatches: minibatches(trace, start),
        };
        visit_lines(
            lines(noisy, start, slow),
            &highest_limits(limits, slow),
            |line, limit| {
                account.slow.add(line, limit);
            },
        );
        let mut tracker = EventTracker::new(jumps(trace, load, limits, start));
        visit_lines(
            lines(calm, start, fast),
            &highest_limits(limits, fast),
            |line, limit| {
                account.fast.add(line, limit);
                tracker.add(line, limit);
            },
        );
        account.events = tracker.events(trace.last().map_or(start, |last| last.until));
        account
    }
}

/// For windows that end at a time, the highest limit in the window. A lower limit so begins one
/// window later.
fn highest_limits(limits: &[(Duration, u32)], window: Duration) -> Vec<(Duration, u32)> {
    let highest = |end: Duration| {
        let since = limits.partition_point(|(from, _)| *from + window <= end);
        let since = limits[since.saturating_sub(1)..].iter();
        let held = since.take_while(|(from, _)| *from <= end);
        held.map(|(_, mw)| *mw).max().unwrap_or(0)
    };
    let begins = limits.iter().map(|(from, _)| *from);
    let ends = begins.clone().map(|from| from + window);
    let mut times: Vec<Duration> = begins.chain(ends).collect();
    times.sort();
    times.into_iter().map(|at| (at, highest(at))).collect()
}

/// Minibatches after a time.
fn minibatches(trace: &[Segment], start: Duration) -> f64 {
    let before = trace.partition_point(|segment| segment.until <= start);
    let before = before.checked_sub(1).map(|at| trace[at].minibatches);
    let all = trace.last().map_or(0.0, |last| last.minibatches);
    all - before.unwrap_or(0.0)
}

/// Calls `visit` with each line and the limit in W at that time. A line is cut where the limit
/// changes.
fn visit_lines(
    lines: impl Iterator<Item = Line>,
    limits: &[(Duration, u32)],
    mut visit: impl FnMut(&Line, f64),
) {
    let mut coming = limits.iter().map(|(from, mw)| {
        let watts = f64::from(*mw) / 1e3;
        (from.as_secs_f64(), watts)
    });
    let mut limit = coming.next().map_or(0.0, |(_, watts)| watts);
    let mut next = coming.next();
    for mut line in lines {
        while let Some((at, watts)) = next.filter(|(at, _)| *at < line.from + line.seconds) {
            if at > line.from {
                let seconds = at - line.from;
                let part = seconds / line.seconds;
                let last = line.first + part * (line.last - line.first);
                visit(
                    &Line {
                        seconds,
                        last,
                        ..line
                    },
                    limit,
                );
                line = Line {
                    from: at,
                    seconds: line.seconds - seconds,
                    first: last,
                    ..line
                };
            }
            (limit, next) = (watts, coming.next());
        }
        visit(&line, limit);
    }
}

/// A jump over the limit at a time in s.
#[derive(Clone, Copy, Debug)]
struct Jump {
    at: f64,
    cause: JumpCause,
}

/// The times at which the power without ripple goes from below the limit to above it because the
/// load or the limit changes.
fn jumps(trace: &[Segment], load: &Load, limits: &[(Duration, u32)], start: Duration) -> Vec<Jump> {
    let limit_at = |at: Duration| {
        let holding = limits.iter().rev().find(|(from, _)| *from <= at);
        holding.map_or(0.0, |(_, mw)| f64::from(*mw) / 1e3)
    };
    let moves = load.steps().iter().map(|step| (step.from, JumpCause::Load));
    let steps = limits.iter().map(|(from, _)| (*from, JumpCause::Limit));
    let mut times: Vec<(Duration, JumpCause)> = moves.chain(steps).collect();
    times.retain(|(at, _)| *at > start);
    times.sort_by_key(|(at, _)| *at);
    let jump = |(at, cause): (Duration, JumpCause)| {
        let before = trace.partition_point(|segment| segment.until < at);
        let after = trace.partition_point(|segment| segment.until <= at);
        let (before, after) = (trace.get(before)?.calm_watts, trace.get(after)?.calm_watts);
        let was = limit_at(at - Duration::from_nanos(1));
        let jumps = before <= was && after > limit_at(at);
        jumps.then_some(Jump {
            at: at.as_secs_f64(),
            cause,
        })
    };
    times.into_iter().filter_map(jump).collect()
}

/// Turns jumps and the mean of 10 ms into events.
struct EventTracker {
    jumps: std::iter::Peekable<std::vec::IntoIter<Jump>>,
    /// The jump whose event has not ended yet, with the highest excess since then, if any.
    open: Option<(Jump, Option<f64>)>,
    events: Vec<Event>,
}

impl EventTracker {
    fn new(jumps: Vec<Jump>) -> Self {
        Self {
            jumps: jumps.into_iter().peekable(),
            open: None,
            events: Vec::new(),
        }
    }

    /// Adds a line of the mean of 10 ms.
    fn add(&mut self, line: &Line, limit: f64) {
        // A stretch begins at each jump, and the mean is a line from there on.
        while let Some(jump) = self.jumps.next_if(|jump| jump.at <= line.from) {
            match &mut self.open {
                Some((_, Some(_))) => {}
                open => *open = Some((jump, None)),
            }
        }
        let Some((jump, excess)) = &mut self.open else {
            return;
        };
        let Some([_, to]) = line.above(limit) else {
            if let Some(excess) = *excess {
                let jump = *jump;
                self.close(jump, line.from, excess);
            }
            return;
        };
        let highest = line.first.max(line.last) / limit - 1.0;
        let highest = excess.map_or(highest, |excess| excess.max(highest));
        *excess = Some(highest);
        if to < line.seconds {
            let jump = *jump;
            self.close(jump, line.from + to, highest);
        }
    }

    fn close(&mut self, jump: Jump, at: f64, excess: f64) {
        self.open = None;
        self.events.push(Event {
            at_ms: 1e3 * jump.at,
            cause: jump.cause,
            ms: 1e3 * (at - jump.at),
            excess_pct: 100.0 * excess,
        });
    }

    /// All events. An event that is open at the end ends there.
    fn events(mut self, end: Duration) -> Vec<Event> {
        if let Some((jump, Some(excess))) = self.open {
            self.close(jump, end.as_secs_f64(), excess);
        }
        self.events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattgate_simulated_board::load::Step;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// `stretches` are ends in ms with the power in W without ripple; the ripple adds 1 W.
    fn account(stretches: &[(u64, f64)], limits: &[(u64, u32)], moves: &[u64]) -> LoadAccount {
        let segment = |(until, watts): &(u64, f64)| Segment {
            until: ms(*until),
            watts: watts + 1.0,
            calm_watts: *watts,
            minibatches: 0.01 * *until as f64,
        };
        let trace: Vec<Segment> = stretches.iter().map(segment).collect();
        let limits: Vec<_> = limits.iter().map(|(at, mw)| (ms(*at), *mw)).collect();
        let steps = std::iter::once(&0).chain(moves);
        let steps = steps.map(|at| Step::new(ms(*at), 1.0)).collect();
        let end = trace.last().expect("a stretch").until;
        LoadAccount::from_trace(&trace, &Load::new(steps, end), &limits, START)
    }

    const START: Duration = ms(1000);

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
    }

    #[test]
    fn a_peak_is_seen_by_both_windows_and_after_the_start_only() {
        // 20 W, and 50 W for 100 ms; before the start 90 W.
        let stretches = [(1000, 90.0), (3000, 20.0), (3100, 50.0), (6000, 20.0)];
        let account = account(&stretches, &[(0, 25_000)], &[3000]);
        let LoadAccount { slow, fast, .. } = account;
        near(fast.seconds, 4.99);
        // The mean rises by 30 W in 10 ms: it is over 25 W from 1.667 ms on, and for the same
        // time it is below 25 W of the 10 ms after the peak.
        near(fast.over_s, 0.1 - 0.01 / 6.0 + 0.01 * 5.0 / 6.0);
        near(fast.longest_s, fast.over_s);
        near(fast.excess, 1.0);
        // Trapezium: 25 W for 90 ms, and two ramps of 25 W over 8.333 ms.
        near(fast.joules, 25.0 * 0.09 + 25.0 * 0.01 * 5.0 / 6.0);
        // With 1 W of ripple: 21 + 30 × 100 / 430 = 27.98 W at most.
        near(slow.seconds, 4.57);
        near(slow.excess, (21.0 + 30.0 * 100.0 / 430.0) / 25.0 - 1.0);
        // The ramp crosses 25 W after 57.33 ms both ways; between, it stays up.
        near(slow.over_s, 0.43 - 0.1 + 2.0 * (0.1 - 0.43 * 4.0 / 30.0));
        near(account.minibatches, 50.0);
    }

    #[test]
    fn an_event_lasts_until_the_mean_is_back() {
        let stretches = [(3000, 20.0), (3100, 50.0), (6000, 20.0)];
        let account = account(&stretches, &[(0, 25_000)], &[3000]);
        let [event] = account.events[..] else {
            panic!("{:?}", account.events);
        };
        assert_eq!((event.at_ms, event.cause), (3000.0, JumpCause::Load));
        near(event.ms, 100.0 + 10.0 * 25.0 / 30.0);
        near(event.excess_pct, 100.0);
    }

    #[test]
    fn what_no_load_and_no_limit_explains_is_no_event() {
        let stretches = [(3000, 20.0), (3100, 50.0), (6000, 20.0)];
        assert_eq!(account(&stretches, &[(0, 25_000)], &[]).events, []);
        // Over the limit before the jump, too.
        let stretches = [(3000, 30.0), (3100, 50.0), (6000, 20.0)];
        assert_eq!(account(&stretches, &[(0, 25_000)], &[3000]).events, []);
        // The peak ends before the mean of 10 ms is over the limit.
        let stretches = [(3000, 20.0), (3001, 50.0), (6000, 20.0)];
        assert_eq!(account(&stretches, &[(0, 25_000)], &[3000]).events, []);
    }

    #[test]
    fn a_lower_limit_is_an_event_and_cuts_a_line() {
        let stretches = [(4050, 20.0), (6000, 10.0)];
        let account = account(&stretches, &[(0, 25_000), (4000, 15_000)], &[]);
        let [event] = account.events[..] else {
            panic!("{:?}", account.events);
        };
        assert_eq!((event.at_ms, event.cause), (4000.0, JumpCause::Limit));
        near(event.ms, 55.0);
        // The first window under the lower limit ends at 4.01 s.
        near(account.fast.over_s, 0.045);
        // The mean of 430 ms from 4 s on is (50 × 21 + 380 × 11) / 430 = 12.2 W.
        near(account.slow.over_s, 0.0);
    }

    #[test]
    fn a_mean_is_compared_with_the_highest_limit_of_its_window() {
        let limits = [(0, 20), (1000, 30), (2000, 10), (2100, 25), (2200, 15)];
        let limits = limits.map(|(at, mw)| (ms(at), mw));
        let found = highest_limits(&limits, ms(430));
        let changes = found.chunk_by(|a, b| a.1 == b.1).map(|equal| equal[0]);
        let changes: Vec<_> = changes.map(|(at, mw)| (at.as_millis(), mw)).collect();
        assert_eq!(changes, [(0, 20), (1000, 30), (2430, 25), (2630, 15)]);
    }

    #[test]
    fn an_event_that_does_not_end_lasts_to_the_end() {
        let stretches = [(3000, 20.0), (6000, 50.0)];
        let account = account(&stretches, &[(0, 25_000)], &[3000]);
        near(account.events[0].ms, 3000.0);
    }

    #[test]
    fn what_is_after_the_load_does_not_count() {
        let segment = |until, watts, minibatches| Segment {
            until: ms(until),
            watts,
            calm_watts: watts,
            minibatches,
        };
        let trace = [segment(3000, 20.0, 30.0), segment(3100, 50.0, 31.0)];
        let load = Load::new(vec![Step::new(ms(0), 1.0)], ms(3000));
        let account = LoadAccount::from_trace(&trace, &load, &[(ms(0), 25_000)], START);
        assert_eq!((account.fast.over_s, account.slow.over_s), (0.0, 0.0));
        assert_eq!(account.minibatches, 30.0);
    }

    #[test]
    fn stretches_apart_are_not_one() {
        let stretches = [
            (2000, 20.0),
            (2100, 30.0),
            (2200, 20.0),
            (2250, 30.0),
            (6000, 20.0),
        ];
        let fast = account(&stretches, &[(0, 25_000)], &[]).fast;
        near(fast.over_s, 0.15);
        near(fast.longest_s, 0.1);
    }
}
