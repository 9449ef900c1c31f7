//! Events of the control for the log and the counters.

use std::fmt;
use std::path::Path;

use wattgate_board::{
    ApplyError, AveragingError, BackstopError, Disobedience, KnobError, RunningClock, SampleError,
};
use wattgate_runtime::governor::{Cause, State};
use wattgate_runtime::{Milliseconds, Milliwatts, PowerMode, Status};

use crate::distrust::Distrust;
use crate::meter::MeterFault;
use crate::observer;
use crate::quantity::{Placed, Watts};

/// An event for the log and the counters.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// A mode was set.
    Applied { mode: PowerMode, status: Status },
    /// A mode is none of the board's.
    NotApplied {
        mode: PowerMode,
        error: &'a ApplyError,
    },
    /// The model's predictions are not used from now on.
    Distrusted(Distrust),
    /// A knob does not do what was requested. The choice goes on among the modes that the board can be in.
    Disobeys(&'a Disobedience),
    /// A knob obeys again.
    Obeys(&'a Path),
    /// Another program changed the mode, so many times since the last such event. The governor sets
    /// it again. At most one event a minute.
    Disturbed {
        /// The program, if its settings give it away.
        by: Option<&'static str>,
        error: &'a KnobError,
        times: u32,
    },
    /// The governor entered another state without setting a mode.
    State(Status),
    /// The sensor became unreadable; reported once per outage.
    NoSample(&'a SampleError),
    /// The same while this program does not control the board.
    NoReading(&'a SampleError),
    /// The sensor is readable again.
    SampleAgain,
    /// The board was suspended for this time.
    Slept(Milliseconds),
    /// The sensor's time constant changed to this value.
    TimeConstant(Milliseconds),
    /// The sensor's averaging cannot be set.
    NotAveraged(&'a AveragingError),
    /// The backstop cannot be set; reported once.
    NoBackstop(&'a BackstopError),
    /// Another program changed the backstop; it is set again.
    BackstopChanged,
    /// Over-current events or temperature lower the limit.
    Derated(&'static str),
    /// The power is over the limit, and nothing lower can be set.
    CannotHold { measured: Placed, limit: Placed },
    /// The power has been within the limit for a while again.
    HoldsAgain,
    /// The supply's meter cannot be trusted; at most one event a minute.
    NoMeter { path: &'a Path, fault: MeterFault },
    /// It can be trusted again.
    MeterAgain(&'a Path),
    /// Another program lowered a clock; it is set again.
    Lowered,
    /// Cooling caps a clock below the mode.
    Capped,
    /// No clock is capped any longer.
    NotCapped,
    /// Firmware runs `a CPU` or `the GPU` slower than requested.
    Throttled(&'static str, RunningClock),
    /// CPUs and GPU run as requested again.
    NotThrottled,
    /// The mode that would be set, if this program did not only observe.
    WouldSet(observer::Choice),
    /// What was observed since the start.
    Observed(observer::Summary),
}

/// Priority of a log line, with syslog's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// The limit may not hold.
    Error = 3,
    /// The limit holds, but something is wrong.
    Warning = 4,
    /// Unusual, but not a fault.
    Notice = 5,
    /// Normal operation.
    Info = 6,
}

impl Event<'_> {
    /// The priority of its log line.
    pub fn priority(&self) -> Priority {
        match self {
            Self::NotApplied { .. }
            | Self::NoSample(_)
            | Self::NoBackstop(_)
            | Self::CannotHold { .. } => Priority::Error,
            Self::State(Status {
                state: State::Safe(_),
                ..
            })
            | Self::Applied {
                status:
                    Status {
                        state: State::Safe(_),
                        ..
                    },
                ..
            }
            | Self::Derated(_)
            | Self::Disobeys(_)
            | Self::Distrusted(_)
            | Self::Capped
            | Self::Throttled(..)
            | Self::NoReading(_)
            | Self::NoMeter { .. }
            | Self::NotAveraged(_) => Priority::Warning,
            Self::Disturbed { .. }
            | Self::BackstopChanged
            | Self::Obeys(_)
            | Self::HoldsAgain
            | Self::Lowered
            | Self::NotCapped
            | Self::NotThrottled
            | Self::Slept(_)
            | Self::SampleAgain
            | Self::WouldSet(_)
            | Self::Observed(_)
            | Self::MeterAgain(_)
            | Self::TimeConstant(_) => Priority::Notice,
            Self::Applied { .. } | Self::State(_) => Priority::Info,
        }
    }
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Applied { mode, status } => {
                write!(f, "{}: {mode}", name(status.state))?;
                match status.predicted {
                    Milliwatts(0) => write!(f, "; ")?,
                    predicted => write!(f, "; predicted {}, ", Watts(predicted))?,
                }
                write!(f, "allowed {}", Watts(status.allowed))
            }
            Self::NotApplied { mode, error } => write!(f, "{mode}: {error}"),
            Self::Distrusted(why) => why.fmt(f),
            Self::Disobeys(knob) => write!(f, "a knob does not obey: {knob}"),
            Self::Obeys(knob) => write!(f, "a knob obeys again: {}", knob.display()),
            Self::Disturbed { by, error, times } => {
                let by = by.unwrap_or("another program");
                write!(f, "{by} changed the mode")?;
                if *times > 1 {
                    write!(f, " {times} times")?;
                }
                write!(f, ": {error}")
            }
            Self::State(status) => {
                write!(f, "{}", name(status.state))?;
                if let Some(measured) = status.measured {
                    write!(f, "; measured {}", Watts(measured))?;
                }
                write!(f, ", allowed {}", Watts(status.allowed))
            }
            Self::NoSample(error) => write!(
                f,
                "the power sensor cannot be read, so the least mode is set until it can: {error}; `dmesg` shows its driver's errors"
            ),
            Self::NoReading(error) => write!(f, "the power sensor cannot be read: {error}"),
            Self::SampleAgain => write!(f, "the power sensor is readable again"),
            Self::Slept(time) => write!(f, "the board was suspended for {} s", time.0 / 1_000),
            Self::TimeConstant(time) => {
                write!(f, "the power sensor has a time constant of {} ms", time.0)
            }
            Self::NotAveraged(error) => {
                write!(f, "the power sensor averages as before: {error}")
            }
            Self::NoBackstop(error) => write!(f, "the backstop is not set: {error}"),
            Self::BackstopChanged => {
                write!(f, "another program changed the backstop; it is set again")
            }
            Self::Derated(why) => write!(f, "{why}: the limit is lowered"),
            Self::CannotHold { measured, limit } => write!(
                f,
                "the limit cannot be held: {measured} of {limit}, and nothing lower can be set; raise the limit, or stop the workload"
            ),
            Self::NoMeter { path, fault } => write!(
                f,
                "the supply's meter counts as absent, and what the module draws tells the supply's power: {}: {fault}",
                path.display()
            ),
            Self::MeterAgain(path) => {
                write!(f, "the supply's meter counts again: {}", path.display())
            }
            Self::HoldsAgain => write!(f, "the limit holds again"),
            Self::Lowered => write!(f, "another program lowered a clock; it is set again"),
            Self::Capped => write!(
                f,
                "cooling caps a clock: the board is slower than its mode until it is cooler"
            ),
            Self::NotCapped => write!(f, "cooling no longer caps a clock"),
            Self::Throttled(unit, clock) => write!(
                f,
                "throttled by firmware: {unit} runs at {} instead of {}",
                clock.delivered, clock.requested
            ),
            Self::NotThrottled => write!(f, "firmware no longer throttles"),
            Self::WouldSet(choice) => choice.fmt(f),
            Self::Observed(summary) => summary.fmt(f),
        }
    }
}

/// A state's name in messages.
pub fn name(state: State) -> &'static str {
    match state {
        State::Booting => "booting",
        State::Settling => "settling",
        State::Tracking => "tracking",
        State::SteppingDown => "stepping down",
        State::ProbingUp => "probing up",
        State::Safe(Cause::NoSensor) => "safe: the power sensor cannot be read",
        State::Safe(Cause::CannotHold) => "safe: even the mode of least power is above the limit",
        State::Safe(Cause::NothingApplies) => "safe: no mode can be set",
    }
}
