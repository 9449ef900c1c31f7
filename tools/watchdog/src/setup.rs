//! Builds everything that control needs from a config: the board, the model, and the front of
//! those modes of the model that the board can be set to.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;
use thiserror::Error;
use wattgate_board::{
    ApplyError, BackstopError, Board, DiscoverError, Files, Reach, Settable, SettableError,
};
use wattgate_cli::aim::Wanted;
use wattgate_cli::exit;
use wattgate_cli::model::advice as model_advice;
use wattgate_runtime::estimator::Chip;
use wattgate_runtime::fleet::UnitId;
use wattgate_runtime::front::Least;
use wattgate_runtime::grid::{Axis, Grid, GridError};
use wattgate_runtime::guard::GuardError;
use wattgate_runtime::idle::Idle;
use wattgate_runtime::model::Prediction;
use wattgate_runtime::{
    Aim, Choice, Command, Confidence, FormatError, Front, Governor, Input, Microseconds,
    Milliseconds, Milliwatts, ModeId, Model, PowerMode, Query, SelectError, Settings,
};

use crate::aim::{self, Unmet};
use crate::clock::UtcSeconds;
use crate::compatibility;
use crate::config::{self, Config};
use crate::distrust::{Distrust, distrust, in_order, in_places};
use crate::full_load::Drawn;
use crate::generic;
use crate::lesson::{Lesson, NoLesson, RISE_K, Seen, Subject, Unusable, WARMER_K};
use crate::meter::Meter;
use crate::quantity::{Cores, Placed};
use crate::thinning;
use crate::unit::ThisUnit;

/// Capacity of the front; a larger front is thinned.
pub const POINTS: usize = 256;

/// Interval between steps near the limit, per rail, which bounds the I2C bus time of sensor reads.
/// Reading a register takes 0.55 ms (`jetson-platform.md`, section 6.3); a step reads the current
/// of each rail, and its voltage if it may have changed. 15 ms per rail take 4.1 % of the bus, and
/// up to 6.5 % with the extra steps after a suspected change of power (tests/it/control/sensor.rs).
const SAMPLE_MS_PER_RAIL: u64 = 15;

/// Least interval between steps: shorter ones do not resolve the slope of a power step.
const MIN_SAMPLE_INTERVAL: Milliseconds = Milliseconds(16);

/// How many modes are tried. If each of them shows another knob that does not obey, the least mode is set.
const MOST_CHOICES: u32 = 8;

/// Maximum size of a model file in bytes.
const MAX_MODEL_BYTES: u64 = 1 << 20;

