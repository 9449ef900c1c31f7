//! Corpora: profiled modes of one workload on one board, read from CSV.
//!
//! The columns are `device,workload,cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw` in any order, with commas,
//! semicolons, tabs or `|` between them ([`delimited`]). Lines that begin with `#` are comments. Repeats of a mode are
//! allowed; the median counts. If the board does not show a clock, its column is blank, or 1, in every row. A constant
//! number of cores may be blank, too. A blank time or power is unknown. A row with neither is a mode that was not
//! profiled, or a row that somebody forgot to fill in; the caller says which ([`Blank`]).
//!
//! The optional columns `kind` (`measured`, the default, `simulated` or `recorded`), `minibatch`, `tpc_pg_mask` and `unit` have the
//! same value in all rows. A `mark` says why a row has no measurement. The reader ignores further columns.
//!
//! Optional columns say how the workload was fed ([`fed`]): `workers`, `storage` and `epoch`, together
//! with `minibatch`, and where the time of a step went: `fetch_ms` is the wait for the loader,
//! `compute_ms` the time of the GPU. A corpus has one feeding; [`Corpus::read_fed`] reads a file of several.
//! It has one workload; of a file of several, [`Reading::workload`] names the one that is read.
//!
//! A clock of a board in the tables may be rounded to MHz ([`clocks`]). What is sound and yet probably not meant is
//! told by [`plausible::remarks`].
//!
//! `idle_mw` is the power of the idle board in the row's mode. Such a row needs neither time nor power.
//!
//! Rows are streamed: memory grows by eight bytes a row, sixteen with the parts of the step, however
//! long the row's text is.

pub mod clocks;
mod columns;
pub mod fed;
pub mod flat;
pub mod modes;
pub mod order;
pub mod plausible;
pub mod units;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressBarIter};
use thiserror::Error;
use wattgate_cli::delimited::fields::{
    Named, POWER, TIME, bad, clock, cores, kind, name, quantity, text,
};
use wattgate_cli::delimited::{self, FileError, Refusal, Table};
use wattgate_cli::planning::{MOST_REFERENCES, NOT_SHOWN};
use wattgate_runtime::fleet::UnitId;
use wattgate_runtime::format::Kind;
use wattgate_runtime::grid::{Axis, Grid, GridError, MAX_AXIS_VALUES, MAX_MODES};

use clocks::{ROUNDED_KHZ, table_clock};
use columns::Columns;
use fed::{Feeding, Parts};
use modes::contradiction;
use units::Units;

pub use columns::{COLUMNS, LAYOUT, OPTIONAL_COLUMNS};
pub use wattgate_cli::delimited::columns::AXIS_COLUMNS;
pub use wattgate_cli::delimited::fields::{MAX_TIME_MS, POWERS_MW, is_name};

/// What a row with neither time nor power is, if it has no mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blank {
    /// A mode of the board that was not profiled.
    Unprofiled,
    /// A defect: a row that was not filled in.
    Defect,
}

/// How a file is read.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// What a row with neither time nor power is.
    pub blank: Blank,
    /// The workload whose rows are read; `None` for a file of one.
    pub workload: Option<&'a str>,
}

impl From<Blank> for Reading<'_> {
    fn from(blank: Blank) -> Self {
        let workload = None;
        Self { blank, workload }
    }
}

/// Workloads that a message names: one, and as many as it can have as references.
pub const NAMED_WORKLOADS: usize = 1 + MOST_REFERENCES;

/// Profiled modes of one workload on one board.
#[derive(Clone, Debug)]
pub struct Corpus {
    /// Measured, simulated or recorded.
    pub kind: Kind,
    /// The board.
    pub device: String,
    /// The workload.
    pub workload: String,
    /// How the workload was fed.
    pub feeding: Feeding,
    /// Whether the file says how many cores were online. If not, its modes have [`NOT_SHOWN`].
    pub has_cores: bool,
    /// The TPCs of the GPU that were gated, one bit each; `None` where the file does not say.
    pub tpc_pg_mask: Option<u32>,
    /// The units of the board on which the modes were profiled.
    pub units: Units,
    /// The idle power of some modes, which need not be among `modes`.
    pub idle: Vec<IdleReading>,
    /// Rows read, including repeats and unprofiled modes.
    pub rows: u64,
    /// Every mode of the file, in ascending order of the knobs.
    pub modes: Vec<Profile>,
    /// The grid that these modes span.
    pub grid: Grid,
}

