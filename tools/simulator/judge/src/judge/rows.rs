//! How far measured rows are from the truth.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use wattgate_simulated_board::csv::{Wrong, cells, lines, number, read};

use super::error::JudgeError;
use super::recording::{Recording, energy_j};
use super::subject::Subject;

/// Columns of a mode, and of what was measured.
const MODE: [&str; 4] = ["cores", "cpu_khz", "gpu_khz", "emc_khz"];
const MEASURED_COLUMNS: [&str; 2] = ["time_ms", "power_mw"];

/// Columns of the profiler: the end of a row's window in s since the start of the session, and its
/// length in ms.
const WINDOW: [&str; 2] = ["end_s", "window_ms"];

/// Highest value of any of these columns.
const MOST: f64 = 1e9;

/// The rows of a corpus that have a measurement.
#[derive(Debug)]
pub struct Rows {
    /// The mode of each row.
    knobs: Vec<[u32; 4]>,
    /// Absolute errors of time and power in percent.
    errors: [Vec<f64>; 2],
}

/// The median and the 95th percentile of all rows, interpolated between the two nearest rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    pub median: f64,
    pub p95: f64,
}

/// The absolute errors of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RowFigures {
    /// Number of rows with a measurement.
    pub rows: usize,
    pub row_time_error_pct: Quantiles,
    pub row_power_error_pct: Quantiles,
}

impl Rows {
    /// Reads a corpus and compares each row with the truth: with the mean of its window in a
    /// recording if there is one, in which the session began at a time; otherwise with the settled
    /// mode.
    pub fn read(
        path: &Path,
        subject: &Subject<'_>,
        session: Option<(&Recording, Duration)>,
    ) -> Result<Self, JudgeError> {
        let rows = read(path, |bytes| Self::parse(bytes, subject, session))?;
        match rows.knobs.is_empty() {
            true => Err(JudgeError::NoRow {
                path: path.to_owned(),
            }),
            false => Ok(rows),
        }
    }

    fn parse(
        bytes: &[u8],
        subject: &Subject<'_>,
        session: Option<(&Recording, Duration)>,
    ) -> Result<Self, Wrong> {
        let (header, lines) = lines(bytes)?;
        let names: Vec<&str> = header.split(',').map(str::trim).collect();
        let column = |name: &str| {
            let found = names.iter().position(|found| *found == name);
            let expected = || format!("the column `{name}`");
            found.ok_or_else(|| Wrong::new(1, format!("`{header}`"), expected()))
        };
        for name in MODE.iter().chain(&MEASURED_COLUMNS) {
            column(name)?;
        }
        let known = subject.board.axes();
        let mut rows = Self {
            knobs: Vec::new(),
            errors: [Vec::new(), Vec::new()],
        };
        for (line, text) in lines {
            let cells = cells(line, text, names.len())?;
            let value = |name| number(line, name, cells[column(name)?], MOST);
            // A mode that could not be measured has empty cells.
            let [time_at, power_at] = [column(MEASURED_COLUMNS[0])?, column(MEASURED_COLUMNS[1])?];
            if cells[time_at].is_empty() || cells[power_at].is_empty() {
                continue;
            }
            let measured = [value(MEASURED_COLUMNS[0])?, value(MEASURED_COLUMNS[1])?];
            let mut knobs = [0; 4];
            for ((knob, name), known) in knobs.iter_mut().zip(MODE).zip(&known) {
                let cell = cells[column(name)?];
                let found = known.iter().find(|value| value.to_string() == cell);
                *knob = *found.ok_or_else(|| {
                    let expected = format!("a value that `{}` has", subject.board.name);
                    Wrong::new(line, format!("`{cell}` in `{name}`"), expected)
                })?;
            }
            let truth = match session {
                None => {
                    let truth = subject.truth(knobs);
                    [1e3 / truth.rate, 1e3 * subject.settled_w(&truth)]
                }
                Some((recording, start)) => {
                    let [end_s, window_ms] = [value(WINDOW[0])?, value(WINDOW[1])?];
                    let end = start + Duration::from_secs_f64(end_s);
                    let length = Duration::from_secs_f64(window_ms / 1e3);
                    in_window(recording, end, length).ok_or_else(|| {
                        let found = format!("a window of {window_ms} ms that ends at {end:?}");
                        let expected = "a window with minibatches in the trace";
                        Wrong::new(line, found, expected)
                    })?
                }
            };
            rows.knobs.push(knobs);
            for ((errors, measured), truth) in rows.errors.iter_mut().zip(measured).zip(truth) {
                errors.push(100.0 * (measured / truth - 1.0).abs());
            }
        }
        Ok(rows)
    }

    /// The modes that have a measurement.
    pub fn modes(&self) -> HashSet<[u32; 4]> {
        self.knobs.iter().copied().collect()
    }

    /// The errors of all rows.
    pub fn figures(&self) -> RowFigures {
        let [time, power] = self.errors.each_ref().map(|errors| {
            let mut sorted = errors.clone();
            sorted.sort_by(f64::total_cmp);
            Quantiles {
                median: quantile(&sorted, 0.5),
                p95: quantile(&sorted, 0.95),
            }
        });
        RowFigures {
            rows: self.knobs.len(),
            row_time_error_pct: time,
            row_power_error_pct: power,
        }
    }
}

/// The mean time of a minibatch in ms and the mean power in mW in a window of a recording.
fn in_window(recording: &Recording, end: Duration, length: Duration) -> Option<[f64; 2]> {
    let trace = recording.between(end.checked_sub(length)?, end)?;
    let minibatches = trace.last()?.minibatches;
    let seconds = length.as_secs_f64();
    (minibatches > 0.0).then(|| {
        [
            1e3 * seconds / minibatches,
            1e3 * energy_j(&trace) / seconds,
        ]
    })
}

/// A quantile of ascending values, at least one.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let at = part * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    low + at.fract() * (high - low)
}
