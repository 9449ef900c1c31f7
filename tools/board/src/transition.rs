//! A transition from the current settings to a target. Each write is read back.
//!
//! ```text
//! lower:  GPU, CPU clusters that stay, memory        clock: minimum, then maximum
//!         cores off, the last one first
//! raise:  cores on; the clocks of a cluster as soon as its first core is on
//!         memory, CPU clusters, GPU                  clock: maximum, then minimum
//! check:  wait until clocks have followed, and read all knobs again
//! ```
//!
//! A knob that fails keeps no other knob from it. Only if something that must be lowered is seen to be
//! higher, nothing is raised. What differs is asked for once more.
//!
//! Changes that lower the power come before changes that raise it, so that no state on the way
//! draws more than the start and the target. A minimum is never above its maximum (section 5.1 of
//! `jetson-platform.md`). The memory is locked before its rate is written. nvpmodel's cap is lifted
//! before that, or lowered after it (section 5.3).

use std::io;
use std::time::Duration;

use crate::clock::Limits;
use crate::cpu::{CoreSet, has};
use crate::cpusets::Cpusets;
use crate::files::{Files, Knob, KnobError};
use crate::journal::{Failures, READ_RETRIES, expect, expect_at_most, with_retries};
use crate::knobs::Knobs;
use crate::memory::{Bpmp, Cap, Control, Memory};
use crate::requests::Requests;
use crate::seen::Seen;
use crate::target::{Target, check, observe};

/// Time between the last write and the check. It is longer than any clock takes (section 8), so
/// that a driver that reverts a value has done so.
const SETTLE: Duration = Duration::from_millis(20);

/// Phase of a transition: which changes it makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Lower,
    Raise,
}

/// What a transition to a mode did.
pub(crate) struct Made {
    pub writes: u32,
    pub failures: Failures,
    /// Whether it raised what is to be raised.
    pub has_raised: bool,
    /// The clock of a cluster that returned too fast, and went offline again.
    pub too_fast: Option<Seen>,
}

/// A change under way.
pub(crate) struct Transition<'a, F> {
    files: &'a mut F,
    knobs: &'a Knobs,
    requests: &'a mut Requests,
    cpusets: &'a mut Cpusets,
    target: Target<'a>,
    /// Whether a first attempt failed. Then the clocks of clusters that are to go offline are lowered too, so
    /// that a core that stays online is slow.
    is_second: bool,
    /// Retries of a read before a write, and of one after it.
    patience: [u32; 2],
    writes: u32,
    failures: Failures,
    too_fast: Option<Seen>,
}

impl<'a, F: Files> Transition<'a, F> {
    pub fn new(
        files: &'a mut F,
        knobs: &'a Knobs,
        requests: &'a mut Requests,
        cpusets: &'a mut Cpusets,
        target: Target<'a>,
    ) -> Self {
        Self {
            files,
            knobs,
            requests,
            cpusets,
            target,
            is_second: false,
            patience: [0, READ_RETRIES],
            writes: 0,
            failures: Failures::default(),
            too_fast: None,
        }
    }

    /// Restores all values and checks them; retries once if a write or the check fails. Returns the
    /// failures of the last attempt.
    pub fn restore(mut self) -> Failures {
        for attempt in 0..2 {
            if attempt > 0 {
                self.requests.forget();
                self.failures = Failures::default();
                self.is_second = true;
            }
            self.change();
            if self.failures.count() == 0 {
                self.settle();
                let checked = check(self.files, self.knobs, self.target);
                self.note(checked);
            }
            if self.failures.count() == 0 {
                break;
            }
        }
        if self.failures.count() > 0 {
            self.requests.forget();
        }
        self.failures
    }

    /// Makes all changes of a mode, as far as the knobs obey, for the first or the second time.
    pub fn set(mut self, is_second: bool) -> Made {
        self.is_second = is_second;
        let has_raised = self.change();
        self.settle();
        Made {
            writes: self.writes,
            failures: self.failures,
            has_raised,
            too_fast: self.too_fast,
        }
    }

