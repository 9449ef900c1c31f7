//! The corpus file: a row for each mode, measured or with a `mark` that says why not.
//!
//! Some columns are for the trainer, the others tell how good a row is. A row with a `mark` has neither
//! time nor power, so the trainer does not use it.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use wattgate_runtime::format::Kind;
use wattgate_runtime::{Kilohertz, PowerMode};

use crate::name::is_name;
use crate::window::Measured;

/// Why a mode has no measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// The power exceeded the limit.
    OverLimit,
    /// The board refused the mode.
    Refused,
    /// Cooling, firmware or over-current protection slowed the clocks.
    Throttled,
    /// Another program changed the clocks.
    Changed,
    /// No step in a minute.
    Stalled,
    /// The idle board was measured, before the workload started: see [`Row::idle_mw`].
    Idle,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OverLimit => "over the limit",
            Self::Refused => "refused by the board",
            Self::Throttled => "throttled by heat or firmware",
            Self::Changed => "changed by another program",
            Self::Stalled => "no step in a minute",
            Self::Idle => "idle",
        })
    }
}

/// How a workload is fed, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Feeding {
    /// Samples in a step, above zero.
    pub minibatch: Option<u32>,
    /// Loader workers, at most [`MAX_WORKERS`].
    pub workers: Option<u32>,
    /// Storage of the data set: a name of 1 to 64 characters.
    pub storage: Option<String>,
    /// 0 for the first epoch, which fills the page cache.
    pub epoch: Option<u32>,
}

/// Most loader workers that the trainer takes.
pub const MAX_WORKERS: u32 = 1_024;

/// A clock below this share of its clock is throttled.
const DELIVERED: f64 = 0.9;

/// Whether a true clock is that of a mode.
pub fn is_delivered(clock: Kilohertz, of_mode: Kilohertz) -> bool {
    f64::from(clock.0) >= DELIVERED * f64::from(of_mode.0)
}

/// A row of the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub kind: Kind,
    pub device: String,
    pub workload: String,
    /// The TPCs of the GPU that were gated, one bit each; `None` on boards without the file.
    pub tpc_pg_mask: Option<u32>,
    /// The id of the unit; `None` without a serial number.
    pub unit: Option<String>,
    pub cores: u32,
    pub cpu_khz: u32,
    pub gpu_khz: u32,
    pub emc_khz: u32,
    /// Time of a step; `None` with a mark.
    pub time_ms: Option<f64>,
    /// Mean power; `None` with a mark.
    pub power_mw: Option<f64>,
    /// Parts of the time in which a step waits for its data and in which the GPU computes; `None` where the
    /// workload does not tell them.
    pub fetch_ms: Option<f64>,
    pub compute_ms: Option<f64>,
    /// How the workload was fed: [`Feeding`].
    pub minibatch: Option<u32>,
    pub workers: Option<u32>,
    pub storage: Option<String>,
    pub epoch: Option<u32>,
    /// Steps in the window.
    pub steps: u64,
    /// Length of the window, and its end since the start of the session.
    pub window_ms: f64,
    pub end_s: f64,
    /// Relative standard errors of the two means, in percent.
    pub time_spread_pct: Option<f64>,
    pub power_spread_pct: Option<f64>,
    /// Temperature of the hottest zone at the end, in °C.
    pub temperature_c: Option<f64>,
    /// True clock of the slowest CPU cluster, the median of the samples.
    pub delivered_cpu_khz: Option<u32>,
    /// Events of the over-current protection in the window.
    pub over_current: u64,
    /// Highest estimated power, in mW.
    pub peak_mw: f64,
    /// Mean power before the workload started; `None` unless the mark says so.
    pub idle_mw: Option<f64>,
    /// What the mode measured with clocks that Linux may lower; `None` without `--caps`.
    pub capped_time_ms: Option<f64>,
    pub capped_power_mw: Option<f64>,
    pub capped_idle_mw: Option<f64>,
    /// Why there is no measurement.
    pub mark: Option<Mark>,
}

