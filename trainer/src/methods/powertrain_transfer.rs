//! `powertrain-transfer`: PowerTrain's transfer learning. The network of `powertrain-nn` is
//! trained on a reference corpus, gets a fresh last layer, and is fine-tuned on the few modes of
//! the new workload. `powertrain-transfer-mape` fine-tunes with the mean absolute percentage
//! error, as the authors do for a very different board.

use std::sync::OnceLock;

use super::powertrain_nn::{Loss, Recipe, Training, predict_each};
use super::{Method, MethodError, Trained};
use crate::corpus::modes::profiled;
use crate::learn::predictions::Target;
use crate::learn::reference::Reference;
use crate::train::Task;

/// Seed of the reference networks, which all runs share.
const REFERENCE_SEED: u64 = 0;

/// The method. Caches the networks of the first reference that it is given.
pub struct PowertrainTransfer {
    loss: Loss,
    references: [OnceLock<Option<Recipe>>; 2],
}

impl PowertrainTransfer {
    /// Creates the method with the loss of the fine-tuning.
    pub fn new(loss: Loss) -> Self {
        Self {
            loss,
            references: [OnceLock::new(), OnceLock::new()],
        }
    }
}

impl Method for PowertrainTransfer {
    fn name(&self) -> &'static str {
        match self.loss {
            Loss::Square => "powertrain-transfer",
            Loss::Percentage => "powertrain-transfer-mape",
        }
    }

    fn needs_reference(&self) -> bool {
        true
    }

    fn prepare(&self, reference: Option<&Reference>) {
        let Some(corpus) = reference.and_then(Reference::corpus) else {
            return;
        };
        let all = profiled(corpus);
        let train = |target| {
            self.references[target as usize].get_or_init(|| {
                let training = Training::of(&all, target)?;
                Some(training.run(None, Loss::Square, REFERENCE_SEED))
            });
        };
        rayon::join(|| train(Target::Time), || train(Target::Power));
    }

    fn train(&self, task: &Task<'_>) -> Result<Box<dyn Trained>, MethodError> {
        if task.reference.and_then(Reference::corpus).is_none() {
            let method = self.name();
            return Err(MethodError::NoReferenceCorpus { method });
        }
        self.prepare(task.reference);
        predict_each(task, |target| {
            let training = Training::of(task.used, target)?;
            let reference = self.references[target as usize]
                .get()
                .and_then(Option::as_ref);
            Some(training.run(reference, self.loss, task.seed))
        })
    }
}
