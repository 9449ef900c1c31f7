//! Reads the corpus of a real board: the rows of one workload that have a time and a power. Columns that a recording does not
//! need are ignored.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use thiserror::Error;
use wattgate_board_tables::BoardError;

use super::NEIGHBOURS;
use crate::csv::{CsvError, Wrong, cells, lines, read};

/// The columns of the four knobs.
pub const KNOBS: [&str; 4] = ["cores", "cpu_khz", "gpu_khz", "emc_khz"];

/// A row of the workload, with what is stated of its knobs.
#[derive(Clone, Debug)]
pub struct Row {
    /// Counted from 1.
    pub line: usize,
    pub knobs: [Option<u32>; 4],
    pub time_ms: f64,
    pub power_mw: f64,
}

/// The rows of one workload.
#[derive(Clone, Debug)]
pub struct Corpus {
    pub path: PathBuf,
    /// The board; empty without the column `device`.
    pub device: String,
    /// The workload; empty without the column `workload`.
    pub workload: String,
    /// Samples in a minibatch, where the corpus states one number.
    pub minibatch: Option<u32>,
    /// At least one. A knob is stated in all of them or in none.
    pub rows: Vec<Row>,
    /// Number of rows that have no time or no power.
    pub left_out: usize,
}

/// Why a corpus cannot be played back.
#[derive(Debug, Error)]
pub enum RecordingError {
    /// The file cannot be read, or a line is wrong.
    #[error("{0}")]
    Csv(#[from] CsvError),
    /// The rows have times alone.
    #[error(
        "{}: no row has a power, expected `power_mw` in each: a recorded board plays back time and power, so take a corpus \
         with both",
        path.display()
    )]
    NoPower { path: PathBuf },
    /// No row has both.
    #[error("{}: no row has a time and a power, expected `time_ms` and `power_mw` in each", path.display())]
    NoRow { path: PathBuf },
    /// The file has several workloads.
    #[error("{}: the file has the workloads {}; pick one with --workload", path.display(), names.join(", "))]
    Workloads { path: PathBuf, names: Vec<String> },
    /// The file does not have the workload.
    #[error(
        "{}: the file has no workload `{asked}`; it has {}",
        path.display(),
        names.join(", ")
    )]
    NoWorkload {
        path: PathBuf,
        asked: String,
        names: Vec<String>,
    },
    /// The file does not say of which board it is.
    #[error("{}: the column `device` is missing or blank; name the board with --board", path.display())]
    NoDevice { path: PathBuf },
    /// The device is no board of ours.
    #[error("{}: `{device}` in `device` is no board that is known; name the board with --board", path.display())]
    UnknownDevice { path: PathBuf, device: String },
    /// The board of `--board` has another chip than that of the corpus.
    #[error(
        "{}: the corpus is of `{device}`, which has another chip than `{board}`; leave --board out",
        path.display()
    )]
    OtherChip {
        path: PathBuf,
        device: String,
        board: String,
    },
    /// The board of `--board` is unknown.
    #[error("{0}")]
    Board(#[from] BoardError),
    /// Nothing is known of the board but its clocks.
    #[error(
        "`{board}` cannot be played back: nothing is known of its rails and of what it draws at rest; there are {}",
        known.join(", ")
    )]
    NoPhysics { board: String, known: Vec<String> },
    /// A clock is blank, and the board has no table of it.
    #[error(
        "{}: `{column}` is blank, and no table of `{board}` is known; write the clock of the measurements into each row",
        path.display()
    )]
    NoClock {
        path: PathBuf,
        column: &'static str,
        board: String,
    },
    /// Too few modes are measured.
    #[error(
        "{}: modes with a time and a power: {modes}, expected at least {NEIGHBOURS}; measure more of the grid",
        path.display()
    )]
    Few { path: PathBuf, modes: usize },
}

