//! Kernel corpora: times and powers of kernels in power modes, on one or several units of a board.
//!
//! The columns are `device,unit,kernel,PARAMETERS,cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw` in any
//! order. A kernel has a name of [`wattgate_kernels::Kind::named`] and the parameters of
//! [`wattgate_kernels::Kind::parameters`]; those of other kernels are blank, and a column that no row
//! needs may be absent. `kernel_size`, `stride`, `padding` and `dilation` name both sides of a square
//! window, and `in_channels` is another name of `channels`. A knob that the board does not vary is blank
//! in all rows, or its column is absent. A blank time or power is unknown; a row has at least one of
//! both. The optional column `kind` (`measured`, the default, or `simulated`) is the same in all rows.
//! Further columns are ignored. Repeats are rows of their own.
//!
//! Rows are streamed: memory grows by about a hundred bytes a row.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use csv::{ByteRecord, ReaderBuilder};
use indicatif::ProgressBar;
use thiserror::Error;
use wattgate_kernels::{Call, CallError, Kind, Parameter};

use wattgate_trainer::read::fields::{
    FieldError, Named, POWER, TIME, bad, csv_io, kind, name, quantity, text,
};
use wattgate_trainer::read::{AXIS_COLUMNS, CorpusError, Problem};

/// The columns that every file has.
const REQUIRED: [&str; 5] = ["device", "unit", "kernel", "time_ms", "power_mw"];

/// Columns that stand for other parameters' columns.
const OTHER_NAMES: [(&str, &[Parameter]); 5] = [
    ("in_channels", &[Parameter::Channels]),
    (
        "kernel_size",
        &[Parameter::WindowHeight, Parameter::WindowWidth],
    ),
    ("stride", &[Parameter::StrideHeight, Parameter::StrideWidth]),
    (
        "padding",
        &[Parameter::PaddingHeight, Parameter::PaddingWidth],
    ),
    (
        "dilation",
        &[Parameter::DilationHeight, Parameter::DilationWidth],
    ),
];

/// A measurement of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Index of the unit in [`KernelCorpus::units`].
    pub unit: u16,
    /// The kernel.
    pub call: Call,
    /// Cores, CPU, GPU and memory clock in kHz; 0 for a knob that the board does not vary.
    pub knobs: [u32; 4],
    /// Time of a call in ms, if it was measured.
    pub time_ms: Option<f32>,
    /// Power of the module in mW, if it was measured.
    pub power_mw: Option<f32>,
}

/// Measurements of kernels on units of one board.
#[derive(Clone, Debug)]
pub struct KernelCorpus {
    /// The board.
    pub device: String,
    /// Measured or simulated.
    pub kind: wattgate_runtime::format::Kind,
    /// The names of the units, in the order of the rows.
    pub units: Vec<String>,
    /// The rows of each kernel, in the order of [`Kind::ALL`].
    pub rows: [Vec<Row>; Kind::ALL.len()],
}

/// A defect of a kernel corpus.
#[derive(Debug, PartialEq, Eq)]
pub struct KernelDefect {
    /// The line, counted from one; `None` if the defect concerns the whole file.
    pub line: Option<u64>,
    /// The column's name.
    pub column: Option<String>,
    /// What is wrong.
    pub problem: KernelProblem,
}

impl fmt::Display for KernelDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if let Some(column) = &self.column {
            write!(f, "column `{column}`: ")?;
        }
        self.problem.fmt(f)
    }
}

