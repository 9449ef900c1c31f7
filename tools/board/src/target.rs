//! The state that a transition leads to, and whether the board is in it.

use wattgate_runtime::PowerMode;

use crate::clock::{HZ, Limits};
use crate::cpu::{CoreSet, Cpus, Policy, has};
use crate::files::{Files, KnobError};
use crate::gpu::Gpu;
use crate::journal::expect;
use crate::knobs::Knobs;
use crate::memory::{Bpmp, Cap, Control};
use crate::saved::Saved;

/// How a power mode sets the clocks of CPU and GPU. The memory is held at its rate in both cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clocks {
    /// Minimum and maximum are the clock of the mode.
    #[default]
    Pin,
    /// The maximum is the clock of the mode, the minimum that of the table: the kernel's governors
    /// lower the clocks of idle units.
    Cap,
}

/// Settings that a transition leads to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    /// The clocks of a mode.
    Mode(&'a PowerMode, Clocks),
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
    /// Minimum and maximum for a clock in kHz of a table, in units of 1/`unit` kHz.
    fn limits(self, khz: u32, table: &[u32], unit: u32) -> [i64; 2] {
        let min = match self {
            Self::Pin => khz,
            Self::Cap => table.first().copied().unwrap_or(khz),
        };
        [min, khz].map(|khz| i64::from(khz) * i64::from(unit))
    }
}

impl Saved {
    fn limits(&self, limits: &Limits) -> Option<[i64; 2]> {
        Some([self.value(&limits.min)?, self.value(&limits.max)?])
    }
}

impl Target<'_> {
    /// The cores that the target has online, given the cores that are online now.
    pub fn cores(&self, cpus: &Cpus, online: CoreSet) -> CoreSet {
        match self {
            Self::Mode(..) if cpus.counts().next().is_none() => online,
            Self::Mode(mode, _) => Cpus::first(mode.cores),
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

    /// Minimum and maximum of a cluster's clock, in kHz.
    pub fn policy(&self, policy: &Policy, cpus: &Cpus) -> Option<[i64; 2]> {
        match self {
            Self::Mode(mode, clocks) => Some(clocks.limits(mode.cpu.0, &cpus.table, 1)),
            Self::Saved(saved) => saved.limits(&policy.limits),
        }
    }

    /// Minimum and maximum of the GPU's clock, in Hz.
    pub fn gpu(&self, gpu: &Gpu) -> Option<[i64; 2]> {
        match self {
            Self::Mode(mode, clocks) => Some(clocks.limits(mode.gpu.0, &gpu.table, HZ)),
            Self::Saved(saved) => saved.limits(&gpu.limits),
        }
    }

    /// Minimum and maximum for a cluster whose cores go offline, in kHz; `None` to leave them. The
    /// clocks of a cluster that was offline when the state was saved are unknown. They are opened
    /// to both ends of the table, as after a boot, so that the cluster does not keep our clocks.
    pub fn parting(&self, policy: &Policy, cpus: &Cpus) -> Option<[i64; 2]> {
        match (self, self.policy(policy, cpus)) {
            (Self::Saved(_), None) => {
                let ends = [cpus.table.first()?, cpus.table.last()?];
                Some(ends.map(|&khz| i64::from(khz)))
            }
            _ => None,
        }
    }

    /// Minimum and maximum of the memory clock in devfreq, in Hz. A mode holds the rate.
    pub fn memory_limits(&self, limits: &Limits) -> Option<[i64; 2]> {
        match self {
            Self::Mode(mode, _) => Some([i64::from(HZ) * i64::from(mode.emc.0); 2]),
            Self::Saved(saved) => saved.limits(limits),
        }
    }

    /// Target settings of BPMP's memory clock, given the current value `cap` of nvpmodel's cap.
    pub fn memory(&self, memory: &Bpmp, cap: Option<i64>) -> Option<MemoryTarget> {
        match self {
            Self::Mode(mode, _) => {
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

/// What applies of the clocks that are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effective {
    /// Every clock is as requested.
    AsRequested,
    /// The kernel caps a clock below the request, as it does against heat.
    Capped,
}

/// Compares all knobs with the target; the first difference is an error, but for a clock that is
/// capped. Writes nothing.
pub(crate) fn check(
    files: &impl Files,
    knobs: &Knobs,
    target: Target<'_>,
) -> Result<Effective, KnobError> {
    let mut effective = Effective::AsRequested;
    let cpus = &knobs.cpus;
    let wanted = target.cores(cpus, cpus.online(files)?);
    for (core, place) in cpus.cores.iter().zip(0..) {
        if let Some(knob) = &core.online {
            expect(files, knob, i64::from(has(wanted, place)))?;
        }
    }
    let alive = |policy: &&Policy| policy.cores & wanted != 0;
    for policy in cpus.policies.iter().filter(alive) {
        expect_limits(
            files,
            &policy.limits,
            target.policy(policy, cpus),
            &mut effective,
        )?;
    }
    if let Some(gpu) = &knobs.gpu {
        expect_limits(files, &gpu.limits, target.gpu(gpu), &mut effective)?;
    }
    match knobs.memory.as_ref().map(|memory| &memory.control) {
        Some(Control::Bpmp(bpmp)) => expect_rate(files, bpmp, target)?,
        Some(Control::Devfreq(limits)) => {
            expect_limits(files, limits, target.memory_limits(limits), &mut effective)?;
        }
        None => {}
    }
    Ok(effective)
}

fn expect_rate(files: &impl Files, memory: &Bpmp, target: Target<'_>) -> Result<(), KnobError> {
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

/// A maximum below the wanted one is a cap, to which the minimum follows.
fn expect_limits(
    files: &impl Files,
    limits: &Limits,
    wanted: Option<[i64; 2]>,
    effective: &mut Effective,
) -> Result<(), KnobError> {
    let Some([min, max]) = wanted else {
        return Ok(());
    };
    let shown = limits.max.read(files)?;
    if shown < max {
        *effective = Effective::Capped;
    } else {
        expect(files, &limits.max, max)?;
    }
    expect(files, &limits.min, min.min(shown))
}
