//! The modes that a board offers for a config: with the workload's model, or without.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::OFlags;
use wattgate_board::{Board, Reach, Settable};
use wattgate_cli::aim::Wanted;
use wattgate_runtime::fleet::UnitId;
use wattgate_runtime::front::Least;
use wattgate_runtime::grid::{Axis, Grid};
use wattgate_runtime::idle::Idle;
use wattgate_runtime::model::Prediction;
use wattgate_runtime::{
    Aim, Confidence, Front, Microseconds, Milliseconds, Milliwatts, ModeId, Model, PowerMode, Query,
};

use super::error::SetupError;
use crate::aim;
use crate::clock::UtcSeconds;
use crate::compatibility;
use crate::config::Config;
use crate::distrust::{Distrust, distrust, in_order, in_places};
use crate::full_load::Drawn;
use crate::generic;
use crate::lesson::{Lesson, NoLesson, RISE_K, Seen, Subject, WARMER_K};
use crate::quantity::Cores;
use crate::thinning;
use crate::unit::ThisUnit;

/// Capacity of the front; a larger front is thinned.
pub const POINTS: usize = 256;

/// Maximum size of a model file in bytes.
const MAX_MODEL_BYTES: u64 = 1 << 20;

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
            distrust: Some(Distrust::NoModel),
            origin: format!("no model; {known}"),
            model: bytes,
            ..Self::new(config, board, ThisUnit::without_model(unit), grid, settable)
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
            origin: format!("{}, {} on {device}", provenance.kind, provenance.workload),
            model: Some(bytes.into()),
            idle: model.idle().map_err(format)?,
            ..Self::new(config, board, unit, grid, settable)
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

    /// Nothing is chosen yet.
    fn new(config: &Config, board: &Board, unit: ThisUnit, grid: Grid, settable: Settable) -> Self {
        Self {
            model: None,
            confidence: config.confidence,
            cores: config.cores,
            grid,
            settable,
            least: board.least(),
            front: Front::new(),
            left_out: Vec::new(),
            unit,
            distrust: None,
            origin: String::new(),
            modes: 0,
            idle: None,
        }
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
            // Of a front without modes nothing is known: it gets the least one alone.
            let (power, time) = slowest(&self.front).unwrap_or_default();
            (power, Microseconds(time.0.saturating_mul(2)))
        };
        let (power, time) = guess.unwrap_or_else(unknown);
        self.front.put_least(least, power, time);
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

/// Predicts all profiled modes. The code of a sweep is large, and this is the only one.
fn sweep(model: &Model<'_>, visit: &mut dyn FnMut(ModeId, Prediction)) {
    model.sweep(&model.profiled(), visit);
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
