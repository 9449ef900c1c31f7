//! What a board is set to at present.

use std::fmt::{self, Display, Formatter};

use wattgate_runtime::{Kilohertz, PowerMode};

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
    /// The cores are the first of [`Board::core_order`](crate::Board::core_order), and every clock is held at its value.
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

    /// The mode of the cores and clocks that are shown. A clock that is not is that of another mode.
    pub fn or(&self, other: PowerMode) -> PowerMode {
        PowerMode {
            cores: self.cores,
            cpu: self.cpu.unwrap_or(other.cpu),
            gpu: self.gpu.unwrap_or(other.gpu),
            emc: self.emc.unwrap_or(other.emc),
        }
    }
}

impl Display for Current {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let plural = if self.cores == 1 { "" } else { "s" };
        write!(f, "{} core{plural}", self.cores)?;
        let held = if self.is_fixed { "" } else { " up to" };
        let clocks = [("CPU", self.cpu), ("GPU", self.gpu), ("EMC", self.emc)];
        let mut clocks = clocks.into_iter();
        clocks.try_for_each(|(name, clock)| match clock {
            Some(clock) => write!(f, ", {name}{held} {clock}"),
            None => Ok(()),
        })
    }
}
