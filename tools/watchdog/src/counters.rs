//! Errors that add up while the daemon runs. They are not kept over a restart.

use crate::control::Event;

/// Counts from the start of the daemon on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    sensor_errors: u32,
    failed_changes: u32,
}

impl Counters {
    /// Takes an event into account.
    pub fn count(&mut self, event: &Event<'_>) {
        match event {
            Event::NoSample(_) => self.sensor_errors = self.sensor_errors.saturating_add(1),
            Event::NotApplied { .. } => {
                self.failed_changes = self.failed_changes.saturating_add(1);
            }
            _ => {}
        }
    }

    /// How often the power ceased to be readable.
    pub fn sensor_errors(&self) -> u32 {
        self.sensor_errors
    }

    /// How often a mode could not be set.
    pub fn failed_changes(&self) -> u32 {
        self.failed_changes
    }
}
