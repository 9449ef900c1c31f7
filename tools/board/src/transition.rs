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
//! If a write or the check fails, the whole transition is retried once.
//!
//! Changes that lower the power come before changes that raise it, so that no state on the way
//! draws more than the start and the target. A minimum is never above its maximum (section 5.1 of
//! `jetson-platform.md`). The memory is locked before its rate is written. nvpmodel's cap is lifted
//! before that, or lowered after it (section 5.3).

use std::io;
use std::time::Duration;

use crate::clock::Limits;
use crate::cpu::{CoreSet, has};
use crate::files::{Files, Knob, KnobError};
use crate::journal::{Failures, Journal, expect, put, put_anyway, put_limit, read};
use crate::knobs::Knobs;
use crate::memory::{Bpmp, Cap, Control, Memory};
use crate::requests::Requests;
use crate::target::{Effective, Target, check};

/// Time between the last write and the check. It is longer than any clock takes (section 8), so
/// that a driver that reverts a value has done so.
const SETTLE: Duration = Duration::from_millis(20);

/// Policy after the failure of a knob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFailure {
    /// The transition ends.
    End,
    /// The other knobs are still set.
    GoOn,
}

/// Phase of a transition: which changes it makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Lower,
    Raise,
}

/// A change under way.
pub(crate) struct Transition<'a, F> {
    files: &'a mut F,
    knobs: &'a Knobs,
    journal: &'a mut Journal,
    requests: &'a mut Requests,
    target: Target<'a>,
    on_failure: OnFailure,
    failures: Failures,
    effective: Effective,
}

impl<'a, F: Files> Transition<'a, F> {
    pub fn new(
        files: &'a mut F,
        knobs: &'a Knobs,
        (journal, requests): (&'a mut Journal, &'a mut Requests),
        target: Target<'a>,
        on_failure: OnFailure,
    ) -> Self {
        journal.clear();
        Self {
            files,
            knobs,
            journal,
            requests,
            target,
            on_failure,
            failures: Failures::default(),
            effective: Effective::AsRequested,
        }
    }

    /// Makes all changes and checks them; retries once if a write or the check fails. Returns the
    /// error of the second attempt. The journal holds all writes.
    ///
    /// A clock that is capped is retried, too: another program may have lowered it meanwhile.
    pub fn run(mut self) -> Result<(Failures, Effective), KnobError> {
        let first = self.attempt();
        if first.is_err() || self.failures.count > 0 || self.effective == Effective::Capped {
            self.requests.forget();
            self.failures = Failures::default();
            self.attempt().inspect_err(|_| self.requests.forget())?;
        }
        Ok((self.failures, self.effective))
    }

    /// Makes all changes once, and checks all knobs when the clocks have followed.
    fn attempt(&mut self) -> Result<(), KnobError> {
        self.change()?;
        if self.failures.count > 0 {
            return Ok(());
        }
        self.effective = Effective::AsRequested;
        if self.journal.len() > 0 {
            self.files.wait(SETTLE);
        }
        let settled = check(self.files, self.knobs, self.target);
        let settled = settled.map(|effective| self.effective = effective);
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

    /// Ends the transition on a failure, or counts it and goes on.
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
        let clock = self.knobs.cpus.policies.len();
        let wanted = self.target.gpu(gpu);
        let result = self.limits(clock, &gpu.limits, wanted, pass);
        self.judge(result)
    }

    /// Sets the clocks of all clusters that have one of these cores.
    fn policies(&mut self, cores: CoreSet, pass: Pass) -> Result<(), KnobError> {
        for (clock, policy) in self.knobs.cpus.policies.iter().enumerate() {
            if policy.cores & cores != 0 {
                let wanted = self.target.policy(policy, &self.knobs.cpus);
                let result = self.limits(clock, &policy.limits, wanted, pass);
                self.judge(result)?;
            }
        }
        Ok(())
    }

