//! The cores and CPU clocks that a board can have while some of its knobs do not obey.

use std::ops::RangeInclusive;

use crate::cpu::{Core, CoreSet, Cpus};
use crate::knobs::Knobs;
use crate::obedience::Obedience;

impl Knobs {
    /// The cores that cannot be offline, and those that cannot be online.
    fn fixed(&self, obedience: &Obedience) -> [CoreSet; 2] {
        let on = self.cpus.all(|place, core| match core.online {
            Some(_) => obedience.floor(self.core(place)).is_some(),
            None => core.on,
        });
        let off = self.cpus.all(|place, core| match core.online {
            Some(_) => obedience.lacks(self.core(place), 1),
            None => !core.on,
        });
        [on, off & !on]
    }

    /// The numbers of cores that can be online.
    pub fn counts(&self, obedience: &Obedience) -> RangeInclusive<u32> {
        let [on, off] = self.fixed(obedience);
        let all = Cpus::first(self.cpus.cores.len() as u32);
        on.count_ones().max(1)..=(all & !off).count_ones()
    }

    /// The cores that are online in a mode with this number of cores: those that cannot be offline, then the
    /// first others that can be online. Cores of a cluster that can be offline and whose clock has a floor come
    /// last. A core whose switch is tested counts as one of them, but is asked to go offline.
    pub fn cores(&self, count: u32, obedience: &Obedience) -> CoreSet {
        let [on, off] = self.fixed(obedience);
        let policies = self.cpus.policies.iter().enumerate();
        // Where one of its cores is always online, the floor of a cluster counts in any case. A cluster that
        // cannot be read counts as fastest, but was asked for its lowest clock.
        let floored = policies.filter(|(actuator, policy)| {
            let is_avoidable = policy.cores & on == 0 || obedience.is_unknown(*actuator);
            is_avoidable && obedience.floor(*actuator).is_some()
        });
        let late = floored.fold(0, |set, (_, policy)| set | policy.cores);
        let all = Cpus::first(self.cpus.cores.len() as u32) & !off & !on;
        let mut set = on;
        for candidates in [all & !late, all & late] {
            let mut rest = candidates;
            while rest != 0 && set.count_ones() < count {
                let first = rest & rest.wrapping_neg();
                (set, rest) = (set | first, rest & !first);
            }
        }
        let is_tested = |place, _: &Core| obedience.is_tested(self.core(place));
        set & !self.cpus.all(is_tested)
    }

    /// The lowest CPU clock in kHz that a mode with this number of cores can have; `u32::MAX` if a cluster cannot
    /// be read.
    pub fn cpu_floor(&self, count: u32, obedience: &Obedience) -> u32 {
        let cores = self.cores(count, obedience);
        let policies = self.cpus.policies.iter().enumerate();
        let online = policies.filter(|(_, policy)| policy.cores & cores != 0);
        let floors = online.filter_map(|(actuator, _)| obedience.floor(actuator));
        floors
            .max()
            .map_or(0, |khz| u32::try_from(khz).unwrap_or(u32::MAX))
    }

    /// The clock in kHz to request of the online clusters, in a mode with this number of cores, so that they show
    /// `khz`; `None` if no cluster takes it.
    pub fn ask_cpu(&self, count: u32, khz: u32, obedience: &Obedience) -> Option<u32> {
        let cores = self.cores(count, obedience);
        let policies = self.cpus.policies.iter().enumerate();
        let online = policies.filter(|(_, policy)| policy.cores & cores != 0);
        let asked = online.filter_map(|(actuator, _)| obedience.ask(actuator, khz.into()));
        u32::try_from(asked.min()?).ok()
    }
}
