//! A planner that is another program, on this machine or behind `ssh`.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use wattgate_cli::exit::note;
use wattgate_cli::planning::{
    Answer, Ask, Exclusion, Fit, IdlePower, Measurement, References, Request, Task,
};
use wattgate_runtime::PowerMode;

use crate::ender::Ender;
use crate::planner::{Fitted, Planner, PlannerError};

/// Time from the end of a planner's output to its own end.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// The program of the default planner.
const TRAINER: &str = "wattgate-trainer";

/// Whether a shell finds a program.
fn is_in_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// A program that speaks [`wattgate_cli::planning`], such as `wattgate-trainer plan --ask-tell`.
#[derive(Debug)]
pub struct CoProcess {
    command: String,
    task: Task,
    /// Whether the plan may do without the task's reference.
    is_reference_optional: bool,
    child: Ender,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl CoProcess {
    /// Lets the plan do without its reference if the planner refuses that.
    pub fn with_optional_reference(mut self) -> Self {
        self.is_reference_optional = !self.task.reference.is_empty();
        self
    }

    /// Starts a command in a shell. [`Planner::begin`] sends it the task.
    pub fn start(command: &str, task: Task) -> Result<Self, PlannerError> {
        let at = |source| PlannerError::Io {
            command: command.to_owned(),
            source,
        };
        if command.split(' ').next() == Some(TRAINER) && !is_in_path(TRAINER) {
            let command = command.to_owned();
            return Err(PlannerError::Absent { command });
        }
        let child = Command::new("sh")
            .args(["-c", command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.map_err(at)?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(at(io::ErrorKind::BrokenPipe.into()));
        };
        Ok(Self {
            command: command.to_owned(),
            task,
            child: Ender::new(child),
            is_reference_optional: false,
            requests,
            answers: BufReader::new(answers),
        })
    }

    fn exchange(&mut self, request: &impl Serialize) -> Result<Answer, PlannerError> {
        let mut line = serde_json::to_string(request).map_err(io::Error::from);
        if let Ok(line) = &mut line {
            line.push('\n');
        }
        let sent = line.and_then(|line| self.requests.write_all(line.as_bytes()));
        // A planner that has ended may have said why.
        let sent = match sent {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            sent => sent,
        };
        let mut line = String::new();
        match sent.and_then(|()| self.answers.read_line(&mut line)) {
            Ok(0) => return Err(self.ended()),
            Err(source) => {
                let command = self.command.clone();
                return Err(PlannerError::Io { command, source });
            }
            Ok(_) => {}
        }
        match serde_json::from_str(&line) {
            Ok(Answer::Error { message, .. }) => Err(PlannerError::Refused {
                command: self.command.clone(),
                message,
            }),
            Ok(answer) => Ok(answer),
            Err(why) => Err(self.defect(line.trim_end().to_owned(), why.to_string())),
        }
    }

    fn ended(&mut self) -> PlannerError {
        let end = Instant::now() + END_TIMEOUT;
        // Waits without the lock, which another thread may want.
        let status = loop {
            match self.child.child().try_wait() {
                Ok(Some(status)) => break status.to_string(),
                Ok(None) if Instant::now() < end => {}
                Ok(None) => break "its output has ended".to_owned(),
                Err(error) => break error.to_string(),
            }
            thread::sleep(Duration::from_millis(5));
        };
        let command = self.command.clone();
        PlannerError::Ended { command, status }
    }

    fn defect(&self, line: String, why: String) -> PlannerError {
        let command = self.command.clone();
        PlannerError::Defect { command, line, why }
    }

    /// Sends a request for which there is one right answer.
    fn inform(
        &mut self,
        request: &Request,
        is_right: fn(&Answer) -> bool,
    ) -> Result<(), PlannerError> {
        let answer = self.exchange(request)?;
        match is_right(&answer) {
            true => Ok(()),
            false => Err(self.defect(String::new(), "another answer was expected".to_owned())),
        }
    }
}

impl Planner for CoProcess {
    fn begin(&mut self) -> Result<(), PlannerError> {
        let task = self.task.clone();
        let answer = match self.exchange(&task) {
            // It may be of a release in which the board has other clocks.
            Err(PlannerError::Refused { message, .. }) if self.is_reference_optional => {
                note(format_args!("warning: without references: {message}"));
                self.is_reference_optional = false;
                self.task.reference = References::default();
                return self.begin();
            }
            answer => answer?,
        };
        match answer {
            Answer::Ready { .. } => Ok(()),
            _ => Err(self.defect(String::new(), "expected `ready`".to_owned())),
        }
    }

    fn ender(&self) -> Option<Ender> {
        Some(self.child.clone())
    }

    fn ask(&mut self, current: Option<PowerMode>) -> Result<Option<PowerMode>, PlannerError> {
        let current = current.map(Into::into);
        match self.exchange(&Request::Ask(Ask { current }))? {
            Answer::Measure { mode, .. } => Ok(Some(mode.into())),
            Answer::Enough { .. } => Ok(None),
            _ => Err(self.defect(String::new(), "expected `measure` or `enough`".to_owned())),
        }
    }

    fn tell(&mut self, mode: PowerMode, time_ms: f64, power_mw: f64) -> Result<(), PlannerError> {
        let tell = Request::Tell(Measurement {
            mode: mode.into(),
            time_us: 1e3 * time_ms,
            power_mw,
        });
        self.inform(&tell, |answer| matches!(answer, Answer::Told { .. }))
    }

    fn exclude(&mut self, mode: PowerMode, power_mw: Option<f64>) -> Result<(), PlannerError> {
        let exclude = Request::Exclude(Exclusion {
            mode: mode.into(),
            power_mw,
        });
        self.inform(&exclude, |answer| matches!(answer, Answer::Excluded { .. }))
    }

    /// A planner of an earlier version refuses the request, and fits without.
    fn idle(&mut self, mode: PowerMode, power_mw: f64) -> Result<(), PlannerError> {
        let mode = mode.into();
        let idle = Request::Idle(IdlePower { mode, power_mw });
        match self.inform(&idle, |answer| matches!(answer, Answer::Told { .. })) {
            Err(PlannerError::Refused { .. }) => Ok(()),
            told => told,
        }
    }

    fn fit(&mut self) -> Result<Fitted, PlannerError> {
        match self.exchange(&Request::Fit(Fit {}))? {
            Answer::Fitted {
                model,
                modes,
                expected_error_pct,
            } => Ok(Fitted {
                model,
                modes,
                expected_error_pct,
            }),
            _ => Err(self.defect(String::new(), "expected `fitted`".to_owned())),
        }
    }
}
