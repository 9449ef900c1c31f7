//! Ways to answer "which mode?" from a few profiled modes: ours, the published ones, and
//! the baselines.

mod gbt;
mod linear;
mod maxn;
mod powertrain_nn;
mod powertrain_transfer;
mod presets;
mod random;
mod wattgate;

pub use wattgate::Wattgate;

use thiserror::Error;
use wattgate_runtime::{Confidence, FormatError, GuardError};

use crate::corpus::modes::Known;
use crate::learn::gp::SingularKernel;
use crate::learn::predictions::Predictions;
use crate::learn::reference::Reference;
use crate::train::{Exported, Task, TrainError};

/// A way to learn.
pub trait Method: Sync {
    /// As it is named in arguments and results.
    fn name(&self) -> &'static str;

    /// Whether it cannot do without a reference.
    fn needs_reference(&self) -> bool {
        false
    }

    /// Work that is the same for all tasks with a reference; called once before them.
    fn prepare(&self, _reference: Option<&Reference>) {}

    /// Learns from a task.
    fn train(&self, task: &Task<'_>) -> Result<Box<dyn Trained>, MethodError>;
}

/// What was learned.
pub trait Trained: Send {
    /// Predictions for the whole grid; `None` for a baseline that only chooses.
    fn predictions(&self) -> Option<&Predictions> {
        None
    }

    /// The exported model with its guard bands; `None` for a method that exports none.
    fn model(&self) -> Option<&Exported> {
        None
    }

    /// The mode to try next under a limit, given those that were already tried under it
    /// and measured; `None` where none is worth a try.
    fn propose(&self, ask: &Ask<'_>, tried: &[Known]) -> Result<Option<Known>, MethodError>;
}

/// A power limit and the modes that may be taken.
pub struct Ask<'a> {
    /// The limit, in mW.
    pub limit_mw: f64,
    /// The probability with which the limit shall hold, for methods with a guard band.
    pub confidence: Confidence,
    /// Modes that can be measured. Their values are not for the method, except those of
    /// the modes that it was trained on.
    pub offered: &'a [Known],
    /// The modes that it was trained on.
    pub used: &'a [Known],
    /// Modes that may be tried.
    pub tries: usize,
}

/// Why a method does not learn or does not choose.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum MethodError {
    /// Our own training fails.
    #[error("{0}")]
    Train(#[from] TrainError),
    /// The guard band does not reach the confidence.
    #[error("{0}")]
    Guard(#[from] GuardError),
    /// A network that is transferred needs the rows that it was trained on.
    #[error("{method} needs a corpus as --reference, not a model file")]
    NoReferenceCorpus {
        /// The method.
        method: &'static str,
    },
    /// The boosted trees could not be grown.
    #[error("boosted trees: {0}")]
    Trees(String),
    /// The board's own power modes are not known.
    #[error("the nvpmodel modes of a board named `{device}` are not known; known are {known}")]
    UnknownBoard {
        /// As the corpus names it.
        device: String,
        /// The names that are known.
        known: String,
    },
    /// A choice by power without any.
    #[error("no power is known, so that a mode cannot be chosen by power")]
    NoPower,
}

impl From<SingularKernel> for MethodError {
    fn from(why: SingularKernel) -> Self {
        Self::Train(why.into())
    }
}

impl From<FormatError> for MethodError {
    fn from(why: FormatError) -> Self {
        Self::Train(why.into())
    }
}

/// The names of all methods.
pub const NAMES: [&str; 11] = [
    "wattgate",
    "powertrain-nn",
    "powertrain-transfer",
    "powertrain-transfer-mape",
    "linear",
    "linear-4",
    "linear-energy",
    "gbt",
    "random",
    "maxn",
    "presets",
];

/// The method of a name.
pub fn method(name: &str) -> Option<Box<dyn Method>> {
    use powertrain_nn::Loss;
    Some(match name {
        "wattgate" => Box::new(wattgate::Wattgate),
        "powertrain-nn" => Box::new(powertrain_nn::PowertrainNn),
        "powertrain-transfer" => {
            Box::new(powertrain_transfer::PowertrainTransfer::new(Loss::Square))
        }
        "powertrain-transfer-mape" => Box::new(powertrain_transfer::PowertrainTransfer::new(
            Loss::Percentage,
        )),
        "linear" => Box::new(linear::Linear),
        "linear-4" => Box::new(linear::LinearOfFour),
        "linear-energy" => Box::new(linear::LinearEnergy),
        "gbt" => Box::new(gbt::Gbt),
        "random" => Box::new(random::Random),
        "maxn" => Box::new(maxn::Maxn),
        "presets" => Box::new(presets::Presets),
        _ => return None,
    })
}

/// Predictions without a guard band.
struct Predicted(Predictions);

impl Trained for Predicted {
    fn predictions(&self) -> Option<&Predictions> {
        Some(&self.0)
    }

    fn propose(&self, ask: &Ask<'_>, tried: &[Known]) -> Result<Option<Known>, MethodError> {
        let power = self.0.power.as_ref().ok_or(MethodError::NoPower)?;
        let untried = ask.offered.iter().filter(|mode| !tried.contains(mode));
        let fitting = untried.filter(|mode| power[mode.id] <= ask.limit_mw);
        let time = |mode: &&Known| self.0.time[mode.id];
        Ok(fitting.min_by(|a, b| time(a).total_cmp(&time(b))).copied())
    }
}

/// The fastest mode, by measured time, of those that draw at most a limit.
fn fastest_within(limit_mw: f64, modes: impl Iterator<Item = Known>) -> Option<Known> {
    modes
        .filter(|mode| mode.power_mw.is_some_and(|power| power <= limit_mw))
        .min_by(|a, b| a.time_us.total_cmp(&b.time_us))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_that_of_its_method() {
        for name in NAMES {
            assert_eq!(method(name).map(|method| method.name()), Some(name));
        }
        assert!(method("nn").is_none());
    }
}
