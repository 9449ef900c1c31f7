//! The measured modes of a file.
//!
//! A network is smooth and small, so it predicts a mode less exactly than a measurement of that mode tells.
//! A file therefore states the measurements that matter for a choice, each with a spread of its own. A sweep
//! gives them in place of the network's predictions, and so do a front and every answer.

use crate::grid::ModeId;
use crate::guard::MOST_SPREAD;
use crate::prediction::Prediction;

/// The largest number of measured modes in a file.
pub const MOST_MEASURED: usize = 20;

/// The bytes of a measured mode: id (u16), log time (i32), log power (i32), spread (u16).
pub const MEASURED_LEN: usize = 12;

/// A logarithm of a measured mode lies within ± this value, in the units of the output.
pub const LOG_LIMIT: i32 = 1 << 30;

/// The measured modes of a file, by ascending id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured<'a>(&'a [[u8; MEASURED_LEN]]);

impl<'a> Measured<'a> {
    pub const NONE: Self = Self(&[]);

    /// `None` if bytes are left over.
    pub fn of_bytes(bytes: &'a [u8]) -> Option<Self> {
        let (modes, rest) = bytes.as_chunks();
        rest.is_empty().then_some(Self(modes))
    }

    /// Whether the modes ascend, are of a grid of so many, and have values in range.
    pub fn is_sound(self, modes: u32, has_spread: bool) -> bool {
        let mut free = 0;
        let most_spread = if has_spread { MOST_SPREAD } else { 0 };
        let logs = -LOG_LIMIT..=LOG_LIMIT;
        self.0.len() <= MOST_MEASURED
            && self.iter().all(|(mode, at)| {
                let ids = free..modes;
                free = u32::from(mode.0) + 1;
                ids.contains(&u32::from(mode.0))
                    && logs.contains(&at.log_time)
                    && logs.contains(&at.log_power)
                    && at.spread <= i32::from(most_spread)
            })
    }

    pub fn iter(self) -> impl Iterator<Item = (ModeId, Prediction)> + Clone + use<'a> {
        self.0.iter().map(decoded)
    }

    /// What is known of a mode.
    #[inline(never)]
    pub fn get(self, mode: ModeId) -> Option<Prediction> {
        let mut modes = self.iter();
        modes.find(|(id, _)| *id == mode).map(|(_, at)| at)
    }
}

fn decoded(bytes: &[u8; MEASURED_LEN]) -> (ModeId, Prediction) {
    let [m0, m1, t0, t1, t2, t3, p0, p1, p2, p3, s0, s1] = *bytes;
    let at = Prediction {
        log_time: i32::from_le_bytes([t0, t1, t2, t3]),
        log_power: i32::from_le_bytes([p0, p1, p2, p3]),
        spread: i32::from(u16::from_le_bytes([s0, s1])),
    };
    (ModeId(u16::from_le_bytes([m0, m1])), at)
}