impl Row {
    /// The mode.
    pub fn mode(&self) -> PowerMode {
        PowerMode {
            cores: self.cores,
            cpu: Kilohertz(self.cpu_khz),
            gpu: Kilohertz(self.gpu_khz),
            emc: Kilohertz(self.emc_khz),
        }
    }

    /// How the workload was fed.
    pub fn feeding(&self) -> Feeding {
        Feeding {
            minibatch: self.minibatch,
            workers: self.workers,
            storage: self.storage.clone(),
            epoch: self.epoch,
        }
    }

    /// Enters how the workload was fed.
    pub fn feed(&mut self, feeding: Feeding) {
        Feeding {
            minibatch: self.minibatch,
            workers: self.workers,
            storage: self.storage,
            epoch: self.epoch,
        } = feeding;
    }

    /// Whether the firmware slowed the CPU or halved clocks in the window.
    pub fn is_throttled(&self) -> bool {
        let is_slow = |khz: u32| !is_delivered(Kilohertz(khz), Kilohertz(self.cpu_khz));
        self.over_current > 0 || self.delivered_cpu_khz.is_some_and(is_slow)
    }

    /// Enters a measurement.
    pub fn measure(&mut self, measured: &Measured) {
        // Spreads to 0.01 %, times and powers to five digits and more.
        let percent = |spread: Option<f64>| spread.map(|it| (1e4 * it).round() / 100.0);
        self.steps = measured.steps;
        self.window_ms = measured.length.as_millis() as f64;
        self.end_s = measured.end.as_millis() as f64 / 1e3;
        let ms = |time: f64| (1e4 * time).round() / 1e4;
        self.time_ms = Some(ms(measured.time_ms));
        // Never more than the step, of which the trainer would make an error.
        let most = measured.time_ms;
        self.fetch_ms = measured.fetch_ms.map(|fetch| ms(fetch.min(most)));
        let left = most - self.fetch_ms.unwrap_or(0.0);
        self.compute_ms = measured
            .compute_ms
            .map(|compute| ms(compute.min(left).max(0.0)));
        self.power_mw = Some((10.0 * measured.power_mw).round() / 10.0);
        self.time_spread_pct = percent(measured.time_spread);
        self.power_spread_pct = percent(measured.power_spread);
    }
}

/// Why the file cannot be used.
#[derive(Debug, Error)]
pub enum CorpusError {
    /// The system refuses.
    #[error("{}: the corpus cannot be read or written: {source}; name another file with -o", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// The file is no corpus of this program.
    #[error("{}: {why}; name another file with -o, or move this one away", path.display())]
    Defect { path: PathBuf, why: String },
    /// The file has rows of something else, which would mix with those to come.
    #[error("{}: line {line} is of {what} `{found}`, expected `{expected}`; {}", path.display(), what.advice(found))]
    Other {
        path: PathBuf,
        line: u64,
        what: Of,
        found: String,
        expected: String,
    },
    /// The file is of an earlier version, which did not write how a workload is fed.
    #[error(
        "{}: an earlier version of wattgate made it, without the columns minibatch, workers, storage and \
         epoch; name another file with -o, or leave out --minibatch, --workers, --storage and --epoch",
        path.display()
    )]
    NotFed { path: PathBuf },
}

/// What all rows of a file are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    Board,
    Workload,
    /// The TPCs of its GPU that are gated.
    Mask,
    Unit,
}

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Board => "board",
            Self::Workload => "workload",
            Self::Mask => "TPC_PG_MASK",
            Self::Unit => "unit",
        })
    }
}

impl Of {
    /// What to do about a file with rows of something else.
    fn advice(self, found: &str) -> String {
        match self {
            Self::Workload if is_name(found) => {
                format!(
                    "name another file with -o, or say --name {found} if it is the same workload"
                )
            }
            Self::Workload => "name another file with -o".to_owned(),
            Self::Board | Self::Mask | Self::Unit => {
                "name another file with -o, or move this one away".to_owned()
            }
        }
    }
}

