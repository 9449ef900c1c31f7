//! What a board draws while its workload waits.
//!
//! Until the next step, or the deadline of all steps, a board idles in some mode. Pinned clocks cost power there too: more in
//! a fast mode than in a slow one. A model file tells it as a straight line over the predicted power of a mode, fitted to the
//! modes of its front.

use crate::quantities::Milliwatts;

/// Idle power of a mode: `base` + `share` · its power under load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Idle {
    /// The part that does not depend on the mode.
    pub base: Milliwatts,
    /// In units of 1/65,536.
    pub share: u16,
}

impl Idle {
    /// Waiting costs nothing.
    pub const NONE: Self = Self {
        base: Milliwatts(0),
        share: 0,
    };

    /// The idle power of a mode by its power under load, rounded down; at most that.
    pub const fn power(self, load: Milliwatts) -> Milliwatts {
        let share = (load.0 as u64 * self.share as u64) >> 16;
        let idle = share + self.base.0 as u64;
        if idle > load.0 as u64 {
            load
        } else {
            Milliwatts(idle as u32)
        }
    }

    /// The same idle power in all modes: that of a mode by its power under load. So it is if the board rests in one mode.
    pub const fn at(self, load: Milliwatts) -> Self {
        Self {
            base: self.power(load),
            share: 0,
        }
    }
}