/// Why a board cannot be controlled with a config.
#[derive(Debug, Error)]
pub enum SetupError {
    /// The model cannot be read.
    #[error("{}: the model cannot be read: {source}; `wattgate learn` makes one", path.display())]
    Model { path: PathBuf, source: io::Error },
    /// The file is not a valid model.
    #[error("{}: {why}; {}", path.display(), model_advice(why))]
    Format { path: PathBuf, why: FormatError },
    /// The model predicts time only.
    #[error("{}: the model does not predict power; train it on a corpus with powers", path.display())]
    NoPower { path: PathBuf },
    /// The model's data do not support the confidence.
    #[error("confidence: {0}")]
    Confidence(GuardError),
    /// The board cannot be discovered, for example because it has no power sensor.
    #[error("{0}")]
    Board(#[from] DiscoverError),
    /// The model was made for another board.
    #[error(
        "{}: the model is for `{device}`, but the board is `{board}`; profile the workload on this board (`wattgate learn`)",
        path.display()
    )]
    OtherBoard {
        path: PathBuf,
        device: String,
        board: &'static str,
    },
    /// The GPU has other TPCs than that of the board that was profiled: it draws another power.
    #[error(
        "{}: profiled with TPC_PG_MASK {profiled}, but the board has {board}: set the mode of nvpmodel that \
         was profiled, or profile the board as it is",
        path.display()
    )]
    OtherTpcs {
        path: PathBuf,
        profiled: u32,
        board: u32,
    },
    /// On some axis the model and the board have no value in common.
    #[error(
        "{}: {why}: the model is for another board or another L4T release; profile the workload again (`wattgate learn`)",
        path.display()
    )]
    Nothing { path: PathBuf, why: SettableError },
    /// The board's own tables make no grid.
    #[error("the board's tables: {0}; `wattgate probe` gathers them for a report")]
    Grid(#[from] GridError),
    /// The board can be set to none of its own modes.
    #[error("{0}; `wattgate probe` gathers the board's tables for a report")]
    Tables(SettableError),
    /// The limit is a current, but the board has no sensor for the module's input.
    #[error("limit: a current needs a sensor at the module's input, such as VDD_IN; set a power")]
    NoInput,
    /// The supply's meter is a sensor of the module itself.
    #[error(
        "supply: {} is of the sensor of the module's own rail {rail}; name a meter at the supply's input, or take the key out",
        path.display()
    )]
    MeterOfModule { path: PathBuf, rail: String },
    /// The config asks for the backstop, but the board cannot have it.
    #[error("backstop: {0}; take the key out, and the daemon holds the limit without it")]
    Backstop(#[from] BackstopError),
    /// The model has no mode with these numbers of cores on this board.
    #[error(
        "cores: no mode{} that the board supports has {}; there are {}",
        path.as_ref().map_or_else(String::new, |path| format!(" of {}", path.display())),
        cores.counted(),
        listed(exist)
    )]
    NoCores {
        path: Option<PathBuf>,
        cores: Cores,
        /// The numbers that there are, ascending.
        exist: Vec<u32>,
    },
    /// The board supports no mode of the region in which the model was profiled.
    #[error(
        "{}: the board supports no mode of the profiled region; profile the workload again (`wattgate learn`)",
        path.display()
    )]
    NotProfiled { path: PathBuf },
}

impl SetupError {
    /// The exit code of a program that fails by it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Model { .. } => exit::OTHER,
            Self::Confidence(_) => exit::ARGUMENTS,
            _ => exit::INPUT,
        }
    }
}

/// Everything needed to control a board.
#[derive(Debug)]
pub struct Setup {
    /// The config.
    pub config: Config,
    /// The board.
    pub board: Board,
    /// The modes that the model offers on this board.
    pub choices: Choices,
    /// The folder from which clients may choose models: that of the config's model, or else that of the board's models.
    pub models: PathBuf,
    /// The meter of the supply.
    pub meter: Option<Meter>,
}

/// The modes that a board offers, with a model or without.
#[derive(Clone, Debug)]
pub struct Choices {
    /// The file of the model, or of the board's generic one, which was verified. `None`: nothing is known but the board's tables.
    model: Option<Arc<[u8]>>,
    confidence: Confidence,
    cores: Option<Cores>,
    /// The grid of the model, or of the board's tables, which numbers the modes.
    grid: Grid,
    /// The modes of the grid that the board can be set to.
    settable: Settable,
    /// The mode of fewest cores and lowest clocks: [`ModeId::LEAST`].
    least: PowerMode,
    /// The Pareto front of the supported modes, from which the governor chooses, after the least mode.
    pub front: Front<POINTS>,
    /// Messages about axes that the board covers in part or not at all.
    pub left_out: Vec<String>,
    /// What the model says of this unit of the board.
    pub unit: ThisUnit,
    /// Why no predictions are used; the front then has [unknown](Front::is_unknown) powers.
    pub distrust: Option<Distrust>,
    /// The model's provenance, such as `measured, resnet18 on my-rover`, or what is known instead of a model.
    pub origin: String,
    /// The number of modes from which the front was selected.
    pub modes: usize,
    /// What the model says of the idle board.
    idle: Option<Idle>,
}

/// The predictions for the supported mode next to a mode of the board.
#[derive(Clone, Copy, Debug)]
pub struct Near {
    /// The sum of the logarithms of the quotients of both modes' knobs; 0 for the mode itself.
    pub distance: f64,
    pub time: Microseconds,
    pub power: Milliwatts,
}

impl Choices {
    /// Reads the config's model, if it names one, and selects the front from the modes that the board supports, for the unit with this id.
    pub fn read(config: &Config, board: &Board, unit: Option<UnitId>) -> Result<Self, SetupError> {
        let Some(path) = &config.model else {
            return Self::without_model(config, board, unit);
        };
        let bytes = read(path).map_err(|source| SetupError::Model {
            path: path.clone(),
            source,
        })?;
        Self::from_bytes(&bytes, path, config, board, unit)
    }