/// What is wrong with a kernel corpus.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum KernelProblem {
    /// As in any corpus.
    #[error("{0}")]
    Field(Problem),
    /// The file has no text.
    #[error("the file is empty; expected a header with {}", REQUIRED.join(","))]
    Empty,
    /// A required column is missing.
    #[error("missing; add it: a kernel corpus has the columns {}, those of its kernels' parameters, and {}", REQUIRED.join(","), AXIS_COLUMNS.join(","))]
    MissingColumn,
    /// Two columns say the same.
    #[error("says the same as another column of the header; delete one of them")]
    SaidTwice,
    /// No kernel has this name.
    #[error("expected one of {}, found `{found}`", Kind::ALL.map(Kind::name).join(", "))]
    NoSuchKernel { found: String },
    /// The parameters make no call.
    #[error("{0}")]
    Call(#[from] CallError),
    /// A knob is blank in some rows only.
    #[error(
        "blank in some rows and not in others; fill it in, or clear it in all rows if the board does not vary it"
    )]
    HalfBlank,
    /// Rows of another board.
    #[error(
        "expected `{first}` as in the rows before, found `{found}`: a kernel model is of one board; write a file for each board"
    )]
    Mixed { first: String, found: String },
    /// Neither time nor power.
    #[error("neither time_ms nor power_mw; fill one in, or delete the row")]
    NotMeasured,
    /// The same file twice.
    #[error("the file is named twice; name it once")]
    Twice,
    /// More units than 16 bits can count.
    #[error("more than {} units; leave some out", u16::MAX)]
    TooManyUnits,
}

/// Why kernel corpora could not be read.
#[derive(Debug, Error)]
pub enum KernelCorpusError {
    /// A file cannot be opened or read.
    #[error("{}: cannot read: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// The first defect.
    #[error("{}: {defect}", path.display())]
    Defect { path: PathBuf, defect: KernelDefect },
}

impl KernelCorpus {
    /// Reads one or several files of one board. A unit may have rows in several of them. Fails at the first
    /// defect. `progress` counts bytes.
    pub fn read(paths: &[PathBuf], progress: &ProgressBar) -> Result<Self, KernelCorpusError> {
        let mut builder = Builder::default();
        for (at, path) in paths.iter().enumerate() {
            let same = |other: &PathBuf| {
                let both = path.canonicalize().ok().zip(other.canonicalize().ok());
                both.is_some_and(|(one, other)| one == other)
            };
            if paths[..at].iter().any(same) {
                return Err(whole_file(path, KernelProblem::Twice));
            }
            builder.read(path, progress)?;
        }
        let last = paths.last().map_or(Path::new(""), PathBuf::as_path);
        builder.finish(last)
    }

    /// The number of rows of all kernels.
    pub fn len(&self) -> usize {
        self.rows.iter().map(Vec::len).sum()
    }

    /// Whether the corpus has no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The index of a unit.
    pub fn unit(&self, name: &str) -> Option<u16> {
        let at = self.units.iter().position(|unit| unit == name)?;
        u16::try_from(at).ok()
    }
}

fn whole_file(path: &Path, problem: KernelProblem) -> KernelCorpusError {
    KernelCorpusError::Defect {
        path: path.to_owned(),
        defect: KernelDefect {
            line: None,
            column: None,
            problem,
        },
    }
}

/// Positions of the columns in a row.
struct Places {
    required: [usize; REQUIRED.len()],
    knobs: [Option<usize>; 4],
    parameters: [Option<usize>; Parameter::ALL.len()],
    kind: Option<usize>,
    fields: usize,
}

#[derive(Default)]
struct Builder {
    /// The device and the kind of the first row.
    first: Option<(String, wattgate_runtime::format::Kind)>,
    /// For each knob, whether it is blank.
    blank: [Option<bool>; 4],
    units: Vec<String>,
    unit_of: HashMap<Vec<u8>, u16>,
    rows: [Vec<Row>; Kind::ALL.len()],
}