/// The power of the idle board in a mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IdleReading {
    /// Cores, CPU, GPU and EMC clock in kHz.
    pub knobs: [u32; 4],
    /// Its mean in mW.
    pub power_mw: f64,
}

/// The measurements of one mode.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Cores, CPU, GPU and EMC clock in kHz.
    pub knobs: [u32; 4],
    /// Times in ms, one per repeat with a time.
    pub times: Vec<f32>,
    /// Powers in mW, one per repeat with a power.
    pub powers: Vec<f32>,
    /// Waits for the loader in ms, one per repeat that tells it.
    pub fetches: Vec<f32>,
    /// Times of the GPU in ms, one per repeat that tells it.
    pub computes: Vec<f32>,
}

impl Profile {
    /// The median time in ms; `None` if the runs [disagree](contradiction).
    pub fn time(&self) -> Option<f64> {
        settled(&self.times)
    }

    /// The median power in mW; `None` if the runs [disagree](contradiction).
    pub fn power(&self) -> Option<f64> {
        settled(&self.powers)
    }

    /// The median wait for the loader in ms.
    pub fn fetch(&self) -> Option<f64> {
        median(&self.fetches)
    }

    /// The median time of the GPU in ms.
    pub fn compute(&self) -> Option<f64> {
        median(&self.computes)
    }
}

/// The median of runs that agree with it.
fn settled(runs: &[f32]) -> Option<f64> {
    median(runs).filter(|_| contradiction(runs).is_none())
}

/// The median; for an even count the mean of the two middle values.
pub(crate) fn median(values: &[f32]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f32::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some(f64::midpoint(f64::from(lower), f64::from(upper)))
}

/// A defect of a corpus file: its position and what was expected there.
pub type Defect = delimited::Defect<Problem>;

/// Why a corpus could not be read.
pub type CorpusError = FileError<Problem>;

/// The kinds of defects of a corpus file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// As in any delimited text.
    #[error("{0}")]
    Text(#[from] delimited::Problem),
    /// A row without time and power, where [`Blank::Defect`] was asked for.
    #[error(
        "neither time_ms nor power_mw; fill them in, delete the row, or skip such rows with --skip-blank"
    )]
    NotFilledIn,
    /// A clock is blank in some rows, and has a value in others.
    #[error(
        "blank in some rows; a clock that the board does not show is blank, or {NOT_SHOWN}, in every row"
    )]
    SometimesShown,
    /// The number of cores is blank in some rows, and has a value in others.
    #[error("blank in some rows; a constant number of cores may be blank, but then in every row")]
    SometimesCores,
    /// The file has several workloads.
    #[error(
        "`{found}` is another workload than that of the rows before; the file has {}: pick one with --workload, or write a \
         file for each", names.join(", ")
    )]
    SeveralWorkloads {
        found: String,
        /// The workloads of the file, at most [`NAMED_WORKLOADS`] and `…`.
        names: Vec<String>,
    },
    /// No row is of the workload that was asked for.
    #[error("no row of the workload `{asked}`; the file has {}", names.join(", "))]
    NoSuchWorkload { asked: String, names: Vec<String> },
    /// The file mixes boards, kinds or TPC masks.
    #[error(
        "expected `{first}` as in the rows before, found `{found}`: one file holds one workload on one board; write a file for each"
    )]
    Mixed { first: String, found: String },
    /// The file mixes units.
    #[error(
        "expected `{first}` as in the rows before, found `{found}`: one file holds one unit of the board; `fit` \
         takes several files"
    )]
    SeveralUnits { first: String, found: String },
    /// The file mixes feedings, where one was asked for.
    #[error(
        "expected `{first}` as in the rows before, found `{found}`: such a file is for `characterize`, \
         `advise` and `fit --minibatch`"
    )]
    SeveralFeedings { first: String, found: String },
    /// A part of a step that is longer than the step.
    #[error("{part} is longer than the step, {time}; correct one of them")]
    LongerThanStep { part: String, time: String },
    /// A part of a step without the time of the step.
    #[error("a part of a step is told, but no time_ms; fill it in, or leave the part blank")]
    PartWithoutStep,
    /// More modes or axis values than the runtime can hold.
    #[error("{0}")]
    TooLarge(GridError),
}

