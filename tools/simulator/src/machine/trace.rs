//! The true power over time, also as CSV text.
//!
//! ```text
//! seconds,watts,calm_watts,minibatches
//! 0.010000000,9.331274,9.4401828,0
//! 0.020000000,9.51893,9.4401828,0
//! ```

use std::fmt;
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

/// The first line of a trace in a file.
pub const HEADER: &str = "seconds,watts,calm_watts,minibatches";

impl Segment {
    /// Whether the next segment has the same power.
    pub fn has_power_of(&self, next: &Self) -> bool {
        (self.watts, self.calm_watts) == (next.watts, next.calm_watts)
    }
}

/// The segment as a line of a file.
impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            until,
            watts,
            calm_watts,
            minibatches,
        } = self;
        let (seconds, nanos) = (until.as_secs(), until.subsec_nanos());
        write!(f, "{seconds}.{nanos:09},{watts},{calm_watts},{minibatches}")
    }
}
