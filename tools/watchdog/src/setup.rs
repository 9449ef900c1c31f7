//! From a config to the modes that there are to choose from: those of the model that this
//! board can be set to.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use thiserror::Error;
use wattgate_board::{Board, DiscoverError, Files, Reach, SettableError};
use wattgate_runtime::{
    Axis, Chip, Choice, Command, FormatError, Front, Governor, Grid, GuardError, Input, Kind,
    Milliseconds, Milliwatts, ModeId, Model, PowerMode, Query, SelectError, Settings,
};

use crate::compatibility;
use crate::config::Config;

/// The most modes to choose from. A front that is larger is thinned.
pub const POINTS: usize = 256;

/// The part of a rail's bus that looks may take near the limit: reading one register takes 0.55 ms
/// (`jetson-platform.md`, section 6.3), of each rail the current at every look and the voltage at one
/// in eight. 15 ms for each rail are 4.1 % of the bus, and up to 6 % with the looks that come sooner
/// where the power seems to change (tests/control.rs).
const LOOK_MS_PER_RAIL: u64 = 15;

/// Looks are no closer than this: the slope of a step is not told in less.
const MIN_LOOK_INTERVAL: Milliseconds = Milliseconds(16);

/// No model is longer.
const MAX_MODEL_BYTES: u64 = 1 << 20;

/// Why nothing can be controlled.
#[derive(Debug, Error)]
pub enum SetupError {
    /// The model cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Model { path: PathBuf, source: io::Error },
    /// The file is no model.
    #[error("{}: {why}", path.display())]
    Format { path: PathBuf, why: FormatError },
    /// It predicts the time only.
    #[error("{}: the model does not predict power", path.display())]
    NoPower { path: PathBuf },
    /// Its guard band does not reach so far.
    #[error("confidence: {0}")]
    Confidence(GuardError),
    /// The board cannot be used.
    #[error("{0}")]
    Board(#[from] DiscoverError),
    /// The model's device is known, and so is the board.
    #[error("{}: the model is for `{device}`, and the board is of the kind `{board}`", path.display())]
    OtherBoard {
        path: PathBuf,
        device: String,
        board: &'static str,
    },
    /// The tables of model and board have nothing in common.
    #[error("{}: {why}: the model is for another board, or for another release", path.display())]
    Nothing { path: PathBuf, why: SettableError },
    /// The region in which the model was profiled is out of the board's reach.
    #[error("{}: the board can be set to no mode of the profiled region", path.display())]
    NotProfiled { path: PathBuf },
}

/// What is needed to control a board.
#[derive(Debug)]
pub struct Setup {
    /// What the user wants.
    pub config: Config,
    /// The board.
    pub board: Board,
    /// What the model offers on it.
    pub choices: Choices,
}

/// What a model offers on a board.
#[derive(Debug)]
pub struct Choices {
    /// The grid of the model, which numbers the modes.
    pub grid: Grid,
    /// The modes to choose from.
    pub front: Front<POINTS>,
    /// Values of the grid that the board does not have, in words; knobs that it lacks.
    pub left_out: Vec<String>,
    /// Where the model comes from, such as `measured, resnet18 on my-rover`.
    pub origin: String,
    /// The modes that the front was chosen from.
    pub modes: usize,
}

impl Choices {
    /// Reads the config's model, and sees what of it this board can be set to.
    pub fn read(config: &Config, board: &Board) -> Result<Self, SetupError> {
        let path = || config.model.clone();
        let bytes = read(&config.model).map_err(|source| SetupError::Model {
            path: path(),
            source,
        })?;
        let format = |why| SetupError::Format { path: path(), why };
        let model = Model::parse(&bytes).map_err(format)?;
        let provenance = model.provenance().map_err(format)?;
        let guard = model.power_guard();
        let guard = guard.ok_or_else(|| SetupError::NoPower { path: path() })?;
        guard
            .factor(config.confidence)
            .map_err(SetupError::Confidence)?;

        let device = provenance.device;
        if let Some(board) = compatibility::board_mismatch(device, &board.identity().compatible) {
            let device = device.to_owned();
            let path = path();
            return Err(SetupError::OtherBoard {
                path,
                device,
                board,
            });
        }
        let grid = model.grid().clone();
        let settable = board.settable(&grid);
        let settable = settable.map_err(|why| SetupError::Nothing { path: path(), why })?;
        let mut modes = Vec::new();
        model.sweep(&model.profiled(), |id, prediction| {
            if grid.mode(id).is_some_and(|mode| settable.can_set(&mode)) {
                modes.push((id, prediction));
            }
        });
        if modes.is_empty() {
            return Err(SetupError::NotProfiled { path: path() });
        }
        let left_out = Axis::ALL.into_iter();
        let left_out = left_out.filter_map(|axis| left_out_of(&grid, axis, settable.reach(axis)));
        let kind = match provenance.kind {
            Kind::Measured => "measured",
            Kind::Simulated => "simulated",
        };
        Ok(Self {
            left_out: left_out.collect(),
            origin: format!("{kind}, {} on {device}", provenance.workload),
            front: Front::of_modes(&model, modes.iter().copied()),
            modes: modes.len(),
            grid,
        })
    }