    /// The same without a model, in the order of the board's generic model if there is one.
    fn without_model(
        config: &Config,
        board: &Board,
        unit: Option<UnitId>,
    ) -> Result<Self, SetupError> {
        let generic = generic::model(&board.identity().compatible);
        let generic = generic.and_then(|bytes| {
            let model = Model::parse(bytes).ok()?;
            let settable = board.settable(model.grid()).ok()?;
            Some((bytes, model.grid().clone(), settable))
        });
        let (bytes, grid, settable) = match generic {
            Some((bytes, grid, settable)) => (Some(bytes.into()), grid, settable),
            None => {
                let grid = thinning::grid(board)?;
                let settable = board.settable(&grid).map_err(SetupError::Tables)?;
                (None, grid, settable)
            }
        };
        let known = match bytes {
            Some(_) => "the order of modes is that of other workloads on simulated boards",
            None => "nothing is known of this board but its tables",
        };
        let mut choices = Self {
            left_out: Vec::new(),
            unit: ThisUnit::without_model(unit),
            distrust: Some(Distrust::NoModel),
            origin: format!("no model; {known}"),
            model: bytes,
            confidence: config.confidence,
            cores: config.cores,
            grid,
            settable,
            least: board.least(),
            front: Front::new(),
            modes: 0,
            idle: None,
        };
        let supported = choices.choose(board);
        match (choices.modes, config.cores) {
            (0, Some(cores)) => Err(SetupError::NoCores {
                path: None,
                cores,
                exist: supported.into_iter().collect(),
            }),
            _ => Ok(choices),
        }
    }

    /// The same for a model that need not be in its file yet.
    pub fn from_bytes(
        bytes: &[u8],
        path: &Path,
        config: &Config,
        board: &Board,
        unit: Option<UnitId>,
    ) -> Result<Self, SetupError> {
        let path = || path.to_owned();
        let format = |why| SetupError::Format { path: path(), why };
        let model = Model::parse(bytes).map_err(format)?;
        let provenance = model.provenance().map_err(format)?;
        if !model.has_power() {
            return Err(SetupError::NoPower { path: path() });
        }
        model
            .margins(config.confidence)
            .map_err(SetupError::Confidence)?;

        let fleet = model.fleet().map_err(format)?;
        let unit = ThisUnit::from_fleet(&fleet, unit, config.confidence);
        let unit = unit.map_err(SetupError::Confidence)?;
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
        let masks = (model.tpc_pg_mask().map_err(format)?, board.tpc_pg_mask());
        if let (Some(profiled), Some(board)) = masks
            && profiled != board
        {
            let path = path();
            return Err(SetupError::OtherTpcs {
                path,
                profiled,
                board,
            });
        }
        let grid = model.grid().clone();
        let settable = board.settable(&grid);
        let settable = settable.map_err(|why| SetupError::Nothing { path: path(), why })?;
        let left_out = Axis::ALL.into_iter();
        let left_out = left_out.filter_map(|axis| left_out_of(&grid, axis, settable.reach(axis)));
        let mut choices = Self {
            left_out: left_out.collect(),
            unit,
            distrust: None,
            origin: format!("{}, {} on {device}", provenance.kind, provenance.workload),
            model: Some(bytes.into()),
            confidence: config.confidence,
            cores: config.cores,
            grid,
            settable,
            least: board.least(),
            front: Front::new(),
            modes: 0,
            idle: model.idle().map_err(format)?,
        };
        let supported = choices.choose(board);
        if choices.modes > 0 {
            return Ok(choices);
        }
        let path = path();
        Err(match (supported.len(), config.cores) {
            (1.., Some(cores)) => SetupError::NoCores {
                path: Some(path),
                cores,
                exist: supported.into_iter().collect(),
            },
            _ => SetupError::NotProfiled { path },
        })
    }

