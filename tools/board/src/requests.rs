//! What was last requested of each clock.
//!
//! cpufreq and devfreq show the limits that apply now. Cooling lowers them, and the files then show
//! less than what was requested (`jetson-platform.md`, addendum). A limit that shows the wanted
//! value may therefore hide a higher request, which returns when the cooling ends.

use crate::knobs::Knobs;

/// Requested minimum and maximum of each clock: the CPU policies in order, then the GPU, then the
/// memory where devfreq limits it.
#[derive(Debug)]
pub(crate) struct Requests(Vec<Option<[i64; 2]>>);

impl Requests {
    /// Nothing is known.
    pub fn unknown(knobs: &Knobs) -> Self {
        Self(vec![None; knobs.cpus.policies.len() + 2])
    }

    /// The last request; `None` if it is unknown.
    pub fn get(&self, clock: usize) -> Option<[i64; 2]> {
        self.0.get(clock).copied().flatten()
    }

    /// Records a request; `None` makes it unknown.
    pub fn set(&mut self, clock: usize, request: Option<[i64; 2]>) {
        if let Some(known) = self.0.get_mut(clock) {
            *known = request;
        }
    }

    /// Makes all requests unknown.
    pub fn forget(&mut self) {
        self.0.fill(None);
    }
}
