//! The state that a transition leads to, and whether the board is in it.

use wattgate_runtime::PowerMode;

use crate::clock::Limits;
use crate::cpu::{CoreSet, Cpus, Policy, has};
use crate::files::{Files, KnobError};
use crate::journal::expect;
use crate::knobs::Knobs;
use crate::memory::{Bpmp, Cap, Control};
use crate::obedience::Obedience;
use crate::saved::Saved;
use crate::seen::Seen;

/// How a power mode sets the clocks of CPU and GPU. The memory is held at its rate in both cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clocks {
    /// Minimum and maximum are the clock of the mode.
    #[default]
    Pin,
    /// The maximum is the clock of the mode, the minimum that of the table: Linux's governors
    /// lower the clocks of idle parts.
    Cap,
}

/// Settings that a transition leads to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    /// The clocks of a mode, with what is known of the knobs.
    Mode(&'a PowerMode, Clocks, &'a Obedience),
    /// Every knob gets its saved value.
    Saved(&'a Saved),
}

/// Target settings of BPMP's memory clock, in Hz.
pub(crate) struct MemoryTarget {
    /// The rate to hold; `None` to release it.
    pub held: Option<i64>,
    /// The value for nvpmodel's cap; `None` to leave the cap alone.
    pub cap: Option<i64>,
}

impl Clocks {
    /// Minimum and maximum for a clock and the lowest of its table.
    fn limits(self, clock: i64, lowest: i64) -> [i64; 2] {
        match self {
            Self::Pin => [clock; 2],
            Self::Cap => [lowest.min(clock), clock],
        }
    }
}

impl Saved {
    fn limits(&self, limits: &Limits) -> Option<[i64; 2]> {
        Some([self.value(&limits.min)?, self.value(&limits.max)?])
    }
}

impl Target<'_> {
    /// The cores that the target has online, given the cores that are online now.
    pub fn cores(&self, knobs: &Knobs, online: CoreSet) -> CoreSet {
        match self {
            Self::Mode(mode, _, obedience) => knobs.cores(mode.cores, obedience),
            Self::Saved(saved) => {
                let cores = knobs.cpus.cores.iter().zip(0..);
                cores.fold(online, |set, (core, place)| {
                    let knob = core.online.as_ref();
                    match knob.and_then(|knob| saved.value(knob)) {
                        Some(0) => set & !(1 << place),
                        Some(_) => set | 1 << place,
                        None => set,
                    }
                })
            }
        }
    }

    /// Minimum and maximum to request of a clock, in the unit of measure of its files. `None` if the target is no mode, or
    /// the clock does not take the mode's value.
    pub fn request(&self, knobs: &Knobs, actuator: usize) -> Option<[i64; 2]> {
        let Self::Mode(mode, clocks, obedience) = self else {
            return None;
        };
        let (table, kilo) = knobs.table(actuator);
        let khz = match actuator {
            actuator if actuator < knobs.gpu_actuator() => mode.cpu,
            actuator if actuator == knobs.gpu_actuator() => mode.gpu,
            _ => mode.emc,
        };
        let [wanted, lowest] = [khz.0, table.first().copied().unwrap_or(khz.0)]
            .map(|khz| i64::from(khz) * i64::from(kilo));
        let wanted = obedience.request(actuator, wanted, lowest);
        Some(match actuator == knobs.memory_actuator() {
            // A mode holds the rate.
            true => [wanted; 2],
            false => clocks.limits(wanted, lowest),
        })
    }

    /// Minimum and maximum of a clock in cpufreq or devfreq, in the unit of measure of its files.
    pub fn limits(&self, knobs: &Knobs, actuator: usize, limits: &Limits) -> Option<[i64; 2]> {
        match self {
            Self::Mode(..) => self.request(knobs, actuator),
            Self::Saved(saved) => saved.limits(limits),
        }
    }

    /// Minimum and maximum for a cluster whose cores go offline, in kHz; `None` to leave them. The
    /// clocks of a cluster that was offline when the state was saved are unknown. They are opened
    /// to both ends of the table, as after a boot, so that the cluster does not keep our clocks.
    pub fn parting(&self, policy: &Policy, cpus: &Cpus) -> Option<[i64; 2]> {
        match self {
            Self::Saved(saved) if saved.limits(&policy.limits).is_none() => {
                let ends = [cpus.table.first()?, cpus.table.last()?];
                Some(ends.map(|&khz| i64::from(khz)))
            }
            _ => None,
        }
    }

    /// Target settings of BPMP's memory clock, given the current value `cap` of nvpmodel's cap.
    pub fn memory(&self, knobs: &Knobs, memory: &Bpmp, cap: Option<i64>) -> Option<MemoryTarget> {
        match self {
            Self::Mode(..) => {
                let [hz, _] = self.request(knobs, knobs.memory_actuator())?;
                let below = cap.is_some_and(|cap| Cap::ceiling(cap) < hz);
                let lifted = memory.cap.as_ref().filter(|_| below);
                Some(MemoryTarget {
                    held: Some(hz),
                    cap: lifted.map(|cap| cap.allowing(hz)),
                })
            }
            Self::Saved(saved) => {
                let is_held = saved.value(&memory.lock)? != 0;
                let rate = saved.value(&memory.rate)?;
                let cap = memory.cap.as_ref();
                Some(MemoryTarget {
                    held: is_held.then_some(rate),
                    cap: cap.and_then(|cap| saved.value(&cap.knob)),
                })
            }
        }
    }
}