    /// The aim of a governor before any step is done. Once all steps are done, the board rests in the mode of least power, or in
    /// that which this other aim wants within a power.
    pub fn aim(&self, wanted: Wanted, afterwards: Option<(Wanted, Milliwatts)>) -> Aim {
        let least = || Some(self.front.points().first()?.power);
        let rest = afterwards.and_then(|(wanted, allowed)| {
            aim::choice(&self.front, &wanted.first(), allowed)
                .ok()?
                .power
        });
        let rest = rest.or_else(least).unwrap_or(Milliwatts(0));
        Aim {
            idle: wanted.idle(self.idle, rest),
            ..wanted.first()
        }
    }

    /// Chooses anew from the modes that the board can be set to now. Where it can be set to none, the least
    /// mode remains.
    pub fn adapt(&mut self, board: &Board) {
        match board.settable(&self.grid) {
            Ok(settable) => self.settable = settable,
            Err(_) => {
                let least = slowest(&self.front);
                (self.least, self.modes) = (self.least_of(board), 0);
                self.front = Front::new();
                if let Some((power, time)) = least {
                    self.front.put_least(Least::Unreachable, power, time);
                }
                return;
            }
        }
        self.choose(board);
    }

    /// What the model says of this unit, and what it costs under a limit before the daemon has measured.
    pub fn of_unit(&self, limit: Milliwatts) -> String {
        let unit = self.unit;
        if self.distrust == Some(Distrust::NoModel) {
            return unit.id.map_or_else(String::new, |id| id.to_string());
        }
        match self.slower(limit) {
            slower if slower >= 0.005 => {
                format!(
                    "{unit}, which makes a mode without measurement {:.0} % slower",
                    100.0 * slower
                )
            }
            _ => unit.to_string(),
        }
    }

    /// What a lesson on this unit with this model is of.
    pub fn subject(&self, board: &Board) -> Subject {
        let bytes = self.model.as_deref().unwrap_or_default();
        Subject::new(self.unit.id, bytes, board)
    }

    /// Takes what was learned of this unit, with an allowance for a chip that is so much warmer, in K.
    pub fn learn(&mut self, lesson: &Lesson, warmer_k: f32, board: &Board) {
        let mut seen = Vec::new();
        if let Some(model) = self.predicting()
            && let Ok(margins) = model.margins(self.confidence)
        {
            sweep(&model, &mut |id, prediction| {
                let of_mode = lesson.modes.iter().find(|it| it.mode == id);
                seen.extend(of_mode.and_then(|taught| {
                    Some(Seen {
                        predicted: model.power(prediction)?,
                        guarded: model.guarded_power(prediction, &margins)?,
                        taught: *taught,
                    })
                }));
            });
        }
        self.unit = self.unit.taught(lesson, &seen, lesson.warmer(warmer_k));
        self.adapt(board);
    }

    /// The same under the load that has just taught it, which goes on: its heat sink is warmer by less. Of a part of the full
    /// load, what an older lesson knows better counts as well.
    pub fn learn_now(&mut self, lesson: &Lesson, older: Option<&Lesson>, board: &Board) {
        match lesson.is_full() {
            true => self.learn(lesson, RISE_K, board),
            false => {
                let both = older.map(|older| lesson.clone().after(older));
                self.learn(both.as_ref().unwrap_or(lesson), WARMER_K, board);
            }
        }
    }

    /// What the modes of the front drew under load for at least a time, beside the model's predictions.
    pub fn lesson(
        &self,
        drawn: &[Drawn],
        least: Milliseconds,
        board: &Board,
        at: UtcSeconds,
    ) -> Result<Lesson, NoLesson> {
        let subject = self.subject(board);
        let mut seen = Vec::new();
        if let Some(model) = self.predicting() {
            sweep(&model, &mut |id, prediction| {
                let of_mode = drawn.iter().find(|it| it.mode == id);
                seen.extend(of_mode.and_then(|it| Some((model.power(prediction)?, *it))));
            });
        }
        Lesson::new(subject, at, least, &seen)
    }

    /// From now on the model's predictions are not used.
    pub fn distrust(&mut self, why: Distrust, board: &Board) {
        self.distrust = Some(why);
        self.adapt(board);
    }

