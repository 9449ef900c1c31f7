//! Power modes on a board: applying one, verifying it, and reading the current one.

use std::fmt::{self, Display, Formatter};

use thiserror::Error;
use wattgate_runtime::{Axis, Kilohertz, PowerMode};

use crate::board::Board;
use crate::clock::HZ;
use crate::cpu::Cpus;
use crate::files::{Files, KnobError};
use crate::journal::ChangeError;
use crate::knobs::Knobs;
use crate::settable::name;
use crate::target::{Clocks, Effective, Target, check};
use crate::transition::{OnFailure, Transition};

/// The result of applying a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The number of writes; 0 if this board had set the mode already.
    pub writes: u32,
    /// Whether cooling caps a clock of the mode.
    pub effective: Effective,
}

/// Why a mode is not set.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ApplyError {
    /// The board's tables do not have the value. Nothing was written.
    #[error("the board cannot be set to {} {value}; nothing was written", name(*axis))]
    NotOnBoard { axis: Axis, value: u32 },
    /// A knob failed twice.
    #[error("{0}")]
    Failed(#[from] ChangeError),
}

/// Current settings of a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Current {
    /// The number of online cores.
    pub cores: u32,
    /// The highest clock that a cluster with an online core may have. This and the other clocks are
    /// `None` if the knob is missing.
    pub cpu: Option<Kilohertz>,
    /// The highest clock that the GPU may have.
    pub gpu: Option<Kilohertz>,
    /// The rate that is held; if none is, the highest that the memory may have.
    pub emc: Option<Kilohertz>,
    /// The cores are the first of [`Board::core_order`], and every clock is held at its value.
    pub is_fixed: bool,
}

impl Current {
    /// The mode, if no knob is missing and [`Self::is_fixed`].
    pub fn mode(&self) -> Option<PowerMode> {
        let Self {
            cores,
            cpu: Some(cpu),
            gpu: Some(gpu),
            emc: Some(emc),
            is_fixed: true,
        } = *self
        else {
            return None;
        };
        Some(PowerMode {
            cores,
            cpu,
            gpu,
            emc,
        })
    }
}

impl Display for Current {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let held = if self.is_fixed { "" } else { ", at most" };
        write!(f, "{} cores{held}", self.cores)?;
        let clocks = [("CPU", self.cpu), ("GPU", self.gpu), ("EMC", self.emc)];
        let mut clocks = clocks.into_iter();
        clocks.try_for_each(|(name, clock)| match clock {
            Some(clock) => write!(f, ", {name} {clock}"),
            None => Ok(()),
        })
    }
}

impl Board {
    /// Sets a mode: lowers clocks before it raises others, reads every write back, and retries once
    /// if a write fails. A second failure undoes all writes in reverse order. Knobs that are
    /// missing are left out. Does not allocate on a disk.
    ///
    /// A maximum that shows less than what was written is no failure: cooling caps the clock, and the
    /// request holds when the cap ends.
    ///
    /// A change takes about 30 ms, because all knobs are read again after the clocks have settled.
    pub fn apply(
        &mut self,
        files: &mut impl Files,
        mode: &PowerMode,
    ) -> Result<Applied, ApplyError> {
        self.on_board(mode)?;
        let Self {
            knobs,
            journal,
            requests,
            clocks,
            ..
        } = self;
        let target = Target::Mode(mode, *clocks);
        let kept = (&mut *journal, requests);
        match Transition::new(files, knobs, kept, target, OnFailure::End).run() {
            Ok((_, effective)) => Ok(Applied {
                writes: journal.len() as u32,
                effective,
            }),
            Err(cause) => Err(journal.undo(files, cause).into()),
        }
    }

    /// Sets how a mode sets the clocks from now on; [`Clocks::Pin`] at first.
    pub fn set_clocks(&mut self, clocks: Clocks) {
        self.clocks = clocks;
    }

    /// Forgets what was requested of the clocks. Call it when another program may have changed them:
    /// the next change of the mode then writes all of them.
    pub fn forget_requests(&mut self) {
        self.requests.forget();
    }

    /// Whether the maximum of the first CPU cluster or of the GPU is above a mode: another program
    /// has raised it. Reads two files only; [`Self::verify`] reads all.
    pub fn is_raised(&self, files: &impl Files, mode: &PowerMode) -> bool {
        let Knobs { cpus, gpu, .. } = &self.knobs;
        let cpu = cpus.policies.first().map(|it| (&it.limits, mode.cpu.0, 1));
        let gpu = gpu.as_ref().map(|it| (&it.limits, mode.gpu.0, HZ));
        cpu.into_iter().chain(gpu).any(|(limits, khz, unit)| {
            let wanted = i64::from(khz) * i64::from(unit);
            limits.max.read(files).is_ok_and(|max| max > wanted)
        })
    }

    /// Verifies that a mode is set; the first difference is an error. A clock that shows less than
    /// requested is [`Effective::Capped`]: cooling, or another program, lowered it. Writes nothing.
    pub fn verify(&self, files: &impl Files, mode: &PowerMode) -> Result<Effective, KnobError> {
        check(files, &self.knobs, Target::Mode(mode, self.clocks))
    }

    /// Reads the current settings of the board.
    pub fn current(&self, files: &impl Files) -> Result<Current, KnobError> {
        let cpus = &self.knobs.cpus;
        let online = cpus.online(files)?;
        let mut is_fixed = online == Cpus::first(online.count_ones());
        let mut cpu = None;
        for policy in &cpus.policies {
            if policy.cores & online != 0 {
                let max = policy.limits.max.read(files)?;
                is_fixed &= max == policy.limits.min.read(files)?;
                is_fixed &= cpu.is_none_or(|khz| khz == max);
                cpu = cpu.max(Some(max));
            }
        }
        let mut gpu = None;
        if let Some(it) = &self.knobs.gpu {
            let max = it.limits.max.read(files)?;
            is_fixed &= max == it.limits.min.read(files)?;
            gpu = Some(max);
        }
        let mut emc = None;
        if let Some(it) = &self.knobs.memory {
            is_fixed &= it.is_held(files)?;
            emc = Some(it.held_or_ceiling(files)?);
        }
        let khz = |value: i64, unit: u32| {
            let unit = i64::from(unit);
            let up = value.saturating_add(unit - 1) / unit;
            Kilohertz(u32::try_from(up.max(0)).unwrap_or(u32::MAX))
        };
        Ok(Current {
            cores: online.count_ones(),
            cpu: cpu.map(|value| khz(value, 1)),
            gpu: gpu.map(|value| khz(value, HZ)),
            emc: emc.map(|value| khz(value, HZ)),
            is_fixed,
        })
    }

    fn on_board(&self, mode: &PowerMode) -> Result<(), ApplyError> {
        let mut counts = self.knobs.cpus.counts().peekable();
        let has = |table: &[u32], value| table.is_empty() || table.binary_search(&value).is_ok();
        let [cores, cpu, gpu, emc] = mode.knobs();
        let known = [
            counts.peek().is_none() || counts.any(|count| count == cores),
            has(self.cpu_khz(), cpu),
            has(self.gpu_khz(), gpu),
            has(self.emc_khz(), emc),
        ];
        let mut values = Axis::ALL.into_iter().zip(mode.knobs()).zip(known);
        match values.find(|(_, known)| !known) {
            Some(((axis, value), _)) => Err(ApplyError::NotOnBoard { axis, value }),
            None => Ok(()),
        }
    }
}