/// A line of the file.
struct Line<'a> {
    number: usize,
    device: &'a str,
    workload: &'a str,
    minibatch: Option<u32>,
    knobs: [Option<u32>; 4],
    time_ms: Option<f64>,
    power_mw: Option<f64>,
}

impl Corpus {
    /// Reads the rows of a workload, or of the only workload.
    pub fn read(path: &Path, workload: Option<&str>) -> Result<Self, RecordingError> {
        // A line is named by `read`, what is wrong with the whole by the path.
        read(path, |bytes| {
            let lines = parse(bytes)?;
            chosen(path, &lines, workload)
        })?
    }
}

fn chosen(
    path: &Path,
    lines: &[Line<'_>],
    asked: Option<&str>,
) -> Result<Result<Corpus, RecordingError>, Wrong> {
    let path = path.to_owned();
    let names: BTreeSet<&str> = lines.iter().map(|line| line.workload).collect();
    let owned = || names.iter().copied().map(str::to_owned).collect();
    let workload = match (asked, names.len()) {
        (Some(asked), _) if names.contains(asked) => asked,
        (Some(asked), 1..) => {
            return Ok(Err(RecordingError::NoWorkload {
                path,
                asked: asked.to_owned(),
                names: owned(),
            }));
        }
        (None, 2..) => {
            return Ok(Err(RecordingError::Workloads {
                path,
                names: owned(),
            }));
        }
        _ => names.first().copied().unwrap_or_default(),
    };
    let of_workload = || lines.iter().filter(|line| line.workload == workload);
    let is_measured = |line: &&Line<'_>| line.time_ms.is_some() && line.power_mw.is_some();
    let Some(first) = of_workload().find(is_measured) else {
        let has_times = of_workload().any(|line| line.time_ms.is_some());
        let has_powers = of_workload().any(|line| line.power_mw.is_some());
        return Ok(Err(match has_times && !has_powers {
            true => RecordingError::NoPower { path },
            false => RecordingError::NoRow { path },
        }));
    };
    let mut corpus = Corpus {
        path,
        device: first.device.to_owned(),
        workload: workload.to_owned(),
        minibatch: first.minibatch,
        rows: Vec::new(),
        left_out: of_workload().filter(|line| !is_measured(line)).count(),
    };
    for line in of_workload().filter(is_measured) {
        check(first, line)?;
        if line.minibatch != corpus.minibatch {
            corpus.minibatch = None;
        }
        if let (Some(time_ms), Some(power_mw)) = (line.time_ms, line.power_mw) {
            corpus.rows.push(Row {
                line: line.number,
                knobs: line.knobs,
                time_ms,
                power_mw,
            });
        }
    }
    Ok(Ok(corpus))
}

/// Checks that a line is of the same board as the first one, and states the same knobs.
fn check(first: &Line<'_>, line: &Line<'_>) -> Result<(), Wrong> {
    if line.device != first.device {
        let found = format!("`{}` in `device`", line.device);
        let expected = format!(
            "`{}` as in line {}; keep the rows of one board",
            first.device, first.number
        );
        return Err(Wrong::new(line.number, found, expected));
    }
    for (column, knobs) in KNOBS.into_iter().zip(first.knobs.iter().zip(&line.knobs)) {
        let (found, expected) = match knobs {
            (None, Some(value)) => (format!("`{value}` in `{column}`"), "a blank"),
            (Some(_), None) => (format!("an empty cell in `{column}`"), "a value"),
            _ => continue,
        };
        let expected = format!("{expected} as in line {}", first.number);
        return Err(Wrong::new(line.number, found, expected));
    }
    Ok(())
}

/// The columns that a recording reads, by their places in a row.
struct Columns {
    number: usize,
    device: Option<usize>,
    workload: Option<usize>,
    kind: Option<usize>,
    minibatch: Option<usize>,
    knobs: [Option<usize>; 4],
    time_ms: usize,
    power_mw: usize,
}

impl Columns {
    fn of(header: &str) -> Result<Self, Wrong> {
        let names: Vec<&str> = header.split(',').map(str::trim).collect();
        let place = |name: &str| names.iter().position(|known| *known == name);
        let needed = |name: &str| {
            place(name).ok_or_else(|| {
                let expected =
                    "`time_ms` in ms and `power_mw` in mW, with commas between the columns";
                Wrong::new(1, format!("no `{name}` in the header"), expected)
            })
        };
        let columns = Self {
            number: names.len(),
            device: place("device"),
            workload: place("workload"),
            kind: place("kind"),
            minibatch: place("minibatch"),
            knobs: KNOBS.map(place),
            time_ms: needed("time_ms")?,
            power_mw: needed("power_mw")?,
        };
        match columns.knobs.iter().all(Option::is_none) {
            true => Err(Wrong::new(
                1,
                "no column of a knob",
                "`cores`, `cpu_khz`, `gpu_khz` and `emc_khz`",
            )),
            false => Ok(columns),
        }
    }
}

fn parse(bytes: &[u8]) -> Result<Vec<Line<'_>>, Wrong> {
    let (header, lines) = lines(bytes)?;
    let columns = Columns::of(header)?;
    lines
        .map(|(number, text)| line(number, &cells(number, text, columns.number)?, &columns))
        .collect()
}

