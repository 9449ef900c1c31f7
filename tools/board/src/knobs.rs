//! All knobs that a change of the power mode may write.

use std::cmp::Ordering;

use crate::clock::{HZ, Limits};
use crate::cpu::{CoreSet, Cpus};
use crate::files::{Files, Knob, KnobError};
use crate::gpu::Gpu;
use crate::memory::{Control, Memory};
use crate::seen::{Disobedience, Seen};

/// A neighbouring clock that differs from the wanted one by at most the inverse of this counts as rounded; any
/// other one shows a floor or a gap. Assumed; the next change of the mode corrects a wrong guess.
const ROUNDED: i64 = 8;

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

    /// The number of units, in the order of their numbers: the CPU clusters, the GPU, the memory, and the
    /// cores in the order in which a power mode counts them.
    pub fn units(&self) -> usize {
        self.core(0) + self.cpus.cores.len()
    }

    /// The number of the GPU's clock.
    pub fn gpu_unit(&self) -> usize {
        self.cpus.policies.len()
    }

    /// The number of the memory's clock.
    pub fn memory_unit(&self) -> usize {
        self.gpu_unit() + 1
    }

    /// The number of the core at this place.
    pub fn core(&self, place: u32) -> usize {
        self.memory_unit() + 1 + place as usize
    }

    /// The place of the core with this number; `None` for a clock.
    pub fn place(&self, unit: usize) -> Option<u32> {
        let place = unit.checked_sub(self.core(0))?;
        u32::try_from(place).ok()
    }

    /// The clocks of a unit in kHz, ascending, and what a kHz is in its file; empty for a core.
    pub fn table(&self, unit: usize) -> (&[u32], u32) {
        if unit < self.gpu_unit() {
            return (&self.cpus.table, 1);
        }
        let table = match unit.cmp(&self.memory_unit()) {
            Ordering::Less => self.gpu.as_ref().map(|gpu| &gpu.table),
            Ordering::Equal => self.memory.as_ref().map(|memory| &memory.table),
            Ordering::Greater => None,
        };
        (table.map_or(&[], Vec::as_slice), HZ)
    }

    /// The highest value of a unit's table, or state of a switch, below a value of its file.
    pub fn next_below(&self, unit: usize, value: i64) -> Option<i64> {
        if self.place(unit).is_some() {
            return (value > 0).then_some(0);
        }
        let (table, kilo) = self.table(unit);
        let values = table.iter().map(|&khz| i64::from(khz) * i64::from(kilo));
        values.rev().find(|below| *below < value)
    }

    /// The clocks in cpufreq and devfreq while these cores are online, each with its unit.
    pub fn limits(&self, online: CoreSet) -> impl Iterator<Item = (usize, &Limits)> {
        let policies = self.cpus.policies.iter().enumerate();
        let policies = policies.filter(move |(_, policy)| policy.cores & online != 0);
        let gpu = self.gpu.iter().map(|gpu| (self.gpu_unit(), &gpu.limits));
        let memory = self
            .memory
            .iter()
            .filter_map(|memory| match &memory.control {
                Control::Devfreq(limits) => Some((self.memory_unit(), limits)),
                Control::Bpmp(_) => None,
            });
        policies
            .map(|(unit, policy)| (unit, &policy.limits))
            .chain(gpu)
            .chain(memory)
    }

    /// Whether a driver may have rounded a clock to another one: no value of the unit's table is between
    /// them, and they are close.
    pub fn is_rounded(&self, unit: usize, wanted: i64, shown: i64) -> bool {
        let (table, kilo) = self.table(unit);
        let values = table.iter().map(|&khz| i64::from(khz) * i64::from(kilo));
        let (low, high) = (wanted.min(shown), wanted.max(shown));
        let is_close = high.saturating_sub(low) <= low / ROUNDED;
        is_close && values.filter(|value| low < *value && *value < high).count() == 0
    }

    /// Whether a unit is clearly higher than requested.
    pub fn is_above(&self, seen: &Seen) -> bool {
        seen.shown.is_some_and(|shown| {
            shown > seen.wanted && !self.is_rounded(seen.unit, seen.wanted, shown)
        })
    }

    /// The file that shows a unit: the switch of a core, or the maximum of a clock, or the memory's rate.
    fn file(&self, unit: usize) -> Option<&Knob> {
        if let Some(place) = self.place(unit) {
            return self.cpus.cores.get(place as usize)?.online.as_ref();
        }
        let limits = match self.cpus.policies.get(unit) {
            Some(policy) => &policy.limits,
            None if unit == self.gpu_unit() => &self.gpu.as_ref()?.limits,
            None => match &self.memory.as_ref()?.control {
                Control::Bpmp(bpmp) => return Some(&bpmp.rate),
                Control::Devfreq(limits) => limits,
            },
        };
        Some(&limits.max)
    }

    /// What a unit is at most, as its files show it. `None` for what is not there, such as the clock of a
    /// cluster that is offline.
    pub fn shown(
        &self,
        files: &impl Files,
        unit: usize,
        online: CoreSet,
    ) -> Option<Result<i64, KnobError>> {
        if unit == self.memory_unit() {
            let memory = self.memory.as_ref()?;
            // Whether or not the rate is held, so that a memory does not become unknown by being held.
            let rate = memory.rate.read(files);
            return Some(rate.and_then(|_| memory.held_or_ceiling(files)));
        }
        let policy = self.cpus.policies.get(unit);
        let is_there = policy.is_none_or(|policy| policy.cores & online != 0);
        let shown = self.file(unit).filter(|_| is_there)?.read(files);
        Some(match self.place(unit) {
            Some(_) => shown.map(|value| i64::from(value != 0)),
            None => shown,
        })
    }

    /// A difference in the terms of its file.
    pub fn disobedience(&self, seen: &Seen) -> Option<Disobedience> {
        let memory = self.memory.as_ref().filter(|_| seen.is_released);
        let (knob, wanted, is) = match memory.map(|memory| &memory.control) {
            Some(Control::Bpmp(bpmp)) => (&bpmp.lock, 1, Some(0)),
            _ => (self.file(seen.unit)?, seen.wanted, seen.shown),
        };
        Some(Disobedience {
            path: knob.0.clone(),
            wanted,
            is,
            why: None,
        })
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
