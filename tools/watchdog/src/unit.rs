//! This unit of the board: whether the model was made of it, and what it costs if not.

use std::fmt;
use std::path::Path;

use wattgate_board::{Files, serial_number};
use wattgate_runtime::{Confidence, Fleet, GuardError, Unit, UnitId};

use crate::clock::UtcSeconds;
use crate::lesson::Lesson;

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
    /// When the daemon learned how the unit differs, if that counts.
    learned: Option<UtcSeconds>,
}

impl ThisUnit {
    /// The id of the unit whose files are below `root`.
    pub fn id(files: &impl Files, root: &Path) -> Option<UnitId> {
        UnitId::of_serial_number(&serial_number(files, root)?)
    }

    /// What the units of a model tell of the unit with this id.
    pub fn of(
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

    /// With what a lesson says of the unit, in place of an earlier lesson. On a unit of the model, or if the load may have been a part of the full one, it
    /// counts only if it is the more careful.
    pub fn taught(self, lesson: &Lesson, warmer_k: f32) -> Self {
        let effect = lesson.unit(&self.of_model, warmer_k);
        let guarded = |unit: &Unit| unit.guarded_power(effect.reference);
        let is_sure = lesson.is_full && !self.of_model.is_profiled;
        match !is_sure && guarded(&effect) <= guarded(&self.of_model) {
            true => Self {
                effect: self.of_model,
                learned: None,
                ..self
            },
            false => Self {
                effect,
                learned: Some(lesson.at),
                ..self
            },
        }
    }

    /// A unit that differs so.
    #[cfg(test)]
    pub(crate) fn of_effect(id: Option<UnitId>, effect: Unit) -> Self {
        Self {
            id,
            effect,
            of_model: effect,
            is_stated: true,
            learned: None,
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
        if self.effect.is_profiled {
            return f.write_str("profiled for the model");
        }
        if let Some(at) = self.learned {
            return write!(
                f,
                "learned on {}: power {:+.0} %, bounds {:.0} % above that for a warmer chip",
                at.date(),
                100.0 * (self.effect.power.exp() - 1.0),
                100.0 * (self.margin() - 1.0)
            );
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
