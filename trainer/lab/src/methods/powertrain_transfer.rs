//! `powertrain-transfer`: PowerTrain's transfer learning. A network as that of `powertrain-nn` learns the rows of
//! all references. Then it gets a new last layer and learns the few modes of the new workload.
//!
//! The paper says that only the final layer is changed, which can be read in two ways.
//! `powertrain-transfer` trains the other layers on; `powertrain-transfer-frozen` keeps them.
//! `powertrain-transfer-mape` trains all of them with the mean absolute percentage error, as the authors do
//! for a very different board.

use std::sync::OnceLock;

use indicatif::ProgressBar;

use super::powertrain_nn::{Loss, Recipe, Training, predict_each};
use super::{Method, MethodError, Trained};
use wattgate_trainer::fit::Task;
use wattgate_trainer::read::Reference;
use wattgate_trainer::score::Target;

/// Seed of the reference networks, which all runs share.
const REFERENCE_SEED: u64 = 0;

/// How a reference network is fine-tuned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// All layers.
    Whole,
    /// The last layer alone.
    Frozen,
    /// All layers, for the percentage error.
    Percentage,
}

/// The method. Caches the networks of the first references that it is given.
pub struct PowertrainTransfer {
    variant: Variant,
    references: [OnceLock<Option<Recipe>>; 2],
}

impl PowertrainTransfer {
    /// Creates the method.
    pub fn new(variant: Variant) -> Self {
        Self {
            variant,
            references: [OnceLock::new(), OnceLock::new()],
        }
    }
}

impl Method for PowertrainTransfer {
    fn name(&self) -> &'static str {
        match self.variant {
            Variant::Whole => "powertrain-transfer",
            Variant::Frozen => "powertrain-transfer-frozen",
            Variant::Percentage => "powertrain-transfer-mape",
        }
    }

    fn needs_reference(&self) -> bool {
        true
    }

    fn prepare(&self, references: &[Reference], progress: &ProgressBar) {
        let all = Reference::all_modes(references);
        if all.is_empty() {
            return;
        }
        let train = |target| {
            self.references[target as usize].get_or_init(|| {
                let training = Training::from_modes(&all, target)?;
                Some(training.run(None, Loss::Square, REFERENCE_SEED, progress))
            });
        };
        rayon::join(|| train(Target::Time), || train(Target::Power));
    }

    fn train(&self, task: &Task<'_>) -> Result<Box<dyn Trained>, MethodError> {
        if Reference::all_modes(task.references).is_empty() {
            let method = self.name();
            return Err(MethodError::NoReferenceCorpus { method });
        }
        self.prepare(task.references, &ProgressBar::hidden());
        predict_each(task, |target| {
            let training = Training::from_modes(task.used, target)?;
            let reference = self.references[target as usize]
                .get()
                .and_then(Option::as_ref);
            let loss = match self.variant {
                Variant::Whole | Variant::Frozen => Loss::Square,
                Variant::Percentage => Loss::Percentage,
            };
            let start = reference.map(|network| match self.variant {
                Variant::Frozen => network.frozen(),
                Variant::Whole | Variant::Percentage => network.clone(),
            });
            Some(training.run(start.as_ref(), loss, task.seed, task.progress))
        })
    }
}
