//! The state that a transition leads to, and whether the board is in it.

use wattgate_runtime::PowerMode;

use crate::clock::{HZ, Limits};
use crate::cpu::{CoreSet, Cpus, Policy, has};
use crate::files::{Files, KnobError};
use crate::journal::expect;
use crate::knobs::Knobs;
use crate::memory::{Cap, Memory};
use crate::saved::Saved;

/// Settings that a transition leads to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    /// Every clock is held at one value.
    Mode(&'a PowerMode),
    /// Every knob gets its saved value.
    Saved(&'a Saved),
}

/// Target settings of the memory, in Hz.
pub(crate) struct MemoryTarget {
    /// The rate to hold; `None` to release it.
    pub held: Option<i64>,
    /// The value for nvpmodel's cap; `None` to leave the cap alone.
    pub cap: Option<i64>,
}

impl Target<'_> {
    /// The cores that the target has online, given the cores that are online now.
    pub fn cores(&self, cpus: &Cpus, online: CoreSet) -> CoreSet {
        match self {
            Self::Mode(_) if cpus.counts().next().is_none() => online,
            Self::Mode(mode) => Cpus::first(mode.cores),
            Self::Saved(saved) => {
                let cores = cpus.cores.iter().zip(0..);
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

    /// Minimum and maximum of a clock in units of 1/`unit` kHz.
    fn limits(&self, limits: &Limits, khz: fn(&PowerMode) -> u32, unit: u32) -> Option<[i64; 2]> {
        match self {
            Self::Mode(mode) => Some([i64::from(khz(mode)) * i64::from(unit); 2]),
            Self::Saved(saved) => Some([saved.value(&limits.min)?, saved.value(&limits.max)?]),
        }
    }

    /// Minimum and maximum of a cluster's clock, in kHz.
    pub fn policy(&self, policy: &Policy) -> Option<[i64; 2]> {
        self.limits(&policy.limits, |mode| mode.cpu.0, 1)
    }

    /// Minimum and maximum of the GPU's clock, in Hz.
    pub fn gpu(&self, limits: &Limits) -> Option<[i64; 2]> {
        self.limits(limits, |mode| mode.gpu.0, HZ)
    }

    /// Minimum and maximum for a cluster whose cores go offline, in kHz; `None` to leave them. The
    /// clocks of a cluster that was offline when the state was saved are unknown. They are opened
    /// to both ends of the table, as after a boot, so that the cluster does not keep our clocks.
    pub fn parting(&self, policy: &Policy, cpus: &Cpus) -> Option<[i64; 2]> {
        match (self, self.policy(policy)) {
            (Self::Saved(_), None) => {
                let ends = [cpus.table.first()?, cpus.table.last()?];
                Some(ends.map(|&khz| i64::from(khz)))
            }
            _ => None,
        }
    }

    /// Target settings of the memory, given the current value `cap` of nvpmodel's cap.
    pub fn memory(&self, memory: &Memory, cap: Option<i64>) -> Option<MemoryTarget> {
        match self {
            Self::Mode(mode) => {
                let hz = i64::from(HZ) * i64::from(mode.emc.0);
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

/// Compares all knobs with the target; the first difference is an error. Writes nothing.
pub(crate) fn check(
    files: &impl Files,
    knobs: &Knobs,
    target: Target<'_>,
) -> Result<(), KnobError> {
    let cpus = &knobs.cpus;
    let wanted = target.cores(cpus, cpus.online(files)?);
    for (core, place) in cpus.cores.iter().zip(0..) {
        if let Some(knob) = &core.online {
            expect(files, knob, i64::from(has(wanted, place)))?;
        }
    }
    let alive = |policy: &&Policy| policy.cores & wanted != 0;
    for policy in cpus.policies.iter().filter(alive) {
        expect_limits(files, &policy.limits, target.policy(policy))?;
    }
    if let Some(gpu) = &knobs.gpu {
        expect_limits(files, &gpu.limits, target.gpu(&gpu.limits))?;
    }
    let Some(memory) = &knobs.memory else {
        return Ok(());
    };
    let cap = memory.cap.as_ref();
    let now = cap.map(|cap| cap.knob.read(files)).transpose()?;
    let Some(wanted) = target.memory(memory, now) else {
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

fn expect_limits(
    files: &impl Files,
    limits: &Limits,
    wanted: Option<[i64; 2]>,
) -> Result<(), KnobError> {
    match wanted {
        Some([min, max]) => {
            expect(files, &limits.min, min)?;
            expect(files, &limits.max, max)
        }
        None => Ok(()),
    }
}