    /// Waits until the clocks have followed.
    fn settle(&mut self) {
        if self.writes > 0 {
            self.files.wait(SETTLE);
        }
    }

    /// Makes all changes. Returns false if something is too high; then nothing else was raised.
    fn change(&mut self) -> bool {
        let cpus = &self.knobs.cpus;
        let online = cpus.online(self.files);
        let wanted = self.target.cores(self.knobs, online);
        if online != wanted {
            self.cpusets.follow(self.files, cpus);
        }
        self.gpu(Pass::Lower);
        let slowed = match self.is_second {
            true => online,
            false => online & wanted,
        };
        self.policies(slowed, Pass::Lower);
        self.memory(Pass::Lower);
        self.cores_off(online, wanted);
        if self.failures.count() > 0 && self.too_high().is_some() {
            return false;
        }
        let are_on = self.cores_on(online & wanted, wanted);
        if online != wanted {
            self.cpusets.follow(self.files, cpus);
        }
        if !are_on {
            return false;
        }
        self.memory(Pass::Raise);
        self.policies(wanted, Pass::Raise);
        self.gpu(Pass::Raise);
        true
    }

    /// An actuator that is higher than a mode wants it, or cannot be read and was not known for it. Saved values are
    /// restored in any case.
    fn too_high(&self) -> Option<Seen> {
        let Target::Mode(_, _, obedience) = self.target else {
            return None;
        };
        let mut found = None;
        let never_cooled = |_, _| false;
        observe(self.files, self.knobs, self.target, never_cooled, |seen| {
            let is_hidden = seen.shown.is_none() && !obedience.is_unknown(seen.actuator);
            if is_hidden || self.knobs.is_above(&seen) {
                found = Some(seen);
            }
        });
        found
    }

    /// Does not wait for an actuator that is known not to obey.
    fn turn_to(&mut self, actuator: usize) {
        let is_stubborn = match self.target {
            Target::Mode(_, _, obedience) => obedience.has_failed(actuator),
            Target::Saved(_) => false,
        };
        self.patience[1] = if is_stubborn { 0 } else { READ_RETRIES };
    }

    /// Counts a failure.
    fn note(&mut self, result: Result<(), KnobError>) {
        if let Err(error) = result {
            self.failures.add(error);
        }
    }

    fn gpu(&mut self, pass: Pass) {
        if let Some(gpu) = &self.knobs.gpu {
            self.clock(self.knobs.gpu_actuator(), &gpu.limits, pass);
        }
    }

    /// Sets the clocks of all clusters that have one of these cores.
    fn policies(&mut self, cores: CoreSet, pass: Pass) {
        for (actuator, policy) in self.knobs.cpus.policies.iter().enumerate() {
            if policy.cores & cores != 0 {
                self.clock(actuator, &policy.limits, pass);
            }
        }
    }

    fn clock(&mut self, actuator: usize, limits: &Limits, pass: Pass) {
        let wanted = self.target.limits(self.knobs, actuator, limits);
        self.limits(actuator, limits, wanted, pass);
    }

    fn memory(&mut self, pass: Pass) {
        let Some(memory) = &self.knobs.memory else {
            return;
        };
        match &memory.control {
            Control::Bpmp(bpmp) => self.rate(memory, bpmp, pass),
            Control::Devfreq(limits) => self.clock(self.knobs.memory_actuator(), limits, pass),
        }
    }

    /// Takes cores offline, the last one first.
    fn cores_off(&mut self, online: CoreSet, wanted: CoreSet) {
        let cpus = &self.knobs.cpus;
        for (actuator, policy) in cpus.policies.iter().enumerate() {
            if policy.cores & wanted != 0 {
                continue;
            }
            let is_online = policy.cores & online != 0;
            if let Some(range) = self.target.parting(policy, cpus).filter(|_| is_online) {
                for pass in [Pass::Lower, Pass::Raise] {
                    self.limits(actuator, &policy.limits, Some(range), pass);
                }
            }
            // A cluster that returns may have other limits.
            self.requests.set(actuator, None);
        }
        let places = 0..cpus.cores.len() as u32;
        for (core, place) in cpus.cores.iter().zip(places).rev() {
            let off = has(online & !wanted, place);
            if let Some(knob) = core.online.as_ref().filter(|_| off) {
                self.turn_to(self.knobs.core(place));
                let result = self.put(knob, 0);
                self.note(result);
            }
        }
    }

