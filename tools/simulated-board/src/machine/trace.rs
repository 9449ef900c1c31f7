//! The true power over time.

use std::time::Duration;

/// A stretch of constant power.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// End of the segment. It begins at the end of the previous segment, or at the start of the
    /// trace.
    pub until: Duration,
    /// The module's power.
    pub watts: f64,
    /// The module's power without the random [`RIPPLE`](super::RIPPLE).
    pub calm_watts: f64,
    /// Minibatches since time zero, at its end.
    pub minibatches: f64,
}

impl Segment {
    /// Whether the next segment has the same power.
    pub fn has_power_of(&self, next: &Self) -> bool {
        (self.watts, self.calm_watts) == (next.watts, next.calm_watts)
    }
}
