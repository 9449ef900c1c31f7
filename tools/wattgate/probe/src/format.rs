//! The file of a probe: gzip of JSON lines. `tools/wattgate/README.md` has the specification.
//!
//! A reader trusts nothing: sizes are bounded, a path is absolute and cannot climb, and a defect is a
//! named error with its line.

use std::collections::BTreeSet;
use std::fs::File as Disk;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The version of the format that this crate writes and reads.
pub const VERSION: u32 = 1;

/// Maximum size of a probe, compressed; one of a simulated board has 10 KiB.
const MAX_PACKED_BYTES: u64 = 16 << 20;

/// Maximum size of a probe, decompressed.
const MAX_PROBE_BYTES: u64 = 32 << 20;

/// The first bytes of a gzip file (RFC 1952).
const MAGIC: [u8; 2] = [0x1F, 0x8B];

/// What to do about a file that was changed after it was written.
const AGAIN: &str = "record the board again with `wattgate probe`";

/// Why a file is not a probe.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    /// The file does not start as gzip does.
    #[error("no probe: expected a gzip file, as `wattgate probe` writes it")]
    NotGzip,
    /// The file ends too early: a download or a copy was interrupted.
    #[error("truncated; copy the probe again")]
    Truncated,
    /// The compressed data are inconsistent.
    #[error("damaged: {0}; copy the probe again")]
    Damaged(io::Error),
    /// The file, or what is in it, is larger than any probe.
    #[error("too large for a probe; name a file of `wattgate probe`")]
    TooLarge,
    /// The first line is not the header of a probe.
    #[error("no probe: line 1 is not a header with a version; name a file of `wattgate probe`")]
    NoHeader,
    /// The probe was made by a later wattgate.
    #[error(
        "version {found} of the format, expected {VERSION}; install the wattgate of that release, or a later one"
    )]
    Version { found: u32 },
    /// A line is not a record of this version.
    #[error("line {line}: {why}; {AGAIN}")]
    Record { line: usize, why: String },
    /// A path is relative, or has an empty, `.` or `..` component.
    #[error("line {line}: bad path `{path}`; {AGAIN}")]
    Path { line: usize, path: String },
    /// Two records of one kind have the same path.
    #[error("line {line}: duplicate path {path}; {AGAIN}")]
    Twice { line: usize, path: String },
    /// The sensors are listed twice, or after the first reading.
    #[error("line {line}: sensors again, or after the first sample; {AGAIN}")]
    Sensors { line: usize },
    /// A reading of the power sensors does not have one value for each sensor.
    #[error("line {line}: {found} values, expected {expected}; {AGAIN}")]
    Values {
        line: usize,
        found: usize,
        expected: usize,
    },
    /// The times of the readings do not ascend.
    #[error("line {line}: the time is not later than the one before; {AGAIN}")]
    Time { line: usize },
    /// The last line is not the record `end` with the number of records.
    #[error(
        "incomplete: the last line is not `end` with the number of records; copy the probe again"
    )]
    NoEnd,
}

/// Why a probe cannot be opened.
#[derive(Debug, Error)]
#[error("{}: {why}", path.display())]
pub struct OpenError {
    pub path: PathBuf,
    pub why: ProbeError,
}

/// What wrote a probe, and on what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`VERSION`].
    pub version: u32,
    /// The version of wattgate.
    pub wattgate: String,
    /// The release of L4T, such as `36.4.3`; empty if unknown.
    pub l4t: String,
    /// The release of Linux; empty if unknown.
    pub kernel: String,
}

/// Whether root owns a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    Root,
    Other,
}

/// Who may read and write a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// The permission bits, such as 0o644.
    pub mode: u32,
    pub user: Owner,
    pub group: Owner,
}

/// Why a file or a directory could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The system's error number.
    Errno(i32),
    /// The text is not UTF-8.
    NotUtf8,
    /// The text is longer than 64 KiB.
    TooLong,
}

impl From<Fault> for io::Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Errno(errno) => Self::from_raw_os_error(errno),
            Fault::NotUtf8 => ErrorKind::InvalidData.into(),
            Fault::TooLong => ErrorKind::FileTooLarge.into(),
        }
    }
}

