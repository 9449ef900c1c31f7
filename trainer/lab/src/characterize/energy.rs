//! Energy from samples of the power at irregular times (Characterizing, section 4.5).

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::Serialize;
use thiserror::Error;

/// An interval this many times the median one is a gap.
const GAP: f64 = 5.0;

/// The columns of a log.
const HEADER: &str = "seconds,watts";

/// Why a log has no energy.
#[derive(Debug, Error)]
pub enum SampleError {
    /// The file cannot be read.
    #[error("{}: cannot read: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// The first line is not the header.
    #[error("{}: the first line is `{found}`, expected `{HEADER}`", path.display())]
    Header { path: PathBuf, found: String },
    /// A line is not a sample.
    #[error(
        "{}: line {line}: expected a time in s and a power in W from zero, found `{found}`",
        path.display()
    )]
    Line {
        path: PathBuf,
        line: usize,
        found: String,
    },
    /// The times do not ascend.
    #[error(
        "{}: line {line}: the sample of {seconds} s comes after that of {before} s; sort the log by time",
        path.display()
    )]
    OutOfOrder {
        path: PathBuf,
        line: usize,
        seconds: f64,
        before: f64,
    },
    /// A single sample spans no time.
    #[error("{}: the file has {found} of the two samples that are needed; log for longer", path.display())]
    TooFew { path: PathBuf, found: usize },
}

/// An interval without samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gap {
    /// Start in s.
    pub from_s: f64,
    /// End in s.
    pub to_s: f64,
}

/// The energy of a log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Energy {
    /// Time from the first to the last sample, without gaps, in s.
    pub seconds: f64,
    /// Σ p(tᵢ)·(tᵢ − tᵢ₋₁) without gaps, in J.
    pub joules: f64,
    /// Mean power without gaps, in W.
    pub mean_w: f64,
    /// Intervals of more than five times the median one. Their energy is unknown and does not count.
    pub gaps: Vec<Gap>,
}

impl Energy {
    /// Reads a CSV file with the columns `seconds,watts`.
    pub fn read(path: &Path) -> Result<Self, SampleError> {
        let text = fs::read_to_string(path).map_err(|source| SampleError::Io {
            path: path.to_owned(),
            source,
        })?;
        let mut lines = text.lines();
        let header = lines.next().unwrap_or_default();
        if header.trim() != HEADER {
            return Err(SampleError::Header {
                path: path.to_owned(),
                found: header.chars().take(40).collect(),
            });
        }
        let mut samples: Vec<[f64; 2]> = Vec::new();
        for (line, text) in (2..).zip(lines) {
            let [seconds, watts] = sample(text).ok_or_else(|| SampleError::Line {
                path: path.to_owned(),
                line,
                found: text.chars().take(40).collect(),
            })?;
            if let Some(&[before, _]) = samples.last()
                && seconds <= before
            {
                return Err(SampleError::OutOfOrder {
                    path: path.to_owned(),
                    line,
                    seconds,
                    before,
                });
            }
            samples.push([seconds, watts]);
        }
        Self::from_samples(&samples).ok_or_else(|| SampleError::TooFew {
            path: path.to_owned(),
            found: samples.len(),
        })
    }

    /// The energy of samples (s, W) in ascending order of time; `None` for fewer than two.
    fn from_samples(samples: &[[f64; 2]]) -> Option<Self> {
        let intervals = || samples.windows(2).map(|pair| pair[1][0] - pair[0][0]);
        let mut sorted: Vec<f64> = intervals().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let longest = GAP * sorted.get(sorted.len() / 2)?;
        let mut energy = Self {
            seconds: 0.0,
            joules: 0.0,
            mean_w: 0.0,
            gaps: Vec::new(),
        };
        for (pair, interval) in samples.windows(2).zip(intervals()) {
            if interval > longest {
                energy.gaps.push(Gap {
                    from_s: pair[0][0],
                    to_s: pair[1][0],
                });
            } else {
                energy.seconds += interval;
                energy.joules += pair[1][1] * interval;
            }
        }
        energy.mean_w = energy.joules / energy.seconds;
        Some(energy)
    }
}

fn sample(line: &str) -> Option<[f64; 2]> {
    let (seconds, watts) = line.split_once(',')?;
    let sound = |text: &str| -> Option<f64> {
        let value: f64 = text.trim().parse().ok()?;
        (value.is_finite() && value >= 0.0).then_some(value)
    };
    Some([sound(seconds)?, sound(watts)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sample_counts_for_the_time_before_it() {
        let energy =
            Energy::from_samples(&[[0.0, 99.0], [1.0, 10.0], [2.2, 20.0]]).expect("samples");
        assert!((energy.joules - 34.0).abs() < 1e-9);
        assert!((energy.mean_w - 34.0 / 2.2).abs() < 1e-9);
    }

    #[test]
    fn a_gap_does_not_count() {
        let mut samples: Vec<[f64; 2]> = (0..10).map(|at| [f64::from(at), 10.0]).collect();
        samples.extend((60..70).map(|at| [f64::from(at), 10.0]));
        let energy = Energy::from_samples(&samples).expect("samples");
        assert_eq!(energy.gaps.len(), 1);
        assert_eq!([energy.gaps[0].from_s, energy.gaps[0].to_s], [9.0, 60.0]);
        assert_eq!([energy.seconds, energy.joules], [18.0, 180.0]);
    }

    #[test]
    fn one_sample_is_no_energy() {
        assert_eq!(Energy::from_samples(&[[0.0, 1.0]]), None);
    }
}