/// Corpora made of the rows without defects, and the defects of the other rows.
#[derive(Debug)]
pub struct Survey {
    /// The corpus of each feeding, at least one, of the rows without defects.
    pub corpora: Vec<Corpus>,
    /// The first defects, at most as many as the caller asked for.
    pub defects: Vec<Defect>,
    /// The number of all defects.
    pub defect_count: u64,
}

impl Corpus {
    /// Reads a file; fails at the first defect. A row without time and power is
    /// [`Blank::Unprofiled`]. `progress` counts bytes.
    pub fn read(path: &Path, progress: &ProgressBar) -> Result<Self, CorpusError> {
        Self::read_with(path, Blank::Unprofiled, progress)
    }

    /// As [`Corpus::read`], with the meaning of a row without time and power, and the workload.
    pub fn read_with<'a>(
        path: &Path,
        reading: impl Into<Reading<'a>>,
        progress: &ProgressBar,
    ) -> Result<Self, CorpusError> {
        let mut reader = Reader::open(path, reading.into(), progress)?;
        reader.read_all()?;
        reader.finish()
    }

    /// Reads a file of one or several feedings; fails at the first defect. Each feeding is a corpus
    /// with the grid of all of them, in the order of the file.
    pub fn read_fed<'a>(
        path: &Path,
        reading: impl Into<Reading<'a>>,
        progress: &ProgressBar,
    ) -> Result<Vec<Self>, CorpusError> {
        let mut reader = Reader::open(path, reading.into(), progress)?;
        reader.is_of_one_feeding = false;
        reader.read_all()?;
        reader.finish_all()
    }

    /// The corpus with other values of its knobs; a value without another stays. Modes that become one are repeats of it.
    /// The grid is that of the corpus.
    pub fn moved(&self, other: impl Fn(Axis, u32) -> Option<u32>) -> Self {
        let moved = |knobs: [u32; 4]| {
            std::array::from_fn(|at| other(Axis::ALL[at], knobs[at]).unwrap_or(knobs[at]))
        };
        let mut corpus = self.clone();
        corpus
            .idle
            .iter_mut()
            .for_each(|it| it.knobs = moved(it.knobs));
        corpus
            .modes
            .iter_mut()
            .for_each(|it| it.knobs = moved(it.knobs));
        corpus.modes.sort_by_key(|mode| mode.knobs);
        corpus.modes.dedup_by(|repeat, mode| {
            let is_repeat = repeat.knobs == mode.knobs;
            if is_repeat {
                mode.times.append(&mut repeat.times);
                mode.powers.append(&mut repeat.powers);
                mode.fetches.append(&mut repeat.fetches);
                mode.computes.append(&mut repeat.computes);
            }
            is_repeat
        });
        corpus
    }

    /// Reads a file of one or several feedings, skips rows with defects, and returns the first `keep` defects.
    pub fn survey(
        path: &Path,
        reading: Reading<'_>,
        keep: usize,
        progress: &ProgressBar,
    ) -> Result<Survey, CorpusError> {
        let mut reader = Reader::open(path, reading, progress)?;
        reader.is_of_one_feeding = false;
        let (mut defects, mut defect_count) = (Vec::new(), 0);
        while let Some(row) = reader.next()? {
            if let Err(defect) = row {
                defect_count += 1;
                if defects.len() < keep {
                    defects.push(defect);
                }
            }
        }
        let corpora = match (reader.finish_all(), defects.first()) {
            (Ok(corpora), _) => corpora,
            // If every row has a defect, the first defect says more than "no rows".
            (Err(CorpusError::Defect { path, .. }), Some(first)) => {
                let defect = first.clone();
                return Err(CorpusError::Defect { path, defect });
            }
            (Err(error), _) => return Err(error),
        };
        Ok(Survey {
            corpora,
            defects,
            defect_count,
        })
    }
}

/// The values that all rows of a file share.
struct Identity {
    device: String,
    workload: String,
    kind: Kind,
    tpc_pg_mask: Option<u32>,
    unit: Option<UnitId>,
}

/// Number of columns that state the identity and the feeding of a row.
const IDENTITY_COLUMNS: usize = 9;

/// The rows of one feeding.
struct OfFeeding {
    feeding: Feeding,
    rows: u64,
    modes: HashMap<[u32; 4], Profile>,
    idle: Vec<IdleReading>,
}

/// The workloads of a file.
struct Workloads<'a> {
    /// The one whose rows are read, if one is named.
    wanted: Option<&'a str>,
    /// Those of the rows so far, at most one more than a message names.
    names: Vec<String>,
}

