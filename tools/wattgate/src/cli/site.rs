//! The board on which a command works, and the right to change it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::{Access, access};
use rustix::io::Errno;
use wattgate_board::{Board, Files, Reach};
use wattgate_cli::exit::note;
use wattgate_cli::output::AtomicFile;
use wattgate_cli::planning::Axes;
use wattgate_runtime::grid::Axis;
use wattgate_runtime::{Confidence, Milliwatts, PowerMode};
use wattgate_watchdog::client::ClientError;
use wattgate_watchdog::compatibility;
use wattgate_watchdog::config::{Config, ConfigError};
use wattgate_watchdog::lock::{Lock, LockError};
use wattgate_watchdog::saved_state::SavedState;
use wattgate_watchdog::supply::Supply;
use wattgate_watchdog::thinning;

use super::Failure;
use super::options::Common;
use crate::board_files::BoardFiles;
use crate::ladder::Ladder;
use crate::lent::Lent;
use crate::models::Models;
use crate::name;
use crate::process::{Process, Stop};

/// The directory of all programs of wattgate, below the board's root: the settings from before, which the daemon takes
/// over if it is the first to start after a crash, the corpora and the models.
const STATE_DIRECTORY: &str = "var/lib/wattgate";

/// A board that may be changed.
pub struct Site {
    pub process: Process,
    pub board: Board,
    pub files: BoardFiles,
    /// The name of the board.
    pub device: String,
    /// The limit that holds until the workload has ended.
    pub limit: Option<Milliwatts>,
    pub right: Right,
}

/// What gives the right to change a board.
pub enum Right {
    /// No daemon runs.
    Own {
        saved_state: SavedState,
        _lock: Lock,
    },
    Lent(Lent),
}

impl Site {
    /// Takes the board, from the daemon if one runs. It gets its settings back by [`Self::close`];
    /// after a crash, from the next start of this program or of the daemon, or at once from a daemon
    /// that runs.
    pub fn open(common: &Common) -> Result<Self, Failure> {
        let stop = Stop::on_signals().map_err(Failure::Signals)?;
        let mut process = common.workload.open(&common.root, common.speed, stop)?;
        let mut files = BoardFiles::new(common.speed);
        let board = Board::discover(&files, &common.root)?;
        let device = device(common, &board).ok_or(Failure::Missing(
            "--device: the board's name is not known; choose one for its corpora and models",
        ))?;
        // Before the corpus is opened: another process may be writing to it.
        let right = match Lock::take(&common.root) {
            Ok(lock) => {
                check_writable(&board)?;
                let state = common.root.join(STATE_DIRECTORY);
                Right::Own {
                    saved_state: SavedState::of_session(&board, &files, &common.root, &state)?
                        .written()?,
                    _lock: lock,
                }
            }
            Err(held @ LockError::Held { .. }) => match Lent::ask(&common.root) {
                Ok(lent) => {
                    process.set_loan(Some(lent.loan()));
                    files.set_loan(Some(lent.loan()));
                    Right::Lent(lent)
                }
                // Another profiler, or `wattgated once`.
                Err(ClientError::NoDaemon { .. }) => return Err(held.into()),
                Err(error) => return Err(error.into()),
            },
            Err(error) => return Err(error.into()),
        };
        Ok(Self {
            process,
            board,
            files,
            device,
            limit: None,
            right,
        })
    }

    /// Ends the workload, and gives the board its settings back. Fails as the command did.
    pub fn close<T>(mut self, done: Result<T, Failure>) -> Result<T, Failure> {
        let restored = match self.right {
            Right::Own { saved_state, _lock } => {
                // First, since the settings from before may be over the limit.
                let mut guard = Guard::new(&self.board, self.limit);
                self.process
                    .end(|files| guard.watch(&mut self.board, files));
                let restored = saved_state.restore(&mut self.board, &mut self.files);
                if restored.is_ok() {
                    note("the settings from before are restored; no limit holds now");
                }
                restored
            }
            Right::Lent(lent) => {
                // First, since the daemon then holds its limit while the workload ends.
                drop(lent);
                drop(self.process);
                Ok(())
            }
        };
        match (done, restored) {
            (done, Ok(())) => done,
            (Ok(_), Err(error)) => Err(error.into()),
            (Err(first), Err(error)) => {
                note(format_args!("error: {error}"));
                Err(first)
            }
        }
    }
}