/// What applies of the clocks that are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effective {
    /// Every clock is as requested.
    AsRequested,
    /// Linux caps a clock below the request, as it does against heat.
    Capped,
}

/// Compares all knobs with saved values; the first difference is an error.
pub(crate) fn check(
    files: &impl Files,
    knobs: &Knobs,
    target: Target<'_>,
) -> Result<(), KnobError> {
    let cpus = &knobs.cpus;
    let wanted = target.cores(knobs, cpus.online(files));
    for (core, place) in cpus.cores.iter().zip(0..) {
        if let Some(knob) = &core.online {
            expect(files, knob, i64::from(has(wanted, place)))?;
        }
    }
    for (actuator, policy) in cpus.policies.iter().enumerate() {
        if policy.cores & wanted != 0 {
            expect_limits(
                files,
                &policy.limits,
                target.limits(knobs, actuator, &policy.limits),
            )?;
        }
    }
    if let Some(gpu) = &knobs.gpu {
        let wanted = target.limits(knobs, knobs.gpu_actuator(), &gpu.limits);
        expect_limits(files, &gpu.limits, wanted)?;
    }
    match knobs.memory.as_ref().map(|memory| &memory.control) {
        Some(Control::Bpmp(bpmp)) => expect_rate(files, knobs, bpmp, target),
        Some(Control::Devfreq(limits)) => {
            let wanted = target.limits(knobs, knobs.memory_actuator(), limits);
            expect_limits(files, limits, wanted)
        }
        None => Ok(()),
    }
}

fn expect_rate(
    files: &impl Files,
    knobs: &Knobs,
    memory: &Bpmp,
    target: Target<'_>,
) -> Result<(), KnobError> {
    let cap = memory.cap.as_ref();
    let now = cap.map(|cap| cap.knob.read(files)).transpose()?;
    let Some(wanted) = target.memory(knobs, memory, now) else {
        return Ok(());
    };
    if let Some((cap, value)) = cap.zip(wanted.cap) {
        expect(files, &cap.knob, value)?;
    }
    expect(files, &memory.lock, wanted.held.is_some().into())?;
    match wanted.held {
        Some(hz) => expect(files, &memory.rate, hz),
        None => Ok(()),
    }
}

/// A maximum below the wanted one is a cap, to which the minimum follows.
fn expect_limits(
    files: &impl Files,
    limits: &Limits,
    wanted: Option<[i64; 2]>,
) -> Result<(), KnobError> {
    let Some([min, max]) = wanted else {
        return Ok(());
    };
    let shown = limits.max.read(files)?;
    if shown > max {
        expect(files, &limits.max, max)?;
    }
    expect(files, &limits.min, min.min(shown))
}

/// Tells of each actuator that is there what the board shows, beside what a mode requests of it.
/// `is_cooled` says whether a cooling device explains that a clock is at most at a value.
pub(crate) fn observe(
    files: &impl Files,
    knobs: &Knobs,
    target: Target<'_>,
    is_cooled: impl Fn(usize, i64) -> bool,
    mut tell: impl FnMut(Seen),
) {
    let online = knobs.cpus.online(files);
    let wanted = target.cores(knobs, online);
    for actuator in 0..knobs.actuators() {
        let Some(shown) = knobs.shown(files, actuator, online) else {
            continue;
        };
        let request = match knobs.place(actuator) {
            Some(place) => Some(i64::from(has(wanted, place))),
            None => target.request(knobs, actuator).map(|[_, max]| max),
        };
        let Some(wanted) = request else { continue };
        let shown = shown.ok();
        let memory = knobs
            .memory
            .as_ref()
            .filter(|_| actuator == knobs.memory_actuator());
        tell(Seen {
            actuator,
            wanted,
            shown,
            is_cooled: shown.is_some_and(|shown| shown < wanted && is_cooled(actuator, shown)),
            is_released: memory.is_some_and(|memory| memory.is_held(files) == Ok(false)),
        });
    }
}
