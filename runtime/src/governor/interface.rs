//! What goes into a governor, and what comes out of it.

use core::fmt;

use crate::estimator::{Chip, MOST_CHIPS, Sample};
use crate::grid::ModeId;
use crate::units::{Confidence, Milliseconds, Milliwatts};

/// What a governor knows of its board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Confidence of the guard band with which the model is believed before anything was measured.
    pub confidence: Confidence,
    /// The chips of the power sensor.
    pub chips: [Chip; MOST_CHIPS],
    /// Greatest error of the sensor that is proportional to the power, in units of 1/65,536, at
    /// most one.
    pub sensor_gain: u32,
    /// Error of the sensor beside that, which is taken from the limit too.
    pub sensor_offset: Milliwatts,
    /// From one look to the next while the power is near the limit; 1 … 1,000 ms. Far from it looks
    /// are rarer. They come twice as often when the power seems to change, and three times as often when
    /// it seems to be over the limit.
    pub look: Milliseconds,
    /// For how long a board has to work and draw less until the most that its workload drew is
    /// forgotten; `None` for ever.
    pub memory: Option<Milliseconds>,
}

impl Default for Settings {
    /// An INA3221 as L4T sets it, with a gain within 0.25 %, and a memory of ten minutes.
    fn default() -> Self {
        Self {
            confidence: Confidence::P95,
            chips: [Chip::L4T; MOST_CHIPS],
            sensor_gain: (1 << 16) / 400,
            sensor_offset: Milliwatts(0),
            look: Milliseconds(25),
            memory: Some(Milliseconds(600_000)),
        }
    }
}

/// What must not be exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// At any time, as the mean over 430 ms.
    pub power: Milliwatts,
    /// On average over a longer time.
    pub average: Option<Average>,
    /// In sum until a time.
    pub budget: Option<Budget>,
}

impl Limit {
    /// At any time, and nothing else.
    pub const fn of(power: Milliwatts) -> Self {
        Self {
            power,
            average: None,
            budget: None,
        }
    }
}

/// A budget of energy: `power` × `window` over any `window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Average {
    /// The mean power.
    pub power: Milliwatts,
    /// The time over which it is taken, at least one second.
    pub window: Milliseconds,
}

/// Energy that has to last for a time, such as that of a battery for a flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// In mJ, from the time on at which the limit is set.
    pub millijoules: u64,
    /// How long it has to last. What is left then is spent ever more slowly.
    pub time: Milliseconds,
}

/// What is known of the board at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// Time since any start. It does not stand still while the board sleeps.
    pub now: Milliseconds,
    /// The sensor; `None` where it cannot be read.
    pub sample: Option<Sample>,
    /// The mode that was read back; `None` where it is none of the front's.
    pub mode: Option<ModeId>,
    /// Load of the GPU in permille; `None` where it is not known.
    pub gpu_load: Option<u16>,
    /// Steps that the workload has reported in all; `None` where it reports none. They tell how busy
    /// the board is where the GPU's load does not.
    pub steps: Option<u64>,
    /// Over-current events since the last step.
    pub over_current: bool,
    /// A temperature is above its limit.
    pub too_hot: bool,
}

/// What is to be done. Callers match every command, so that none is overlooked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Nothing.
    Keep,
    /// Set a mode.
    Apply(ModeId),
}

/// Why the governor is in the safe mode. Callers match every cause, so that none is overlooked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The sensor cannot be read, shows nonsense, or does not follow what the board does.
    NoSensor,
    /// Even the least mode is above the limit.
    LimitTooLow,
    /// No mode can be applied.
    NothingApplies,
}

/// What a governor is doing: the table of the [module](super) says how states follow each other.
/// Callers match every state, so that none is overlooked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The first mode is being set.
    Booting,
    /// It is set, or set anew after somebody else has changed it, and is measured.
    Settling,
    /// A mode is set and was measured.
    Tracking,
    /// A slower mode was set and is measured.
    SteppingDown,
    /// A faster mode was set and is measured.
    ProbingUp,
    /// The safe mode.
    Safe(Cause),
}

/// What a governor shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// What it is doing.
    pub state: State,
    /// The mode that it wants.
    pub mode: ModeId,
    /// The reading that is allowed now: the limit less the sensor's errors, or less for heat,
    /// over-current, an average or a budget.
    pub allowed: Milliwatts,
    /// The mean over 430 ms, if the mode is set for so long.
    pub measured: Option<Milliwatts>,
    /// The power now, with the sensor's lag undone.
    pub power: Option<Milliwatts>,
    /// Energy since the start.
    pub millijoules: u64,
    /// The time in which the mean over 430 ms was over what is allowed.
    pub over: Milliseconds,
    /// What the model says of the mode.
    pub predicted: Milliwatts,
    /// The most that the workload is taken to draw in the mode, over the prediction, in Q16.
    pub ratio: u32,
    /// How often the power was over what is allowed.
    pub violations: u32,
    /// Changes of the mode.
    pub changes: u32,
}

/// A governor needs a mode to choose, and a front with power.
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
