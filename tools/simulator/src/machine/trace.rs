//! The true power over time, also as CSV text.
//!
//! ```text
//! seconds,watts,calm_watts,minibatches
//! 0.010000000,9.331274,9.4401828,0
//! 0.020000000,9.51893,9.4401828,0
//! ```

use std::fmt;
use std::path::Path;
use std::time::Duration;

use crate::csv::{CsvError, Wrong, cells, lines, number, read};

/// A stretch of constant power.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// End of the segment. It begins at the end of the previous segment, or at the start of the
    /// trace.
    pub until: Duration,
    /// The module's power.
    pub watts: f64,
    /// The module's power without the random [`RIPPLE`](super::RIPPLE).
    pub calm_watts: f64,
    /// Minibatches since time zero, at its end.
    pub minibatches: f64,
}

/// The first line of a trace in a file.
pub const HEADER: &str = "seconds,watts,calm_watts,minibatches";

/// Highest number in each column: some years, and more than any Jetson draws.
const MOST: [f64; 4] = [1e8, 1e4, 1e4, 1e12];

impl Segment {
    /// Whether the next segment has the same power.
    pub fn has_power_of(&self, next: &Self) -> bool {
        (self.watts, self.calm_watts) == (next.watts, next.calm_watts)
    }

    /// Reads a trace from a file.
    pub fn read_all(path: &Path) -> Result<Vec<Self>, CsvError> {
        read(path, Self::parse_all)
    }

    fn parse_all(bytes: &[u8]) -> Result<Vec<Self>, Wrong> {
        let (header, lines) = lines(bytes)?;
        if header != HEADER {
            let expected = format!("the columns `{HEADER}`");
            return Err(Wrong::new(1, format!("`{header}`"), expected));
        }
        if !bytes.ends_with(b"\n") {
            let last = 1 + bytes.iter().filter(|byte| **byte == b'\n').count();
            return Err(Wrong::new(last, "a line without an end", "a whole trace"));
        }
        let mut trace: Vec<Self> = Vec::new();
        for (line, text) in lines {
            let segment = Self::parse(line, text)?;
            let start = Self {
                until: Duration::ZERO,
                minibatches: 0.0,
                ..segment
            };
            let before = trace.last().unwrap_or(&start);
            if segment.until <= before.until || segment.minibatches < before.minibatches {
                let expected = "a later time than in the line before, and as many minibatches";
                return Err(Wrong::new(line, format!("`{text}`"), expected));
            }
            trace.push(segment);
        }
        Ok(trace)
    }

    fn parse(line: usize, text: &str) -> Result<Self, Wrong> {
        let cells = cells(line, text, MOST.len())?;
        let mut numbers = [0.0; MOST.len()];
        for (at, column) in HEADER.split(',').enumerate() {
            numbers[at] = number(line, column, cells[at], MOST[at])?;
        }
        let [seconds, watts, calm_watts, minibatches] = numbers;
        Ok(Self {
            until: Duration::from_secs_f64(seconds),
            watts,
            calm_watts,
            minibatches,
        })
    }
}

/// The segment as a line of a file. [`Segment::read_all`] returns an equal one.
impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            until,
            watts,
            calm_watts,
            minibatches,
        } = self;
        let (seconds, nanos) = (until.as_secs(), until.subsec_nanos());
        write!(f, "{seconds}.{nanos:09},{watts},{calm_watts},{minibatches}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let trace: Vec<Segment> = (1..2000_u32)
            .map(|at| Segment {
                until: Duration::from_nanos(u64::from(at) * 123_456_789_123),
                watts: f64::from(at) / 7.0,
                calm_watts: f64::from(at).sqrt(),
                minibatches: f64::from(at / 3) * 1.1,
            })
            .collect();
        let lines: String = trace.iter().map(|segment| format!("{segment}\n")).collect();
        let again = Segment::parse_all(format!("{HEADER}\n{lines}").as_bytes());
        assert_eq!(again.expect("a trace"), trace);
    }

    #[test]
    fn each_defect_is_named_with_its_line() {
        let refused = |lines: &str| {
            let text = format!("{HEADER}\n0.01,9,9,1\n0.02,9,9,1\n{lines}");
            let wrong = Segment::parse_all(text.as_bytes()).expect_err("a defect");
            format!(
                "{}: {}, expected {}",
                wrong.line, wrong.found, wrong.expected
            )
        };
        let order = "a later time than in the line before, and as many minibatches";
        let cases = [
            ("0.03,9\n", "4: `0.03,9`, expected 4 cells".to_owned()),
            (
                "0.03,9,9,2\n\n",
                "5: an empty line, expected 4 cells".to_owned(),
            ),
            (
                "0.03,9,,2\n",
                "4: an empty cell in `calm_watts`, expected a number, 0 … 10000".to_owned(),
            ),
            (
                "0.03,-9,9,2\n",
                "4: `-9` in `watts`, expected a number, 0 … 10000".to_owned(),
            ),
            ("0.02,9,9,2\n", format!("4: `0.02,9,9,2`, expected {order}")),
            (
                "0.03,9,9,0.9\n",
                format!("4: `0.03,9,9,0.9`, expected {order}"),
            ),
            // The last number may have lost digits.
            (
                "0.03,9,9,2",
                "4: a line without an end, expected a whole trace".to_owned(),
            ),
        ];
        for (lines, expected) in cases {
            assert_eq!(refused(lines), expected, "{lines:?}");
        }
        for text in ["", "seconds,watts\n"] {
            let wrong = Segment::parse_all(text.as_bytes()).expect_err("no header");
            assert_eq!(
                (wrong.line, wrong.expected),
                (1, format!("the columns `{HEADER}`"))
            );
        }
    }
}
