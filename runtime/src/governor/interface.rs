//! What goes into a governor, and what comes out of it.

use super::{Average, Budget, ONE, Sample};
use crate::grid::ModeId;
use crate::units::{Confidence, Milliseconds, Milliwatts};

/// What a governor knows of its board. Ratios are in units of 1/65,536 (Q16), at most one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Confidence of the guard band in which the margin of distant modes ends.
    pub confidence: Confidence,
    /// From one result of a chip of the sensor to the next, nominally; each is the mean over this
    /// time. 1 … 60,000 ms; a chip may be off by an eighth.
    pub period: Milliseconds,
    /// Greatest error of the sensor that is proportional to the power.
    pub sensor_gain: u32,
    /// Error of the sensor beside that, which is taken from the limit too.
    pub sensor_offset: Milliwatts,
    /// How far the model may be off before anything was measured.
    pub distrust: u32,
    /// Margin of a mode that was not measured, beside one that was.
    pub near_margin: u32,
    /// Rise of the power in a second that is assumed while there is no result.
    pub slew: u32,
    /// The time without a result after which nothing is known.
    pub patience: Milliseconds,
}

impl Default for Settings {
    /// An INA3221 as L4T sets it: 512 samples, 430 ms, gain within 0.25 %.
    fn default() -> Self {
        Self {
            confidence: Confidence::P95,
            period: Milliseconds(430),
            sensor_gain: ONE / 400,
            sensor_offset: Milliwatts(0),
            distrust: ONE * 3 / 10,
            near_margin: ONE * 3 / 100,
            slew: ONE / 50,
            patience: Milliseconds(1_700),
        }
    }
}

/// What must not be exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// At any time, by the sensor's mean over one period.
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

/// What is known of the board at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// Time since any start. It does not stand still while the board sleeps.
    pub now: Milliseconds,
    /// The sensor; `None` where it cannot be read.
    pub sample: Option<Sample>,
    /// The mode that was read back; `None` where it is none of the front's.
    pub mode: Option<ModeId>,
    /// Over-current events since the last step.
    pub over_current: bool,
    /// A temperature is above its limit.
    pub too_hot: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Nothing.
    Keep,
    /// Set a mode.
    Apply(ModeId),
}

/// Why the governor is in the safe mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No result of the sensor, or only repeated or absurd ones.
    NoSensor,
    /// Even the least mode is above the limit.
    LimitTooLow,
    /// No mode can be applied.
    NothingApplies,
}

/// What a governor is doing; see the picture above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The first mode is being set.
    Booting,
    /// It is set, or set anew after somebody else has changed it, and its first full result is
    /// awaited.
    Settling,
    /// A mode is set and measured.
    Tracking,
    /// A slower mode was set and its first full result is awaited.
    SteppingDown,
    /// A faster mode was set and its first full result is awaited.
    ProbingUp,
    /// The safe mode.
    Safe(Cause),
}

/// What a governor shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// What it is doing.
    pub state: State,
    /// The mode that it wants.
    pub mode: ModeId,
    /// The reading that is allowed now: the limit less the sensor's errors, or less for heat,
    /// over-current, an average or a budget.
    pub allowed: Milliwatts,
    /// The last full result.
    pub measured: Option<Milliwatts>,
    /// What the model says of the mode.
    pub predicted: Milliwatts,
    /// Measured over predicted power of the mode in Q16.
    pub ratio: u32,
    /// Results over the allowed power.
    pub violations: u32,
    /// Changes of the mode.
    pub changes: u32,
}

/// A governor needs a mode to choose, and a front with power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
