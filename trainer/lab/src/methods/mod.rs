//! The methods that the lab compares: wattgate, published methods and baselines. Each chooses a
//! mode under a power limit after training on a few profiled modes.

pub(crate) mod linear;
mod maxn;
mod powertrain_nn;
mod powertrain_transfer;
mod presets;
mod random;
mod trees;
mod wattgate;

pub use powertrain_nn::recipe_progress;
pub use wattgate::Wattgate;

use indicatif::ProgressBar;
use thiserror::Error;
use wattgate_runtime::guard::GuardError;
use wattgate_runtime::{Confidence, FormatError};

use wattgate_trainer::fit::Exported;
use wattgate_trainer::fit::SingularCovariance;
use wattgate_trainer::fit::{Task, TrainError};
use wattgate_trainer::read::Known;
use wattgate_trainer::read::Reference;
use wattgate_trainer::score::Predictions;

/// A method of choosing modes.
pub trait Method: Sync {
    /// The method's name in arguments and results.
    fn name(&self) -> &'static str;

    /// Whether the method requires a reference.
    fn needs_reference(&self) -> bool {
        false
    }

    /// Does the work that all tasks with the same references share; called once before them. PowerTrain's recipe advances
    /// `progress` by [`recipe_progress`] of the references' modes.
    fn prepare(&self, _references: &[Reference], _progress: &ProgressBar) {}

    /// Trains on the modes of a task. wattgate and PowerTrain's recipe advance its progress.
    fn train(&self, task: &Task<'_>) -> Result<Box<dyn Trained>, MethodError>;
}

/// A trained method.
pub trait Trained: Send {
    /// Predictions for the whole grid; `None` for a baseline without predictions.
    fn predictions(&self) -> Option<&Predictions> {
        None
    }

    /// The exported model with its guard bands; `None` for a method that exports no model.
    fn model(&self) -> Option<&Exported> {
        None
    }

    /// Proposes the next mode to measure under a limit; `tried` holds the measurements under this
    /// limit so far. `None` if no further mode is worth a measurement.
    fn propose(&self, ask: &Ask<'_>, tried: &[Known]) -> Result<Option<Known>, MethodError>;
}

/// A power limit and the candidate modes.
pub struct Ask<'a> {
    /// The limit, in mW.
    pub limit_mw: f64,
    /// Confidence of the guard band, for methods that have one.
    pub confidence: Confidence,
    /// The candidates. A method must not read the measurements of modes that it neither trained
    /// on nor tried.
    pub offered: &'a [Known],
    /// The training modes.
    pub used: &'a [Known],
    /// Number of modes that may be measured under the limit.
    pub tries: usize,
}

/// Why a method cannot train or choose.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum MethodError {
    /// The training of `wattgate` failed.
    #[error("{0}")]
    Train(#[from] TrainError),
    /// The guard band does not support the confidence.
    #[error("{0}")]
    Guard(#[from] GuardError),
    /// The method trains a network on the rows of references, which a model file does not have.
    #[error(
        "{method} needs a corpus as --reference, not a model file; name one, or leave the method out"
    )]
    NoReferenceCorpus {
        /// The method.
        method: &'static str,
    },
    /// Fitting the boosted trees failed.
    #[error("boosted trees: {0}")]
    Trees(String),
    /// The board's nvpmodel presets are not known.
    #[error(
        "the nvpmodel presets of board `{device}` are not known; leave the method out; known boards: {known}"
    )]
    UnknownBoard {
        /// The board's name in the corpus.
        device: String,
        /// The names of the known boards.
        known: String,
    },
    /// The corpus has no powers, so no mode can be chosen under a power limit.
    #[error(
        "no power was measured, so no mode can be chosen under a power limit; name a corpus with powers"
    )]
    NoPower,
}

impl From<SingularCovariance> for MethodError {
    fn from(why: SingularCovariance) -> Self {
        Self::Train(why.into())
    }
}

impl From<FormatError> for MethodError {
    fn from(why: FormatError) -> Self {
        Self::Train(why.into())
    }
}

/// The names of all methods.
pub const NAMES: [&str; 14] = [
    "wattgate",
    "wattgate-scratch",
    "powertrain-nn",
    "powertrain-transfer",
    "powertrain-transfer-frozen",
    "powertrain-transfer-mape",
    "linear",
    "linear-4",
    "linear-energy",
    "gbt",
    "random-forest",
    "random",
    "maxn",
    "presets",
];

/// Creates the method with a name of [`NAMES`].
pub fn method(name: &str) -> Option<Box<dyn Method>> {
    use powertrain_transfer::{PowertrainTransfer, Variant};
    use trees::Trees;
    Some(match name {
        "wattgate" => Box::new(wattgate::Wattgate::WithReferences),
        "wattgate-scratch" => Box::new(wattgate::Wattgate::Scratch),
        "powertrain-nn" => Box::new(powertrain_nn::PowertrainNn),
        "powertrain-transfer" => Box::new(PowertrainTransfer::new(Variant::Whole)),
        "powertrain-transfer-frozen" => Box::new(PowertrainTransfer::new(Variant::Frozen)),
        "powertrain-transfer-mape" => Box::new(PowertrainTransfer::new(Variant::Percentage)),
        "linear" => Box::new(linear::Linear),
        "linear-4" => Box::new(linear::LinearOfFour),
        "linear-energy" => Box::new(linear::LinearEnergy),
        "gbt" => Box::new(Trees::Boosted),
        "random-forest" => Box::new(Trees::Forest),
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

/// The mode with the lowest measured time among those with a measured power within the limit.
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
