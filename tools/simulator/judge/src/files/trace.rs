//! Traces of the true power, as `wattgate-simulator board --trace` writes them.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use wattgate_cli::delimited::columns::Layout;
use wattgate_cli::delimited::fields::{bad, number};
use wattgate_cli::delimited::{Defect, FileError, Problem, Table};
use wattgate_simulated_board::machine::trace::Segment;

const COLUMNS: [&str; 4] = ["seconds", "watts", "calm_watts", "minibatches"];

static LAYOUT: Layout = Layout {
    what: "a trace",
    columns: &COLUMNS,
    ..Layout::NONE
};

/// Highest number in each column: some years, and more than any Jetson draws.
const MOST: [f64; 4] = [1e8, 1e4, 1e4, 1e12];

/// Reads a trace.
pub fn read(path: &Path) -> Result<Vec<Segment>, FileError> {
    parse(super::open(path, &LAYOUT)?)
}

fn parse<R: Read>(mut table: Table<R>) -> Result<Vec<Segment>, FileError> {
    let places = table.places(COLUMNS)?;
    let (mut until, mut done) = (Duration::ZERO, 0.0);
    table.rows(|row| -> Result<Segment, Defect> {
        // The last number may have lost digits.
        if row.is_cut() {
            return Err(Defect::whole(Problem::Cut));
        }
        let mut numbers = [0.0; COLUMNS.len()];
        for (at, value) in numbers.iter_mut().enumerate() {
            *value = number((COLUMNS[at], row.field(places[at])), MOST[at])?;
        }
        let [seconds, watts, calm_watts, minibatches] = numbers;
        let segment = Segment {
            until: Duration::from_secs_f64(seconds),
            watts,
            calm_watts,
            minibatches,
        };
        if segment.until <= until {
            let expected = "a later time than in the row before";
            return Err(bad(COLUMNS[0], expected, &seconds.to_string()).into());
        }
        if minibatches < done {
            let expected = "as many as in the row before, or more";
            return Err(bad(COLUMNS[3], expected, &minibatches.to_string()).into());
        }
        (until, done) = (segment.until, minibatches);
        Ok(segment)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattgate_simulated_board::machine::trace::HEADER;

    fn parsed(text: &str) -> Result<Vec<Segment>, String> {
        let table = Table::open(Path::new("trace.csv"), text.as_bytes(), &LAYOUT);
        table.and_then(parse).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_written_is_read_again() {
        assert_eq!(HEADER, COLUMNS.join(","));
        let trace: Vec<Segment> = (1..2000_u32)
            .map(|at| Segment {
                until: Duration::from_nanos(u64::from(at) * 123_456_789_123),
                watts: f64::from(at) / 7.0,
                calm_watts: f64::from(at).sqrt(),
                minibatches: f64::from(at / 3) * 1.1,
            })
            .collect();
        let lines: String = trace.iter().map(|segment| format!("{segment}\n")).collect();
        assert_eq!(parsed(&format!("{HEADER}\n{lines}")), Ok(trace));
    }

    #[test]
    fn each_defect_is_named_with_its_line() {
        for (lines, expected) in [
            (
                "0.03,9\n",
                "line 4: expected 4 fields as in the header, found 2; complete the row, or delete it",
            ),
            (
                "0.03,9,,2\n",
                "line 4: column `calm_watts`: expected a number, 0 … 10000, found ``",
            ),
            (
                "0.03,-9,9,2\n",
                "line 4: column `watts`: expected a number, 0 … 10000, found `-9`",
            ),
            (
                "0.02,9,9,2\n",
                "line 4: column `seconds`: expected a later time than in the row before, found `0.02`",
            ),
            (
                "0.03,9,9,0.9\n",
                "line 4: column `minibatches`: expected as many as in the row before, or more, found `0.9`",
            ),
            (
                "0.03,9,9,2",
                "line 4: the file ends within a line; copy the file again, or delete this line",
            ),
        ] {
            let text = format!("{HEADER}\n0.01,9,9,1\n0.02,9,9,1\n{lines}");
            assert_eq!(parsed(&text), Err(format!("trace.csv: {expected}")));
        }
    }
}
