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

use std::time::Duration;

use crate::clock::Limits;
use crate::cpu::{CoreSet, has};
use crate::files::{Files, Knob, KnobError};
use crate::journal::{Failures, Journal, put, put_anyway, read};
use crate::knobs::Knobs;
use crate::memory::{Cap, Memory};
use crate::target::{Target, check};

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
        journal.clear();
        Self {
            files,
            knobs,
            journal,
            target,
            on_failure,
            failures: Failures::default(),
        }
    }

    /// Makes all changes and checks them; retries once if a write or the check fails. Returns the
    /// error of the second attempt. The journal holds all writes.
    pub fn run(mut self) -> Result<Failures, KnobError> {
        let first = self.attempt();
        if first.is_ok() && self.failures.count == 0 {
            return Ok(self.failures);
        }
        self.failures = Failures::default();
        self.attempt()?;
        Ok(self.failures)
    }

    /// Makes all changes once, and checks all knobs when the clocks have followed.
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
        let result = self.limits(&gpu.limits, self.target.gpu(&gpu.limits), pass);
        self.judge(result)
    }

    /// Sets the clocks of all clusters that have one of these cores.
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
                // A rate that was not held may change right after it is read.
                match is_held {
                    true => self.put(&memory.rate, hz)?,
                    false => put_anyway(self.files, self.journal, &memory.rate, hz)?,
                }
            }
            None => self.put(&memory.lock, 0)?,
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
