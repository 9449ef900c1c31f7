//! All knobs that a change of the power mode may write.

use crate::cpu::{CoreSet, Cpus};
use crate::files::Knob;
use crate::gpu::Gpu;
use crate::memory::Memory;

/// Cores and clocks. A clock that cannot be set is `None`, or has an empty table.
#[derive(Debug)]
pub(crate) struct Knobs {
    pub cpus: Cpus,
    pub gpu: Option<Gpu>,
    pub memory: Option<Memory>,
}

impl Knobs {
    /// Whether no knob can be set.
    pub fn is_empty(&self) -> bool {
        !self.cpus.can_switch()
            && self.cpus.table.is_empty()
            && self.gpu.is_none()
            && self.memory.is_none()
    }

    /// The number of files that can be written: a switch for each core, two limits for each
    /// cluster and for the GPU, and at most three for the memory: cap, lock and rate.
    pub fn count(&self) -> usize {
        self.cpus.cores.len() + 2 * self.cpus.policies.len() + 2 + 3
    }

    /// All knobs that can be read while these cores are online.
    pub fn readable(&self, online: CoreSet) -> impl Iterator<Item = &Knob> {
        let cores = self.cpus.cores.iter();
        let cores = cores.filter_map(|core| core.online.as_ref());
        let policies = self.cpus.policies.iter();
        let policies = policies.filter(move |policy| policy.cores & online != 0);
        let gpu = self.gpu.iter().map(|gpu| &gpu.limits);
        let limits = policies.map(|policy| &policy.limits).chain(gpu);
        let memory = self.memory.iter().flat_map(Memory::knobs);
        cores
            .chain(limits.flat_map(|limits| [&limits.min, &limits.max]))
            .chain(memory)
    }
}
