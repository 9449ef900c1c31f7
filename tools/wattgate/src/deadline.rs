//! Whether the deadline of an aim is met while a limit is held.

use std::fmt;
use std::time::Duration;

use wattgate_cli::aim::{By, Wanted};
use wattgate_cli::exit::note;
use wattgate_runtime::{Microseconds, Milliseconds};
use wattgate_watchdog::report::Report;

use crate::hold::Held;

/// Watches whether the deadline of an aim is met.
#[derive(Clone, Copy, Debug)]
pub struct DeadlineWatch {
    by: By,
    start: Option<Duration>,
    /// When all steps were done, after the start.
    done: Option<Duration>,
    /// Steps that were told last; `None` if nobody tells them.
    steps: Option<u64>,
    is_warned: bool,
}

impl DeadlineWatch {
    /// `None` for an aim without a deadline.
    pub fn from_wanted(wanted: Option<Wanted>) -> Option<Self> {
        Some(Self {
            by: wanted?.by?,
            start: None,
            done: None,
            steps: None,
            is_warned: false,
        })
    }

    /// Takes a report, and warns once if it says that the deadline may be missed.
    pub fn see(&mut self, now: Duration, report: &Report) {
        let start = *self.start.get_or_insert(now);
        if let Some(unmet) = report.unmet.as_ref().filter(|_| !self.is_warned) {
            note(format_args!("warning: {unmet}"));
            self.is_warned = true;
        }
        self.steps = report.steps.or(self.steps);
        if let By::Work { steps, .. } = self.by
            && self.steps.is_some_and(|done| done >= steps)
        {
            self.done.get_or_insert(now.saturating_sub(start));
        }
    }

    /// What became of it at the end; `None` if nobody can tell.
    pub fn ended(&self, held: &Held) -> Option<DeadlineEnd> {
        match self.by {
            By::Step(deadline) => Some(DeadlineEnd::Step {
                step: Microseconds((1e6 / held.rate()?) as u32),
                deadline,
            }),
            By::Work { steps, within } => Some(DeadlineEnd::Work {
                done: self.steps?,
                steps,
                after: self
                    .done
                    .map(|after| Milliseconds(after.as_millis() as u64)),
                passed: Milliseconds((1e3 * held.seconds) as u64),
                within,
            }),
        }
    }
}

/// How a deadline ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadlineEnd {
    Step {
        step: Microseconds,
        deadline: Microseconds,
    },
    Work {
        done: u64,
        steps: u64,
        /// When all steps were done.
        after: Option<Milliseconds>,
        passed: Milliseconds,
        within: Milliseconds,
    },
}

impl DeadlineEnd {
    /// Whether the deadline was met; `None` if the time for the steps is not over.
    pub fn is_met(&self) -> Option<bool> {
        match *self {
            Self::Step { step, deadline } => Some(step <= deadline),
            Self::Work {
                after: Some(after),
                within,
                ..
            } => Some(after <= within),
            Self::Work { passed, within, .. } => (passed >= within).then_some(false),
        }
    }
}

impl fmt::Display for DeadlineEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.is_met() {
            Some(true) => "deadline met: ",
            Some(false) => "deadline missed: ",
            None => "deadline not over: ",
        })?;
        match *self {
            Self::Step { step, deadline } => {
                let [step, deadline] = [step, deadline].map(|time| f64::from(time.0) / 1e3);
                write!(f, "{step:.1} ms a step, at most {deadline:.1} ms wanted")
            }
            Self::Work {
                done,
                steps,
                after,
                passed,
                within,
            } => {
                let [passed, within] =
                    [after.unwrap_or(passed), within].map(|it| it.0 as f64 / 1e3);
                write!(
                    f,
                    "{done} of {steps} steps after {passed:.0} s, within {within:.0} s wanted"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_met_missed_or_not_over() {
        let step = |us| DeadlineEnd::Step {
            step: Microseconds(us),
            deadline: Microseconds(33_000),
        };
        assert_eq!(step(33_000).is_met(), Some(true));
        assert_eq!(
            step(48_840).to_string(),
            "deadline missed: 48.8 ms a step, at most 33.0 ms wanted"
        );
        let work = |done, after, passed| DeadlineEnd::Work {
            done,
            steps: 400,
            after,
            passed: Milliseconds(passed),
            within: Milliseconds(60_000),
        };
        assert_eq!(
            work(50, None, 81_000).to_string(),
            "deadline missed: 50 of 400 steps after 81 s, within 60 s wanted"
        );
        assert_eq!(work(50, None, 12_000).is_met(), None);
        let met = work(410, Some(Milliseconds(59_000)), 80_000);
        assert_eq!(met.is_met(), Some(true));
    }
}
