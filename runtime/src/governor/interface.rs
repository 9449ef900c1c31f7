//! The inputs and outputs of a governor.

use core::fmt;

use crate::estimator::{Chip, LONGEST_TIME_CONSTANT, MOST_CHIPS, Sample};
use crate::grid::ModeId;
use crate::quantities::{Milliseconds, Milliwatts};

/// The estimator needs a part of the sensor's time constant to estimate the size of a step of the load: one divided by
/// this number.
pub const CONFIRMATION_DIVISOR: u64 = 6;

/// Maximum in ms of the interval of samples, and of the window and the settling time.
pub const MOST_SAMPLE_INTERVAL: u64 = 100;
const MOST_WINDOW: u64 = 1_000;

/// The window of a limit, unless the settings say another one: the time constant of an INA3221 as L4T sets it.
pub const WINDOW: Milliseconds = Milliseconds(430);

/// Settings of a governor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The chips of the power sensor. Give absent chips the values of a present one: the slowest chip and the
    /// largest step count.
    pub chips: [Chip; MOST_CHIPS],
    /// Maximum gain error of the sensor in units of 1/65,536, at most 65,536 (1.0). It reduces the
    /// limit.
    pub sensor_gain: u32,
    /// Maximum offset error of the sensor. It reduces the limit too.
    pub sensor_offset: Milliwatts,
    /// Interval of samples while the power is near the limit; 1 … 100 ms. Far from the limit samples
    /// are rarer. They are twice as frequent when the power seems to change, and three times as
    /// frequent when it seems to exceed the limit.
    pub sample_interval: Milliseconds,
    /// The limit applies to means over this time; 1 … 1,000 ms. The governor uses a longer one where
    /// the sensor and the board cannot hold this one: see [`Settings::shortest_window`].
    pub window: Milliseconds,
    /// Time within which the power follows a mode that reads back; 1 … 1,000 ms.
    pub settling: Milliseconds,
    /// Time of work at lower levels after which the workload's highest level is forgotten; `None`
    /// for never.
    pub memory: Option<Milliseconds>,
}

impl Default for Settings {
    fn default() -> Self {
        Self::L4T
    }
}

impl Settings {
    /// An INA3221 as L4T sets it, with a gain within 0.25 %, and a memory of ten minutes.
    pub const L4T: Self = Self {
        chips: [Chip::L4T; MOST_CHIPS],
        sensor_gain: (1 << 16) / 400,
        sensor_offset: Milliwatts(0),
        sample_interval: Milliseconds(25),
        window: WINDOW,
        settling: Milliseconds(20),
        memory: Some(Milliseconds(600_000)),
    };

    /// The shortest window over which a limit can be held: the time to see a step of the load, with
    /// two samples, and the time in which the power follows the mode before and after it.
    pub const fn shortest_window(&self) -> Milliseconds {
        let [a, b, c, d] = &self.chips;
        let slowest = highest(
            highest(a.time_constant.0, b.time_constant.0),
            highest(c.time_constant.0, d.time_constant.0),
        );
        let seen = least(slowest, LONGEST_TIME_CONSTANT.0) / CONFIRMATION_DIVISOR;
        let samples = 2 * least(self.sample_interval.0, MOST_SAMPLE_INTERVAL);
        Milliseconds(seen + samples + 2 * least(self.settling.0, MOST_WINDOW))
    }

    pub(super) const fn is_sound(&self) -> bool {
        let [a, b, c, d] = &self.chips;
        self.sensor_gain <= 1 << 16
            && is_within(self.sample_interval, MOST_SAMPLE_INTERVAL)
            && is_within(self.window, MOST_WINDOW)
            && is_within(self.settling, MOST_WINDOW)
            && a.is_sound()
            && b.is_sound()
            && c.is_sound()
            && d.is_sound()
    }

    /// The window that is held.
    pub(super) const fn held_window(&self) -> Milliseconds {
        Milliseconds(highest(self.window.0, self.shortest_window().0))
    }
}

// `Ord` has no functions for constants.
pub(super) const fn least(one: u64, other: u64) -> u64 {
    if one < other { one } else { other }
}

const fn highest(one: u64, other: u64) -> u64 {
    if one > other { one } else { other }
}

const fn is_within(time: Milliseconds, most: u64) -> bool {
    1 <= time.0 && time.0 <= most
}

/// The limits that a governor holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Limit of the mean power over the [window](Settings::window).
    pub power: Milliwatts,
    /// Limit of the mean power over a longer window.
    pub average: Option<Average>,
    /// Limit of the energy over a time.
    pub budget: Option<Budget>,
}

impl Limit {
    /// A limit of the power without an average or a budget.
    pub const fn from_power(power: Milliwatts) -> Self {
        Self {
            power,
            average: None,
            budget: None,
        }
    }
}

/// A limit of the energy in any `window`: `power` × `window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Average {
    /// The mean power.
    pub power: Milliwatts,
    /// The averaging window, at least one second.
    pub window: Milliseconds,
}

