//! The true power of a run, from a file that `wattgate-simulator board --trace` wrote.

use std::path::{Path, PathBuf};
use std::time::Duration;

use wattgate_cli::delimited::FileError;
use wattgate_simulated_board::machine::trace::Segment;

use crate::files::trace;

/// The true power since the start of a board.
#[derive(Debug)]
pub struct Recording {
    pub path: PathBuf,
    pub segments: Vec<Segment>,
}

impl Recording {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        Ok(Self {
            path: path.to_owned(),
            segments: trace::read(path)?,
        })
    }

    /// The time at which the recording ends.
    pub fn end(&self) -> Duration {
        let last = self.segments.last();
        last.map_or(Duration::ZERO, |last| last.until)
    }

    /// The part between two times as a trace of its own, which begins at zero with no minibatch.
    /// `None` if the recording ends before.
    pub fn between(&self, from: Duration, until: Duration) -> Option<Vec<Segment>> {
        let first = self.segments.partition_point(|it| it.until <= from);
        let last = self.segments.partition_point(|it| it.until < until);
        let part = self.segments.get(first..=last)?;
        let before = self.minibatches(from)?;
        let part = part.iter().map(|segment| {
            let end = segment.until.min(until);
            Some(Segment {
                until: end - from,
                minibatches: self.minibatches(end)? - before,
                ..*segment
            })
        });
        part.collect()
    }

    /// Minibatches up to a time, by interpolation.
    fn minibatches(&self, at: Duration) -> Option<f64> {
        let index = self.segments.partition_point(|it| it.until < at);
        let segment = self.segments.get(index)?;
        let before = index.checked_sub(1).map(|index| self.segments[index]);
        let (begin, done) = before.map_or((Duration::ZERO, 0.0), |it| (it.until, it.minibatches));
        let part = (at - begin).as_secs_f64() / (segment.until - begin).as_secs_f64();
        Some(done + part * (segment.minibatches - done))
    }
}

/// The energy of a trace in J.
pub fn energy_j(trace: &[Segment]) -> f64 {
    let begins = trace.iter().map(|segment| segment.until);
    let begins = std::iter::once(Duration::ZERO).chain(begins);
    let stretches = trace.iter().zip(begins);
    stretches
        .map(|(segment, begin)| segment.watts * (segment.until - begin).as_secs_f64())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_cut_to_the_nanosecond() {
        let segment = |ms, watts, minibatches| Segment {
            until: Duration::from_millis(ms),
            watts,
            calm_watts: watts,
            minibatches,
        };
        let recording = Recording {
            path: PathBuf::new(),
            segments: vec![
                segment(1000, 10.0, 0.0),
                segment(3000, 20.0, 8.0),
                segment(4000, 30.0, 14.0),
            ],
        };
        let between = |from, until| {
            let [from, until] = [from, until].map(Duration::from_millis);
            recording.between(from, until)
        };
        let part = [segment(500, 20.0, 2.0), segment(1000, 30.0, 5.0)];
        assert_eq!(between(2500, 3500).as_deref(), Some(&part[..]));
        assert_eq!(energy_j(&part), 25.0);
        // At the ends of segments, and all.
        let part = [segment(2000, 20.0, 8.0)];
        assert_eq!(between(1000, 3000).as_deref(), Some(&part[..]));
        assert_eq!(between(0, 4000).as_ref(), Some(&recording.segments));
        assert_eq!(between(3500, 4001), None);
    }
}
