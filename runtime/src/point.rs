//! A point of a front, and what a query makes small of it.

use crate::grid::ModeId;
use crate::units::{Microseconds, Milliwatts};

/// One mode of a front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The mode.
    pub mode: ModeId,
    /// Its predicted power; 0 in a front without power.
    pub power: Milliwatts,
    /// Its predicted time.
    pub time: Microseconds,
    pub(crate) leaps: Leaps,
}

/// What to make as small as possible.
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

/// The leaps from one point, in the bits that it has to spare: see [`leaps`](crate::leaps).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaps(u16);

/// Where a leap leads.
#[derive(Clone, Copy)]
pub enum Direction {
    /// To the points before.
    Back,
    /// To those behind.
    On,
}

impl Leaps {
    /// Where the four bits of an objective and direction lie.
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

    /// The lengths are 0, 1, 2, 3, 4, 6, 8, 12, … 128, 192: two for each power of two. Any
    /// distance below 200 takes at most four of them.
    pub fn length(self, shift: u16) -> usize {
        match usize::from(self.0 >> shift) & 0xF {
            short @ 0..2 => short,
            code => (2 | code & 1) << (code / 2 - 1),
        }
    }

    /// Sets the greatest length within a distance.
    pub fn set(&mut self, shift: u16, distance: usize) {
        let code = match distance.checked_ilog2() {
            None | Some(0) => distance as u32,
            Some(power) => (2 * power + (distance >> (power - 1) & 1) as u32).min(0xF),
        };
        self.0 |= (code as u16) << shift;
    }
}

/// What an objective makes small; both fit: P·t below 2⁶⁴ nJ, P·t² below 2⁹⁶ nJ·µs, in two parts.
pub fn cost(objective: Objective, point: &Point) -> (u64, u32) {
    let time = u64::from(point.time.0);
    let energy = u64::from(point.power.0) * time;
    if objective == Objective::Energy {
        return (energy, 0);
    }
    let low = (energy & u64::from(u32::MAX)) * time;
    ((energy >> 32) * time + (low >> 32), low as u32)
}
