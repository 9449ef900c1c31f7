//! What a config aims at below its limit, and what its deadline would need where the limit does not allow it.

pub mod options;
pub mod pursued;

use std::fmt;

use wattgate_cli::aim::{By, Wanted};
use wattgate_runtime::{Aim, Choice, Front, Microseconds, Milliwatts, Query, SelectError};

use crate::quantity::{Placed, Span, Thousandths};

/// The mode of a front that an aim wants within a power. Where the power does not allow the deadline, the fastest one.
pub fn choice<const N: usize>(
    front: &Front<N>,
    aim: &Aim,
    allowed: Milliwatts,
) -> Result<Choice, SelectError> {
    let within = Query {
        power_limit: Some(allowed),
        ..Query::default()
    };
    let aimed = Query {
        objective: aim.objective,
        deadline: aim.deadline,
        idle: aim.idle,
        ..within
    };
    match front.select(&aimed) {
        Err(SelectError::OverLimit { .. } | SelectError::TooSlow { .. }) => front.select(&within),
        chosen => chosen,
    }
}

/// A deadline that is not met within a limit, and what each of both would need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unmet {
    deadline: Microseconds,
    /// The time of a step that the limit allows, with its margin.
    allows: Microseconds,
    /// The least limit with which the deadline is met, or the least time at any power.
    needs: Result<Placed, Microseconds>,
}

impl Unmet {
    /// `None` if the deadline is met, or if no mode is within the limit. `limit_for` gives the limit that allows a power.
    pub fn find<const N: usize>(
        front: &Front<N>,
        aim: &Aim,
        allowed: Milliwatts,
        limit_for: impl Fn(Milliwatts) -> Placed,
    ) -> Option<Self> {
        let deadline = aim.deadline?;
        let query = |power_limit| Query {
            deadline: Some(deadline),
            power_limit,
            ..Query::default()
        };
        let needs = match front.select(&query(Some(allowed))) {
            Err(SelectError::OverLimit { least_power }) => Ok(limit_for(least_power)),
            Err(SelectError::TooSlow { least_time }) => Err(least_time),
            _ => return None,
        };
        let within = Query {
            power_limit: Some(allowed),
            ..Query::default()
        };
        let allows = front.select(&within).ok()?.guarded_time;
        Some(Self {
            deadline,
            allows,
            needs,
        })
    }
}

/// A time in ms.
struct Ms(Microseconds);

impl fmt::Display for Ms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", Thousandths(u64::from(self.0.0)))
    }
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (deadline, allows) = (Ms(self.deadline), Ms(self.allows));
        write!(
            f,
            "the deadline of {deadline} a step may be missed: the fastest mode within the limit takes up to {allows} a step; "
        )?;
        match self.needs {
            Ok(limit) => write!(f, "a limit of {limit} would ensure it"),
            Err(time) => write!(f, "the fastest mode of all takes up to {}", Ms(time)),
        }
    }
}

/// An aim as people write it: `least-energy, at most 33 ms a step`, or `least-power, 50000 steps within 6 h`.
pub struct Shown(pub Wanted);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.objective.name())?;
        match self.0.by {
            Some(By::Step(deadline)) => write!(f, ", at most {} a step", Ms(deadline)),
            Some(By::Work { steps, within }) => {
                write!(f, ", {steps} steps within {}", Span(within))
            }
            None => Ok(()),
        }
    }
}