impl From<&io::Error> for Fault {
    fn from(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(errno) => Self::Errno(errno),
            None if error.kind() == ErrorKind::FileTooLarge => Self::TooLong,
            None => Self::NotUtf8,
        }
    }
}

/// What reading a file gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    Text(String),
    Fault(Fault),
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Absolute; behind all links of `/sys` and `/proc`.
    pub path: String,
    pub content: Content,
    /// `None` if a directory above the file may not be searched.
    pub access: Option<Access>,
    /// Median and maximum time of a read, in µs.
    pub median_us: u32,
    pub max_us: u32,
}

/// What listing a directory gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Names {
    Listed(Vec<String>),
    Fault(Fault),
}

/// A directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Directory {
    pub path: String,
    pub names: Names,
}

/// A symbolic link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    pub path: String,
    /// Absolute, behind all further links.
    pub target: String,
}

/// A reading of all power sensors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// Time since the first reading.
    pub time_us: u64,
    /// In the order of [`Probe::sensors`], in the unit of the file; `None` for one that failed.
    pub values: Vec<Option<i64>>,
}

/// A probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    pub header: Header,
    pub directories: Vec<Directory>,
    pub links: Vec<Link>,
    pub files: Vec<File>,
    /// The paths of the power sensors' files, as in [`Self::files`].
    pub sensors: Vec<String>,
    pub samples: Vec<Sample>,
}

/// A line after the header.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Record {
    Directory(Directory),
    Link(Link),
    File(File),
    Sensors(Vec<String>),
    Sample(Sample),
    /// The number of records before this one.
    End(usize),
}

impl Probe {
    /// A probe without records.
    pub fn new(header: Header) -> Self {
        Self {
            header,
            directories: Vec::new(),
            links: Vec::new(),
            files: Vec::new(),
            sensors: Vec::new(),
            samples: Vec::new(),
        }
    }

    /// Reads a probe from a file.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let open = || {
            let file = Disk::open(path).map_err(ProbeError::Unreadable)?;
            let metadata = file.metadata().map_err(ProbeError::Unreadable)?;
            match metadata.len() > MAX_PACKED_BYTES {
                true => Err(ProbeError::TooLarge),
                false => Self::read(file),
            }
        };
        open().map_err(|why| OpenError {
            path: path.to_owned(),
            why,
        })
    }

    /// Reads a probe.
    pub fn read(packed: impl Read) -> Result<Self, ProbeError> {
        let mut packed = BufReader::new(packed.take(MAX_PACKED_BYTES));
        let start = packed.fill_buf().map_err(ProbeError::Unreadable)?;
        if !start.starts_with(&MAGIC) {
            return Err(ProbeError::NotGzip);
        }
        let mut lines = Lines {
            text: BufReader::new(GzDecoder::new(packed).take(MAX_PROBE_BYTES + 1)),
            read: 0,
            line: 0,
        };
        let mut reader = Reader {
            probe: Self::new(header(lines.next()?.as_deref())?),
            seen: [const { BTreeSet::new() }; 3],
        };
        while let Some(text) = lines.next()? {
            let line = lines.line;
            let record = serde_json::from_str(&text).map_err(|error| ProbeError::Record {
                line,
                why: error.to_string(),
            })?;
            // The header and this line are no records.
            if let Record::End(records) = record {
                let is_last = lines.next()?.is_none();
                return match is_last && records == line - 2 {
                    true => Ok(reader.probe),
                    false => Err(ProbeError::NoEnd),
                };
            }
            reader.add(record, line)?;
        }
        Err(ProbeError::NoEnd)
    }

    /// The bytes of the file.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        // Neither a file name nor a time is in gzip's header.
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        line(&mut packed, &self.header)?;
        let mut records = 0;
        for record in self.records() {
            line(&mut packed, &record)?;
            records += 1;
        }
        line(&mut packed, &Record::End(records))?;
        packed.finish()
    }

    fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let directories = self.directories.iter().cloned().map(Record::Directory);
        let links = self.links.iter().cloned().map(Record::Link);
        let files = self.files.iter().cloned().map(Record::File);
        let sensors = (!self.sensors.is_empty()).then(|| Record::Sensors(self.sensors.clone()));
        let samples = self.samples.iter().cloned().map(Record::Sample);
        let tree = directories.chain(links).chain(files);
        tree.chain(sensors).chain(samples)
    }
}

