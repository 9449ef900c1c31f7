//! The search for knobs and sensors: paths below a root, texts and tables in files, and a list of
//! what is missing.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use crate::clock::{HZ, Limits, khz};
use crate::files::{Files, Knob, KnobError, Refusal};

/// Maximum length of a text that is read, in bytes; longer than any table of clocks.
const LONGEST_TEXT: usize = 16 * 1024;

/// Why a board cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DiscoverError {
    /// The files of a board are not below the root.
    #[error(
        "{}: no Jetson is there: no file of cores, clocks or power sensors exists; expected the root of a board's files, which is \
         / on the board itself",
        root.display()
    )]
    NoBoard { root: PathBuf },
    /// Neither cores nor a clock can be set.
    #[error(
        "{}: no cores or clocks can be set: {}; in a container, mount the board's /sys with the right to write",
        root.display(),
        list(&knobs(missing))
    )]
    NothingToSet {
        root: PathBuf,
        missing: Vec<Missing>,
    },
    /// The board has no rail for the module's input, and no known set of rails that add up to it.
    #[error("{}: {}", root.display(), power_unknown(labels))]
    PowerUnknown { root: PathBuf, labels: Vec<String> },
    /// More cores than any board has.
    #[error("the board has {cores} cores, expected at most 64, as a Jetson has")]
    TooManyCores { cores: usize },
}

fn power_unknown(labels: &[String]) -> String {
    match labels {
        [] => "no power sensor: expected an INA3221, or an INA2xx at the input of the board, below sys/class/hwmon; \
               is this a Jetson, and is the driver loaded (`modprobe ina3221`)?"
            .to_owned(),
        _ => format!(
            "no power sensor at the input of the module or the board, whose power the limit is of: there are only the rails \
             {}; report the board with `wattgate probe`",
            list(labels)
        ),
    }
}

/// Those of the cores and clocks.
fn knobs(missing: &[Missing]) -> Vec<&Missing> {
    let knobs = ["cores", "CPU clock", "GPU clock", "memory clock"];
    let missing = missing.iter().filter(|it| knobs.contains(&it.what));
    missing.collect()
}

fn list<T: fmt::Display>(items: &[T]) -> String {
    match items {
        [] => "(none)".to_owned(),
        _ => {
            let items: Vec<String> = items.iter().map(T::to_string).collect();
            items.join(", ")
        }
    }
}

/// A knob or a sensor that the board lacks, or that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Name, such as `memory clock`.
    pub what: &'static str,
    /// The file or the directory where it should be.
    pub path: PathBuf,
    /// `NotFound` if the file does not exist, `PermissionDenied` if reading it needs root,
    /// `InvalidData` if its content is invalid.
    pub why: io::ErrorKind,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, path, why } = self;
        write!(f, "{what}: {}: ", path.display())?;
        match why {
            io::ErrorKind::NotFound => f.write_str("no such file"),
            io::ErrorKind::PermissionDenied => f.write_str("only root may read it"),
            io::ErrorKind::InvalidData => f.write_str("shows no number"),
            why => why.fmt(f),
        }
    }
}

/// A search below a root that records what is missing.
pub(crate) struct Search<'a, F> {
    pub files: &'a F,
    root: &'a Path,
    missing: Vec<Missing>,
}

impl<'a, F: Files> Search<'a, F> {
    /// A search that has found nothing missing yet.
    pub fn new(files: &'a F, root: &'a Path) -> Self {
        Self {
            files,
            root,
            missing: Vec::new(),
        }
    }

    /// Ends the search. Returns what is missing, in the order of the search.
    pub fn into_missing(self) -> Vec<Missing> {
        self.missing
    }

    /// The root.
    pub fn root(&self) -> &Path {
        self.root
    }

    /// Whether something is missing.
    pub fn misses(&self, what: &str) -> bool {
        self.missing.iter().any(|missing| missing.what == what)
    }

    /// A path of the board below the root.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The text of a file.
    pub fn text(&self, path: &Path) -> Result<String, Refusal> {
        let mut buffer = vec![0; LONGEST_TEXT];
        Ok(self.files.read(path, &mut buffer)?.to_owned())
    }

    /// The first word of a file, up to white space or a NUL; may be empty.
    pub fn word(&self, path: &Path) -> Result<String, Refusal> {
        let text = self.text(path)?;
        let separators = |c: char| c.is_whitespace() || c == '\0';
        Ok(text.split(separators).next().unwrap_or_default().to_owned())
    }

    /// The names in a directory, ascending; empty if it cannot be listed.
    pub fn list(&self, directory: &Path) -> Vec<String> {
        let mut names = self.files.list(directory).unwrap_or_default();
        names.sort_unstable();
        names
    }

    /// The numbers of the names in a directory that start with `prefix`, such as 4 in `policy4`;
    /// ascending.
    pub fn numbers(&self, directory: &Path, prefix: &str) -> Vec<u32> {
        let mut numbers: Vec<u32> = self
            .list(directory)
            .iter()
            .filter_map(|name| name.strip_prefix(prefix)?.parse().ok())
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// A table of clocks in kHz, ascending. The file's unit of measure is 1/`per_khz` kHz. Words that are not a
    /// whole number of kHz are left out.
    pub fn table(&self, path: &Path, per_khz: u32) -> Result<Vec<u32>, Refusal> {
        let text = self.text(path)?;
        let mut table: Vec<u32> = text
            .split_whitespace()
            .filter_map(|word| khz(word.parse().ok()?, per_khz))
            .collect();
        table.sort_unstable();
        table.dedup();
        match table.is_empty() {
            true => Err(io::Error::from(io::ErrorKind::InvalidData).into()),
            false => Ok(table),
        }
    }

    /// The limits of a device in devfreq, in Hz.
    pub fn limits(&mut self, what: &'static str, devfreq: &Path) -> Option<Limits> {
        let min = self.knob(what, devfreq.join("min_freq"));
        let max = self.knob(what, devfreq.join("max_freq"));
        Some(Limits {
            min: min?,
            max: max?,
        })
    }

    /// The clocks in kHz of a device in devfreq, ascending.
    pub fn clocks(&mut self, what: &'static str, devfreq: &Path) -> Option<Vec<u32>> {
        let path = devfreq.join("available_frequencies");
        match self.table(&path, HZ) {
            Ok(table) => Some(table),
            Err(why) => {
                self.miss(what, path, why.kind());
                None
            }
        }
    }

    /// A file as a knob, if a number can be read from it.
    pub fn knob(&mut self, what: &'static str, path: PathBuf) -> Option<Knob> {
        let knob = Knob(Arc::from(path));
        match knob.read(self.files) {
            Ok(_) => Some(knob),
            Err(error) => {
                let why = match error {
                    KnobError::Unreadable { why, .. } => why.kind(),
                    _ => io::ErrorKind::InvalidData,
                };
                self.miss(what, knob.0.to_path_buf(), why);
                None
            }
        }
    }

    /// Records that something is missing.
    pub fn miss(&mut self, what: &'static str, path: PathBuf, why: io::ErrorKind) {
        self.missing.push(Missing { what, path, why });
    }
}