impl Builder {
    fn read(&mut self, path: &Path, progress: &ProgressBar) -> Result<(), KernelCorpusError> {
        let io = |source| KernelCorpusError::Io {
            path: path.to_owned(),
            source,
        };
        let of_csv = |error| match csv_io(path, error) {
            CorpusError::Io { source, .. } => io(source),
            CorpusError::Defect { .. } => unreachable!("an error of the operating system"),
        };
        let file = File::open(path).map_err(io)?;
        progress.inc_length(file.metadata().map_err(io)?.len());
        let mut csv = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .buffer_capacity(1 << 16)
            .from_reader(progress.wrap_read(file));
        let mut record = ByteRecord::new();
        if !csv.read_byte_record(&mut record).map_err(of_csv)? {
            return Err(whole_file(path, KernelProblem::Empty));
        }
        record.trim();
        let places = places(&record).map_err(|(column, problem)| KernelCorpusError::Defect {
            path: path.to_owned(),
            defect: KernelDefect {
                line: Some(1),
                column: Some(column.to_owned()),
                problem,
            },
        })?;
        while csv.read_byte_record(&mut record).map_err(of_csv)? {
            if let Err((column, problem)) = self.take(&places, &record) {
                return Err(KernelCorpusError::Defect {
                    path: path.to_owned(),
                    defect: KernelDefect {
                        line: record.position().map(csv::Position::line),
                        column: column.map(str::to_owned),
                        problem,
                    },
                });
            }
        }
        Ok(())
    }

    fn take(
        &mut self,
        places: &Places,
        record: &ByteRecord,
    ) -> Result<(), (Option<&'static str>, KernelProblem)> {
        let of_field = |(column, problem): FieldError| (column, KernelProblem::Field(problem));
        let (expected, found) = (places.fields as u64, record.len() as u64);
        if expected != found {
            return Err((
                None,
                KernelProblem::Field(Problem::FieldCount {
                    expected,
                    found,
                    advice: None,
                }),
            ));
        }
        let trimmed = |column: usize| record[column].trim_ascii();
        let required = |at: usize| (REQUIRED[at], trimmed(places.required[at]));
        let said = places.kind.map_or(&b""[..], trimmed);
        let kind = kind(("kind", said)).map_err(of_field)?;
        self.same_board(required(0), kind)?;
        let unit = self.unit_of(required(1))?;
        let kernel = text(required(2)).map_err(of_field)?;
        let kernel = Kind::named(kernel).ok_or_else(|| {
            let found = kernel.chars().take(40).collect();
            (Some("kernel"), KernelProblem::NoSuchKernel { found })
        })?;
        let mut values = [None; Parameter::ALL.len()];
        for ((value, place), parameter) in
            values.iter_mut().zip(places.parameters).zip(Parameter::ALL)
        {
            let field = place.map_or(&b""[..], trimmed);
            // A square window's column has a value for kernels without windows, too.
            *value = number((parameter.name(), field))
                .map_err(of_field)?
                .filter(|_| kernel.parameters().contains(&parameter));
        }
        let call = Call::from_parameters(kernel, |parameter| values[parameter as usize])
            .map_err(|why| (None, KernelProblem::Call(why)))?;
        let mut knobs = [0; 4];
        for (at, column) in AXIS_COLUMNS.into_iter().enumerate() {
            let field = places.knobs[at].map_or(&b""[..], trimmed);
            let value = number((column, field)).map_err(of_field)?;
            if value == Some(0) {
                let expected = "a whole number above zero, or a blank";
                return Err(of_field(bad(column, expected, "0")));
            }
            let is_blank = value.is_none();
            if *self.blank[at].get_or_insert(is_blank) != is_blank {
                return Err((Some(column), KernelProblem::HalfBlank));
            }
            knobs[at] = value.unwrap_or(0);
        }
        let time_ms = quantity(required(3), &TIME).map_err(of_field)?;
        let power_mw = quantity(required(4), &POWER).map_err(of_field)?;
        if time_ms.is_none() && power_mw.is_none() {
            return Err((None, KernelProblem::NotMeasured));
        }
        self.rows[kernel as usize].push(Row {
            unit,
            call,
            knobs,
            time_ms,
            power_mw,
        });
        Ok(())
    }

