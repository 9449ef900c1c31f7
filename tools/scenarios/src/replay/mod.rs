//! Replay: a board under a load that moves, while somebody holds a limit.
//!
//! | question | module |
//! |---|---|
//! | who holds the limit | [`holder`]; peers are those of the [scenarios](crate::scenarios) |
//! | how long and how far the power was over the limit | [`account`] |
//! | the mean power of a window that slides | [`sliding`] |
//! | how fast it could have been | [`oracle`] |
//! | what is told of a run | [`report`] |
//! | all kinds of loads on all boards | [`table`] |

pub mod account;
pub mod holder;
pub mod oracle;
pub mod report;
pub mod sliding;
pub mod table;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;
use wattgate_board::Board as Discovered;
use wattgate_runtime::{FormatError, Model};
use wattgate_watchdog::setup::SetupError;

use crate::plant::Noted;
use crate::{Course, Holder, Sensor};
use account::Account;
use oracle::{Mode, Oracle, Truths};
use report::Report;
use wattgate_board_tables::{Board, BoardError};
use wattgate_simulated_board::load::Load;
use wattgate_simulated_board::machine::mode_errors::ModeErrors;
use wattgate_simulated_board::machine::trace::Segment;
use wattgate_simulated_board::sampling::Sampling;
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::tree::nvpmodel::NvpmodelError;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::{Workload, WorkloadError};

/// The time in which a holder sets its first mode, in which nothing counts.
pub const START: Duration = Duration::from_secs(1);

/// Why a load is not replayed.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The model cannot be read.
    #[error("{}: cannot read: {source}", path.display())]
    Model { path: PathBuf, source: io::Error },
    /// The file is no model.
    #[error("{}: {why}", path.display())]
    Format { path: PathBuf, why: FormatError },
    /// It predicts the time only.
    #[error("{}: the model does not predict power", path.display())]
    NoPower { path: PathBuf },
    /// The simulator does not have the workload of the model.
    #[error("{}: {why}; name another workload with --workload", path.display())]
    ModelsWorkload { path: PathBuf, why: WorkloadError },
    /// The board's driver does not let the number of samples be set.
    #[error("--samples {samples}: on `{board}` the driver does not let the samples be set")]
    Samples { board: String, samples: u32 },
    /// There is no such board, or it cannot be simulated.
    #[error("{0}")]
    Board(#[from] BoardError),
    /// The mode of nvpmodel that the board boots in.
    #[error("{0}")]
    Boot(#[from] NvpmodelError),
    /// The model does not fit the board.
    #[error("{0}")]
    Setup(#[from] SetupError),
    /// Who holds the limit has failed.
    #[error("{0}")]
    Holder(#[from] io::Error),
}

/// What is replayed.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// The board.
    pub board: &'a Board,
    /// The model's file.
    pub model: &'a Path,
    /// Each limit in mW with the time from which it holds, the first at zero.
    pub limits: Vec<(Duration, u32)>,
    /// The load, of two seconds at least.
    pub load: Load,
    /// What runs.
    pub workload: &'a Workload,
    /// Samples that a result of the sensor is the mean of; see [`wattgate_simulated_board::sampling::SAMPLES`].
    pub samples: u32,
    /// Of the unit that differs; none for the nominal one.
    pub unit: Option<u64>,
    /// Of noise, and of the numbers of hwmon devices.
    pub seed: u64,
    /// Who holds the limit.
    pub holder: Holder,
    /// Errors that are planted into the modes' power.
    pub errors: Option<ModeErrors>,
}

/// The text of a model's file.
pub fn read_model(path: &Path) -> Result<Vec<u8>, ReplayError> {
    fs::read(path).map_err(|source| ReplayError::Model {
        path: path.to_owned(),
        source,
    })
}

/// A model with power.
fn parse<'a>(path: &Path, bytes: &'a [u8]) -> Result<Model<'a>, ReplayError> {
    let model = Model::parse(bytes).map_err(|why| ReplayError::Format {
        path: path.to_owned(),
        why,
    })?;
    match model.has_power() {
        true => Ok(model),
        false => Err(ReplayError::NoPower {
            path: path.to_owned(),
        }),
    }
}