    /// The model, if its predictions are used.
    fn predicting(&self) -> Option<Model<'_>> {
        let bytes = self.model.as_deref().filter(|_| self.distrust.is_none())?;
        // It was parsed before.
        Model::parse(bytes).ok()
    }

    /// Selects the front. Returns the numbers of cores of all modes that the board supports.
    fn choose(&mut self, board: &Board) -> BTreeSet<u32> {
        let mut supported = BTreeSet::new();
        let mut keep = |id| {
            let mode = self.grid.mode(id);
            let Some(mode) = mode.filter(|mode| self.settable.can_set(mode)) else {
                return false;
            };
            supported.insert(mode.cores);
            self.cores.is_none_or(|cores| cores.contains(mode.cores))
        };
        let bytes = self.model.clone();
        // It was parsed before.
        let model = bytes.as_deref().and_then(|bytes| Model::parse(bytes).ok());
        let Some(model) = model else {
            let modes = (0..self.grid.modes() as u16).map(ModeId);
            let modes: Vec<ModeId> = modes.filter(|id| keep(*id)).collect();
            self.modes = modes.len();
            self.front = self.in_places(modes.into_iter());
            self.least = self.least_of(board);
            self.put_least(None, board);
            return supported;
        };
        let (mut ends, mut modes) = (None, Vec::new());
        sweep(&model, &mut |id, prediction| {
            // The lowest value of each axis comes first, the highest last.
            ends = Some((
                ends.map_or((id, prediction), |(first, _)| first),
                (id, prediction),
            ));
            if keep(id) {
                modes.push((id, prediction));
            }
        });
        self.modes = modes.len();
        let idle = Milliwatts(compatibility::idle_mw(&board.identity().compatible));
        self.distrust = self.distrust.or_else(|| {
            let (first, last) = ends?;
            let end = |(id, prediction)| Some((self.grid.mode(id)?, model.power(prediction)?));
            distrust([end(first)?, end(last)?], idle)
        });
        self.front = match self.distrust {
            None => {
                let mut front = Front::of_modes(&model, modes, self.confidence);
                front.for_unit(&self.unit.effect);
                front
            }
            Some(Distrust::NoModel) => {
                in_order(&Front::<POINTS>::of_modes(&model, modes, self.confidence))
            }
            Some(_) => self.in_places(modes.iter().map(|(id, _)| *id)),
        };
        self.least = self.least_of(board);
        let guess = ends.map(|((_, guess), _)| guess);
        let guess = guess.filter(|_| self.distrust.is_none());
        let guess = guess.map(|guess| {
            let power = model.power(guess).unwrap_or_default();
            (self.unit.effect.power(power), model.time(guess))
        });
        self.put_least(guess, board);
        supported
    }

    /// A front of unknown powers, in the order of a board that is known.
    fn in_places(&self, modes: impl Iterator<Item = ModeId>) -> Front<POINTS> {
        let Ok(other) = Model::parse(generic::OTHER) else {
            // A test parses it.
            return Front::new();
        };
        let mut all = Vec::new();
        sweep(&other, &mut |id, prediction| all.push((id, prediction)));
        let front = Front::<POINTS>::of_modes(&other, all, self.confidence);
        in_places(&front, other.grid(), &self.grid, modes)
    }

    /// Makes the board's least mode the front's first, with a guess of its power and time if there is one.
    fn put_least(&mut self, guess: Option<(Milliwatts, Microseconds)>, board: &Board) {
        let first = self.front.points().first().map(|point| point.mode);
        let same = first.filter(|first| self.mode(*first) == Some(self.least));
        let least = match same {
            _ if !board.reaches(&self.least) => Least::Unreachable,
            Some(same) => Least::Mode(same),
            None => Least::Other,
        };
        let unknown = || {
            let (power, time) = slowest(&self.front)?;
            Some((power, Microseconds(time.0.saturating_mul(2))))
        };
        if let Some((power, time)) = guess.or_else(unknown) {
            self.front.put_least(least, power, time);
        }
    }

    /// The board's least mode. A clock that cannot be set is at the grid's highest.
    fn least_of(&self, board: &Board) -> PowerMode {
        let mut knobs = least(board, self.cores).knobs();
        for (knob, axis) in knobs.iter_mut().zip(Axis::ALL) {
            if let Reach::Free(highest) = self.settable.reach(axis) {
                *knob = *highest;
            }
        }
        PowerMode::from_knobs(knobs)
    }

    /// The mode that the board is set to for an ID of the front.
    pub fn mode(&self, id: ModeId) -> Option<PowerMode> {
        match id {
            ModeId::LEAST => Some(self.least),
            id => self.settable.on_board(&self.grid.mode(id)?),
        }
    }

    /// The predicted power of a mode of the board, or of the supported mode next to it; `None` if the predictions are
    /// not used.
    pub fn predicted(&self, mode: &PowerMode) -> Option<Milliwatts> {
        Some(self.near(mode)?.power)
    }

    /// The predictions for a mode of the board, or for the supported mode next to it; `None` if they are not used.
    pub fn near(&self, mode: &PowerMode) -> Option<Near> {
        let model = self.predicting()?;
        let distance = |other: PowerMode| -> f64 {
            let pairs = mode.knobs().into_iter().zip(other.knobs());
            pairs
                .map(|(a, b)| (f64::from(a.max(1)) / f64::from(b.max(1))).ln().abs())
                .sum()
        };
        let mut nearest = None;
        sweep(&model, &mut |id, prediction| {
            let Some(other) = self
                .grid
                .mode(id)
                .and_then(|mode| self.settable.on_board(&mode))
            else {
                return;
            };
            let distance = distance(other);
            if nearest.is_none_or(|(least, _)| distance < least) {
                nearest = Some((distance, prediction));
            }
        });
        let (distance, prediction) = nearest?;
        let effect = &self.unit.effect;
        Some(Near {
            distance,
            time: effect.time(model.time(prediction)),
            power: effect.power(model.power(prediction)?),
        })
    }

    /// How much slower the choice under a limit is than on a unit of the model, as a part of the speed.
    pub fn slower(&self, limit: Milliwatts) -> f32 {
        let time = |limit: f32| {
            let query = Query {
                power_limit: Some(Milliwatts(limit as u32)),
                ..Query::default()
            };
            Some(self.front.select(&query).ok()?.time.0 as f32)
        };
        let limit = limit.0 as f32;
        let times = time(limit * self.unit.margin()).zip(time(limit));
        times.map_or(0.0, |(narrow, wide)| 1.0 - narrow / wide)
    }

    /// The mode of fewest cores and lowest clocks.
    pub fn least(&self) -> PowerMode {
        self.least
    }

    /// The predicted power of the least mode; 0 if the predictions are not used.
    pub fn least_power(&self) -> Milliwatts {
        let least = self.front.points().first();
        let least = least.filter(|_| self.distrust.is_none());
        least.map_or(Milliwatts(0), |point| point.power)
    }
}