/// Energy that must last for a time, such as that of a battery for a flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Energy in mJ. Counting starts when the budget is set. Setting an equal budget again goes on counting, also if
    /// limits without a budget held in between.
    pub millijoules: u64,
    /// How long the energy must last. Afterwards the rest is spent ever more slowly.
    pub time: Milliseconds,
}

/// What was read back of the board's mode. The enum is exhaustive, so that callers must handle every case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadBack {
    /// It was not read at this step. A mode that was read back counts as set for 150 ms more; afterwards, as changed by
    /// another program.
    #[default]
    Missing,
    /// No mode of the front: the mode that was asked for is not set yet, or another program has changed it.
    Other,
    /// This mode.
    Mode(ModeId),
}

impl From<Option<ModeId>> for ReadBack {
    /// `None` is no mode of the front.
    fn from(mode: Option<ModeId>) -> Self {
        mode.map_or(Self::Other, Self::Mode)
    }
}

/// The observations of the board at a step. [`Input::at`] makes one in which nothing is known but the
/// time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Input {
    /// Time since any origin. It should advance while the board sleeps. A time before the last one,
    /// or more than a day after it, is a gap of unknown length: the governor begins again.
    pub now: Milliseconds,
    /// Reading of the power sensor; `None` if it cannot be read.
    pub sample: Option<Sample>,
    /// The mode that the board is in.
    pub mode: ReadBack,
    /// Whether the board has refused the mode that the last command asked for. The governor then
    /// does not wait for it.
    pub refused: bool,
    /// Load of the GPU in permille; `None` if unknown.
    pub gpu_load: Option<u16>,
    /// Total steps that the workload has reported; `None` if it reports none. An aim needs them. They never permit more power:
    /// below the limit they choose a mode for a deadline, and steps that stand still make a level last longer.
    pub steps: Option<u64>,
    /// The phase of the workload, as a number of the caller's, such as 0 for the training and 1 for the evaluation;
    /// `None` if unknown. Across a change of it, the governor learns nothing about the modes.
    pub phase: Option<u16>,
    /// Whether an over-current event occurred since the last step.
    pub over_current: bool,
    /// Whether a temperature is above its limit.
    pub too_hot: bool,
    /// Whether the board runs slower than the mode that is set, because of heat or firmware. The
    /// governor then learns nothing and does not step up.
    pub throttled: bool,
}

impl Input {
    /// An input in which only the time is known.
    pub fn at(now: Milliseconds) -> Self {
        Self {
            now,
            ..Self::default()
        }
    }
}

/// The command to carry out. The enum is exhaustive, so that callers must handle every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Keep the mode.
    Keep,
    /// Set this mode.
    Apply(ModeId),
}

/// Why the governor is in the safe mode. The enum is exhaustive, so that callers must handle every
/// cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The sensor is blind: it cannot be read, its readings are implausible, or it does not follow
    /// the board.
    NoSensor,
    /// The limit cannot be held: the mean exceeds it in the mode of least power.
    CannotHold,
    /// No mode can be set.
    NothingApplies,
}

/// The state of a governor. The table of the [module](super) lists the transitions. The enum is
/// exhaustive, so that callers must handle every state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The first mode is being set.
    Booting,
    /// The first mode is set, or the mode is set again after another program changed it; it is
    /// being measured.
    Settling,
    /// A mode is set and measured.
    Tracking,
    /// A slower mode was set and is being measured.
    SteppingDown,
    /// A faster mode was set and is being measured.
    ProbingUp,
    /// The safe mode.
    Safe(Cause),
}

/// The status of a governor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The state.
    pub state: State,
    /// The mode that the governor wants.
    pub mode: ModeId,
    /// The allowed reading: the limit less the sensor's errors, or less for derating, an average or
    /// a budget.
    pub allowed: Milliwatts,
    /// The mean over the window; `None` until the mode has been set for that time.
    pub measured: Option<Milliwatts>,
    /// The estimated power now, without the sensor's lag.
    pub power: Option<Milliwatts>,
    /// Energy since the start, in mJ.
    pub millijoules: u64,
    /// The window that the limit applies to.
    pub window: Milliseconds,
    /// Number of times that the clock was set back, or forward by more than a day.
    pub gaps: u32,
    /// Total time in which the mean over the window exceeded the allowed reading.
    pub over: Milliseconds,
    /// The model's prediction of the mode's power; 0 for a front of [unknown](crate::Front::is_unknown) powers.
    pub predicted: Milliwatts,
    /// The workload's highest expected power in the mode, over the prediction, in Q16; 0 without a prediction.
    pub ratio: u32,
    /// Number of times that the power exceeded the allowed reading.
    pub violations: u32,
    /// Number of mode changes.
    pub changes: u32,
}

/// Why a front or a setting was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GovernorError {
    /// The front has no point.
    EmptyFront,
    /// The model does not predict power.
    NoPower,
    /// The guard band does not reach the confidence.
    Confidence,
    /// A setting is out of its range.
    Settings,
}

impl fmt::Display for GovernorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EmptyFront => "the front has no power mode",
            Self::NoPower => "the model does not predict power",
            Self::Confidence => "the guard band does not reach the confidence",
            Self::Settings => "a setting is out of its range",
        })
    }
}

impl core::error::Error for GovernorError {}
