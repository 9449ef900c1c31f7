//! Which mode to measure next, and the model that follows from the measurements.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use thiserror::Error;
use wattgate_cli::planning::ExpectedError;
use wattgate_runtime::PowerMode;

use crate::ender::Ender;
use crate::row::{Mark, Row};

/// A source of modes.
pub trait Planner {
    /// Waits until the planner is ready.
    fn begin(&mut self) -> Result<(), PlannerError> {
        Ok(())
    }

    /// What ends the planner while another thread waits for its answer.
    fn ender(&self) -> Option<Ender> {
        None
    }

    /// The next mode; `None` once enough are measured. `current` is the mode that is set.
    fn ask(&mut self, current: Option<PowerMode>) -> Result<Option<PowerMode>, PlannerError>;

    /// Reports a measurement.
    fn tell(&mut self, mode: PowerMode, time_ms: f64, power_mw: f64) -> Result<(), PlannerError>;

    /// Reports a mode that cannot be measured, with its power in mW where that was too high.
    fn exclude(&mut self, mode: PowerMode, power_mw: Option<f64>) -> Result<(), PlannerError>;

    /// Reports the power of the idle board in a mode. A planner that has no use for it ignores it.
    fn idle(&mut self, _: PowerMode, _power_mw: f64) -> Result<(), PlannerError> {
        Ok(())
    }

    /// Fits a model to the measurements.
    fn fit(&mut self) -> Result<Fitted, PlannerError>;
}

/// A model of the measurements.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The model file.
    pub model: Vec<u8>,
    /// Number of modes that it was fitted to.
    pub modes: usize,
    /// Expected errors over all modes.
    pub expected_error_pct: ExpectedError,
}

/// Why there is no next mode.
#[derive(Debug, Error)]
pub enum PlannerError {
    /// The planner does not start, or its streams fail.
    #[error("the planner `{command}` cannot be run: {source}; its own output may say why")]
    Io { command: String, source: io::Error },
    /// The planner has ended.
    #[error("the planner `{command}` has ended: {status}; {}", advice(status))]
    Ended { command: String, status: String },
    /// The trainer is not on this machine.
    #[error(
        "the planner `{command}` is not installed here: install wattgate-trainer, or name that of another machine with --planner, \
         such as 'ssh HOST {command}'"
    )]
    Absent { command: String },
    /// The planner answers with an error.
    #[error("the planner `{command}` refuses: {message}")]
    Refused { command: String, message: String },
    /// A list of modes alone does not fit.
    #[error("a list of modes fits no model; name a planner with --planner")]
    CannotFit,
    /// An answer is not one of the protocol.
    #[error(
        "the planner `{command}` answers `{line}`: {why}; install the wattgate-trainer of this release of wattgate, or correct --planner"
    )]
    Defect {
        command: String,
        line: String,
        why: String,
    },
}

/// What to do about a planner that has ended with this status.
fn advice(status: &str) -> &'static str {
    match status.ends_with(": 127") {
        true => "expected a command of this machine, or one behind ssh; correct --planner",
        false => "its own output may say why",
    }
}

/// Modes from a list, in its order.
#[derive(Clone, Debug)]
pub struct List(pub VecDeque<PowerMode>);

impl Planner for List {
    fn ask(&mut self, _: Option<PowerMode>) -> Result<Option<PowerMode>, PlannerError> {
        Ok(self.0.pop_front())
    }

    fn tell(&mut self, mode: PowerMode, _: f64, _: f64) -> Result<(), PlannerError> {
        self.exclude(mode, None)
    }

    /// Leaves the mode out, as it is done.
    fn exclude(&mut self, mode: PowerMode, _: Option<f64>) -> Result<(), PlannerError> {
        self.0.retain(|other| *other != mode);
        Ok(())
    }

    fn fit(&mut self) -> Result<Fitted, PlannerError> {
        Err(PlannerError::CannotFit)
    }
}

/// A list whose modes another planner learns and fits.
#[derive(Debug)]
pub struct Listed<P> {
    pub list: List,
    pub planner: P,
}

impl<P: Planner> Planner for Listed<P> {
    fn begin(&mut self) -> Result<(), PlannerError> {
        self.planner.begin()
    }