impl Right {
    /// The limit of the daemon that has lent the board.
    pub fn limit_of_daemon(&self) -> Option<Milliwatts> {
        match self {
            Self::Own { .. } => None,
            Self::Lent(lent) => Some(lent.limit),
        }
    }

    /// Gives the board back to the daemon that has lent it, while the workload runs on.
    pub fn give_back(&mut self, process: &mut Process) {
        if let Self::Lent(lent) = self {
            process.set_loan(None);
            lent.give_back();
        }
    }
}

/// Holds a limit while the workload ends: a workload may do much on its way out.
struct Guard {
    /// The limit and the mode of least clocks and cores, until that is set.
    at: Option<(Milliwatts, PowerMode)>,
}

impl Guard {
    fn new(board: &Board, limit: Option<Milliwatts>) -> Self {
        let lowest = axes(board).ok().map(|axes| ladder(&axes).lowest);
        Self {
            at: limit.zip(lowest),
        }
    }

    /// Sets the lowest mode if the limit does not hold, or if nobody can know.
    fn watch(&mut self, board: &mut Board, files: &mut impl Files) {
        let sample = board.sample(files).ok();
        let is_over = |limit| {
            sample
                .and_then(|sample| sample.total())
                .is_none_or(|total| total > limit)
        };
        if let Some((_, lowest)) = self.at.take_if(|(limit, _)| is_over(*limit)) {
            // The settings from before follow soon, whatever becomes of this.
            let _ = board.apply(files, &lowest);
        }
    }
}

/// Fails if this process may write no setting at all. A single one counts as a knob that does not obey.
fn check_writable(board: &Board) -> Result<(), Failure> {
    let mut unwritable = None;
    for path in board.knob_paths() {
        match access(path, Access::WRITE_OK) {
            Err(why @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) => {
                unwritable = unwritable.or(Some((path, why)));
            }
            // A knob may be absent for now, such as the clock of an offline cluster.
            Err(_) => {}
            Ok(()) => return Ok(()),
        }
    }
    match unwritable {
        Some((path, why)) => Err(Failure::NotWritable {
            path: path.to_owned(),
            source: why.into(),
        }),
        None => Ok(()),
    }
}

/// The name of a board; `None` if it is not known.
pub fn device(common: &Common, board: &Board) -> Option<String> {
    let compatible = &board.identity().compatible;
    let known = || compatibility::board_name(compatible).map(str::to_owned);
    common.device.clone().or_else(known)
}

/// The values that a board can be set to, as many as a grid can have.
pub fn axes(board: &Board) -> Result<Axes, Failure> {
    // Not each number of cores can be online where clusters have more than one.
    let settable = board.settable(&thinning::grid(board)?)?;
    let values = |axis: Axis| match settable.reach(axis) {
        Reach::Values(values) => values.iter().map(|it| it.board).collect(),
        Reach::Free(highest) => vec![*highest],
    };
    Ok(Axes {
        cores: values(Axis::Cores),
        cpu_khz: values(Axis::Cpu),
        gpu_khz: values(Axis::Gpu),
        emc_khz: values(Axis::Emc),
    })
}

/// The modes that a session needs without a plan.
pub fn ladder(axes: &Axes) -> Ladder {
    Ladder::from_axes([&axes.cores, &axes.cpu_khz, &axes.gpu_khz, &axes.emc_khz])
}

