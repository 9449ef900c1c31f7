//! Units of measure of clocks, and the two limits that cpufreq and devfreq give each clock.

use crate::files::Knob;

/// Hz in a kHz.
pub(crate) const HZ: u32 = 1000;

/// The lower and the upper limit of a clock.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub min: Knob,
    pub max: Knob,
}

/// Converts a clock in units of measure of 1/`per_khz` kHz to kHz; `None` if it is not positive or not a
/// whole number of kHz.
pub(crate) fn khz(value: i64, per_khz: u32) -> Option<u32> {
    let per_khz = i64::from(per_khz);
    let whole = value > 0 && value % per_khz == 0;
    whole.then(|| u32::try_from(value / per_khz).ok()).flatten()
}