impl Setup {
    /// Reads the model and discovers the board. Writes nothing.
    pub fn new(config: Config, files: &impl Files, root: &Path) -> Result<Self, SetupError> {
        Self::build(config, None, files, root)
    }

    /// The same for a model that need not be in its file yet.
    pub fn with_model(
        config: Config,
        path: &Path,
        model: &[u8],
        files: &impl Files,
        root: &Path,
    ) -> Result<Self, SetupError> {
        Self::build(config, Some((path, model)), files, root)
    }

    fn build(
        config: Config,
        model: Option<(&Path, &[u8])>,
        files: &impl Files,
        root: &Path,
    ) -> Result<Self, SetupError> {
        let mut board = Board::discover(files, root)?;
        let mut config = config;
        if config.current.is_some() {
            config.set_input(board.input_mv(files).ok_or(SetupError::NoInput)?);
        }
        if config.backstop.is_some() {
            board.check_backstop(files)?;
        }
        let meter = config.supply.as_ref().and_then(|it| it.meter.as_ref());
        let meter = meter.map(|file| Meter::new(file, root));
        if let Some(meter) = &meter {
            check_meter(meter, &board)?;
        }
        board.set_clocks(config.clocks);
        let unit = ThisUnit::id(files, root);
        let choices = match model {
            Some((path, bytes)) => Choices::from_bytes(bytes, path, &config, &board, unit)?,
            None => Choices::read(&config, &board, unit)?,
        };
        let models = match &config.model {
            Some(path) => folder_of(path),
            None => {
                let name = compatibility::board_name(&board.identity().compatible);
                config::models(root).join(name.unwrap_or_default())
            }
        };
        Ok(Self {
            config,
            board,
            choices,
            models,
            meter,
        })
    }

