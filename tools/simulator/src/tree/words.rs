//! Words and numbers that knobs take.

use super::errno::Errno;
use crate::machine::settings::Governor;

/// Governors of a cpufreq policy.
pub const GOVERNORS: [(Governor, &str); 3] = [
    (Governor::Schedutil, "schedutil"),
    (Governor::Performance, "performance"),
    (Governor::Userspace, "userspace"),
];

/// Governors of the GPU: the default and the performance governor.
pub const GPU_GOVERNORS: [&str; 2] = ["nvhost_podgov", "performance"];

/// Values of the GPU's `power/control`: powered only with work, and always.
pub const POWER_CONTROL: [&str; 2] = ["auto", "on"];

pub fn governor_name(governor: Governor) -> &'static str {
    let is_same = |(known, _): &&(Governor, &str)| *known == governor;
    GOVERNORS.iter().find(is_same).map_or("", |(_, name)| name)
}

pub fn hertz(khz: u32) -> i64 {
    1000 * i64::from(khz)
}

pub fn whole(text: &str) -> Result<i64, Errno> {
    text.parse().map_err(|_| Errno::Einval)
}

pub fn unsigned(text: &str) -> Result<u64, Errno> {
    text.parse().map_err(|_| Errno::Einval)
}

/// Whether a text is the second of two words; any other text is an error.
pub fn flag(text: &str, [no, yes]: [&str; 2]) -> Result<bool, Errno> {
    match text {
        _ if text == no => Ok(false),
        _ if text == yes => Ok(true),
        _ => Err(Errno::Einval),
    }
}

/// Accepts only the current mask.
pub fn same_mask(mask: Option<u32>, text: &str) -> Result<(), Errno> {
    match unsigned(text)? == u64::from(mask.unwrap_or(0)) {
        true => Ok(()),
        false => Err(Errno::Enodev),
    }
}
