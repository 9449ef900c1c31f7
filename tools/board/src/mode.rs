//! Power modes on a board: applying one, verifying it, and reading the current one.

use thiserror::Error;
use wattgate_runtime::{Axis, Kilohertz, PowerMode};

use crate::board::Board;
use crate::clock::HZ;
use crate::cpu::Cpus;
use crate::files::{Files, KnobError};
use crate::journal::ChangeError;
use crate::settable::name;
use crate::target::{Target, check};
use crate::transition::{OnFailure, Transition};

/// The result of applying a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The number of writes; 0 if the mode was set already.
    pub writes: u32,
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

impl Board {
    /// Sets a mode: lowers clocks before it raises others, reads every write back, and retries once
    /// if a write fails. A second failure undoes all writes in reverse order. Knobs that are
    /// missing are left out. Does not allocate on a disk.
    ///
    /// A change takes about 30 ms, because all knobs are read again after the clocks have settled.
    pub fn apply(
        &mut self,
        files: &mut impl Files,
        mode: &PowerMode,
    ) -> Result<Applied, ApplyError> {
        self.on_board(mode)?;
        let Self { knobs, journal, .. } = self;
        let target = Target::Mode(mode);
        match Transition::new(files, knobs, journal, target, OnFailure::End).run() {
            Ok(_) => Ok(Applied {
                writes: journal.len() as u32,
            }),
            Err(cause) => Err(journal.undo(files, cause).into()),
        }
    }

    /// Verifies that a mode is set; the first difference is an error. Writes nothing.
    pub fn verify(&self, files: &impl Files, mode: &PowerMode) -> Result<(), KnobError> {
        check(files, &self.knobs, Target::Mode(mode))
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
            let is_held = it.lock.read(files)? != 0;
            is_fixed &= is_held;
            emc = Some(match is_held {
                true => it.rate.read(files)?,
                false => it.ceiling(files)?,
            });
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