    /// Takes cores online. Returns false at a cluster whose clock is too high: it goes offline again.
    fn cores_on(&mut self, mut online: CoreSet, wanted: CoreSet) -> bool {
        let cpus = &self.knobs.cpus;
        for (core, place) in cpus.cores.iter().zip(0..) {
            let on = has(wanted & !online, place);
            let Some(knob) = core.online.as_ref().filter(|_| on) else {
                continue;
            };
            self.turn_to(self.knobs.core(place));
            let result = self.put(knob, 1);
            let is_on = result.is_ok();
            self.note(result);
            if !is_on {
                continue;
            }
            // The cluster's limits are stale. Set them before its other cores come online.
            for policy in &cpus.policies {
                if has(policy.cores, place) && policy.cores & online == 0 {
                    self.patience[0] = READ_RETRIES;
                    self.policies(1 << place, Pass::Lower);
                    self.policies(1 << place, Pass::Raise);
                    self.patience[0] = 0;
                    self.too_fast = self.too_high();
                    if self.too_fast.is_some() {
                        let result = self.put(knob, 0);
                        self.note(result);
                        return false;
                    }
                }
            }
            online |= 1 << place;
        }
        true
    }

    fn limits(&mut self, actuator: usize, limits: &Limits, wanted: Option<[i64; 2]>, pass: Pass) {
        let Some([min, max]) = wanted else {
            return;
        };
        self.turn_to(actuator);
        // The files of a cluster appear some time after its first core is on.
        let shown = [&limits.min, &limits.max]
            .map(|limit| with_retries(self.files, self.patience[0], |files| limit.read(files)));
        let is_read = shown.iter().all(Result::is_ok);
        // What cannot be read is lowered.
        let [shown_min, shown_max] = shown.map(|value| {
            value.unwrap_or_else(|error| {
                self.failures.add(error);
                i64::MAX
            })
        });
        let requested = self.requests.get(actuator);
        if requested == wanted && [shown_min, shown_max] == [min, max] {
            return;
        }
        let requested_max = requested.map_or(shown_max, |[_, max]| max);
        let lowers = max < shown_max.max(requested_max);
        if lowers != (pass == Pass::Lower) {
            return;
        }
        self.requests.set(actuator, None);
        let (min, max) = ((&limits.min, min), (&limits.max, max));
        let set = match lowers {
            true => self.put_limits(min, max),
            false => self.put_limits(max, min),
        };
        if set.is_err() {
            self.put_what_goes(limits, [min.1, max.1]);
        }
        if set.is_ok() && is_read {
            self.requests.set(actuator, wanted);
        }
        self.note(set);
    }

    /// Sets two limits of a clock. If the first is refused as invalid, the other one may be in its
    /// way: a request that cooling hides.
    fn put_limits(&mut self, first: (&Knob, i64), second: (&Knob, i64)) -> Result<(), KnobError> {
        let mut put = |(knob, value)| self.put_limit(knob, value);
        if let Err(error) = put(first) {
            if !is_invalid(&error) || put(second).is_err() {
                return Err(error);
            }
            return put(first);
        }
        // A first limit that did not take its value explains why the second is refused.
        put(second).map_err(|error| expect(self.files, first.0, first.1).err().unwrap_or(error))
    }

    /// Sets each limit of a clock as far as the other one allows it, after one of them failed.
    fn put_what_goes(&mut self, limits: &Limits, [min, max]: [i64; 2]) {
        let lowest = limits.min.read(self.files).unwrap_or(max);
        // Some Linux kernels take a maximum below the minimum. The first failure tells what is wrong, not these.
        if self.put(&limits.max, max).is_err() && lowest > max {
            let _ = self.put(&limits.max, lowest);
        }
        let highest = limits.max.read(self.files).unwrap_or(min);
        if lowest != min.min(highest) {
            let _ = self.put(&limits.min, min.min(highest));
        }
    }

