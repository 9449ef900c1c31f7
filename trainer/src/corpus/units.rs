//! The units of a board on which a corpus was profiled, and how they differ.

use std::fmt;

use wattgate_runtime::fleet::{MOST_UNITS, UnitId};

/// How a unit differs from the mean of all that were profiled, in ln of time and power.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Effect {
    /// Level of the time: ln(time of this unit / mean time).
    pub time: f64,
    /// Level of the power, in a mode whose mean power is [`Units::reference_mw`].
    pub power: f64,
    /// In a mode of another mean power P, tilt · ln(P / reference) adds to the level of the power.
    pub tilt: f64,
}

/// The units of a corpus.
#[derive(Clone, Debug, PartialEq)]
pub struct Units {
    /// Each unit, with its id if the corpus states it, and what its readings were corrected for.
    pub profiled: Vec<(Option<UnitId>, Effect)>,
    /// The reference power of the tilts, in mW; `None` for one unit, whose readings need no correction.
    pub reference_mw: Option<f64>,
    /// Why some of them do not get the narrow band.
    pub doubts: Vec<Doubt>,
}

/// What is strange about units, so that their ids are left out and the wide band holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Doubt {
    /// Two corpora name one unit but differ.
    OneSerialNumber {
        /// The files.
        names: [String; 2],
        /// The unit.
        id: UnitId,
        /// The powers of the second over those of the first.
        ratio: f64,
    },
    /// Runs of one mode differ by more than one unit's.
    Mixed {
        /// The file.
        name: String,
        /// The median over the modes of the highest over the lowest run.
        ratio: f64,
    },
    /// More units than a file lists.
    TooMany {
        /// The number of units without an entry.
        unlisted: usize,
    },
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneSerialNumber {
                names: [a, b],
                id,
                ratio,
            } => write!(
                f,
                "unit {id}: {b} has {ratio:.2} times the power of {a}; two units with one serial number? None of them gets \
                 the narrow band"
            ),
            Self::Mixed { name, ratio } => write!(
                f,
                "{name}: runs of one mode differ by a factor of {ratio:.2} in the median; rows of several units? Write a \
                 file for each unit; its unit does not get the narrow band"
            ),
            Self::TooMany { unlisted } => write!(
                f,
                "a model lists {MOST_UNITS} units; {unlisted} of those profiled do not get the narrow band"
            ),
        }
    }
}

impl Units {
    /// One unit, whose readings stay as they are.
    pub fn one(id: Option<UnitId>) -> Self {
        Self {
            profiled: vec![(id, Effect::default())],
            reference_mw: None,
            doubts: Vec::new(),
        }
    }

    /// The number of units that are certainly not the same: those without an id may all be one.
    pub fn certain(&self) -> usize {
        let with_id = self.profiled.iter().filter(|(id, _)| id.is_some()).count();
        with_id + usize::from(with_id < self.profiled.len())
    }

    /// The units that a file lists, with their levels of time and power and their tilt.
    pub fn listed(&self) -> Vec<(UnitId, [f64; 3])> {
        let with_id = self.profiled.iter().filter_map(|(id, effect)| {
            let Effect { time, power, tilt } = *effect;
            Some(((*id)?, [time, power, tilt]))
        });
        with_id.take(MOST_UNITS).collect()
    }
}
