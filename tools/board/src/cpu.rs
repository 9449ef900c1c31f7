//! Cores and their clocks: `online` files and cpufreq policies (`jetson-platform.md`, sections
//! 1 and 5.1).

use std::io;
use std::path::Path;
use std::sync::Arc;

use wattgate_runtime::Kilohertz;

use crate::clock::Limits;
use crate::files::{Files, Knob};
use crate::search::{DiscoverError, Search};

const CPUS: &str = "/sys/devices/system/cpu";

/// A set of cores. Bit 0 is the first core in the order in which a power mode counts them.
pub(crate) type CoreSet = u64;

/// Whether a set has the core at this place of the order.
pub(crate) fn has(set: CoreSet, place: u32) -> bool {
    set >> place & 1 != 0
}

#[derive(Clone, Debug)]
pub(crate) struct Core {
    pub number: u32,
    /// The hotplug switch; `None` for cpu0, which is always online, and for a core without the
    /// file.
    pub online: Option<Knob>,
    /// Whether a core without a switch is online.
    pub on: bool,
}

/// A cluster of cores with one clock.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub cores: CoreSet,
    /// Minimum and maximum in kHz.
    pub limits: Limits,
    /// The clock in kHz that Linux requests now, and the true one, from the cores' counters,
    /// where the driver shows them.
    pub requested: Option<Knob>,
    pub delivered: Option<Knob>,
}

/// All cores and their cpufreq policies.
#[derive(Clone, Debug)]
pub(crate) struct Cpus {
    /// In the order in which a power mode counts them.
    pub cores: Vec<Core>,
    /// In the order of their first cores; empty where the clock cannot be set.
    pub policies: Vec<Policy>,
    /// Clocks that all policies have, in kHz, ascending; empty where they cannot be set.
    pub table: Vec<u32>,
}

/// A true clock below this part of the requested one is throttled. Drivers measure the clock to some
/// percent; hardware throttles to a half or less (section 6.4).
const THROTTLED: (u64, u64) = (4, 5);

/// The clock of a CPU cluster or of the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningClock {
    /// What Linux's governor requests.
    pub requested: Kilohertz,
    /// What runs, by the hardware's counters.
    pub delivered: Kilohertz,
}

impl RunningClock {
    /// Whether the clock runs clearly slower than requested.
    pub fn is_throttled(self) -> bool {
        let (part, whole) = THROTTLED;
        u64::from(self.delivered.0) * whole < u64::from(self.requested.0) * part
    }
}

impl Policy {
    fn clock(&self, files: &impl Files) -> Option<RunningClock> {
        let read = |knob: &Option<Knob>| Some(khz(knob.as_ref()?.read(files).ok()?));
        Some(RunningClock {
            requested: read(&self.requested)?,
            delivered: read(&self.delivered)?,
        })
    }
}

fn khz(value: i64) -> Kilohertz {
    Kilohertz(u32::try_from(value.max(0)).unwrap_or(u32::MAX))
}

impl Cpus {
    /// The clock of the first cluster.
    pub fn clock(&self, files: &impl Files) -> Option<RunningClock> {
        self.policies.first()?.clock(files)
    }

    pub(crate) fn find<F: Files>(search: &mut Search<F>) -> Result<Self, DiscoverError> {
        let cpus = search.path(CPUS);
        let mut numbers = search.numbers(&cpus, "cpu");
        if numbers.is_empty() {
            search.miss("cores", cpus.clone(), io::ErrorKind::NotFound);
        }
        if numbers.len() > CoreSet::BITS as usize {
            let cores = numbers.len();
            return Err(DiscoverError::TooManyCores { cores });
        }
        let cpufreq = cpus.join("cpufreq");
        let clusters = clusters(search, &cpufreq, &mut numbers);

        let mut order: Vec<u32> = clusters
            .iter()
            .flat_map(|(_, cores)| cores.clone())
            .collect();
        // Cores without a policy.
        order.extend(numbers);
        let online = search.text(&cpus.join("online")).ok();
        let cores: Vec<Core> = order
            .iter()
            .map(|&number| {
                let file = cpus.join(format!("cpu{number}/online"));
                Core {
                    number,
                    online: (number != 0)
                        .then(|| search.knob("switch of a core", file))
                        .flatten(),
                    on: number == 0 || online.as_ref().is_none_or(|text| lists(text, number)),
                }
            })
            .collect();

        let place = |number: &u32| order.iter().position(|core| core == number);
        let set = |cores: &[u32]| -> CoreSet {
            let places = cores.iter().filter_map(place);
            places.fold(0, |set, place| set | 1 << place)
        };
        let mut policies = Vec::new();
        for (first, cores) in &clusters {
            let directory = cpufreq.join(format!("policy{first}"));
            let there = search.list(&directory);
            let mut limit = |name: &str| {
                let path = directory.join(name);
                // The file cannot be read while the cluster is offline. Its existence is enough.
                if there.iter().any(|it| it == name) {
                    return Some(Knob(Arc::from(path)));
                }
                search.miss("CPU clock", path, io::ErrorKind::NotFound);
                None
            };
            let (min, max) = (limit("scaling_min_freq"), limit("scaling_max_freq"));
            let shown = |name: &str| {
                let is_there = there.iter().any(|it| it == name);
                is_there.then(|| Knob(directory.join(name).into()))
            };
            let requested = shown("scaling_cur_freq");
            let delivered = shown("cpuinfo_cur_freq");
            if let (Some(min), Some(max)) = (min, max) {
                policies.push(Policy {
                    cores: set(cores),
                    limits: Limits { min, max },
                    requested,
                    delivered,
                });
            }
        }
        // A cluster whose policy comes late, or never, runs at a clock that nobody sets. Some Linux kernels show no policy of
        // an offline one.
        let free = order.get(clusters.iter().map(|(_, cores)| cores.len()).sum()..);
        let mut free = free.unwrap_or_default().iter();
        let without = match clusters.is_empty() {
            true => Some(cpufreq.clone()),
            false => free
                .find(|core| online.as_ref().is_none_or(|text| lists(text, **core)))
                .map(|core| cpus.join(format!("cpu{core}/cpufreq"))),
        };
        if let Some(path) = without {
            search.miss("CPU clock", path, io::ErrorKind::NotFound);
        }
        let mut found = Self {
            table: table(search, &cpufreq, &clusters),
            policies,
            cores,
        };
        // The CPU clock counts as settable only if every cluster follows it.
        if found.table.is_empty() || found.policies.len() < clusters.len() {
            found.table.clear();
            found.policies.clear();
        }
        Ok(found)
    }