    /// The predicted power of the safe mode.
    pub fn least_power(&self) -> Milliwatts {
        let least = self.front.points().first();
        least.map_or(Milliwatts(0), |point| point.power)
    }
}

impl Setup {
    /// Reads the model and looks at the board. Writes nothing.
    pub fn new(config: Config, files: &impl Files, root: &Path) -> Result<Self, SetupError> {
        let board = Board::discover(files, root)?;
        let choices = Choices::read(&config, &board)?;
        Ok(Self {
            config,
            board,
            choices,
        })
    }

    /// The limit, or the average or the mean power of the budget where these are lower.
    pub fn lowest_limit(&self) -> Milliwatts {
        let limit = self.config.limit;
        let average = limit.average.map_or(limit.power, |average| average.power);
        let budget = limit.budget.map_or(limit.power, |budget| budget.mean());
        limit.power.min(average).min(budget)
    }

    /// A governor that has seen nothing yet. Its sensor is as L4T sets it.
    pub fn governor(&self) -> Governor<POINTS> {
        let steps = self.board.sensor_steps();
        let chips = steps.map(|step| Chip { step, ..Chip::L4T });
        let look = self.board.rails().count() as u64 * LOOK_MS_PER_RAIL;
        let settings = Settings {
            confidence: self.config.confidence,
            sensor_offset: self.board.sensor_offset(),
            chips,
            look: Milliseconds(look).max(MIN_LOOK_INTERVAL),
            memory: self.config.memory.0,
            ..Settings::default()
        };
        let governor = Governor::new(self.choices.front.clone(), settings, self.config.limit);
        // Power and confidence were looked at, and there is a mode.
        governor.expect("a front with power")
    }

    /// The mode that is set at boot, and that the daemon starts with: the fastest one that stays
    /// within the limit by the model alone, with its guard band and the sensor's errors.
    pub fn choice(&self) -> Result<Choice, SelectError> {
        self.choices.front.select(&Query {
            power_limit: Some(self.governor().status().allowed),
            confidence: self.config.confidence,
            ..Query::default()
        })
    }

    /// The mode that a governor starts with, before anything is measured.
    pub fn first(&self) -> PowerMode {
        let command = self.governor().step(&Input {
            now: Milliseconds(0),
            sample: None,
            mode: None,
            gpu_load: None,
            steps: None,
            over_current: false,
            too_hot: false,
        });
        match command {
            Command::Apply(mode) => self.mode(mode),
            Command::Keep => self.safe(),
        }
    }

    /// The safe mode: that of the least predicted power.
    pub fn safe(&self) -> PowerMode {
        let least = self.choices.front.points().first();
        self.mode(least.map_or(ModeId(0), |point| point.mode))
    }

    /// The mode of an id of the front.
    pub fn mode(&self, id: ModeId) -> PowerMode {
        self.choices.grid.mode(id).expect("a mode of the grid")
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // A pipe without a writer is no reason to wait.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a plain file"));
    }
    if metadata.len() > MAX_MODEL_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::new();
    // It may grow.
    file.take(MAX_MODEL_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What of an axis cannot be had, in words.
fn left_out_of(grid: &Grid, axis: Axis, reach: &Reach) -> Option<String> {
    let name = match axis {
        Axis::Cores => "number of cores",
        Axis::Cpu => "CPU clock",
        Axis::Gpu => "GPU clock",
        Axis::Emc => "memory clock",
    };
    let all = grid.axis(axis);
    match reach {
        Reach::Free(highest) => Some(format!(
            "{name}: cannot be set; it is taken to be {highest}"
        )),
        Reach::Values(values) if values.len() == all.len() => None,
        Reach::Values(values) => {
            let (had, all) = (values.len(), all.len());
            Some(format!("{name}: the board has {had} of the model's {all}"))
        }
    }
}