/// The daemon's config below a root.
pub fn config(root: &Path) -> PathBuf {
    wattgate_watchdog::config::path(root)
}

/// The confidence of the daemon's config, or its default.
pub fn confidence(root: &Path) -> Confidence {
    Config::read(&config(root)).map_or(Confidence::P95, |it| it.confidence)
}

/// The daemon's config, if there is one. One that cannot be read is an error: it may say that limits are a supply's.
fn configured(root: &Path) -> Result<Option<Config>, ConfigError> {
    match Config::read(&config(root)) {
        Ok(config) => Ok(Some(config)),
        Err(ConfigError::Unreadable { source, .. }) if source.kind() == ErrorKind::NotFound => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The supply of the daemon's config, whose limits are the supply's then; `None` if limits are the module's. Only the daemon
/// reads the meter.
pub fn supply(root: &Path) -> Result<Option<Supply>, ConfigError> {
    let supply = configured(root)?.and_then(|config| config.supply);
    Ok(supply.map(Supply::without_meter))
}

/// What a limit leaves for the module.
pub fn limit_of_module(limit: Milliwatts, root: &Path) -> Result<Milliwatts, ConfigError> {
    let supply = supply(root)?;
    Ok(supply.map_or(limit, |supply| supply.draw().module(limit)))
}

/// The folder of a board's models: that of the daemon's model, where the daemon looks for others, too.
pub fn models(root: &Path, device: &str) -> PathBuf {
    models_of_daemon(root).unwrap_or_else(|| of_board(root, "models", device))
}

/// The folder of the model of the daemon's config, if there is one.
pub fn models_of_daemon(root: &Path) -> Option<PathBuf> {
    let config = Config::read(&config(root)).ok()?;
    Some(config.model?.parent()?.to_owned())
}

/// The model that the user names, or that was learned of the workload, or that of the daemon's config; `None` if there is none of these.
pub fn find_model(
    common: &Common,
    named: Option<PathBuf>,
    models: Option<&Models>,
) -> Result<Option<PathBuf>, Failure> {
    if let Some(model) = named.or_else(|| learned(common, models?)) {
        return Ok(Some(model));
    }
    let configured = configured(&common.root)?.and_then(|config| config.model);
    let known = models.map_or_else(Vec::new, Models::workloads);
    if let Some(models) = models.filter(|_| configured.is_none() && !known.is_empty()) {
        note(format_args!(
            "{} has models of {}; --model takes one",
            models.folder.display(),
            known.join(", ")
        ));
    }
    Ok(configured)
}

/// The model that was learned of the workload, as far as its name is known before its first step.
pub fn learned(common: &Common, models: &Models) -> Option<PathBuf> {
    let path = models.of(&common.name()?)?;
    note(format_args!("the model is {}", path.display()));
    Some(path)
}

/// The corpus of a workload on a board.
pub fn corpus(root: &Path, device: &str, workload: &str) -> PathBuf {
    of_board(root, "corpora", device).join(format!("{workload}.csv"))
}

/// The folder of the files of one kind that are of a board. Its name may be any text of the user.
fn of_board(root: &Path, kind: &str, device: &str) -> PathBuf {
    let board = name::from_text(device).unwrap_or_else(|| "board".to_owned());
    root.join(STATE_DIRECTORY).join(kind).join(board)
}

/// Prepares to write a file, in a folder that is made if it is absent.
pub fn new_file(path: &Path) -> io::Result<AtomicFile> {
    let folder = path.parent();
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    folder.map_or(Ok(()), fs::create_dir_all)?;
    Ok(AtomicFile::create(path)?)
}

/// The same, so that a session that could not write the file fails before it measures. `option` names another file.
pub fn prepare(path: &Path, option: &'static str) -> Result<AtomicFile, Failure> {
    new_file(path).map_err(|source| Failure::NotPrepared {
        path: path.to_owned(),
        source,
        option,
    })
}