/// The workload that a model was made of.
pub fn workload_of(path: &Path) -> Result<Workload, ReplayError> {
    let bytes = read_model(path)?;
    let model = parse(path, &bytes)?;
    let provenance = model.provenance().map_err(|why| ReplayError::Format {
        path: path.to_owned(),
        why,
    })?;
    let workload = Workload::named(provenance.workload);
    let workload = workload.and_then(|workload| match provenance.minibatch {
        Some(minibatch) => workload.with_minibatch(minibatch),
        None => Ok(workload),
    });
    workload.map_err(|why| ReplayError::ModelsWorkload {
        path: path.to_owned(),
        why,
    })
}

/// The true times of all modes in the grid that a model was profiled on, as far as the board can
/// be set to them. They depend on board, model and workload alone: compute them once for many
/// runs.
pub fn modes(board: &Board, path: &Path, workload: &Workload) -> Result<Vec<Mode>, ReplayError> {
    let bytes = read_model(path)?;
    let model = parse(path, &bytes)?;
    let tree = Tree::new(board.clone(), Unit::NOMINAL, 0, None)?;
    let files = Noted::new(tree);
    let found = Discovered::discover(&files, Path::new("/")).map_err(SetupError::Board)?;
    let settable = found.settable(model.grid()).map_err(|why| {
        let path = path.to_owned();
        SetupError::Nothing { path, why }
    })?;
    let mut modes = Vec::new();
    model.sweep(&model.profiled(), |id, _| {
        let mode = model.grid().mode(id).filter(|mode| settable.can_set(mode));
        modes.extend(mode.map(|mode| Mode::of(board, workload, mode.knobs())));
    });
    Ok(modes)
}

/// Replays a load. `modes` are those of [`modes`] for the same board, model and workload.
pub fn run(run: &Run<'_>, modes: &[Mode]) -> Result<Report, ReplayError> {
    traced(run, modes).map(|(report, _)| report)
}

/// The same, with the true power over time.
pub fn traced(run: &Run<'_>, modes: &[Mode]) -> Result<(Report, Vec<Segment>), ReplayError> {
    let course = Course {
        length: run.load.length(),
        limits: run.limits.clone(),
        model: run.model.to_owned(),
        sensor: sensor(run.samples),
    };
    let unit = run.unit.map_or(Unit::NOMINAL, Unit::drawn);
    let boot = holder::boot(run.board, run.holder, course.limit_mw(Duration::ZERO));
    let mut tree = Tree::new(run.board.clone(), unit, run.seed, boot)?;
    if run.samples != Sensor::L4T.samples && !tree.files().any(|(path, _)| is_samples(path)) {
        return Err(ReplayError::Samples {
            board: run.board.name.clone(),
            samples: run.samples,
        });
    }
    let heat = tree.jetson().heat();
    let jetson = tree.jetson_mut();
    jetson.set_workload(Some(run.workload.clone()));
    if let Some(errors) = run.errors {
        jetson.set_mode_errors(errors);
    }
    jetson.keep_trace();
    tree.play(run.load.clone());
    let (held, mut files) = holder::hold(run.holder, &course, run.board, Noted::new(tree))?;
    let jetson = files.tree().jetson_mut();
    let energy_j = jetson.energy_j();
    let trace = jetson.take_trace();

    let account = Account::of(&trace, &run.load, &run.limits, START);
    let physical = run.errors.as_ref().filter(|errors| errors.is_physical());
    let truths = Truths::of(modes, run.board, &unit, physical);
    let oracle = Oracle {
        truths: &truths,
        thermal: &run.board.physics().thermal,
        unit: &unit,
        heat,
        load: &run.load,
        limits: &run.limits,
        start: START,
    };
    let report = Report::new(&account, &oracle, &held, course.length, energy_j);
    Ok((report, trace))
}

fn is_samples(path: &str) -> bool {
    path.ends_with("/samples")
}

/// The sensor with this number of samples.
fn sensor(samples: u32) -> Sensor {
    let sampling = Sampling::L4T.with_samples(samples.into());
    Sensor {
        samples,
        time_constant: Duration::from_millis(sampling.interval_ms().into()),
    }
}