    /// Reads what was learned of this unit from below `root`, and takes it. Returns why it is not used.
    pub fn learn_from(&mut self, root: &Path, now: UtcSeconds) -> Result<(), Unusable> {
        let subject = self.choices.subject(&self.board);
        let Some(lesson) = Lesson::read(root, &subject)? else {
            return Ok(());
        };
        let lesson = lesson.checked(&subject, now)?;
        self.choices.learn(&lesson, WARMER_K, &self.board);
        Ok(())
    }

    /// The lowest of the limit, the average, and the budget's mean power.
    pub fn lowest_limit(&self) -> Milliwatts {
        let limit = self.config.limit;
        let average = limit.average.map_or(limit.power, |average| average.power);
        let budget = limit.budget.map_or(limit.power, |budget| budget.mean());
        limit.power.min(average).min(budget)
    }

    /// Creates a governor. It assumes L4T's sensor settings until they are read.
    pub fn governor(&self) -> Governor<POINTS> {
        let steps = self.board.sensor_steps();
        let chips = steps.map(|step| Chip { step, ..Chip::L4T });
        let interval = self.board.rails().count() as u64 * SAMPLE_MS_PER_RAIL;
        let settings = Settings {
            sensor_offset: self.board.sensor_offset(),
            chips,
            sample_interval: Milliseconds(interval).max(MIN_SAMPLE_INTERVAL),
            memory: self.config.memory.0,
            ..Settings::default()
        };
        let mut governor = Governor::new(settings, self.config.limit);
        governor.set_supply(self.config.draw());
        governor.set_aim(self.aim());
        // `Choices::read` checked power, confidence, and that there is a mode.
        let set = governor.set_front(self.choices.front.clone());
        set.expect("a front with power");
        governor
    }

    /// The mode for `once`: the fastest one, or the one that the config aims at, whose predicted power plus
    /// guard band is within the limit, less the sensor's errors. The least mode counts only if the board
    /// reaches it.
    pub fn choice(&self) -> Result<Choice, SelectError> {
        let allowed = self.governor().status().allowed;
        let choice = aim::choice(&self.choices.front, &self.aim(), allowed)?;
        if choice.mode != ModeId::LEAST || self.board.reaches(&self.choices.least) {
            return Ok(choice);
        }
        // The first mode that the board can be in.
        let points = self.choices.front.points();
        let least = points.get(1).or(points.first());
        Err(SelectError::OverLimit {
            least_power: least.map_or(Milliwatts(0), |point| point.guarded),
        })
    }

    /// The deadline that the limit does not allow.
    pub fn unmet(&self) -> Option<Unmet> {
        let allowed = self.governor().status().allowed;
        let limit_for = |power| self.limit_for(power);
        Unmet::find(&self.choices.front, &self.aim(), allowed, limit_for)
    }

    /// The limit that allows a mode of this predicted power with its guard band.
    pub fn limit_for(&self, power: Milliwatts) -> Placed {
        let offset = self.board.sensor_offset();
        let power = Milliwatts(power.0.saturating_add(offset.0));
        self.config.at_limit(self.config.draw().supply(power))
    }

    /// The config's aim.
    pub fn aim(&self) -> Aim {
        self.choices.aim(self.config.aim, None)
    }

    /// What the model says of this unit, and what it costs.
    pub fn unit(&self) -> String {
        self.choices.of_unit(self.governor().status().allowed)
    }

    /// Sets the mode of [`Self::choice`], or the least mode if there is none. If a knob does not obey, chooses
    /// among the modes that are left, and sets again. `told` gets each mode that was set, and the number of
    /// writes.
    pub fn set_choice(
        &mut self,
        files: &mut impl Files,
        mut told: impl FnMut(&PowerMode, u32),
    ) -> Result<(), ApplyError> {
        for left in (0..=MOST_CHOICES).rev() {
            let mode = match self.choice() {
                Ok(choice) if left > 0 => self.mode(choice.mode),
                _ => self.safe(),
            };
            let before = self.board.obedience_changes();
            let applied = self.board.apply(files, &mode)?;
            told(&mode, applied.writes);
            if self.board.obedience_changes() == before {
                break;
            }
            self.choices.adapt(&self.board);
        }
        Ok(())
    }

