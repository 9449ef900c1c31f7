//! What is known of the power sensor: the estimate, the energy, and whether its readings are live.

use super::liveness::Liveness;
use crate::estimator::{Estimate, Estimator};
use crate::quantities::Milliseconds;

/// The readings so far.
#[derive(Clone, Debug)]
pub struct Sensor {
    pub estimator: Estimator,
    pub liveness: Liveness,
    /// Since when a step of the load is suspected.
    pub suspected: Option<Milliseconds>,
    /// Energy booked so far in µJ, and the time up to which it is booked.
    pub booked: u64,
    pub booked_at: Milliseconds,
}

impl Sensor {
    /// Readings of which means over a window are asked for.
    pub const fn new(mut estimator: Estimator, window: Milliseconds) -> Self {
        estimator.set_span(window);
        Self {
            estimator,
            liveness: Liveness::new(Milliseconds(0)),
            suspected: None,
            booked: 0,
            booked_at: Milliseconds(0),
        }
    }

    /// Forgets the readings, as after a sleep. The energy stays.
    pub fn forget(&mut self) {
        self.estimator.forget();
        self.suspected = None;
    }

    pub fn estimate(&self) -> Option<Estimate> {
        self.estimator.estimate()
    }

    /// Notes whether a step is suspected at this sample.
    pub fn suspect(&mut self, now: Milliseconds) {
        self.suspected = match self.estimator.is_suspicious() {
            true => Some(self.suspected.unwrap_or(now)),
            false => None,
        };
    }
}
