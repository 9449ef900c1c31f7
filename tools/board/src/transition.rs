//! From what is set now to something else, write by write, each read back.
//!
//! ```text
//! lower:  GPU, CPU clusters that stay, memory        clock: minimum, then maximum
//!         cores off, the last one first
//! raise:  cores on; the clocks of a cluster as soon as its first core is on
//!         memory, CPU clusters, GPU                  clock: maximum, then minimum
//! look:   wait until clocks have followed, and read everything again
//! ```
//!
//! Where something fails or somebody interferes, all of this is done once more.
//!
//! What lowers the power comes before what raises it, so that nothing on the way draws more
//! than the higher one of both ends. A minimum is never above its maximum (section 5.1 of
//! `jetson-platform.md`). The memory is locked, then its rate is written; nvpmodel's cap is
//! lifted before that, and lowered after it (section 5.3).

use std::time::Duration;

use wattgate_runtime::PowerMode;

use crate::cpu::{CoreSet, Cpus, Limits, Policy};
use crate::discover::{HZ, Knobs};
use crate::files::{Files, Knob, KnobError};
use crate::memory::{Cap, Memory};
use crate::saved::Saved;

/// A file is looked at again so often: the files of a cluster appear some time after its first
/// core is on, and the memory's rate takes 8 ms (section 8).
const LOOK: Duration = Duration::from_millis(2);

/// It is looked at so many times at most.
const LOOKS: u32 = 25;

/// After this time everything is read once more: longer than any clock takes (section 8), so
/// that a driver that takes a value back has done so.
const SETTLE: Duration = Duration::from_millis(20);

