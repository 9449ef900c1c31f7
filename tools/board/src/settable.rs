//! Which modes of a model's grid a board can be set to: the board's own tables intersected
//! with the grid's axes, exact values only.
//!
//! If the board lacks a knob, the axis has one value. For the cores, this is the number of online
//! cores. A clock that cannot be set is assumed to be at the highest value of the grid's axis,
//! where it draws the most power. The predicted power is then not too low, but the predicted time
//! may be.

use thiserror::Error;
use wattgate_runtime::{Axis, Grid, PowerMode};

use crate::board::Board;

/// Why no mode of a grid can be set.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum SettableError {
    /// The board has none of the grid's values on this axis.
    #[error("the board has no {} of the model's grid", name(*axis))]
    NothingInCommon { axis: Axis },
}

/// The name of an axis in messages.
pub(crate) fn name(axis: Axis) -> &'static str {
    match axis {
        Axis::Cores => "number of cores",
        Axis::Cpu => "CPU clock",
        Axis::Gpu => "GPU clock",
        Axis::Emc => "memory clock",
    }
}

/// The values of an axis that the board can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Each of these values can be set; ascending.
    Values(Vec<u32>),
    /// The knob is missing, see [`Board::missing`]. The clock is assumed to be at this value, the
    /// highest of the grid.
    Free(u32),
}

impl Reach {
    fn has(&self, value: u32) -> bool {
        match self {
            Self::Values(values) => values.binary_search(&value).is_ok(),
            Self::Free(highest) => value == *highest,
        }
    }
}

/// The modes of a grid that can be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settable([Reach; 4]);

impl Settable {
    /// Whether the board can be set to the mode. Four binary searches; does not allocate.
    pub fn can_set(&self, mode: &PowerMode) -> bool {
        let mut knobs = self.0.iter().zip(mode.knobs());
        knobs.all(|(reach, knob)| reach.has(knob))
    }

    /// The values of an axis that the board can have.
    pub fn reach(&self, axis: Axis) -> &Reach {
        &self.0[axis as usize]
    }
}

impl Board {
    /// The modes of a grid that the board can be set to.
    pub fn settable(&self, grid: &Grid) -> Result<Settable, SettableError> {
        let reach = |axis: Axis| {
            let of_grid = grid.axis(axis);
            let of_board = self.values(axis);
            let Some(&highest) = of_grid.last().filter(|_| of_board.is_empty()) else {
                let both = of_grid.iter().copied();
                let both: Vec<u32> = both.filter(|value| of_board.contains(value)).collect();
                return match both.is_empty() {
                    true => Err(SettableError::NothingInCommon { axis }),
                    false => Ok(Reach::Values(both)),
                };
            };
            Ok(Reach::Free(highest))
        };
        let [cores, cpu, gpu, emc] = Axis::ALL;
        Ok(Settable([
            reach(cores)?,
            reach(cpu)?,
            reach(gpu)?,
            reach(emc)?,
        ]))
    }

    /// The values that an axis can be set to, ascending; empty if the knob is missing.
    fn values(&self, axis: Axis) -> Vec<u32> {
        match axis {
            Axis::Cores => self.knobs.cpus.counts().collect(),
            Axis::Cpu => self.cpu_khz().to_vec(),
            Axis::Gpu => self.gpu_khz().to_vec(),
            Axis::Emc => self.emc_khz().to_vec(),
        }
    }
}
