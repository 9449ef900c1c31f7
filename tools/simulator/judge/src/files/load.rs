//! Loads in files.
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
//! row marks the end of the load. The text may have any dialect of [`wattgate_cli::delimited`].

use std::fmt::Write;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use wattgate_cli::delimited::columns::Layout;
use wattgate_cli::delimited::fields::{bad, number};
use wattgate_cli::delimited::{Defect, FileError, Table};
use wattgate_simulated_board::load::{Load, MOST_ACTIVITY, Step};

const TIME: &str = "t_ms";
const GPU_LOAD: &str = "gpu_load";

static LAYOUT: Layout = Layout {
    what: "a load",
    columns: &[TIME, "activity"],
    optional: &[GPU_LOAD],
    ..Layout::NONE
};

/// Latest time of a row in ms: one week.
const LATEST_MS: f64 = 7.0 * 24.0 * 3.6e6;

/// Minimum duration of a load in ms: one second of start-up, in which power is not counted, and two
/// windows of 430 ms.
const SHORTEST_MS: f64 = 2_000.0;

/// Reads a load.
pub fn read(path: &Path) -> Result<Load, FileError> {
    parse(super::open(path, &LAYOUT)?)
}

fn parse<R: Read>(mut table: Table<R>) -> Result<Load, FileError> {
    let [time, activity] = table.places([TIME, "activity"])?;
    let gpu_load = table.optional(GPU_LOAD)?;
    let mut before: Option<f64> = None;
    let mut steps = table.rows(|row| -> Result<Step, Defect> {
        let value = |column, place, most| number((column, row.field(place)), most);
        let ms = value(TIME, time, LATEST_MS)?;
        let step = Step::new(
            Duration::from_micros((1e3 * ms).round() as u64),
            value("activity", activity, MOST_ACTIVITY)?,
        );
        let expected = match before {
            None if step.from > Duration::ZERO => Some("0, the start of the load".to_owned()),
            Some(before) if step.from <= Duration::from_secs_f64(before / 1e3) => {
                Some(format!("more than {before}, the time of the row before"))
            }
            _ => None,
        };
        if let Some(expected) = expected {
            return Err(bad(TIME, expected, &ms.to_string()).into());
        }
        before = Some(1e3 * step.from.as_secs_f64());
        match gpu_load {
            None => Ok(step),
            Some(place) => Ok(Step {
                gpu_load: value(GPU_LOAD, place, 1.0)?,
                ..step
            }),
        }
    })?;
    let end = steps.pop().map_or(Duration::ZERO, |row| row.from);
    let end_ms = 1e3 * end.as_secs_f64();
    if end_ms < SHORTEST_MS {
        let expected = format!("{SHORTEST_MS} or more in the last row, the end of the load");
        return Err(table.refuse(bad(TIME, expected, &end_ms.to_string()).into()));
    }
    Ok(Load::new(steps, end))
}

/// The load as the text of a file.
pub fn to_csv(load: &Load) -> String {
    let mut text = format!("{TIME},activity,{GPU_LOAD}\n");
    let last = load.steps().last().map(|last| Step {
        from: load.length(),
        ..*last
    });
    for step in load.steps().iter().copied().chain(last) {
        let ms = 1e3 * step.from.as_secs_f64();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{ms},{},{}", step.activity, step.gpu_load);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattgate_simulated_board::load::KINDS;

    fn parsed(text: &str) -> Result<Load, String> {
        let table = Table::open(Path::new("load.csv"), text.as_bytes(), &LAYOUT);
        table.and_then(parse).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_with_and_without_the_gpus_load_is_read() {
        let load = parsed("t_ms,activity\n0,1.5\n250.5,0\n3000,9e-1\n").expect("a load");
        assert_eq!(load.length(), Duration::from_secs(3));
        let [first, second] = load.steps() else {
            panic!("{load:?}");
        };
        assert_eq!((first.activity, first.gpu_load), (1.5, 1.0));
        assert_eq!(second.from, Duration::from_micros(250_500));
        for text in [
            "\u{feff}t_ms,activity,gpu_load\r\n0, 1, 0.25\r\n3000,0,0\r\n",
            "# from a log\ngpu_load;t_ms;activity;note\n0.25;0;1;a, b\n\n0;3000;0;\n",
        ] {
            assert_eq!(parsed(text).expect("a load").steps()[0].gpu_load, 0.25);
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for kind in KINDS {
            let load = kind.load(Duration::from_secs(200), 3);
            assert_eq!(parsed(&to_csv(&load)), Ok(load), "{}", kind.name());
        }
    }

    #[test]
    fn each_defect_is_named_with_its_line() {
        for (text, expected) in [
            (
                "",
                "the file is empty; expected a header with the columns t_ms,activity",
            ),
            (
                "time,load\n0,1\n",
                "line 1: column `t_ms`: missing; a load has the columns t_ms,activity",
            ),
            ("t_ms,activity\n", "no rows after the header"),
            (
                "t_ms,activity\n0,1\n",
                "line 2: column `t_ms`: expected 2000 or more in the last row, the end of the load, found `0`",
            ),
            (
                "t_ms,activity\n0,1\n1000,\n",
                "line 3: column `activity`: expected a number, 0 … 4, found ``",
            ),
            (
                "t_ms,activity,gpu_load\n0,1\n",
                "line 2: expected 3 fields as in the header, found 2; complete the row, or delete it",
            ),
            (
                "t_ms,activity\n0,busy\n",
                "line 2: column `activity`: expected a number, 0 … 4, found `busy`",
            ),
            (
                "t_ms,activity\n0,inf\n",
                "line 2: column `activity`: expected a number, 0 … 4, found `inf`",
            ),
            (
                "t_ms,activity\n0,4.01\n",
                "line 2: column `activity`: expected a number, 0 … 4, found `4.01`",
            ),
            (
                "t_ms,activity\n-1,1\n",
                "line 2: column `t_ms`: expected a number, 0 … 604800000, found `-1`",
            ),
            (
                "t_ms,activity,gpu_load\n0,1,1.1\n",
                "line 2: column `gpu_load`: expected a number, 0 … 1, found `1.1`",
            ),
            (
                "t_ms,activity\n10,1\n3000,1\n",
                "line 2: column `t_ms`: expected 0, the start of the load, found `10`",
            ),
            (
                "t_ms,activity\n0,1\n500,1\n500,0\n",
                "line 4: column `t_ms`: expected more than 500, the time of the row before, found `500`",
            ),
            (
                "t_ms,activity\n0,1\n1999,1\n",
                "line 3: column `t_ms`: expected 2000 or more in the last row, the end of the load, found `1999`",
            ),
        ] {
            assert_eq!(parsed(text), Err(format!("load.csv: {expected}")));
        }
    }
}
