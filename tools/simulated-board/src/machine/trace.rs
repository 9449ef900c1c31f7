//! The truth about the power, at every change of it.

use std::time::Duration;

/// A stretch of constant power.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// When it ends. It begins where the one before ends, the first when the trace is begun.
    pub until: Duration,
    /// The module's power.
    pub watts: f64,
    /// The same without the random [`RIPPLE`](super::RIPPLE).
    pub calm_watts: f64,
    /// Minibatches since time zero, at its end.
    pub minibatches: f64,
}

impl Segment {
    /// One stretch of constant power with another segment that follows it.
    pub fn has_power_of(&self, next: &Self) -> bool {
        (self.watts, self.calm_watts) == (next.watts, next.calm_watts)
    }
}
