//! `probe`: records what wattgate reads on a board, for its developers. Writes nothing but the file.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use lexopt::{Arg, Parser};
use serde::Serialize;
use time::OffsetDateTime;
use wattgate_board::{DiscoverError, Disk};
use wattgate_cli::exit::note;
use wattgate_cli::output::AtomicFile;
use wattgate_probe::collect::{Progress, collect};
use wattgate_probe::format::{Content, Fault, Names, Probe};
use wattgate_probe::redact::OBSERVED;
use wattgate_probe::summary::Summary;
use wattgate_watchdog::compatibility;

use super::options::within;
use super::{Failure, print, print_json};

const USAGE: &str = "\
Record what wattgate reads on this board, for its developers; change nothing

Usage: wattgate probe [options]

Options:
  -o FILE        The probe, a new file [wattgate-probe-BOARD-DATE.jsonl.gz]
  --seconds S    Time for which the power sensors are read, 0 ... 3600 [60]
  --root DIR     Root of the board's files; for simulated boards [/]
  --json         Print one JSON object
  -h, --help     Print this

The probe has the values and permissions of the files of clocks, power sensors, temperatures and
nvpmodel, how long reading each takes, the readings of the power sensors 20 times a second, and the
releases of wattgate, L4T and the kernel. It also has what `wattgated` with `observe = true` has observed
minute by minute: powers, the board's modes and those that it would have set. It has no serial number, host name, user name or address.
Only root may read all of these files.

Keys of the object:
  file        the probe
  bytes       its size
  files       number of files
  unreadable  number of files and directories that could not be read
  sensors     number of files of the power sensors
  samples     number of readings of all sensors
  observed    number of minutes that a daemon has observed
  board       object of `wattgate check --json`; null if the board cannot be used
  error       why the board cannot be used; null if it can

A board that cannot be used is recorded, too: the exit code is then 0.

Example:
  sudo wattgate probe
";

/// What was recorded, as JSON.
#[derive(Serialize)]
struct Report {
    file: String,
    bytes: usize,
    files: usize,
    unreadable: usize,
    sensors: usize,
    samples: usize,
    observed: usize,
    board: Option<Summary>,
    error: Option<String>,
}

/// The text of the help.
pub fn help() -> String {
    USAGE.to_owned()
}

/// Runs the command with the arguments that follow its name.
pub fn run(mut parser: Parser) -> Result<(), Failure> {
    let (mut output, mut root) = (None, PathBuf::from("/"));
    let (mut seconds, mut json) = (60.0, false);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('o') => output = Some(PathBuf::from(parser.value()?)),
            Arg::Long("seconds") => {
                seconds = within(&mut parser, "--seconds", 0.0..=3600.0, "0 … 3600 seconds")?;
            }
            Arg::Long("root") => root = PathBuf::from(parser.value()?),
            Arg::Long("json") => json = true,
            argument => return Err(argument.unexpected().into()),
        }
    }
    let found = Summary::discover(&mut Disk, &root);
    let path = output.unwrap_or_else(|| default_name(&found));
    let file = AtomicFile::create_new(&path)?;
    let mut shown = Shown::default();
    let time = Duration::from_secs_f64(seconds);
    let probe = collect(&root, time, |progress| shown.update(progress));
    shown.end();
    let probe = probe.map_err(|source| Failure::Root { path: root, source })?;
    let bytes = probe.to_bytes().map_err(|source| Failure::NotWritable {
        path: path.clone(),
        source,
    })?;
    file.commit(&bytes)?;
    warn_of_denied(&probe);
    let (board, error) = match found {
        Ok(board) => (Some(board), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let report = Report {
        file: path.display().to_string(),
        bytes: bytes.len(),
        files: probe.files.len(),
        unreadable: faults(&probe).count(),
        sensors: probe.sensors.len(),
        samples: probe.samples.len(),
        observed: observed(&probe),
        board,
        error,
    };
    match json {
        true => print_json(&report),
        false => print(&text(&report)),
    }
}

fn default_name(found: &Result<Summary, DiscoverError>) -> PathBuf {
    let board = found.as_ref().ok();
    let board = board.and_then(|it| compatibility::board_name(&it.compatible));
    let (board, date) = (board.unwrap_or("unknown"), OffsetDateTime::now_utc().date());
    format!("wattgate-probe-{board}-{date}.jsonl.gz").into()
}

fn text(report: &Report) -> String {
    let Report {
        file,
        bytes,
        files,
        unreadable,
        sensors,
        samples,
        observed,
        board,
        error,
    } = report;
    let found = match (board, error) {
        (Some(board), _) => board.to_string(),
        (None, error) => {
            let error = error.as_deref().unwrap_or_default();
            format!("wattgate cannot use this board yet: {error}\n")
        }
    };
    let observed = match observed {
        0 => String::new(),
        minutes => format!(", {minutes} minutes that the daemon has observed"),
    };
    format!(
        "{found}wrote {file}: {bytes} bytes, {files} files of which {unreadable} could not be read, \
         {samples} readings of {sensors} sensor files{observed}\n"
    )
}

/// The number of minutes that a daemon which writes nothing has observed.
fn observed(probe: &Probe) -> usize {
    let file = probe.files.iter().find(|file| file.path == OBSERVED);
    match file.map(|file| &file.content) {
        Some(Content::Text(text)) => text.lines().skip(1).count(),
        _ => 0,
    }
}

/// Why files and directories could not be read.
fn faults(probe: &Probe) -> impl Iterator<Item = Fault> {
    let files = probe.files.iter().filter_map(|file| match file.content {
        Content::Fault(fault) => Some(fault),
        Content::Text(_) => None,
    });
    let directories = probe.directories.iter();
    let directories = directories.filter_map(|directory| match directory.names {
        Names::Fault(fault) => Some(fault),
        Names::Listed(_) => None,
    });
    files.chain(directories)
}

fn warn_of_denied(probe: &Probe) {
    let is_denied = |fault: &Fault| {
        let error = io::Error::from(*fault);
        error.kind() == io::ErrorKind::PermissionDenied
    };
    let denied = faults(probe).filter(is_denied).count();
    if denied > 0 {
        note(format_args!(
            "warning: {denied} files and directories need root: run `sudo wattgate probe`"
        ));
    }
}

/// The progress on a terminal.
#[derive(Default)]
struct Shown(String);

impl Shown {
    fn update(&mut self, progress: Progress) {
        let line = match progress {
            Progress::Files { done, total } => format!("files: {} %", 100 * done / total.max(1)),
            Progress::Sensors { elapsed, total } => {
                let (elapsed, total) = (elapsed.as_secs(), total.as_secs());
                format!("power sensors: {elapsed} of {total} s")
            }
        };
        if line != self.0 && io::stderr().is_terminal() {
            self.draw(line);
        }
    }

    fn end(&mut self) {
        if !self.0.is_empty() {
            self.draw(String::new());
        }
    }

    /// Draws a line over the last one. Errors do not matter: a terminal that is gone shows nothing.
    fn draw(&mut self, line: String) {
        let padding = self.0.chars().count();
        let mut stderr = io::stderr().lock();
        let _ = write!(stderr, "\r{:padding$}\r{line}", "");
        let _ = stderr.flush();
        self.0 = line;
    }
}
