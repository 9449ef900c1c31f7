//! How far measured rows are from the truth.

use std::collections::HashSet;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use wattgate_cli::delimited::columns::{AXIS_COLUMNS, Layout};
use wattgate_cli::delimited::fields::{bad, is_unknown, number, whole};
use wattgate_cli::delimited::{Defect, FileError, Table};

use super::error::JudgeError;
use super::recording::{Recording, energy_j};
use super::subject::Subject;
use crate::files;

/// Columns of what was measured.
const MEASURED_COLUMNS: [&str; 2] = ["time_ms", "power_mw"];

static LAYOUT: Layout = Layout {
    what: "a corpus",
    columns: &[
        "cores", "cpu_khz", "gpu_khz", "emc_khz", "time_ms", "power_mw",
    ],
    optional: &["kind", "device", "workload"],
    ..Layout::NONE
};

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
        let table = files::open(path, &LAYOUT)?;
        let rows = Self::parse(table, subject, session)?;
        match rows.knobs.is_empty() {
            true => Err(JudgeError::NoRow {
                path: path.to_owned(),
            }),
            false => Ok(rows),
        }
    }

    fn parse<R: Read>(
        mut table: Table<R>,
        subject: &Subject<'_>,
        session: Option<(&Recording, Duration)>,
    ) -> Result<Self, FileError> {
        let mode = table.places(AXIS_COLUMNS)?;
        let measured = table.places(MEASURED_COLUMNS)?;
        let window = session.map(|_| table.places(WINDOW)).transpose()?;
        let known = subject.board.axes();
        let mut rows = Self {
            knobs: Vec::new(),
            errors: [Vec::new(), Vec::new()],
        };
        table.rows(|row| -> Result<(), Defect> {
            // A mode that could not be measured has blank fields.
            if measured.iter().any(|place| is_unknown(row.field(*place))) {
                return Ok(());
            }
            let pair = |columns: [&'static str; 2], places: [usize; 2]| {
                let value = |at: usize| number((columns[at], row.field(places[at])), MOST);
                Ok::<_, Defect>([value(0)?, value(1)?])
            };
            let measured = pair(MEASURED_COLUMNS, measured)?;
            let mut knobs = [0; 4];
            for (at, column) in AXIS_COLUMNS.into_iter().enumerate() {
                let field = row.field(mode[at]);
                knobs[at] = whole((column, field), "a whole number above zero")?;
                if !known[at].contains(&knobs[at]) {
                    let expected = format!("a value that `{}` has", subject.board.name);
                    return Err(bad(column, expected, &String::from_utf8_lossy(field)).into());
                }
            }
            let truth = match session.zip(window) {
                None => {
                    let truth = subject.truth(knobs);
                    [1e3 / truth.rate, 1e3 * subject.settled_w(&truth)]
                }
                Some(((recording, start), places)) => {
                    let [end_s, window_ms] = pair(WINDOW, places)?;
                    let end = start + Duration::from_secs_f64(end_s);
                    let length = Duration::from_secs_f64(window_ms / 1e3);
                    in_window(recording, end, length).ok_or_else(|| {
                        let expected = format!(
                            "the end of a window of {window_ms} ms with minibatches in the trace"
                        );
                        bad(WINDOW[0], expected, &end_s.to_string())
                    })?
                }
            };
            rows.knobs.push(knobs);
            for ((errors, measured), truth) in rows.errors.iter_mut().zip(measured).zip(truth) {
                errors.push(100.0 * (measured / truth - 1.0).abs());
            }
            Ok(())
        })?;
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
