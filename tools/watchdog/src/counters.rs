//! Error counters, from the start of the daemon; a restart resets them.

use crate::control::Event;

/// Saturating error counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    sensor_errors: u32,
}

impl Counters {
    /// Counts an event if it is an error.
    pub fn count(&mut self, event: &Event<'_>) {
        if let Event::NoSample(_) | Event::NoReading(_) = event {
            self.sensor_errors = self.sensor_errors.saturating_add(1);
        }
    }

    /// How often the power sensor became unreadable.
    pub fn sensor_errors(&self) -> u32 {
        self.sensor_errors
    }
}
