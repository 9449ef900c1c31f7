//! Kernel corpora: times and powers of kernels in power modes, on one or several units of a board.
//!
//! The columns are `device,unit,kernel,PARAMETERS,cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw` in any
//! order. A kernel has a name of [`wattgate_kernels::Kind::named`] and the parameters of
//! [`wattgate_kernels::Kind::parameters`]; those of other kernels are blank, and a column that no row
//! needs may be absent. `kernel_size`, `stride`, `padding` and `dilation` name both sides of a square
//! window, and `in_channels` is another name of `channels`. A knob that the board does not vary is blank
//! in all rows, or its column is absent. A blank time or power is unknown; a row has at least one of
//! both. The optional column `kind` (`measured`, the default, `simulated` or `recorded`) is the same in all rows.
//! Further columns are ignored. Repeats are rows of their own. The text may have any dialect of [`delimited`].
//!
//! Rows are streamed: memory grows by about a hundred bytes a row.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use thiserror::Error;
use wattgate_cli::delimited::columns::{AXIS_COLUMNS, Layout};
use wattgate_cli::delimited::fields::{Named, POWER, TIME, bad, count, kind, name, quantity, text};
use wattgate_cli::delimited::{self, FileError, Problem, Refusal, Table};
use wattgate_kernels::{Call, CallError, Kind, Parameter};

/// The columns that every file has.
const REQUIRED: [&str; 5] = ["device", "unit", "kernel", "time_ms", "power_mw"];

static LAYOUT: Layout = Layout {
    what: "a kernel corpus",
    columns: &REQUIRED,
    and: ", those of its kernels' parameters, and cores,cpu_khz,gpu_khz,emc_khz",
    optional: &AXIS_COLUMNS,
    has_blank_knobs: true,
};

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
    /// Measured, simulated or recorded.
    pub kind: wattgate_runtime::format::Kind,
    /// The names of the units, in the order of the rows.
    pub units: Vec<String>,
    /// The rows of each kernel, in the order of [`Kind::ALL`].
    pub rows: [Vec<Row>; Kind::ALL.len()],
}

/// A defect of a kernel corpus.
pub type KernelDefect = delimited::Defect<KernelProblem>;

/// Why kernel corpora could not be read.
pub type KernelCorpusError = FileError<KernelProblem>;

/// What is wrong with a kernel corpus.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum KernelProblem {
    /// As in any delimited text.
    #[error("{0}")]
    Text(#[from] Problem),
    /// Two columns say the same.
    #[error("says the same as another column of the header; delete one of them")]
    SaidTwice,
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
        defect: KernelDefect::whole(problem),
    }
}

/// Positions of the columns in a row.
struct Places {
    required: [usize; REQUIRED.len()],
    knobs: [Option<usize>; 4],
    parameters: [Option<usize>; Parameter::ALL.len()],
    kind: Option<usize>,
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
        let file = File::open(path).map_err(io)?;
        progress.inc_length(file.metadata().map_err(io)?.len());
        let table = Table::open(path, progress.wrap_read(file), &LAYOUT);
        let mut table = table.map_err(KernelCorpusError::from_text)?;
        let places = places(&table)?;
        while table.advance().map_err(KernelCorpusError::from_text)? {
            let row = self.take(&places, &table);
            row.map_err(|defect| table.refuse(defect))?;
        }
        Ok(())
    }

    fn take<R: Read>(&mut self, places: &Places, row: &Table<R>) -> Result<(), KernelDefect> {
        row.check()?;
        let trimmed = |column: usize| row.field(column);
        let required = |at: usize| (REQUIRED[at], trimmed(places.required[at]));
        let said = places.kind.map_or(&b""[..], trimmed);
        let kind = kind(("kind", said))?;
        self.same_board(required(0), kind)?;
        let unit = self.unit_of(required(1))?;
        let kernel = text(required(2))?;
        let kernel = Kind::named(kernel).ok_or_else(|| {
            let known = Kind::ALL.map(Kind::name).join(", ");
            bad("kernel", format!("one of {known}"), kernel)
        })?;
        let mut values = [None; Parameter::ALL.len()];
        for ((value, place), parameter) in
            values.iter_mut().zip(places.parameters).zip(Parameter::ALL)
        {
            let field = place.map_or(&b""[..], trimmed);
            // A square window's column has a value for kernels without windows, too.
            *value = number((parameter.name(), field))?
                .filter(|_| kernel.parameters().contains(&parameter));
        }
        let call = Call::from_parameters(kernel, |parameter| values[parameter as usize])
            .map_err(|why| KernelDefect::whole(why.into()))?;
        let mut knobs = [0; 4];
        for (at, column) in AXIS_COLUMNS.into_iter().enumerate() {
            let field = places.knobs[at].map_or(&b""[..], trimmed);
            let value = number((column, field))?;
            if value == Some(0) {
                let expected = "a whole number above zero, or a blank";
                return Err(bad(column, expected, "0").into());
            }
            let is_blank = value.is_none();
            if *self.blank[at].get_or_insert(is_blank) != is_blank {
                return Err(KernelDefect::of(column, KernelProblem::HalfBlank));
            }
            knobs[at] = value.unwrap_or(0);
        }
        let time_ms = quantity(required(3), &TIME)?;
        let power_mw = quantity(required(4), &POWER)?;
        if time_ms.is_none() && power_mw.is_none() {
            return Err(KernelDefect::whole(KernelProblem::NotMeasured));
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
    ) -> Result<(), KernelDefect> {
        let mixed = |column, first: String, found: String| {
            Err(KernelDefect::of(
                column,
                KernelProblem::Mixed { first, found },
            ))
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
                self.first = Some((name(device)?, kind));
                Ok(())
            }
        }
    }

    fn unit_of(&mut self, unit: Named<'_>) -> Result<u16, KernelDefect> {
        if let Some(known) = self.unit_of.get(unit.1) {
            return Ok(*known);
        }
        let named = name(unit)?;
        let at = u16::try_from(self.units.len());
        let at = at.map_err(|_| KernelDefect::of("unit", KernelProblem::TooManyUnits))?;
        self.units.push(named);
        self.unit_of.insert(unit.1.to_vec(), at);
        Ok(at)
    }

    fn finish(self, path: &Path) -> Result<KernelCorpus, KernelCorpusError> {
        let no_rows = || whole_file(path, Problem::NoRows.into());
        let (device, kind) = self.first.ok_or_else(no_rows)?;
        Ok(KernelCorpus {
            device,
            kind,
            units: self.units,
            rows: self.rows,
        })
    }
}

fn places<R: Read>(table: &Table<R>) -> Result<Places, KernelCorpusError> {
    let place = |name| table.optional(name).map_err(KernelCorpusError::from_text);
    let required = table.places(REQUIRED);
    let required = required.map_err(KernelCorpusError::from_text)?;
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
                return Err(table.refuse(KernelDefect::of(name, KernelProblem::SaidTwice)));
            }
        }
    }
    Ok(Places {
        required,
        knobs,
        parameters,
        kind: place("kind")?,
    })
}

/// A whole number, or `None` for a blank.
fn number(field: Named<'_>) -> Result<Option<u32>, Refusal> {
    match field.1 {
        b"" => Ok(None),
        _ => count(field, u32::MAX, "a whole number, or a blank").map(Some),
    }
}