/// What shall be set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    /// Every clock is held at one value.
    Mode(&'a PowerMode),
    /// As it was when it was saved.
    Saved(&'a Saved),
}

/// What shall be set of the memory, in Hz.
struct MemoryTarget {
    /// The rate that is held; none where it is left to others.
    held: Option<i64>,
    /// nvpmodel's cap; none where it stays as it is.
    cap: Option<i64>,
}

impl Target<'_> {
    fn cores(&self, cpus: &Cpus, online: CoreSet) -> CoreSet {
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

    /// Minimum and maximum of a clock whose unit is 1/`unit` kHz.
    fn limits(&self, limits: &Limits, khz: fn(&PowerMode) -> u32, unit: u32) -> Option<[i64; 2]> {
        match self {
            Self::Mode(mode) => Some([i64::from(khz(mode)) * i64::from(unit); 2]),
            Self::Saved(saved) => Some([saved.value(&limits.min)?, saved.value(&limits.max)?]),
        }
    }

    fn policy(&self, policy: &Policy) -> Option<[i64; 2]> {
        self.limits(&policy.limits, |mode| mode.cpu.0, 1)
    }

    fn gpu(&self, limits: &Limits) -> Option<[i64; 2]> {
        self.limits(limits, |mode| mode.gpu.0, HZ)
    }

    /// The limits of a cluster whose cores go off: what was hidden when the rest was saved is
    /// left open, as it is after a boot, so that nobody is stuck with ours.
    fn parting(&self, policy: &Policy, cpus: &Cpus) -> Option<[i64; 2]> {
        match (self, self.policy(policy)) {
            (Self::Saved(_), None) => {
                let ends = [cpus.table.first()?, cpus.table.last()?];
                Some(ends.map(|&khz| i64::from(khz)))
            }
            _ => None,
        }
    }

    fn memory(&self, memory: &Memory, cap: Option<i64>) -> Option<MemoryTarget> {
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

/// Compares everything with what shall be set; the first difference is an error. Writes
/// nothing.
pub(crate) fn check(
    files: &impl Files,
    knobs: &Knobs,
    target: Target<'_>,
) -> Result<(), KnobError> {
    let cpus = &knobs.cpus;
    let wanted = target.cores(cpus, cpus.online(files)?);
    for (core, place) in cpus.cores.iter().zip(0..) {
        if let Some(knob) = &core.online {
            same(files, knob, i64::from(has(wanted, place)))?;
        }
    }
    let alive = |policy: &&Policy| policy.cores & wanted != 0;
    for policy in cpus.policies.iter().filter(alive) {
        same_limits(files, &policy.limits, target.policy(policy))?;
    }
    if let Some(gpu) = &knobs.gpu {
        same_limits(files, &gpu.limits, target.gpu(&gpu.limits))?;
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
        same(files, &cap.knob, value)?;
    }
    same(files, &memory.lock, wanted.held.is_some().into())?;
    match wanted.held {
        Some(hz) => same(files, &memory.rate, hz),
        None => Ok(()),
    }
}

fn same_limits(
    files: &impl Files,
    limits: &Limits,
    wanted: Option<[i64; 2]>,
) -> Result<(), KnobError> {
    match wanted {
        Some([min, max]) => {
            same(files, &limits.min, min)?;
            same(files, &limits.max, max)
        }
        None => Ok(()),
    }
}

fn same(files: &impl Files, knob: &Knob, wanted: i64) -> Result<(), KnobError> {
    match knob.read(files)? {
        found if found == wanted => Ok(()),
        found => Err(KnobError::Differs {
            path: knob.0.clone(),
            wanted,
            found,
        }),
    }
}

fn has(set: CoreSet, place: u32) -> bool {
    set >> place & 1 != 0
}

/// What was written, in order, with what was there before.
#[derive(Debug)]
pub(crate) struct Journal(Vec<(Knob, i64)>);

impl Journal {
    /// With room for all writes to so many knobs: a change writes none twice, and it is made
    /// twice at most.
    pub fn new(knobs: usize) -> Self {
        Self(Vec::with_capacity(2 * knobs))
    }

    /// The number of writes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes back what was written, the last write first. A file that cannot be brought back
    /// does not keep the others from it.
    pub fn undo(&mut self, files: &mut impl Files) -> Failures {
        let mut failures = Failures::default();
        while let Some((knob, earlier)) = self.0.pop() {
            // One that refuses every write may still show what it showed before.
            let written = knob.write(files, earlier);
            if let Err(error) = read_back(files, &knob, earlier) {
                failures.add(written.err().unwrap_or(error));
            }
        }
        failures
    }
}

/// What failed without ending the whole.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    pub count: u32,
    pub first: Option<KnobError>,
}

impl Failures {
    pub fn add(&mut self, error: KnobError) {
        self.count += 1;
        self.first.get_or_insert(error);
    }

    /// And then these.
    pub fn join(&mut self, later: Self) {
        self.count += later.count;
        self.first = self.first.take().or(later.first);
    }
}

/// What a knob that fails does to the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFailure {
    /// The transition ends.
    End,
    /// The other knobs are still set.
    GoOn,
}

/// Which changes are made now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Lower,
    Raise,
}

/// Until it can be had, with so many more looks at most.
pub(crate) fn patiently<F: Files, T>(
    files: &mut F,
    looks: u32,
    look: impl Fn(&F) -> Result<T, KnobError>,
) -> Result<T, KnobError> {
    let mut found = look(files);
    for _ in 0..looks {
        if found.is_ok() {
            break;
        }
        files.wait(LOOK);
        found = look(files);
    }
    found
}

/// Until a knob shows a value.
fn read_back(files: &mut impl Files, knob: &Knob, wanted: i64) -> Result<(), KnobError> {
    patiently(files, LOOKS, |files| same(files, knob, wanted))
}

/// Until a knob can be read.
fn read(files: &mut impl Files, knob: &Knob) -> Result<i64, KnobError> {
    patiently(files, LOOKS, |files| knob.read(files))
}

/// Brings a knob to a value, if it has another.
pub(crate) fn put(
    files: &mut impl Files,
    journal: &mut Journal,
    knob: &Knob,
    wanted: i64,
) -> Result<(), KnobError> {
    match read(files, knob)? {
        earlier if earlier == wanted => Ok(()),
        earlier => replace(files, journal, knob, [earlier, wanted]),
    }
}