    fn ender(&self) -> Option<Ender> {
        self.planner.ender()
    }

    fn ask(&mut self, current: Option<PowerMode>) -> Result<Option<PowerMode>, PlannerError> {
        self.list.ask(current)
    }

    fn tell(&mut self, mode: PowerMode, time_ms: f64, power_mw: f64) -> Result<(), PlannerError> {
        self.list.tell(mode, time_ms, power_mw)?;
        self.planner.tell(mode, time_ms, power_mw)
    }

    fn exclude(&mut self, mode: PowerMode, power_mw: Option<f64>) -> Result<(), PlannerError> {
        self.list.exclude(mode, power_mw)?;
        self.planner.exclude(mode, power_mw)
    }

    fn idle(&mut self, mode: PowerMode, power_mw: f64) -> Result<(), PlannerError> {
        self.planner.idle(mode, power_mw)
    }

    fn fit(&mut self) -> Result<Fitted, PlannerError> {
        self.planner.fit()
    }
}

/// A call of a planner.
#[derive(Clone, Debug)]
pub enum Call {
    Begin,
    Ask(Option<PowerMode>),
    /// What a row says.
    Tell(Box<Row>),
    Fit,
}

/// An answer of a planner.
#[derive(Clone, Debug)]
pub enum Answer {
    Ready,
    /// The next mode, if there is one.
    Next(Option<PowerMode>),
    Told,
    Fitted(Fitted),
}

impl Answer {
    /// The answer to [`Call::Fit`].
    pub fn fitted(self) -> Fitted {
        match self {
            Self::Fitted(fitted) => fitted,
            other => panic!("a fit is answered by {other:?}"),
        }
    }
}

/// A planner on a thread of its own: a session watches the board while the planner computes, and
/// one that ends early does not wait for it.
#[derive(Debug)]
pub struct Background {
    calls: SyncSender<Call>,
    answers: Receiver<Result<Answer, PlannerError>>,
    _ender: Option<Ender>,
}

impl Background {
    /// Starts the thread. The planner ends with this value.
    pub fn start<P: Planner + Send + 'static>(mut planner: P) -> Self {
        let ender = planner.ender();
        let (calls, taken) = sync_channel(1);
        let (given, answers) = sync_channel(1);
        thread::spawn(move || {
            for call in taken {
                if given.send(answer(&mut planner, call)).is_err() {
                    return;
                }
            }
        });
        Self {
            calls,
            answers,
            _ender: ender,
        }
    }

    /// Sends a call. The answer to the one before has been taken.
    pub fn call(&self, call: Call) {
        // The thread takes each call before it answers, and ends only after this value.
        self.calls.send(call).expect("the planner's thread");
    }

    /// Sends a call and waits for the answer.
    pub fn exchange(&self, call: Call) -> Result<Answer, PlannerError> {
        self.call(call);
        loop {
            if let Some(answer) = self.answer(Duration::MAX)? {
                return Ok(answer);
            }
        }
    }

    /// The answer, if it comes within a time.
    pub fn answer(&self, time: Duration) -> Result<Option<Answer>, PlannerError> {
        match self.answers.recv_timeout(time) {
            Ok(answer) => answer.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => panic!("the planner's thread panicked"),
        }
    }
}

fn answer<P: Planner>(planner: &mut P, call: Call) -> Result<Answer, PlannerError> {
    match call {
        Call::Begin => planner.begin().map(|()| Answer::Ready),
        Call::Ask(current) => planner.ask(current).map(Answer::Next),
        Call::Fit => planner.fit().map(Answer::Fitted),
        Call::Tell(row) => {
            let mode = row.mode();
            let told = match (row.mark, row.time_ms, row.power_mw) {
                (None, Some(time_ms), Some(power_mw)) => planner.tell(mode, time_ms, power_mw),
                (Some(Mark::Idle), ..) => match row.idle_mw {
                    Some(power_mw) => planner.idle(mode, power_mw),
                    None => Ok(()),
                },
                (Some(Mark::OverLimit), ..) => planner.exclude(mode, Some(row.peak_mw)),
                _ => planner.exclude(mode, None),
            };
            told.map(|()| Answer::Told)
        }
    }
}
