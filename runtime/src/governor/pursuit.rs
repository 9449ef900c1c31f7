//! An aim, and what the workload's steps have told about it.

use crate::idle::Idle;
use crate::point::Objective;
use crate::quantities::{Microseconds, Milliseconds};

/// What a governor does with the room below the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aim {
    /// The quantity to minimise.
    pub objective: Objective,
    /// The longest time of a step of the workload, on average; `None` for any.
    pub deadline: Option<Microseconds>,
    /// What the board draws from the end of a step to the deadline, for [`Objective::Energy`]; unused without a deadline.
    pub idle: Idle,
}

impl Aim {
    /// The mode of least power, for a board that has nothing to do.
    pub const REST: Self = Self {
        objective: Objective::Power,
        ..Self::FASTEST
    };

    /// Whether it asks for the mode of least power, without a deadline.
    pub(super) fn is_rest(&self) -> bool {
        self.objective == Objective::Power && self.deadline.is_none()
    }

    /// The fastest mode, without a deadline.
    pub const FASTEST: Self = Self {
        objective: Objective::Time,
        deadline: None,
        idle: Idle::NONE,
    };
}

/// The fastest mode that was measured to miss a deadline.
#[derive(Clone, Copy, Debug)]
pub struct TooSlow {
    /// Its index in the front.
    pub index: usize,
    /// The deadline in µs.
    pub deadline: f32,
    pub at: Milliseconds,
}

/// How a governor pursues its aim.
#[derive(Clone, Copy, Debug)]
pub struct Pursuit {
    pub aim: Aim,
    /// The GPU's mean load in permille; `None` if it is unknown.
    pub gpu: Option<f32>,
    /// Measured over predicted time of a step.
    pub slowness: Option<f32>,
    pub too_slow: Option<TooSlow>,
    /// Whether the GPU rests while the workload's own work on the CPU goes on: a step was late, which no waiting for input
    /// explains.
    pub is_own: bool,
}

impl Pursuit {
    pub const NONE: Self = Self {
        aim: Aim::FASTEST,
        gpu: None,
        slowness: None,
        too_slow: None,
        is_own: false,
    };

    /// Forgets what belongs to the modes of a front, or to a workload.
    pub fn forget(&mut self) {
        *self = Self {
            aim: self.aim,
            ..Self::NONE
        };
    }
}
