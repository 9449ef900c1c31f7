//! A point of a front, and the objectives that a query minimises.

use crate::grid::ModeId;
use crate::quantities::{Microseconds, Milliwatts};

/// One mode of a front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The mode.
    pub mode: ModeId,
    /// Its predicted power; 0 in a front without power.
    pub power: Milliwatts,
    /// Its power with the margin of the front's confidence.
    pub guarded: Milliwatts,
    /// Its time with the margin of the front's confidence. Its predicted time is in
    /// [`Front::times`](crate::Front::times): a point is as small as it is moved often.
    pub guarded_time: Microseconds,
    pub(crate) skips: SkipPointers,
}

/// The quantity to minimise. Time and power count with their margins: a mode that is uncertain must be
/// better by more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// Time t: the fastest mode.
    #[default]
    Time,
    /// Power P.
    Power,
    /// Energy P·t.
    Energy,
    /// Energy-delay product P·t².
    EnergyDelay,
}

impl Objective {
    /// All objectives.
    pub const ALL: [Self; 4] = [Self::Time, Self::Power, Self::Energy, Self::EnergyDelay];

    /// The name for configs and command lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "fastest",
            Self::Power => "least-power",
            Self::Energy => "least-energy",
            Self::EnergyDelay => "least-edp",
        }
    }
}

/// The skip pointers from one point, in the spare bits of a [`Point`]: see [`skip_pointers`](crate::skip_pointers).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkipPointers(u16);

/// The direction of a skip.
#[derive(Clone, Copy)]
pub enum Direction {
    /// Towards earlier points.
    Back,
    /// Towards later points.
    On,
}

impl SkipPointers {
    /// Bit offset of the four bits of an objective and direction.
    pub fn shift(objective: Objective, direction: Direction) -> u16 {
        let first = match objective {
            Objective::EnergyDelay => 8,
            _ => 0,
        };
        match direction {
            Direction::Back => first,
            Direction::On => first + 4,
        }
    }

    /// The length of a skip: 0, 1, 2, 3, 4, 6, 8, 12, … 128 or 192, two for each power of two. Four
    /// skips cover any distance below 200.
    pub fn length(self, shift: u16) -> usize {
        match usize::from(self.0 >> shift) & 0xF {
            short @ 0..2 => short,
            code => (2 | code & 1) << (code / 2 - 1),
        }
    }

    /// Holds a spread instead, until the front is complete.
    pub fn of_spread(spread: i32) -> Self {
        Self(spread as u16)
    }

    /// The spread.
    pub fn spread(self) -> i32 {
        i32::from(self.0)
    }

    /// Sets the greatest length that does not exceed a distance.
    pub fn set(&mut self, shift: u16, distance: usize) {
        let code = match distance.checked_ilog2() {
            None | Some(0) => distance as u32,
            Some(power) => (2 * power + (distance >> (power - 1) & 1) as u32).min(0xF),
        };
        self.0 |= (code as u16) << shift;
    }
}

/// The cost that an objective minimises, in two parts: P·t is below 2⁶⁴ nJ, P·t² below 2⁹⁶ nJ·µs.
pub fn cost(objective: Objective, point: &Point) -> (u64, u32) {
    let time = u64::from(point.guarded_time.0);
    let energy = u64::from(point.guarded.0) * time;
    if objective == Objective::Energy {
        return (energy, 0);
    }
    let low = (energy & u64::from(u32::MAX)) * time;
    ((energy >> 32) * time + (low >> 32), low as u32)
}
