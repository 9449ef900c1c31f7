//! Loads in CSV files.
//!
//! ```text
//! t_ms,activity,gpu_load
//! 0,1,0.97
//! 40000,0.75,0.6
//! 43000.5,0,0
//! 60000,0,0
//! ```
//!
//! The column `gpu_load` is optional; without it the GPU load is the activity, at most 1. The last
//! row marks the end of the load.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use super::steps::{Load, MOST_ACTIVITY, Step};
use crate::csv::{CsvError, Wrong, cells, lines, number, read};

/// Headers without and with the GPU load.
const LOAD_COLUMNS: [&str; 2] = ["t_ms,activity", "t_ms,activity,gpu_load"];

/// Latest time of a row in ms: one week.
const LATEST_MS: f64 = 7.0 * 24.0 * 3.6e6;

/// Minimum duration of a load: one second of start-up, in which power is not counted, and two
/// windows of 430 ms.
const SHORTEST: Duration = Duration::from_secs(2);

/// A row of a file.
struct Row {
    /// Counted from 1.
    line: usize,
    step: Step,
}

impl Load {
    /// Reads a load from a file.
    pub fn read(path: &Path) -> Result<Self, CsvError> {
        read(path, Self::parse)
    }

    fn parse(bytes: &[u8]) -> Result<Self, Wrong> {
        let (header, lines) = lines(bytes)?;
        let columns = LOAD_COLUMNS.iter().position(|columns| *columns == header);
        let columns = columns.ok_or_else(|| {
            let [without, with] = LOAD_COLUMNS;
            let expected = format!("the columns `{without}` or `{with}`");
            Wrong::new(1, format!("`{header}`"), expected)
        })?;
        let mut rows: Vec<Row> = Vec::new();
        for (line, text) in lines {
            let step = row(line, text, columns == 1)?;
            check_order(rows.last(), line, &step)?;
            rows.push(Row { line, step });
        }
        let end = rows.pop();
        let line = end.as_ref().map_or(1, |row| row.line);
        let rows_missing =
            |found| Wrong::new(line, found, "at least two rows; the last one marks the end");
        let end = end.ok_or_else(|| rows_missing("no row"))?.step.from;
        if rows.is_empty() {
            return Err(rows_missing("a single row"));
        }
        if end < SHORTEST {
            let found = format!("the load ends at {} ms", 1e3 * end.as_secs_f64());
            let expected = format!("at least {} ms", SHORTEST.as_millis());
            return Err(Wrong::new(line, found, expected));
        }
        Ok(Self::new(
            rows.into_iter().map(|row| row.step).collect(),
            end,
        ))
    }

    /// Formats the load as CSV text.
    pub fn to_csv(&self) -> String {
        let mut text = format!("{}\n", LOAD_COLUMNS[1]);
        let last = self.steps().last().map(|last| Step {
            from: self.length(),
            ..*last
        });
        for step in self.steps().iter().copied().chain(last) {
            let ms = 1e3 * step.from.as_secs_f64();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{ms},{},{}", step.activity, step.gpu_load);
        }
        text
    }
}

/// Parses a line as a row.
fn row(line: usize, text: &str, has_gpu_load: bool) -> Result<Step, Wrong> {
    let cells = cells(line, text, 2 + usize::from(has_gpu_load))?;
    let number = |at: usize, column, most| number(line, column, cells[at], most);
    let time_us = (1e3 * number(0, "t_ms", LATEST_MS)?).round();
    let step = Step::new(
        Duration::from_micros(time_us as u64),
        number(1, "activity", MOST_ACTIVITY)?,
    );
    match has_gpu_load {
        false => Ok(step),
        true => Ok(Step {
            gpu_load: number(2, "gpu_load", 1.0)?,
            ..step
        }),
    }
}

