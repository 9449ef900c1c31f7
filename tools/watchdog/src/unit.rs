//! This unit of the board: whether the model was made of it, and what it costs if not.

use std::fmt;
use std::path::Path;

use wattgate_board::{Files, serial_number};
use wattgate_runtime::fleet::{Fleet, Unit, UnitId};
use wattgate_runtime::guard::GuardError;
use wattgate_runtime::{Confidence, Milliwatts};

use crate::clock::UtcSeconds;
use crate::lesson::{self, Lesson, Seen};

/// What a model says of this unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThisUnit {
    /// Its id; `None` without a serial number.
    pub id: Option<UnitId>,
    /// How it differs from the predictions.
    pub effect: Unit,
    /// The same by the model alone, without a lesson.
    of_model: Unit,
    /// Whether the model names any unit.
    is_stated: bool,
    /// What the daemon learned of the unit, and when, if that counts.
    learned: Option<(Learned, UtcSeconds)>,
}

/// What a lesson has changed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Learned {
    /// How the unit differs, under full load.
    Effect,
    /// It drew more than the bounds allow: they are this much higher, as a logarithm.
    Excess(f32),
}

impl ThisUnit {
    /// The id of the unit whose files are below `root`.
    pub fn id(files: &impl Files, root: &Path) -> Option<UnitId> {
        UnitId::of_serial_number(&serial_number(files, root)?)
    }

    /// The unit with this id, where there is no model whose bounds it could have.
    pub fn without_model(id: Option<UnitId>) -> Self {
        let effect = Unit {
            is_profiled: true,
            time: 0.0,
            power: 0.0,
            tilt: 0.0,
            reference: Milliwatts(1),
            margins: [0.0; 2],
            tilt_margin: 0.0,
        };
        Self {
            id,
            effect,
            of_model: effect,
            is_stated: false,
            learned: None,
        }
    }

    /// What the units of a model tell of the unit with this id.
    pub fn from_fleet(
        fleet: &Fleet<'_>,
        id: Option<UnitId>,
        confidence: Confidence,
    ) -> Result<Self, GuardError> {
        let effect = fleet.unit(id, confidence)?;
        Ok(Self {
            id,
            effect,
            of_model: effect,
            is_stated: fleet.units().next().is_some(),
            learned: None,
        })
    }

    /// With what a lesson says of the unit, in place of an earlier lesson: its modes, beside the model's predictions, and ln
    /// of the power that a warmer chip gains. Full load tells how another unit differs. On a unit of the model, and by a part
    /// of the load, the choice becomes more careful only.
    pub fn taught(self, lesson: &Lesson, seen: &[Seen], warmer: f32) -> Self {
        let (full, part): (Vec<Seen>, Vec<Seen>) = seen.iter().partition(|it| it.taught.is_full);
        let is_profiled = self.of_model.is_profiled;
        // The model's bounds of its own units have no allowance for a warmer chip either.
        let of_model = &self.of_model;
        let (base, excess) = match is_profiled {
            true => (self.of_model, lesson::excess(seen, of_model, 0.0)),
            false if full.is_empty() => (self.of_model, lesson::excess(seen, of_model, warmer)),
            false => {
                let of_load = lesson::of_full_load(&full, of_model, warmer);
                (of_load, lesson::excess(&part, &of_load, warmer))
            }
        };
        let mut effect = base;
        effect.power += excess;
        let learned = match effect == self.of_model {
            true => None,
            false if base == self.of_model => Some(Learned::Excess(excess)),
            false => Some(Learned::Effect),
        };
        Self {
            effect,
            learned: learned.map(|it| (it, lesson.at())),
            ..self
        }
    }

    /// By how much the bounds of the power are higher than on a unit of the model, as a ratio.
    pub fn margin(&self) -> f32 {
        let [_, power] = self.effect.margins;
        power.exp()
    }
}

impl fmt::Display for ThisUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id {
            Some(id) => write!(f, "{id}, ")?,
            None => f.write_str("no serial number, so ")?,
        }
        match self.learned {
            Some((Learned::Effect, at)) => {
                return write!(
                    f,
                    "learned on {}: power {:+.0} %, bounds {:.0} % above that for a warmer chip",
                    at.date(),
                    100.0 * (self.effect.power.exp() - 1.0),
                    100.0 * (self.margin() - 1.0)
                );
            }
            Some((Learned::Excess(excess), at)) => {
                let percent = 100.0 * (excess.exp() - 1.0);
                write!(
                    f,
                    "whose bounds of the power are {percent:.0} % higher for what it drew (last seen on {}), ",
                    at.date()
                )?;
            }
            None => {}
        }
        if self.effect.is_profiled {
            return f.write_str("profiled for the model");
        }
        f.write_str(match (self.id, self.is_stated) {
            (None, _) => "taken for another unit than the model's",
            (Some(_), true) => "another unit than the model's",
            (Some(_), false) => "which the model does not name",
        })?;
        write!(
            f,
            ": bounds of the power are {:.0} % higher",
            100.0 * (self.margin() - 1.0)
        )
    }
}