fn line<'a>(number: usize, cells: &[&'a str], columns: &Columns) -> Result<Line<'a>, Wrong> {
    let cell = |at: Option<usize>| at.map_or("", |at| cells[at]);
    if !matches!(cell(columns.kind), "" | "measured") {
        let found = format!("`{}` in `kind`", cell(columns.kind));
        let expected = "`measured`: a recorded board plays back what a real one did";
        return Err(Wrong::new(number, found, expected));
    }
    let of = |name: &'static str, at: Option<usize>, measure: &Measure| {
        let value = quantity(number, name, cell(at), measure)?;
        Ok::<_, Wrong>(value.map(|value| value.round() as u32))
    };
    let mut knobs = [None; 4];
    for ((knob, name), at) in knobs.iter_mut().zip(KNOBS).zip(columns.knobs) {
        let measure = if name == "cores" { &COUNT } else { &CLOCK };
        *knob = of(name, at, measure)?;
    }
    Ok(Line {
        number,
        device: cell(columns.device),
        workload: cell(columns.workload),
        minibatch: of("minibatch", columns.minibatch, &COUNT)?,
        knobs,
        time_ms: quantity(number, "time_ms", cells[columns.time_ms], &TIME)?,
        power_mw: quantity(number, "power_mw", cells[columns.power_mw], &POWER)?,
    })
}

/// What the numbers of a column may be.
struct Measure {
    range: RangeInclusive<f64>,
    expected: &'static str,
}

const COUNT: Measure = Measure {
    range: 1.0..=1e6,
    expected: "a whole number above 0",
};

/// The clocks of all boards, of which none is in this range when it stands in MHz or Hz.
const CLOCK: Measure = Measure {
    range: 1e4..=1e7,
    expected: "a clock in kHz, 10000 … 10000000; multiply MHz by 1000, divide Hz by 1000",
};

const TIME: Measure = Measure {
    range: 1e-4..=4_294_967.0,
    expected: "a time in ms above 0, 4294967 at most; divide µs by 1000",
};

const POWER: Measure = Measure {
    range: 100.0..=1e6,
    expected: "a power in mW, 100 … 1000000; multiply W by 1000, divide µW by 1000",
};

/// The number in a cell; `None` in a blank one.
fn quantity(
    line: usize,
    column: &str,
    cell: &str,
    measure: &Measure,
) -> Result<Option<f64>, Wrong> {
    if cell.is_empty() {
        return Ok(None);
    }
    let number = cell.parse().ok();
    let within = number.filter(|number| measure.range.contains(number));
    match within {
        Some(number) => Ok(Some(number)),
        None => {
            let found = format!("`{cell}` in `{column}`");
            Err(Wrong::new(line, found, measure.expected))
        }
    }
}
