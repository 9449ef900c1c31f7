//! The moving average of a piecewise constant power.
//!
//! The average is a straight line between the times at which the power at the window's head or tail
//! changes, so a few lines describe it exactly.

use std::time::Duration;

/// A stretch of time in which the mean is a straight line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Time at which the window's head enters the stretch, in s.
    pub from: f64,
    /// Length of the stretch, in s.
    pub seconds: f64,
    /// The mean at the start of the stretch.
    pub first: f64,
    /// The mean at its end.
    pub last: f64,
}

impl Line {
    /// The part in which the mean is above a limit: its start and its end, in s from the start of
    /// the stretch.
    pub fn above(&self, limit: f64) -> Option<[f64; 2]> {
        let crossing = || self.seconds * (limit - self.first) / (self.last - self.first);
        match (self.first > limit, self.last > limit) {
            (true, true) => Some([0.0, self.seconds]),
            (true, false) => Some([0.0, crossing()]),
            (false, true) => Some([crossing(), self.seconds]),
            (false, false) => None,
        }
    }
}

/// The lines of a window that slides over constant stretches.
///
/// `stretches` gives the end and the value of each stretch, in the order of time. The window's tail
/// starts at `begin`. There is no line if the stretches from there on are shorter than the window.
pub fn lines(
    stretches: impl Iterator<Item = (Duration, f64)> + Clone,
    begin: Duration,
    window: Duration,
) -> impl Iterator<Item = Line> {
    let mut tail = stretches.clone().skip_while(move |(end, _)| *end <= begin);
    let mut head = stretches.skip_while(move |(end, _)| *end <= begin);
    let mut sum = 0.0;
    let mut at = begin;
    let full = begin + window;
    let mut at_head = head.next();
    while let Some((end, value)) = at_head.filter(|_| at < full) {
        let next = end.min(full);
        sum += value * (next - at).as_secs_f64();
        at = next;
        if end <= at {
            at_head = head.next();
        }
    }
    let mut at_tail = tail.next();
    let seconds = window.as_secs_f64();
    std::iter::from_fn(move || {
        let (head_end, entering) = at_head?;
        let (tail_end, leaving) = at_tail?;
        let next = head_end.min(tail_end + window);
        let passed = (next - at).as_secs_f64();
        let first = sum / seconds;
        sum += (entering - leaving) * passed;
        let line = Line {
            from: at.as_secs_f64(),
            seconds: passed,
            first,
            last: sum / seconds,
        };
        at = next;
        if head_end <= at {
            at_head = head.next();
        }
        if tail_end + window <= at {
            at_tail = tail.next();
        }
        Some(line)
    })
}

/// The means at whole multiples of `every`, each with its time in s, as far as the lines go.
pub fn sampled(lines: impl Iterator<Item = Line>, every: Duration) -> Vec<[f64; 2]> {
    let every = every.as_secs_f64();
    let mut samples = Vec::new();
    let mut next = 0.0;
    for line in lines {
        let passed = ((line.from - next) / every).ceil().max(0.0);
        next += passed * every;
        while next < line.from + line.seconds {
            let part = (next - line.from) / line.seconds;
            samples.push([next, line.first + part * (line.last - line.first)]);
            next += every;
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn rounded_lines(stretches: &[(u64, f64)], begin: u64, window: u64) -> Vec<[f64; 4]> {
        let stretches = stretches.iter().map(|(end, value)| (ms(*end), *value));
        let lines = lines(stretches, ms(begin), ms(window));
        let rounded = |x: f64| (1e9 * x).round() / 1e9;
        let line = |line: Line| [line.from, line.seconds, line.first, line.last].map(rounded);
        lines.map(line).collect()
    }

    #[test]
    fn a_step_is_a_ramp_as_long_as_the_window() {
        assert_eq!(
            rounded_lines(&[(1000, 10.0), (2000, 30.0)], 0, 500),
            [
                [0.5, 0.5, 10.0, 10.0],
                [1.0, 0.5, 10.0, 30.0],
                [1.5, 0.5, 30.0, 30.0],
            ]
        );
    }

    #[test]
    fn what_is_before_the_begin_does_not_count() {
        assert_eq!(
            rounded_lines(&[(1000, 10.0), (2000, 30.0)], 1200, 500),
            [[1.7, 0.3, 30.0, 30.0]]
        );
    }

    #[test]
    fn a_window_that_is_longer_than_all_has_no_line() {
        assert_eq!(rounded_lines(&[(400, 10.0)], 0, 500), [[0.0; 4]; 0]);
    }

    #[test]
    fn samples_lie_on_the_lines_at_equal_times() {
        let stretches = [(1000, 10.0), (2000, 30.0)].map(|(end, watts)| (ms(end), watts));
        let lines = lines(stretches.into_iter(), ms(0), ms(500));
        let expected = [
            [0.5, 10.0],
            [0.75, 10.0],
            [1.0, 10.0],
            [1.25, 20.0],
            [1.5, 30.0],
            [1.75, 30.0],
        ];
        assert_eq!(sampled(lines, ms(250)), expected);
    }

    #[test]
    fn the_part_above_a_limit_begins_and_ends_at_the_crossing() {
        let line = |first, last| Line {
            from: 5.0,
            seconds: 2.0,
            first,
            last,
        };
        assert_eq!(line(10.0, 30.0).above(25.0), Some([1.5, 2.0]));
        assert_eq!(line(30.0, 10.0).above(25.0), Some([0.0, 0.5]));
        assert_eq!(line(30.0, 30.0).above(25.0), Some([0.0, 2.0]));
        assert_eq!(line(25.0, 25.0).above(25.0), None);
    }
}