fn line(packed: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *packed, value)?;
    packed.write_all(b"\n")
}

/// The header in the first line. A later version may have other fields.
fn header(line: Option<&str>) -> Result<Header, ProbeError> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let line = line.unwrap_or_default();
    let versioned: Versioned = serde_json::from_str(line).map_err(|_| ProbeError::NoHeader)?;
    match versioned.version {
        VERSION => serde_json::from_str(line).map_err(|error| ProbeError::Record {
            line: 1,
            why: error.to_string(),
        }),
        found => Err(ProbeError::Version { found }),
    }
}

/// The lines of the decompressed text, counted.
struct Lines<R> {
    text: R,
    /// Bytes so far.
    read: u64,
    /// The number of the last line.
    line: usize,
}

impl<R: BufRead> Lines<R> {
    fn next(&mut self) -> Result<Option<String>, ProbeError> {
        let mut text = String::new();
        let length = self.text.read_line(&mut text).map_err(unpacked)?;
        self.read += length as u64;
        self.line += 1;
        match length {
            0 => Ok(None),
            _ if self.read > MAX_PROBE_BYTES => Err(ProbeError::TooLarge),
            _ => Ok(Some(text)),
        }
    }
}

/// An error of the decompressor.
fn unpacked(error: io::Error) -> ProbeError {
    match error.kind() {
        ErrorKind::UnexpectedEof => ProbeError::Truncated,
        ErrorKind::InvalidInput | ErrorKind::InvalidData => ProbeError::Damaged(error),
        _ => ProbeError::Unreadable(error),
    }
}

/// Adds the records of a file to a probe.
struct Reader {
    probe: Probe,
    /// Paths of directories, links and files.
    seen: [BTreeSet<String>; 3],
}

impl Reader {
    fn add(&mut self, record: Record, line: usize) -> Result<(), ProbeError> {
        let Self {
            probe,
            seen: [directories, links, files],
        } = self;
        match record {
            Record::Directory(it) => {
                once(directories, &it.path, line)?;
                if let Names::Listed(names) = &it.names
                    && let Some(name) = names.iter().find(|name| !is_name(name))
                {
                    let path = name.clone();
                    return Err(ProbeError::Path { line, path });
                }
                probe.directories.push(it);
            }
            Record::Link(it) => {
                once(links, &it.path, line)?;
                path(&it.target, line)?;
                probe.links.push(it);
            }
            Record::File(it) => {
                once(files, &it.path, line)?;
                probe.files.push(it);
            }
            Record::Sensors(sensors) => {
                sensors.iter().try_for_each(|it| path(it, line))?;
                // Each sample has the values of these sensors.
                if !(probe.sensors.is_empty() && probe.samples.is_empty()) {
                    return Err(ProbeError::Sensors { line });
                }
                probe.sensors = sensors;
            }
            Record::Sample(sample) => {
                in_order(probe, &sample, line)?;
                probe.samples.push(sample);
            }
            // The caller ends here.
            Record::End(_) => {}
        }
        Ok(())
    }
}

fn once(seen: &mut BTreeSet<String>, name: &str, line: usize) -> Result<(), ProbeError> {
    path(name, line)?;
    match seen.insert(name.to_owned()) {
        true => Ok(()),
        false => Err(ProbeError::Twice {
            line,
            path: name.to_owned(),
        }),
    }
}

/// Accepts absolute paths that cannot climb: a probe may be served below any directory.
fn path(path: &str, line: usize) -> Result<(), ProbeError> {
    match path.strip_prefix('/') {
        Some(rest) if rest.split('/').all(is_name) => Ok(()),
        _ => Err(ProbeError::Path {
            line,
            path: path.to_owned(),
        }),
    }
}

/// Whether a text is the name of one file.
fn is_name(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.contains(['/', '\0'])
}

fn in_order(probe: &Probe, sample: &Sample, line: usize) -> Result<(), ProbeError> {
    let (found, expected) = (sample.values.len(), probe.sensors.len());
    if found != expected {
        return Err(ProbeError::Values {
            line,
            found,
            expected,
        });
    }
    let before = probe.samples.last();
    match before.is_none_or(|before| before.time_us < sample.time_us) {
        true => Ok(()),
        false => Err(ProbeError::Time { line }),
    }
}