    /// The cores of the cluster that a core belongs to.
    pub fn cluster(&self, core: u32) -> Vec<u32> {
        let places = || self.cores.iter().zip(0..);
        let place = places().find(|(it, _)| it.number == core);
        let set = place.and_then(|(_, place)| {
            let mut policies = self.policies.iter().map(|policy| policy.cores);
            policies.find(|cores| cores & (1 << place) != 0)
        });
        let cores = places().filter(|(_, place)| set.unwrap_or(0) & (1 << *place) != 0);
        cores.map(|(core, _)| core.number).collect()
    }

    /// Whether any core can be switched.
    pub fn can_switch(&self) -> bool {
        self.cores.iter().any(|core| core.online.is_some())
    }

    /// The first `cores` cores.
    pub fn first(cores: u32) -> CoreSet {
        let missing = CoreSet::BITS.saturating_sub(cores);
        CoreSet::MAX.checked_shr(missing).unwrap_or(0)
    }

    /// All cores for which something holds.
    pub fn all(&self, mut holds: impl FnMut(u32, &Core) -> bool) -> CoreSet {
        let cores = self.cores.iter().zip(0..);
        cores.fold(0, |set, (core, place)| {
            set | CoreSet::from(holds(place, core)) << place
        })
    }

    /// The set by the numbers of the cores, bit 0 for cpu0.
    pub fn numbers(&self, set: CoreSet) -> u64 {
        let cores = self.cores.iter().zip(0..);
        let numbers = cores.filter(|(_, place)| has(set, *place));
        numbers.fold(0, |numbers, (core, _)| {
            numbers | 1u64.checked_shl(core.number).unwrap_or(0)
        })
    }

    /// The cores that are online now. A core that cannot be read counts as online, as it may draw power.
    pub fn online(&self, files: &impl Files) -> CoreSet {
        self.all(|_, core| match &core.online {
            Some(knob) => knob.read(files) != Ok(0),
            None => core.on,
        })
    }
}

/// The number and the cores of each policy, ordered by first core. Removes these cores from `free`.
///
/// The policy of an offline cluster may not list its cores. A policy is numbered after its first
/// core. So a core that no policy lists belongs to a policy without a list: the one with the
/// highest number up to the core's.
fn clusters<F: Files>(
    search: &Search<F>,
    cpufreq: &Path,
    free: &mut Vec<u32>,
) -> Vec<(u32, Vec<u32>)> {
    let policies = search.numbers(cpufreq, "policy");
    let mut clusters: Vec<(u32, Vec<u32>)> = Vec::new();
    let mut silent = Vec::new();
    for policy in policies {
        let related = search.text(&cpufreq.join(format!("policy{policy}/related_cpus")));
        let related = related.unwrap_or_default();
        let named: Vec<u32> = related
            .split_whitespace()
            .filter_map(|it| it.parse().ok())
            .collect();
        if !named.contains(&policy) {
            silent.push(policy);
            continue;
        }
        let (cores, rest) = free.iter().partition(|core| named.contains(core));
        *free = rest;
        clusters.push((policy, cores));
    }
    for policy in silent.into_iter().rev() {
        let (cores, rest) = free.iter().partition(|&&core| core >= policy);
        *free = rest;
        clusters.push((policy, cores));
    }
    clusters.retain(|(_, cores)| !cores.is_empty());
    clusters.sort_by_key(|(_, cores)| cores.first().copied());
    clusters
}

/// The clocks that all readable tables have in common.
fn table<F: Files>(
    search: &mut Search<F>,
    cpufreq: &Path,
    clusters: &[(u32, Vec<u32>)],
) -> Vec<u32> {
    let mut common: Option<Vec<u32>> = None;
    let mut refused = None;
    for (policy, _) in clusters {
        let path = cpufreq.join(format!("policy{policy}/scaling_available_frequencies"));
        match search.table(&path, 1) {
            Ok(table) => match &mut common {
                None => common = Some(table),
                Some(common) => common.retain(|khz| table.contains(khz)),
            },
            Err(why) => refused = Some((path, why.kind())),
        }
    }
    if let (None, Some((path, why))) = (&common, refused) {
        search.miss("table of the CPU clock", path, why);
    }
    common.unwrap_or_default()
}

/// Whether a list of ranges such as `0-3,5` contains a number.
fn lists(ranges: &str, number: u32) -> bool {
    ranges.trim().split(',').any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let ends = first.parse().ok().zip(last.parse().ok());
        ends.is_some_and(|(first, last): (u32, u32)| (first..=last).contains(&number))
    })
}