    /// The mode that a new governor sets before any measurement.
    pub fn first(&self) -> PowerMode {
        let command = self.governor().step(&Input::at(Milliseconds(0)));
        match command {
            Command::Apply(mode) => self.mode(mode),
            Command::Keep => self.safe(),
        }
    }

    /// The safe mode: the one of fewest cores and lowest clocks.
    pub fn safe(&self) -> PowerMode {
        self.choices.least()
    }

    /// The mode of an ID from the front.
    pub fn mode(&self, id: ModeId) -> PowerMode {
        self.choices.mode(id).unwrap_or(self.safe())
    }
}

/// Refuses a meter that is the module's own sensor: it would show nothing that the sensor does not.
fn check_meter(meter: &Meter, board: &Board) -> Result<(), SetupError> {
    // The same device has a path by its class and one by its bus, and a link may lead to the meter.
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = |path: &Path| path.parent().map(real);
    let folder = folder(&real(meter.path()));
    let mut devices = board.sensor_devices();
    match devices.find(|(device, _)| folder.as_ref() == Some(&real(device))) {
        Some((_, rail)) => Err(SetupError::MeterOfModule {
            path: meter.path().to_owned(),
            rail: rail.to_owned(),
        }),
        None => Ok(()),
    }
}

/// Predicts all profiled modes. The code of a sweep is large, and this is the only one.
fn sweep(model: &Model<'_>, visit: &mut dyn FnMut(ModeId, Prediction)) {
    model.sweep(&model.profiled(), visit);
}

/// The mode of fewest cores and lowest clocks that a board can be set to, with as many cores as a config
/// wants.
pub fn least(board: &Board, cores: Option<Cores>) -> PowerMode {
    let least = board.least();
    let mut counts = board.core_counts();
    let wanted = counts.find(|count| cores.is_none_or(|cores| cores.contains(*count)));
    PowerMode {
        cores: wanted.unwrap_or(least.cores),
        ..least
    }
}

/// The canonical folder of a file, which itself may be a symbolic link.
fn folder_of(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().unwrap_or(&path);
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}

fn listed(numbers: &[u32]) -> String {
    let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
    numbers.join(", ")
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Without NONBLOCK, opening a pipe that has no writer would block.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if metadata.len() > MAX_MODEL_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::new();
    // The file may have grown since the check.
    file.take(MAX_MODEL_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A message about the values of an axis that the board lacks; `None` if it has all.
fn left_out_of(grid: &Grid, axis: Axis, reach: &Reach) -> Option<String> {
    let name = match axis {
        Axis::Cores => "number of cores",
        Axis::Cpu => "CPU clock",
        Axis::Gpu => "GPU clock",
        Axis::Emc => "memory clock",
    };
    let all = grid.axis(axis);
    match reach {
        Reach::Free(_) if all.len() == 1 => None,
        Reach::Free(highest) => Some(format!("{name}: cannot be set; assumed to be {highest}")),
        Reach::Values(values)
            if values.len() == all.len() && values.iter().all(|it| it.grid == it.board) =>
        {
            None
        }
        Reach::Values(values) => {
            let others = values.iter().filter(|it| it.grid != it.board).count();
            let (had, all) = (values.len() - others, all.len());
            let instead = match others {
                0 => String::new(),
                1 => ", and a lower one in place of one other".to_owned(),
                others => format!(", and lower ones in place of {others} others"),
            };
            Some(format!(
                "{name}: the board has {had} of the model's {all} values{instead}"
            ))
        }
    }
}

/// Power and time of the mode of a front that draws least.
fn slowest(front: &Front<POINTS>) -> Option<(Milliwatts, Microseconds)> {
    let (first, time) = front.points().first().zip(front.times().first())?;
    Some((first.power, *time))
}