fn replace(
    files: &mut impl Files,
    journal: &mut Journal,
    knob: &Knob,
    [earlier, wanted]: [i64; 2],
) -> Result<(), KnobError> {
    journal.0.push((knob.clone(), earlier));
    knob.write(files, wanted)?;
    read_back(files, knob, wanted)
}

/// A change under way.
pub(crate) struct Transition<'a, F> {
    files: &'a mut F,
    knobs: &'a Knobs,
    journal: &'a mut Journal,
    target: Target<'a>,
    on_failure: OnFailure,
    failures: Failures,
}

impl<'a, F: Files> Transition<'a, F> {
    pub fn new(
        files: &'a mut F,
        knobs: &'a Knobs,
        journal: &'a mut Journal,
        target: Target<'a>,
        on_failure: OnFailure,
    ) -> Self {
        journal.0.clear();
        Self {
            files,
            knobs,
            journal,
            target,
            on_failure,
            failures: Failures::default(),
        }
    }

    /// Does it all, and once more where something fails or somebody interferes. The error is
    /// that of the second time; the journal has what was written.
    pub fn run(mut self) -> Result<Failures, KnobError> {
        let first = self.attempt();
        if first.is_ok() && self.failures.count == 0 {
            return Ok(self.failures);
        }
        self.failures = Failures::default();
        self.attempt()?;
        Ok(self.failures)
    }

    /// One time all changes, and a look at everything when clocks have followed.
    fn attempt(&mut self) -> Result<(), KnobError> {
        self.change()?;
        if self.journal.len() == 0 || self.failures.count > 0 {
            return Ok(());
        }
        self.files.wait(SETTLE);
        let settled = check(self.files, self.knobs, self.target);
        self.judge(settled)
    }

    fn change(&mut self) -> Result<(), KnobError> {
        let cpus = &self.knobs.cpus;
        let online = cpus.online(self.files)?;
        let wanted = self.target.cores(cpus, online);
        self.gpu(Pass::Lower)?;
        self.policies(online & wanted, Pass::Lower)?;
        self.memory(Pass::Lower)?;
        self.cores_off(online, wanted)?;
        self.cores_on(online & wanted, wanted)?;
        self.memory(Pass::Raise)?;
        self.policies(wanted, Pass::Raise)?;
        self.gpu(Pass::Raise)
    }

    /// What becomes of a failure.
    fn judge(&mut self, result: Result<(), KnobError>) -> Result<(), KnobError> {
        match (result, self.on_failure) {
            (Err(error), OnFailure::GoOn) => {
                self.failures.add(error);
                Ok(())
            }
            (result, _) => result,
        }
    }

    fn gpu(&mut self, pass: Pass) -> Result<(), KnobError> {
        let Some(gpu) = &self.knobs.gpu else {
            return Ok(());
        };
        let result = self.limits(&gpu.limits, self.target.gpu(&gpu.limits), pass);
        self.judge(result)
    }

    /// The clocks of all clusters that have some of these cores.
    fn policies(&mut self, cores: CoreSet, pass: Pass) -> Result<(), KnobError> {
        for policy in &self.knobs.cpus.policies {
            if policy.cores & cores != 0 {
                let result = self.limits(&policy.limits, self.target.policy(policy), pass);
                self.judge(result)?;
            }
        }
        Ok(())
    }

    fn memory(&mut self, pass: Pass) -> Result<(), KnobError> {
        let Some(memory) = &self.knobs.memory else {
            return Ok(());
        };
        let result = self.rate(memory, pass);
        self.judge(result)
    }

