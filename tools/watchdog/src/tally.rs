//! What adds up while the daemon runs: energy, time over the limit, errors. Nothing of it is
//! kept over a restart.

use wattgate_runtime::{Milliseconds, Milliwatts};

use crate::control::Event;

/// After a longer gap the board has slept: nothing is known of that time.
const LONGEST_GAP: Milliseconds = Milliseconds(5_000);

/// Sums from the start of the daemon on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// In µJ.
    energy: u64,
    over: Milliseconds,
    sensor_errors: u32,
    failed_changes: u32,
    /// The last look, and what was drawn and allowed from then on.
    last: Option<(Milliseconds, Option<Milliwatts>, Milliwatts)>,
}

impl Tally {
    /// Takes a look into account: a result is taken to hold until the next look. A result is the
    /// sensor's mean, so that the sum comes late by its period and is not wrong by more.
    pub fn looked(&mut self, now: Milliseconds, power: Option<Milliwatts>, allowed: Milliwatts) {
        let last = self.last.replace((now, power, allowed));
        let Some((before, Some(power), allowed)) = last else {
            return;
        };
        let passed = now.since(before);
        if passed > LONGEST_GAP {
            return;
        }
        // mW for ms.
        self.energy += u64::from(power.0) * passed.0;
        if power > allowed {
            self.over.0 += passed.0;
        }
    }

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

    /// The energy drawn while it was measured, in mJ.
    pub fn energy_mj(&self) -> u64 {
        self.energy / 1_000
    }

    /// The time in which the last result was over what was allowed.
    pub fn over_limit(&self) -> Milliseconds {
        self.over
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks every 100 ms.
    fn looked(tally: &mut Tally, from_ms: u64, to_ms: u64, power: Option<u32>, allowed: u32) {
        for now in (from_ms..=to_ms).step_by(100) {
            let power = power.map(Milliwatts);
            tally.looked(Milliseconds(now), power, Milliwatts(allowed));
        }
    }

    #[test]
    fn energy_is_power_times_time() {
        let mut tally = Tally::default();
        looked(&mut tally, 500, 10_500, Some(12_345), 15_000);
        assert_eq!(tally.energy_mj(), 123_450);
        assert_eq!(tally.over_limit(), Milliseconds(0));
    }

    #[test]
    fn time_over_the_limit_is_that_of_results_above_what_is_allowed() {
        let mut tally = Tally::default();
        looked(&mut tally, 0, 1_000, Some(15_000), 15_000);
        looked(&mut tally, 1_000, 1_400, Some(15_001), 15_000);
        looked(&mut tally, 1_400, 3_000, Some(14_000), 15_000);
        assert_eq!(tally.over_limit(), Milliseconds(400));
    }

    #[test]
    fn what_was_not_measured_is_not_counted() {
        let mut tally = Tally::default();
        looked(&mut tally, 0, 1_000, Some(10_000), 5_000);
        looked(&mut tally, 1_000, 9_000, None, 5_000);
        assert_eq!(tally.energy_mj(), 10_000);
        assert_eq!(tally.over_limit(), Milliseconds(1_000));
    }

    #[test]
    fn sleep_is_not_counted() {
        let mut tally = Tally::default();
        looked(&mut tally, 0, 1_000, Some(10_000), 15_000);
        looked(&mut tally, 3_600_000, 3_601_000, Some(10_000), 15_000);
        assert_eq!(tally.energy_mj(), 20_000);
    }
}
