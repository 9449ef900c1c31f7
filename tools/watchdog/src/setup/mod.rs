//! Builds everything that control needs from a config: the board, the model, and the front of
//! those modes of the model that the board can be set to.

mod choices;
mod error;

use std::path::{Path, PathBuf};

use wattgate_board::{ApplyError, Board, Files};
use wattgate_runtime::estimator::Chip;
use wattgate_runtime::{
    Aim, Choice, Command, Governor, Input, Milliseconds, Milliwatts, ModeId, PowerMode,
    SelectError, Settings,
};

pub use self::choices::{Choices, Near, POINTS, least};
pub use self::error::SetupError;
use crate::aim::{self, Unmet};
use crate::clock::UtcSeconds;
use crate::compatibility;
use crate::config::{self, Config};
use crate::lesson::{Lesson, Unusable, WARMER_K};
use crate::meter::Meter;
use crate::quantity::Placed;
use crate::unit::ThisUnit;

/// Interval between steps near the limit, per rail, which bounds the I2C bus time of sensor reads.
/// Reading a register takes 0.55 ms (`jetson-platform.md`, section 6.3); a step reads the current
/// of each rail, and its voltage if it may have changed. 15 ms per rail take 4.1 % of the bus, and
/// up to 6.5 % with the extra steps after a suspected change of power (tests/it/control/sensor.rs).
const SAMPLE_MS_PER_RAIL: u64 = 15;

/// Least interval between steps: shorter ones do not resolve the slope of a power step.
const MIN_SAMPLE_INTERVAL: Milliseconds = Milliseconds(16);

/// So many modes are tried at most. A mode fails if a knob does not obey; once all have failed, the least mode is set.
const MOST_CHOICES: u32 = 8;

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
        if choice.mode != ModeId::LEAST || self.board.reaches(&self.choices.least()) {
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

    /// The lowest limit under which a mode may be set that draws at most this power, its guard band included.
    pub fn limit_for(&self, most: Milliwatts) -> Placed {
        // The sensor's typical error is subtracted from a limit.
        let offset = self.board.sensor_offset();
        let shown = Milliwatts(most.0.saturating_add(offset.0));
        self.config.at_limit(self.config.draw().supply(shown))
    }

    /// The config's aim.
    pub fn aim(&self) -> Aim {
        self.choices.aim(self.config.aim, None)
    }

    /// What the model says of this unit, and what it costs.
    pub fn unit(&self) -> String {
        self.choices.of_unit(self.governor().status().allowed)
    }

    /// Sets the mode of [`Self::choice`], or the least mode if there is none. If a knob does not obey, it takes the modes that need
    /// the knob out of the choice, and sets the next one. Calls `told` with each mode that it has set, and with the number of
    /// writes that this took.
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

/// The canonical folder of a file, which itself may be a symbolic link.
fn folder_of(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().unwrap_or(&path);
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}