impl Workloads<'_> {
    /// Keeps the name of a workload, and tells whether its rows are read.
    fn want(&mut self, workload: &[u8]) -> bool {
        let name = String::from_utf8_lossy(workload);
        if self.names.len() <= NAMED_WORKLOADS && !self.names.iter().any(|known| *known == name) {
            self.names.push(name.into_owned());
        }
        self.wanted
            .is_none_or(|wanted| wanted.as_bytes() == workload)
    }

    /// Their names for a message.
    fn named(&self) -> Vec<String> {
        let mut names = self.names.clone();
        if let Some(last) = names.get_mut(NAMED_WORKLOADS) {
            *last = "…".to_owned();
        }
        names
    }
}

struct Reader<'a> {
    path: PathBuf,
    blank: Blank,
    table: Table<ProgressBarIter<File>>,
    columns: Columns,
    /// The identity in the first row.
    identity: Option<Identity>,
    /// The raw fields of the row before that state identity and feeding, and the index of its feeding.
    before: Option<([Vec<u8>; IDENTITY_COLUMNS], usize)>,
    is_of_one_feeding: bool,
    workloads: Workloads<'a>,
    /// The tables of the board in the first row, if they are known.
    tables: Option<[Vec<u32>; 4]>,
    /// Whether the rows so far have a number of cores.
    has_cores: Option<bool>,
    fed: Vec<OfFeeding>,
    axes: [Vec<u32>; 4],
}