/// What the rows of a session are of.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    pub device: &'a str,
    /// `None` as long as the workload may tell another name.
    pub workload: Option<&'a str>,
    pub tpc_pg_mask: Option<u32>,
    pub unit: Option<&'a str>,
}

impl Origin<'_> {
    /// What a row is of that this is not, with what the row has and what this has. A file `has_units` or not.
    fn differs(&self, row: &Row, has_units: bool) -> Option<(Of, String, String)> {
        let mask = |mask: Option<u32>| mask.map_or("none".to_owned(), |mask| mask.to_string());
        let unit = |unit: Option<&str>| unit.unwrap_or("none").to_owned();
        let workload = self.workload.unwrap_or(&row.workload);
        let of_unit = match has_units {
            true => row.unit.as_deref(),
            false => self.unit,
        };
        let all = [
            (Of::Board, row.device.clone(), self.device.to_owned()),
            (Of::Workload, row.workload.clone(), workload.to_owned()),
            (Of::Mask, mask(row.tpc_pg_mask), mask(self.tpc_pg_mask)),
            (Of::Unit, unit(of_unit), unit(self.unit)),
        ];
        all.into_iter()
            .find(|(_, found, expected)| found != expected)
    }
}

/// The columns that each version of wattgate added, the newest version first.
const ADDED: [&[&str]; 5] = [
    &[
        "idle_mw",
        "capped_time_ms",
        "capped_power_mw",
        "capped_idle_mw",
    ],
    &["unit"],
    &["minibatch", "workers", "storage", "epoch"],
    &["fetch_ms", "compute_ms"],
    &["tpc_pg_mask"],
];

/// The columns of a file, in its order.
type Columns = Vec<String>;

/// The columns of a corpus, as each version of wattgate wrote them. The newest version comes first.
fn versions() -> io::Result<[Columns; ADDED.len() + 1]> {
    let newest = records(&Row::default())?[0]
        .iter()
        .map(str::to_owned)
        .collect();
    let mut versions = std::array::from_fn(|_| Columns::clone(&newest));
    for (older, added) in ADDED.iter().enumerate() {
        for version in &mut versions[older + 1..] {
            version.retain(|column| !added.contains(&column.as_str()));
        }
    }
    Ok(versions)
}

/// The first line of a file with these columns.
fn header(columns: &Columns) -> String {
    columns.join(",") + "\n"
}

/// The names of all columns, and the fields of a row.
fn records(row: &Row) -> io::Result<[csv::StringRecord; 2]> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.serialize(row).map_err(io::Error::other)?;
    let text = writer.into_inner().map_err(|error| error.into_error())?;
    let mut reader = csv::Reader::from_reader(&text[..]);
    let names = reader.headers().map_err(io::Error::other)?.clone();
    let fields = reader.records().next().expect("it was written");
    Ok([names, fields.map_err(io::Error::other)?])
}

/// The line of a row, of these columns alone.
fn line(row: &Row, columns: &Columns) -> io::Result<Vec<u8>> {
    let [names, fields] = records(row)?;
    let all = names.iter().zip(&fields);
    let kept = all.filter(|(name, _)| columns.iter().any(|column| column == name));
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer
        .write_record(kept.map(|(_, field)| field))
        .map_err(io::Error::other)?;
    writer.into_inner().map_err(|error| error.into_error())
}

/// A corpus file that grows by one row at a time.
#[derive(Debug)]
pub struct CorpusFile {
    path: PathBuf,
    file: File,
    columns: Columns,
    /// The rows that it has.
    pub rows: Vec<Row>,
}