/// Checks that the first row is at 0 and that times ascend.
fn check_order(before: Option<&Row>, line: usize, step: &Step) -> Result<(), Wrong> {
    let ms = |time: Duration| 1e3 * time.as_secs_f64();
    let found = format!("{} ms", ms(step.from));
    match before {
        None if step.from > Duration::ZERO => Err(Wrong::new(line, found, "0 ms in the first row")),
        Some(before) if step.from <= before.step.from => {
            let expected = format!(
                "more than {} ms, the time of the row before",
                ms(before.step.from)
            );
            Err(Wrong::new(line, found, expected))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &[u8]) -> String {
        let wrong = Load::parse(text).expect_err("a defect");
        let Wrong {
            line,
            found,
            expected,
        } = wrong;
        format!("{line}: {found}, expected {expected}")
    }

    #[test]
    fn a_file_with_and_without_the_gpus_load_is_read() {
        let load = Load::parse(b"t_ms,activity\n0,1.5\n250.5,0\n3000,9e-1\n");
        let load = load.expect("a load");
        assert_eq!(load.length(), Duration::from_secs(3));
        let [first, second] = load.steps() else {
            panic!("{load:?}");
        };
        assert_eq!((first.activity, first.gpu_load), (1.5, 1.0));
        assert_eq!(second.from, Duration::from_micros(250_500));
        let text = "\u{feff}t_ms,activity,gpu_load\r\n0, 1, 0.25\r\n3000,0,0\r\n";
        let load = Load::parse(text.as_bytes()).expect("a load");
        assert_eq!(load.steps()[0].gpu_load, 0.25);
    }

    #[test]
    fn what_is_written_is_read_again() {
        for kind in super::super::KINDS {
            let load = kind.load(Duration::from_secs(200), 3);
            let again = Load::parse(load.to_csv().as_bytes()).ok();
            assert_eq!(again.as_ref(), Some(&load), "{}", kind.name());
        }
    }

    #[test]
    fn each_defect_is_named_with_its_line() {
        let columns = "the columns `t_ms,activity` or `t_ms,activity,gpu_load`";
        let cases = [
            ("", format!("1: ``, expected {columns}")),
            (
                "time,load\n0,1\n",
                format!("1: `time,load`, expected {columns}"),
            ),
            (
                "t_ms,activity\n",
                "1: no row, expected at least two rows; the last one marks the end".to_owned(),
            ),
            (
                "t_ms,activity\n0,1\n",
                "2: a single row, expected at least two rows; the last one marks the end"
                    .to_owned(),
            ),
            (
                "t_ms,activity\n0,1\n1000,\n",
                "3: an empty cell in `activity`, expected a number, 0 … 4".to_owned(),
            ),
            (
                "t_ms,activity\n0,1\n\n3000,1\n",
                "3: an empty line, expected 2 cells".to_owned(),
            ),
            (
                "t_ms,activity,gpu_load\n0,1\n",
                "2: `0,1`, expected 3 cells".to_owned(),
            ),
            (
                "t_ms,activity\n0,busy\n",
                "2: `busy` in `activity`, expected a number, 0 … 4".to_owned(),
            ),
            (
                "t_ms,activity\n0,NaN\n",
                "2: `NaN` in `activity`, expected a number, 0 … 4".to_owned(),
            ),
            (
                "t_ms,activity\n0,inf\n",
                "2: `inf` in `activity`, expected a number, 0 … 4".to_owned(),
            ),
            (
                "t_ms,activity\n0,4.01\n",
                "2: `4.01` in `activity`, expected a number, 0 … 4".to_owned(),
            ),
            (
                "t_ms,activity\n-1,1\n",
                "2: `-1` in `t_ms`, expected a number, 0 … 604800000".to_owned(),
            ),
            (
                "t_ms,activity,gpu_load\n0,1,1.1\n",
                "2: `1.1` in `gpu_load`, expected a number, 0 … 1".to_owned(),
            ),
            (
                "t_ms,activity\n10,1\n3000,1\n",
                "2: 10 ms, expected 0 ms in the first row".to_owned(),
            ),
            (
                "t_ms,activity\n0,1\n500,1\n500,0\n",
                "4: 500 ms, expected more than 500 ms, the time of the row before".to_owned(),
            ),
            (
                "t_ms,activity\n0,1\n1999,1\n",
                "3: the load ends at 1999 ms, expected at least 2000 ms".to_owned(),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(refused(text.as_bytes()), expected, "{text:?}");
        }
        assert_eq!(
            refused(b"t_ms,activity\n0,\xff\n"),
            "2: invalid bytes, expected UTF-8 text"
        );
    }
}
