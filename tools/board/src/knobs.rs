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

    /// The number of actuators, in the order of their numbers: the CPU clusters, the GPU, the memory, and the
    /// cores in the order in which a power mode counts them.
    pub fn actuators(&self) -> usize {
        self.core(0) + self.cpus.cores.len()
    }

    /// The number of the GPU's clock.
    pub fn gpu_actuator(&self) -> usize {
        self.cpus.policies.len()
    }

    /// The number of the memory's clock.
    pub fn memory_actuator(&self) -> usize {
        self.gpu_actuator() + 1
    }

    /// The number of the core at this place.
    pub fn core(&self, place: u32) -> usize {
        self.memory_actuator() + 1 + place as usize
    }

    /// The place of the core with this number; `None` for a clock.
    pub fn place(&self, actuator: usize) -> Option<u32> {
        let place = actuator.checked_sub(self.core(0))?;
        u32::try_from(place).ok()
    }

    /// The clocks of an actuator in kHz, ascending, and what a kHz is in its file; empty for a core.
    pub fn table(&self, actuator: usize) -> (&[u32], u32) {
        if actuator < self.gpu_actuator() {
            return (&self.cpus.table, 1);
        }
        let table = match actuator.cmp(&self.memory_actuator()) {
            Ordering::Less => self.gpu.as_ref().map(|gpu| &gpu.table),
            Ordering::Equal => self.memory.as_ref().map(|memory| &memory.table),
            Ordering::Greater => None,
        };
        (table.map_or(&[], Vec::as_slice), HZ)
    }

    /// The highest value of an actuator's table, or state of a switch, below a value of its file.
    pub fn next_below(&self, actuator: usize, value: i64) -> Option<i64> {
        if self.place(actuator).is_some() {
            return (value > 0).then_some(0);
        }
        let (table, kilo) = self.table(actuator);
        let values = table.iter().map(|&khz| i64::from(khz) * i64::from(kilo));
        values.rev().find(|below| *below < value)
    }

    /// The clocks in cpufreq and devfreq while these cores are online, each with its actuator.
    pub fn limits(&self, online: CoreSet) -> impl Iterator<Item = (usize, &Limits)> {
        let policies = self.cpus.policies.iter().enumerate();
        let policies = policies.filter(move |(_, policy)| policy.cores & online != 0);
        let gpu = self
            .gpu
            .iter()
            .map(|gpu| (self.gpu_actuator(), &gpu.limits));
        let memory = self
            .memory
            .iter()
            .filter_map(|memory| match &memory.control {
                Control::Devfreq(limits) => Some((self.memory_actuator(), limits)),
                Control::Bpmp(_) => None,
            });
        policies
            .map(|(actuator, policy)| (actuator, &policy.limits))
            .chain(gpu)
            .chain(memory)
    }

    /// Whether a driver may have rounded a clock to another one: no value of the actuator's table is between
    /// them, and they are close.
    pub fn is_rounded(&self, actuator: usize, wanted: i64, shown: i64) -> bool {
        let (table, kilo) = self.table(actuator);
        let values = table.iter().map(|&khz| i64::from(khz) * i64::from(kilo));
        let (low, high) = (wanted.min(shown), wanted.max(shown));
        let is_close = high.saturating_sub(low) <= low / ROUNDED;
        is_close && values.filter(|value| low < *value && *value < high).count() == 0
    }

    /// Whether an actuator is clearly higher than requested.
    pub fn is_above(&self, seen: &Seen) -> bool {
        seen.shown.is_some_and(|shown| {
            shown > seen.wanted && !self.is_rounded(seen.actuator, seen.wanted, shown)
        })
    }

    /// The file that shows an actuator: the switch of a core, or the maximum of a clock, or the memory's rate.
    fn file(&self, actuator: usize) -> Option<&Knob> {
        if let Some(place) = self.place(actuator) {
            return self.cpus.cores.get(place as usize)?.online.as_ref();
        }
        let limits = match self.cpus.policies.get(actuator) {
            Some(policy) => &policy.limits,
            None if actuator == self.gpu_actuator() => &self.gpu.as_ref()?.limits,
            None => match &self.memory.as_ref()?.control {
                Control::Bpmp(bpmp) => return Some(&bpmp.rate),
                Control::Devfreq(limits) => limits,
            },
        };
        Some(&limits.max)
    }

    /// What an actuator is at most, as its files show it. `None` for what is not there, such as the clock of a
    /// cluster that is offline.
    pub fn shown(
        &self,
        files: &impl Files,
        actuator: usize,
        online: CoreSet,
    ) -> Option<Result<i64, KnobError>> {
        if actuator == self.memory_actuator() {
            let memory = self.memory.as_ref()?;
            // Whether or not the rate is held, so that a memory does not become unknown by being held.
            let rate = memory.rate.read(files);
            return Some(rate.and_then(|_| memory.held_or_ceiling(files)));
        }
        let policy = self.cpus.policies.get(actuator);
        let is_there = policy.is_none_or(|policy| policy.cores & online != 0);
        let shown = self.file(actuator).filter(|_| is_there)?.read(files);
        Some(match self.place(actuator) {
            Some(_) => shown.map(|value| i64::from(value != 0)),
            None => shown,
        })
    }

    /// A difference in the terms of its file.
    pub fn disobedience(&self, seen: &Seen) -> Option<Disobedience> {
        let memory = self.memory.as_ref().filter(|_| seen.is_released);
        let (knob, wanted, is) = match memory.map(|memory| &memory.control) {
            Some(Control::Bpmp(bpmp)) => (&bpmp.lock, 1, Some(0)),
            _ => (self.file(seen.actuator)?, seen.wanted, seen.shown),
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