impl CorpusFile {
    /// Opens the file, or creates it. Removes an incomplete last line, which a power cut leaves. A file of an
    /// earlier version keeps its columns. It is an error if the file has rows of another board, workload,
    /// TPC mask or unit.
    pub fn open(path: &Path, origin: &Origin<'_>) -> Result<Self, CorpusError> {
        let at = |source| CorpusError::Io {
            path: path.to_owned(),
            source,
        };
        let defect = |why: String| CorpusError::Defect {
            path: path.to_owned(),
            why,
        };
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true);
        let file = file.open(path).map_err(at)?;
        let text = io::read_to_string(&file).map_err(at)?;
        let complete = text.rfind('\n').map_or(0, |end| end + 1);
        let versions = versions().map_err(at)?;
        // A power cut may have left a part of a header.
        let is_of_file = |columns: &Columns| match complete {
            0 => header(columns).starts_with(&text),
            _ => text.starts_with(&header(columns)),
        };
        let Some(found) = versions.iter().position(is_of_file) else {
            let columns = versions[0][..3].join(",");
            return Err(defect(format!(
                "the first line is not the header of a corpus of `wattgate profile`, `{columns},…`"
            )));
        };
        let columns = match complete {
            0 => versions[0].clone(),
            _ => versions[found].clone(),
        };
        let mut reader = csv::Reader::from_reader(&text.as_bytes()[..complete]);
        let rows = reader.deserialize().collect::<Result<Vec<Row>, _>>();
        let rows = rows.map_err(|error| defect(error.to_string()))?;
        let has_units = columns.iter().any(|column| column == "unit");
        for (row, line) in rows.iter().zip(2..) {
            if let Some((what, found, expected)) = origin.differs(row, has_units) {
                return Err(CorpusError::Other {
                    path: path.to_owned(),
                    line,
                    what,
                    found,
                    expected,
                });
            }
        }
        // Only now, when the file is known to be a corpus.
        file.set_len(complete as u64).map_err(at)?;
        let path = path.to_owned();
        Ok(Self {
            path,
            file,
            columns,
            rows,
        })
    }

    /// The idle powers that the file has.
    pub fn idle(&self) -> impl Iterator<Item = &Row> {
        let is_idle = |row: &&Row| row.mark == Some(Mark::Idle);
        self.rows.iter().filter(is_idle)
    }

    /// Whether the file can keep idle powers: not if an earlier version made it.
    pub fn keeps_idle(&self) -> bool {
        self.columns.iter().any(|column| column == "idle_mw")
    }

    /// What the file can keep of a feeding: all of it, or nothing if an earlier version made the file, without
    /// the columns.
    pub fn kept(&self, feeding: Feeding) -> Feeding {
        match self.columns.iter().any(|column| column == "minibatch") {
            true => feeding,
            false => Feeding::default(),
        }
    }

    /// Returns an error if the user states how the workload is fed and the file has no columns for it.
    pub fn check(&self, stated: &Feeding) -> Result<(), CorpusError> {
        match self.kept(stated.clone()) == *stated {
            true => Ok(()),
            false => Err(CorpusError::NotFed {
                path: self.path.clone(),
            }),
        }
    }

    /// Appends a row; it is on the disk when this returns. After an error the file is as before.
    pub fn append(&mut self, row: Row) -> Result<(), CorpusError> {
        let path = &self.path;
        let at = |source| CorpusError::Io {
            path: path.clone(),
            source,
        };
        let length = self.file.metadata().map_err(at)?.len();
        let mut lines = match length {
            0 => header(&self.columns).into_bytes(),
            _ => Vec::new(),
        };
        lines.extend(line(&row, &self.columns).map_err(at)?);
        let written = self.file.write_all(&lines);
        if let Err(source) = written.and_then(|()| self.file.sync_data()) {
            // On a full disk a part may be there. It is also removed at the next start.
            let _ = self.file.set_len(length);
            return Err(at(source));
        }
        self.rows.push(row);
        Ok(())
    }
}