impl<'a> Reader<'a> {
    fn open(
        path: &Path,
        reading: Reading<'a>,
        progress: &ProgressBar,
    ) -> Result<Self, CorpusError> {
        let io = |source| CorpusError::Io {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(io)?;
        progress.set_length(file.metadata().map_err(io)?.len());
        let table = Table::open(path, progress.wrap_read(file), &LAYOUT);
        let table = table.map_err(CorpusError::from_text)?;
        let columns = Columns::find(&table).map_err(CorpusError::from_text)?;
        Ok(Self {
            path: path.to_owned(),
            blank: reading.blank,
            table,
            columns,
            identity: None,
            before: None,
            is_of_one_feeding: true,
            workloads: Workloads {
                wanted: reading.workload,
                names: Vec::new(),
            },
            tables: None,
            has_cores: None,
            fed: Vec::new(),
            axes: Default::default(),
        })
    }

    /// Reads all rows; fails at the first defect.
    fn read_all(&mut self) -> Result<(), CorpusError> {
        while let Some(row) = self.next()? {
            let Err(mut defect) = row else { continue };
            if let Problem::SeveralWorkloads { names, .. } = &mut defect.problem {
                while self.next()?.is_some() {}
                *names = self.workloads.named();
            }
            return Err(self.refuse(defect));
        }
        Ok(())
    }

    /// Reads the next row; `None` at the end of the file.
    fn next(&mut self) -> Result<Option<Result<(), Defect>>, CorpusError> {
        if !self.table.advance().map_err(CorpusError::from_text)? {
            return Ok(None);
        }
        let row = self.take_row();
        Ok(Some(row.map_err(|defect| self.table.locate(defect))))
    }

    fn take_row(&mut self) -> Result<(), Defect> {
        self.table.check()?;
        let trimmed = |column: usize| self.table.field(column);
        let field = |index: usize| (COLUMNS[index], trimmed(self.columns.required[index]));
        let optional = |index: usize| {
            let field = self.columns.optional[index].map(trimmed);
            (OPTIONAL_COLUMNS[index], field.unwrap_or_default())
        };
        let said = [
            field(0),
            field(1),
            optional(0),
            optional(1),
            optional(2),
            optional(3),
            optional(4),
            optional(5),
            optional(8),
        ];
        let workload = said[1].1;
        let is_new = |(fields, _): &([Vec<u8>; IDENTITY_COLUMNS], _)| fields[1] != workload;
        if self.before.as_ref().is_none_or(is_new) && !self.workloads.want(workload) {
            return Ok(());
        }
        // Nearly every row repeats what the row before says, so compare bytes before parsing.
        let repeats = |(fields, _): &([Vec<u8>; IDENTITY_COLUMNS], _)| {
            said.iter().zip(fields).all(|(a, b)| a.1 == b)
        };
        let repeated = self.before.as_ref().filter(|before| repeats(before));
        let new = match repeated {
            Some(_) => None,
            None => Some((
                identity(said)?,
                Feeding::parse([said[4], said[5], said[6], said[7]])?,
            )),
        };
        let (cores, is_blank) = cores(field(2))?;
        if self.has_cores == Some(is_blank) {
            return Err(Defect::of("cores", Problem::SometimesCores));
        }
        let mut knobs = [cores, clock(field(3))?, clock(field(4))?, clock(field(5))?];
        let time = quantity(field(6), &TIME)?;
        let power = quantity(field(7), &POWER)?;
        let parts = Parts::parse(optional(6), optional(7), time)?;
        let is_marked = || !optional(10).1.is_empty();
        let idle = quantity(optional(9), &POWER)?;
        let is_open = time.is_none() && power.is_none() && idle.is_none();
        if is_open && self.blank == Blank::Defect && !is_marked() {
            return Err(Defect::whole(Problem::NotFilledIn));
        }

        let at = match (repeated, new) {
            (Some((_, at)), _) => *at,
            (None, Some((found, feeding))) => {
                match &self.identity {
                    Some(first) => same(first, &found, &self.workloads)?,
                    None => {
                        self.tables = clocks::tables(&found.device);
                        self.identity = Some(found);
                    }
                }
                let said = said.map(|field| field.1.to_vec());
                let at = self.of_feeding(feeding)?;
                self.before = Some((said, at));
                at
            }
            (None, None) => unreachable!("what is not repeated is parsed"),
        };
        self.has_cores = Some(!is_blank);
        // A rounded clock of a board in the tables stands for the clock of its table.
        if let Some([_, tables @ ..]) = &self.tables {
            for (khz, table) in knobs[1..].iter_mut().zip(tables) {
                *khz = table_clock(table, *khz, ROUNDED_KHZ).unwrap_or(*khz);
            }
        }
        self.fed[at].rows += 1;
        if let Some(power_mw) = idle {
            let power_mw = f64::from(power_mw);
            self.fed[at].idle.push(IdleReading { knobs, power_mw });
            // The modes of the workload are those of the other rows.
            if time.is_none() && power.is_none() {
                return Ok(());
            }
        }
        let profile = self
            .profile(at, knobs)
            .map_err(|error| Defect::whole(Problem::TooLarge(error)))?;
        profile.times.extend(time);
        profile.powers.extend(power);
        profile.fetches.extend(parts.fetch);
        profile.computes.extend(parts.compute);
        Ok(())
    }

    /// The index of a feeding, which is added on first use.
    fn of_feeding(&mut self, feeding: Feeding) -> Result<usize, Defect> {
        let known = self.fed.iter().position(|fed| fed.feeding == feeding);
        if let Some(at) = known {
            return Ok(at);
        }
        if let (true, Some(first)) = (self.is_of_one_feeding, self.fed.first()) {
            return Err(first.feeding.differs(&feeding));
        }
        self.fed.push(OfFeeding {
            feeding,
            rows: 0,
            modes: HashMap::new(),
            idle: Vec::new(),
        });
        Ok(self.fed.len() - 1)
    }

    /// The profile of a mode, created on first use. Checks the size of the grid at once, so that
    /// a file with too many modes is refused before it fills the memory.
    fn profile(&mut self, at: usize, knobs: [u32; 4]) -> Result<&mut Profile, GridError> {
        match self.fed[at].modes.entry(knobs) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(new) => {
                let unseen = |axis: usize| !self.axes[axis].contains(&knobs[axis]);
                let lengths = [0, 1, 2, 3].map(|i| self.axes[i].len() + usize::from(unseen(i)));
                if lengths.iter().sum::<usize>() > MAX_AXIS_VALUES {
                    return Err(GridError::TooManyValues);
                }
                if lengths.iter().product::<usize>() > MAX_MODES as usize {
                    return Err(GridError::TooManyModes);
                }
                for (axis, knob) in self.axes.iter_mut().zip(knobs) {
                    if !axis.contains(&knob) {
                        axis.push(knob);
                    }
                }
                Ok(new.insert(Profile {
                    knobs,
                    times: Vec::new(),
                    powers: Vec::new(),
                    fetches: Vec::new(),
                    computes: Vec::new(),
                }))
            }
        }
    }

    fn refuse(&self, defect: Defect) -> CorpusError {
        CorpusError::Defect {
            path: self.path.clone(),
            defect,
        }
    }

