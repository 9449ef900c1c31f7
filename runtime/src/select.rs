//! Queries select a mode from a front.
//!
//! A query names an objective and limits on power and time. The front has the confidence with which
//! the limits hold. Guarded power rises and guarded time falls along a front, so the points within both
//! limits form one contiguous range.
//!
//! Ties go to less guarded power, then to less time.
//!
//! ```
//! use wattgate_runtime::{Confidence, Front, Microseconds, Milliwatts, Model, Objective, Query, SelectError};
//!
//! # let file = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/tx1-image5000.wgt"));
//! let model = Model::parse(file).unwrap();
//! let front = Front::<256>::from_model(&model, &model.profiled(), Confidence::P95);
//! let in_time = Query {
//!     objective: Objective::Energy,
//!     deadline: Some(Microseconds(20_000_000)),
//!     ..Query::default()
//! };
//! assert!(front.select(&in_time)?.guarded_time <= Microseconds(20_000_000));
//!
//! let starved = Query { power_limit: Some(Milliwatts(100)), ..Query::default() };
//! let Err(SelectError::OverLimit { least_power }) = front.select(&starved) else { panic!() };
//! let fed = Query { power_limit: Some(least_power), ..starved };
//! assert_eq!(front.select(&fed)?.guarded_power, Some(least_power));
//! # Ok::<(), SelectError>(())
//! ```

use core::ops::Range;
use core::{error, fmt};

use crate::front::{Front, Refusal};
use crate::grid::ModeId;
use crate::guard::GuardError;
use crate::idle::Idle;
pub use crate::point::Objective;
use crate::point::Point;
use crate::quantities::{Microseconds, Milliwatts};
use crate::skip_pointers;

/// Requirements on a mode. Without limits every mode of the front is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// The quantity to minimise.
    pub objective: Objective,
    /// The power that the guarded prediction must not exceed.
    pub power_limit: Option<Milliwatts>,
    /// The time that the guarded prediction must not exceed.
    pub deadline: Option<Microseconds>,
    /// What the board draws from the end of a step to the deadline, for [`Objective::Energy`]; unused without a deadline.
    pub idle: Idle,
}

impl Default for Query {
    /// Asks for the fastest mode, without limits.
    fn default() -> Self {
        Self {
            objective: Objective::Time,
            power_limit: None,
            deadline: None,
            idle: Idle::NONE,
        }
    }
}

/// The answer to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// The mode to take.
    pub mode: ModeId,
    /// Its predicted time.
    pub time: Microseconds,
    /// Its time including the guard band.
    pub guarded_time: Microseconds,
    /// Its predicted power; `None` for a model without power.
    pub power: Option<Milliwatts>,
    /// Its power including the guard band; never above the query's limit.
    pub guarded_power: Option<Milliwatts>,
}

/// Why a query has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SelectError {
    /// The query needs power, which the model does not predict.
    NoPower,
    /// No mode that meets the deadline stays within the power limit.
    OverLimit {
        /// The least guarded power of those modes: the smallest limit that has an answer.
        least_power: Milliwatts,
    },
    /// No mode meets the deadline at any power.
    TooSlow {
        /// The least guarded time of the front: the shortest deadline that has an answer.
        least_time: Microseconds,
    },
    /// The guard band does not reach the confidence.
    Guard(GuardError),
    /// The front is empty: it was never built, or built without modes.
    EmptyFront,
    /// The front was built for a region of another grid than the model's.
    OtherGrid,
}

impl fmt::Display for SelectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPower => write!(
                f,
                "the model predicts time only, so power cannot be queried; train on a corpus with powers"
            ),
            Self::OverLimit { least_power } => write!(
                f,
                "no mode fits: the least power on offer is {} including the guard band; raise the limit",
                Thousandths(least_power.0, "W")
            ),
            Self::TooSlow { least_time } => write!(
                f,
                "no mode fits: the least time on offer is {} including the guard band; allow a longer deadline",
                Thousandths(least_time.0, "ms")
            ),
            Self::Guard(why) => why.fmt(f),
            Self::EmptyFront => write!(f, "no mode is on offer"),
            Self::OtherGrid => write!(f, "the region belongs to the grid of another board"),
        }
    }
}

impl error::Error for SelectError {}

/// A number of thousandths of a unit of measure.
struct Thousandths(u32, &'static str);

impl fmt::Display for Thousandths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(number, unit) = self;
        write!(f, "{}.{:03} {unit}", number / 1_000, number % 1_000)
    }
}

/// The first point of a range with the least energy until the deadline: of a step, and of the idle board afterwards.
#[inline(never)]
fn least_until(query: &Query, points: &[Point], fitting: Range<usize>) -> Option<usize> {
    let deadline = query.deadline.unwrap_or(Microseconds(0));
    let energy = |point: &Point| {
        let (time, power) = (point.guarded_time.0, point.guarded);
        let waits = u64::from(deadline.0.saturating_sub(time));
        u64::from(power.0) * u64::from(time) + u64::from(query.idle.power(power).0) * waits
    };
    let indices = points.iter().enumerate().skip(fitting.start);
    let fitting = indices.take(fitting.len());
    fitting
        .min_by_key(|(_, point)| energy(point))
        .map(|(at, _)| at)
}

impl<const N: usize> Front<N> {
    /// Selects the mode of the front that satisfies a query best. A search over all modes of the
    /// region finds the same mode, unless the front [was thinned](Front::is_thinned).
    pub fn select(&self, query: &Query) -> Result<Choice, SelectError> {
        let asks_power = query.power_limit.is_some() || query.objective != Objective::Time;

        let points = self.points();
        let fastest = points.last().ok_or(match self.refusal() {
            Some(Refusal::OtherGrid) => SelectError::OtherGrid,
            Some(Refusal::Guard(why)) => SelectError::Guard(why),
            None => SelectError::EmptyFront,
        })?;
        if asks_power && !self.has_power() {
            return Err(SelectError::NoPower);
        }
        let too_slow = query.deadline.map_or(0, |deadline| {
            points.partition_point(|point| point.guarded_time > deadline)
        });
        let first = too_slow.max(self.first_known(query.objective, query.deadline.is_some()));
        let in_time = points.get(first..).unwrap_or(&[]);
        let cheapest = in_time.first().ok_or(SelectError::TooSlow {
            least_time: fastest.guarded_time,
        })?;
        let affordable = query.power_limit.map_or(in_time.len(), |limit| {
            in_time.partition_point(|point| point.guarded <= limit)
        });
        let fitting = first..first + affordable;
        let best = match query.objective {
            _ if fitting.is_empty() => None,
            Objective::Time => Some(fitting.end.saturating_sub(1)),
            Objective::Power => Some(fitting.start),
            Objective::Energy if query.idle != Idle::NONE => least_until(query, points, fitting),
            energy => skip_pointers::best(points, fitting, energy),
        };
        let chosen = best.and_then(|at| points.get(at).zip(self.times().get(at)));
        let (best, time) = chosen.ok_or(SelectError::OverLimit {
            least_power: cheapest.guarded,
        })?;
        let has_power = self.has_power();
        Ok(Choice {
            mode: best.mode,
            time: *time,
            guarded_time: best.guarded_time,
            power: has_power.then_some(best.power),
            guarded_power: has_power.then_some(best.guarded),
        })
    }
}