    fn memory(&mut self, pass: Pass) -> Result<(), KnobError> {
        let Some(memory) = &self.knobs.memory else {
            return Ok(());
        };
        let result = match &memory.control {
            Control::Bpmp(bpmp) => self.rate(memory, bpmp, pass),
            Control::Devfreq(limits) => {
                let clock = self.knobs.cpus.policies.len() + 1;
                self.limits(clock, limits, self.target.memory_limits(limits), pass)
            }
        };
        self.judge(result)
    }

    fn cores_off(&mut self, online: CoreSet, wanted: CoreSet) -> Result<(), KnobError> {
        let cpus = &self.knobs.cpus;
        for (clock, policy) in cpus.policies.iter().enumerate() {
            if policy.cores & wanted != 0 {
                continue;
            }
            let is_online = policy.cores & online != 0;
            if let Some(range) = self.target.parting(policy, cpus).filter(|_| is_online) {
                for pass in [Pass::Lower, Pass::Raise] {
                    let result = self.limits(clock, &policy.limits, Some(range), pass);
                    self.judge(result)?;
                }
            }
            // A cluster that returns may have other limits.
            self.requests.set(clock, None);
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
            // The cluster's limits are stale. Set them before its other cores come online.
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
        clock: usize,
        limits: &Limits,
        wanted: Option<[i64; 2]>,
        pass: Pass,
    ) -> Result<(), KnobError> {
        let Some([min, max]) = wanted else {
            return Ok(());
        };
        let shown = [&limits.min, &limits.max].map(|limit| read(self.files, limit));
        let [Ok(shown_min), Ok(shown_max)] = shown else {
            return shown.into_iter().find_map(Result::err).map_or(Ok(()), Err);
        };
        let requested = self.requests.of(clock);
        if requested == wanted && [shown_min, shown_max] == [min, max] {
            return Ok(());
        }
        let requested_max = requested.map_or(shown_max, |[_, max]| max);
        let lowers = max < shown_max.max(requested_max);
        if lowers != (pass == Pass::Lower) {
            return Ok(());
        }
        self.requests.set(clock, None);
        let (min, max) = ((&limits.min, min), (&limits.max, max));
        match lowers {
            true => self.put_limits(min, max)?,
            false => self.put_limits(max, min)?,
        }
        self.requests.set(clock, wanted);
        Ok(())
    }

    /// Sets two limits of a clock. If the first is refused as invalid, the other one may be in its
    /// way: a request that cooling hides.
    fn put_limits(&mut self, first: (&Knob, i64), second: (&Knob, i64)) -> Result<(), KnobError> {
        let mut put = |(knob, value)| put_limit(self.files, self.journal, knob, value);
        if let Err(error) = put(first) {
            if !is_invalid(&error) || put(second).is_err() {
                return Err(error);
            }
            return put(first);
        }
        // A first limit that did not take its value explains why the second is refused.
        put(second).map_err(|error| expect(self.files, first.0, first.1).err().unwrap_or(error))
    }

    fn rate(&mut self, memory: &Memory, bpmp: &Bpmp, pass: Pass) -> Result<(), KnobError> {
        let cap = bpmp.cap.as_ref();
        let now = cap.map(|cap| cap.knob.read(self.files)).transpose()?;
        let Some(wanted) = self.target.memory(bpmp, now) else {
            return Ok(());
        };
        let is_held = memory.is_held(self.files)?;
        let most = memory.held_or_ceiling(self.files)?;
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
                self.put(&bpmp.lock, 1)?;
                // A rate that was not held may change right after it is read.
                match is_held {
                    true => self.put(&bpmp.rate, hz)?,
                    false => put_anyway(self.files, self.journal, &bpmp.rate, hz)?,
                }
            }
            None => self.put(&bpmp.lock, 0)?,
        }
        match cap {
            Some((cap, value)) => self.put(&cap.knob, value),
            None => Ok(()),
        }
    }

    /// Sets a knob, unless it has the value already.
    fn put(&mut self, knob: &Knob, wanted: i64) -> Result<(), KnobError> {
        put(self.files, self.journal, knob, wanted)
    }
}

/// Whether a driver refused a value as invalid.
fn is_invalid(error: &KnobError) -> bool {
    matches!(error, KnobError::Refused { why, .. } if why.kind() == io::ErrorKind::InvalidInput)
}