    /// The corpus of a file of one feeding.
    fn finish(self) -> Result<Corpus, CorpusError> {
        let path = self.path.clone();
        let mut all = self.finish_all()?;
        match all.pop() {
            Some(corpus) => Ok(corpus),
            None => Err(CorpusError::Defect {
                path,
                defect: no_rows(),
            }),
        }
    }

    /// The corpora of all feedings, at least one.
    fn finish_all(mut self) -> Result<Vec<Corpus>, CorpusError> {
        self.axes.iter_mut().for_each(|axis| axis.sort_unstable());
        for (axis, column) in self.axes.iter().zip(AXIS_COLUMNS).skip(1) {
            if let [NOT_SHOWN, _, ..] = axis[..] {
                return Err(self.refuse(Defect::of(column, Problem::SometimesShown)));
            }
        }
        let grid = Grid::new(self.axes.each_ref().map(Vec::as_slice));
        let (Some(identity), Ok(grid)) = (&self.identity, grid) else {
            let mut defect = no_rows();
            let names = self.workloads.named();
            if let (Some(asked), false) = (self.workloads.wanted, names.is_empty()) {
                let asked = asked.to_owned();
                defect.problem = Problem::NoSuchWorkload { asked, names };
            }
            return Err(self.refuse(defect));
        };
        let has_cores = self.has_cores.unwrap_or(true);
        let fed = self.fed.into_iter().map(|fed| {
            let mut modes: Vec<Profile> = fed.modes.into_values().collect();
            modes.sort_unstable_by_key(|mode| mode.knobs);
            Corpus {
                kind: identity.kind,
                device: identity.device.clone(),
                workload: identity.workload.clone(),
                feeding: fed.feeding,
                has_cores,
                tpc_pg_mask: identity.tpc_pg_mask,
                units: Units::one(identity.unit),
                idle: fed.idle,
                rows: fed.rows,
                modes,
                grid: grid.clone(),
            }
        });
        Ok(fed.collect())
    }
}

/// A file without a row of values.
fn no_rows() -> Defect {
    Defect::whole(delimited::Problem::NoRows.into())
}

/// A mask as nvpmodel.conf has it: a decimal number.
fn mask(field: Named<'_>) -> Result<Option<u32>, Refusal> {
    match text(field)? {
        "" => Ok(None),
        text => match text.parse() {
            Ok(mask) => Ok(Some(mask)),
            Err(_) => Err(bad(field.0, "a mask as a decimal number, or a blank", text)),
        },
    }
}

/// The id of a unit, such as `8ff8117c`.
fn unit(field: Named<'_>) -> Result<Option<UnitId>, Refusal> {
    match text(field)? {
        "" => Ok(None),
        text => match UnitId::parse(text) {
            Some(id) => Ok(Some(id)),
            None => Err(bad(field.0, "8 hexadecimal digits, or a blank", text)),
        },
    }
}

fn identity(
    [device, workload, of_kind, of_mask, .., of_unit]: [Named<'_>; IDENTITY_COLUMNS],
) -> Result<Identity, Refusal> {
    Ok(Identity {
        device: name(device)?,
        workload: name(workload)?,
        kind: kind(of_kind)?,
        tpc_pg_mask: mask(of_mask)?,
        unit: unit(of_unit)?,
    })
}

fn same(first: &Identity, found: &Identity, workloads: &Workloads<'_>) -> Result<(), Defect> {
    let mixed = |column, first: &str, found: &str| {
        let (first, found) = (first.to_owned(), found.to_owned());
        Err(Defect::of(column, Problem::Mixed { first, found }))
    };
    let number = |value: Option<u32>| value.map_or(String::new(), |n| n.to_string());
    if first.device != found.device {
        return mixed("device", &first.device, &found.device);
    }
    if first.workload != found.workload {
        let problem = Problem::SeveralWorkloads {
            found: found.workload.clone(),
            names: workloads.named(),
        };
        return Err(Defect::of("workload", problem));
    }
    if first.kind != found.kind {
        return mixed("kind", &first.kind.to_string(), &found.kind.to_string());
    }
    if first.tpc_pg_mask != found.tpc_pg_mask {
        return mixed(
            "tpc_pg_mask",
            &number(first.tpc_pg_mask),
            &number(found.tpc_pg_mask),
        );
    }
    if first.unit != found.unit {
        let [first, found] =
            [first, found].map(|it| it.unit.map_or(String::new(), |id| id.to_string()));
        return Err(Defect::of("unit", Problem::SeveralUnits { first, found }));
    }
    Ok(())
}
