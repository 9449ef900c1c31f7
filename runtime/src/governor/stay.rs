//! What is known since a mode was requested. Another request drops it.

use super::load::Signs;
use crate::quantities::Milliseconds;

/// Averaging time in ms of the first estimate of a mode's error. It doubles with each further
/// estimate, up to the second value.
pub const FIRST_ESTIMATE_MS: u64 = 900;
pub const LAST_ESTIMATE_MS: u64 = 8_000;

/// Age of a stay up to which the mode, not the load, may be the cause of exceeding the limit.
pub const YOUNG: Milliseconds = Milliseconds(10_000);

/// A level of the load, and the signs of the load at it.
pub type Reference = (f32, Signs);

/// A mean to compare with the next one, and the previous mean to compare it with.
#[derive(Clone, Copy, Debug)]
pub struct Compared {
    pub at: Milliseconds,
    pub mean: f32,
    pub before: Option<f32>,
}

/// A span of steady load.
#[derive(Clone, Copy, Debug)]
pub struct Steady {
    pub from: Milliseconds,
    /// Energy booked up to `from`, in µJ.
    pub energy: u64,
    pub signs: Signs,
    /// Whether the board worked in it. An idle board's power is no reference.
    pub works: bool,
    /// Mean power in mW of the previous span of a long phase.
    pub before: Option<f32>,
}

/// A stay in a mode, from the request on.
#[derive(Clone, Copy, Debug)]
pub struct Stay {
    /// Index of the wanted point of the front.
    pub at: usize,
    /// Index of the point before, if that was set, and since when it was.
    pub before: Option<(usize, Milliseconds)>,
    /// Whether the load before goes on, so that its level counts and not the model's.
    pub goes_on: bool,
    /// When the mode was last requested; `None` before the first mode is chosen.
    pub requested: Option<Milliseconds>,
    /// Number of requests without success.
    pub requests: u8,
    /// Since when the mode is set, and when it was last read back.
    pub set: Option<Milliseconds>,
    pub read: Milliseconds,
    /// The level of the load before the change, if it was steady.
    pub reference: Option<Reference>,
    /// Whether the mode is one of the few of least power that are tried before the limit cannot be
    /// held.
    pub is_trial: bool,
    /// Whether the error of the mode is still to be estimated, and the time in the mode at which
    /// the next estimate is due, in ms.
    pub is_new: bool,
    pub next_estimate_ms: u64,
    /// Whether the board was throttled in it.
    pub was_throttled: bool,
    pub steady: Option<Steady>,
    /// The mean over the window.
    pub measured: Option<f32>,
    pub compared: Option<Compared>,
    /// Since when neither the mode fits nor a slower one.
    pub unfit: Option<Milliseconds>,
    /// When readings were missing for too long for a mean.
    pub missed: Milliseconds,
}

impl Stay {
    /// No mode is requested yet.
    pub const NONE: Self = Self {
        at: 0,
        before: None,
        goes_on: false,
        requested: None,
        requests: 0,
        set: None,
        read: Milliseconds(0),
        reference: None,
        is_trial: false,
        is_new: true,
        next_estimate_ms: FIRST_ESTIMATE_MS,
        was_throttled: false,
        steady: None,
        measured: None,
        compared: None,
        unfit: None,
        missed: Milliseconds(0),
    };

    /// A request for a point.
    pub fn new(at: usize, now: Milliseconds) -> Self {
        Self {
            at,
            requested: Some(now),
            requests: 1,
            ..Self::NONE
        }
    }

    /// Whether the mode is a trial among the modes of least power and not measured yet.
    pub fn is_trying(&self) -> bool {
        self.is_trial && self.is_new
    }

    /// Time in ms in the mode, without gaps in the readings; `None` until it is set.
    pub fn in_mode(&self, now: Milliseconds) -> Option<u64> {
        let since = self.set?.max(self.missed);
        Some(now.since(since).0)
    }

    /// No mean may span a gap in the readings.
    pub fn miss(&mut self, now: Milliseconds) {
        (self.steady, self.compared, self.measured) = (None, None, None);
        self.missed = now;
    }
}