    fn rate(&mut self, memory: &Memory, bpmp: &Bpmp, pass: Pass) {
        self.turn_to(self.knobs.memory_actuator());
        let cap = bpmp.cap.as_ref();
        let now = cap.and_then(|cap| cap.knob.read(self.files).ok());
        let Some(mut wanted) = self.target.memory(self.knobs, bpmp, now) else {
            return;
        };
        // What cannot be read is lowered.
        let is_held = memory.is_held(self.files) == Ok(true);
        let most = memory.held_or_ceiling(self.files).unwrap_or(i64::MAX);
        let lowers = wanted.held.is_some_and(|hz| hz < most);
        if lowers != (pass == Pass::Lower) {
            return;
        }
        let cap = cap.zip(wanted.cap);
        let lifts = |value| Cap::ceiling(value) > now.map_or(i64::MAX, Cap::ceiling);
        if let Some((cap, value)) = cap.filter(|(_, value)| lifts(*value)) {
            let result = self.put(&cap.knob, value);
            if result.is_err() {
                // BPMP drops a rate above the cap.
                wanted.held = wanted.held.map(|hz| memory.below(self.files, hz));
            }
            self.note(result);
        }
        let failures = self.failures.count();
        match wanted.held {
            Some(hz) => {
                let result = self.put(&bpmp.lock, 1);
                self.note(result);
                // A rate that was not held may change right after it is read.
                let result = match is_held {
                    true => self.put(&bpmp.rate, hz),
                    false => self.replace(&bpmp.rate, hz),
                };
                self.note(result);
                if lowers && self.failures.count() > failures {
                    self.cap_rate(memory, bpmp, hz);
                }
            }
            None => {
                let result = self.put(&bpmp.lock, 0);
                self.note(result);
            }
        }
        if let Some((cap, value)) = cap {
            let result = self.put(&cap.knob, value);
            self.note(result);
        }
    }

    /// Lowers the rate by nvpmodel's cap, where the lock or the rate does not obey.
    fn cap_rate(&mut self, memory: &Memory, bpmp: &Bpmp, hz: i64) {
        let is_above = |files: &F| memory.held_or_ceiling(files).map_or(true, |most| most > hz);
        let Some(cap) = bpmp.cap.as_ref().filter(|_| is_above(self.files)) else {
            return;
        };
        let result = self.put(&cap.knob, hz);
        let is_capped = result.is_ok();
        self.note(result);
        // Without a lock the rate follows the load, up to the cap.
        if is_capped && is_above(self.files) {
            let result = self.put(&bpmp.lock, 0);
            self.note(result);
        }
    }

    /// Sets a limit of a clock. Where cooling caps the clock, the limit shows a lower value.
    fn put_limit(&mut self, knob: &Knob, wanted: i64) -> Result<(), KnobError> {
        self.write(knob, wanted)?;
        with_retries(self.files, self.patience[1], |files| {
            expect_at_most(files, knob, wanted)
        })
    }

    /// Sets a knob, unless it has the value already.
    fn put(&mut self, knob: &Knob, wanted: i64) -> Result<(), KnobError> {
        match knob.read(self.files) {
            Ok(shown) if shown == wanted => Ok(()),
            _ => self.replace(knob, wanted),
        }
    }

    /// Sets a knob, even if it has the value already.
    fn replace(&mut self, knob: &Knob, wanted: i64) -> Result<(), KnobError> {
        self.write(knob, wanted)?;
        with_retries(self.files, self.patience[1], |files| {
            expect(files, knob, wanted)
        })
    }

    fn write(&mut self, knob: &Knob, wanted: i64) -> Result<(), KnobError> {
        self.writes += 1;
        knob.write(self.files, wanted)
    }
}

/// Whether a driver refused a value as invalid.
fn is_invalid(error: &KnobError) -> bool {
    matches!(error, KnobError::Refused { why, .. } if why.kind() == io::ErrorKind::InvalidInput)
}