    fn cores_off(&mut self, online: CoreSet, wanted: CoreSet) -> Result<(), KnobError> {
        let cpus = &self.knobs.cpus;
        for policy in &cpus.policies {
            let parts = policy.cores & online != 0 && policy.cores & wanted == 0;
            if let Some(range) = self.target.parting(policy, cpus).filter(|_| parts) {
                for pass in [Pass::Lower, Pass::Raise] {
                    let result = self.limits(&policy.limits, Some(range), pass);
                    self.judge(result)?;
                }
            }
        }
        let places = 0..cpus.cores.len() as u32;
        for (core, place) in cpus.cores.iter().zip(places).rev() {
            if let Some(knob) = core
                .online
                .as_ref()
                .filter(|_| has(online & !wanted, place))
            {
                let result = self.put(knob, 0);
                self.judge(result)?;
            }
        }
        Ok(())
    }

    fn cores_on(&mut self, mut online: CoreSet, wanted: CoreSet) -> Result<(), KnobError> {
        let cpus = &self.knobs.cpus;
        for (core, place) in cpus.cores.iter().zip(0..) {
            let Some(knob) = core
                .online
                .as_ref()
                .filter(|_| has(wanted & !online, place))
            else {
                continue;
            };
            let result = self.put(knob, 1);
            self.judge(result)?;
            // Before the cluster's other cores come: its limits are those of some time ago.
            for policy in &cpus.policies {
                if has(policy.cores, place) && policy.cores & online == 0 {
                    self.policies(1 << place, Pass::Lower)?;
                    self.policies(1 << place, Pass::Raise)?;
                }
            }
            online |= 1 << place;
        }
        Ok(())
    }

    fn limits(
        &mut self,
        limits: &Limits,
        wanted: Option<[i64; 2]>,
        pass: Pass,
    ) -> Result<(), KnobError> {
        let Some([min, max]) = wanted else {
            return Ok(());
        };
        let lowers = max < read(self.files, &limits.max)?;
        match pass {
            Pass::Lower if lowers => {
                self.put(&limits.min, min)?;
                self.put(&limits.max, max)
            }
            Pass::Raise if !lowers => {
                self.put(&limits.max, max)?;
                self.put(&limits.min, min)
            }
            _ => Ok(()),
        }
    }

    fn rate(&mut self, memory: &Memory, pass: Pass) -> Result<(), KnobError> {
        let cap = memory.cap.as_ref();
        let now = cap.map(|cap| cap.knob.read(self.files)).transpose()?;
        let Some(wanted) = self.target.memory(memory, now) else {
            return Ok(());
        };
        let is_held = memory.lock.read(self.files)? != 0;
        let ceiling = memory.ceiling(self.files)?;
        let most = match is_held {
            true => memory.rate.read(self.files)?,
            false => ceiling,
        };
        let lowers = wanted.held.is_some_and(|hz| hz < most);
        if lowers != (pass == Pass::Lower) {
            return Ok(());
        }
        let cap = cap.zip(wanted.cap);
        let lifts = |value| Cap::ceiling(value) > now.map_or(i64::MAX, Cap::ceiling);
        if let Some((cap, value)) = cap.filter(|(_, value)| lifts(*value)) {
            self.put(&cap.knob, value)?;
        }
        match wanted.held {
            Some(hz) => {
                self.put(&memory.lock, 1)?;
                // What ran free may be on its way to another rate.
                match is_held {
                    true => self.put(&memory.rate, hz)?,
                    false => self.put_anyway(&memory.rate, hz)?,
                }
            }
            None => self.put(&memory.lock, 0)?,
        }
        match cap {
            Some((cap, value)) => self.put(&cap.knob, value),
            None => Ok(()),
        }
    }

    /// Brings a knob to a value, if it has another.
    fn put(&mut self, knob: &Knob, wanted: i64) -> Result<(), KnobError> {
        put(self.files, self.journal, knob, wanted)
    }

    fn put_anyway(&mut self, knob: &Knob, wanted: i64) -> Result<(), KnobError> {
        let earlier = read(self.files, knob)?;
        replace(self.files, self.journal, knob, [earlier, wanted])
    }
}