    fn same_board(
        &mut self,
        device: Named<'_>,
        kind: wattgate_runtime::format::Kind,
    ) -> Result<(), (Option<&'static str>, KernelProblem)> {
        let mixed = |column, first: String, found: String| {
            Err((Some(column), KernelProblem::Mixed { first, found }))
        };
        match &self.first {
            Some((first, _)) if first.as_bytes() != device.1 => {
                let found = String::from_utf8_lossy(device.1);
                mixed("device", first.clone(), found.chars().take(40).collect())
            }
            Some((_, first)) if *first != kind => {
                mixed("kind", first.to_string(), kind.to_string())
            }
            Some(_) => Ok(()),
            None => {
                let device = name(device)
                    .map_err(|(column, problem)| (column, KernelProblem::Field(problem)))?;
                self.first = Some((device, kind));
                Ok(())
            }
        }
    }

    fn unit_of(&mut self, unit: Named<'_>) -> Result<u16, (Option<&'static str>, KernelProblem)> {
        if let Some(known) = self.unit_of.get(unit.1) {
            return Ok(*known);
        }
        let named =
            name(unit).map_err(|(column, problem)| (column, KernelProblem::Field(problem)))?;
        let at = u16::try_from(self.units.len());
        let at = at.map_err(|_| (Some("unit"), KernelProblem::TooManyUnits))?;
        self.units.push(named);
        self.unit_of.insert(unit.1.to_vec(), at);
        Ok(at)
    }

    fn finish(self, path: &Path) -> Result<KernelCorpus, KernelCorpusError> {
        let no_rows = || whole_file(path, KernelProblem::Field(Problem::NoRows));
        let (device, kind) = self.first.ok_or_else(no_rows)?;
        Ok(KernelCorpus {
            device,
            kind,
            units: self.units,
            rows: self.rows,
        })
    }
}

fn places(header: &ByteRecord) -> Result<Places, (&'static str, KernelProblem)> {
    let place = |name: &'static str| {
        let mut places = header.iter().enumerate();
        let mut places = places
            .by_ref()
            .filter(|(_, field)| *field == name.as_bytes());
        let first = places.next().map(|(place, _)| place);
        match places.next() {
            Some(_) => Err((name, KernelProblem::Field(Problem::DuplicateColumn))),
            None => Ok(first),
        }
    };
    let mut required = [0; REQUIRED.len()];
    for (slot, name) in required.iter_mut().zip(REQUIRED) {
        *slot = place(name)?.ok_or((name, KernelProblem::MissingColumn))?;
    }
    let mut knobs = [None; 4];
    for (slot, name) in knobs.iter_mut().zip(AXIS_COLUMNS) {
        *slot = place(name)?;
    }
    let mut parameters = [None; Parameter::ALL.len()];
    let direct = Parameter::ALL.map(|parameter| (parameter.name(), [parameter]));
    let direct = direct
        .iter()
        .map(|(name, parameters)| (*name, &parameters[..]));
    for (name, stands_for) in direct.chain(OTHER_NAMES) {
        let Some(found) = place(name)? else {
            continue;
        };
        for parameter in stands_for {
            let slot = &mut parameters[*parameter as usize];
            if slot.replace(found).is_some() {
                return Err((name, KernelProblem::SaidTwice));
            }
        }
    }
    Ok(Places {
        required,
        knobs,
        parameters,
        kind: place("kind")?,
        fields: header.len(),
    })
}

/// A whole number, or `None` for a blank; also accepts the form `4.0`, which spreadsheets write.
fn number(field: Named<'_>) -> Result<Option<u32>, FieldError> {
    let text = text(field)?;
    if text.is_empty() {
        return Ok(None);
    }
    let digits = text.trim_end_matches('0').strip_suffix('.').unwrap_or(text);
    let value = digits.parse().ok();
    value
        .map(Some)
        .ok_or_else(|| bad(field.0, "a whole number, or a blank", text))
}
