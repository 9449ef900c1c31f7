//! Our method, trained once for each task: several rows score the same models.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use wattgate_lab::methods::{Ask, Method, MethodError, Trained};
use wattgate_trainer::fit::Exported;
use wattgate_trainer::fit::{Task, Taught, train};
use wattgate_trainer::read::Known;
use wattgate_trainer::score::Predictions;

/// Workload, whether there is a reference, seed, and training modes in their order: all that differs
/// between the tasks of one column of the table.
type Key = (String, bool, u64, Vec<usize>);

/// Remembers the models that it has trained.
#[derive(Default)]
pub struct Once(Mutex<HashMap<Key, Arc<Taught>>>);

impl Method for Once {
    fn name(&self) -> &'static str {
        "wattgate"
    }

    fn train(&self, task: &Task<'_>) -> Result<Box<dyn Trained>, MethodError> {
        let key = (
            format!("{} {}", task.corpus.device, task.corpus.workload),
            !task.references.is_empty(),
            task.seed,
            task.used.iter().map(|mode| mode.id).collect(),
        );
        let models = || self.0.lock().expect("no thread has panicked");
        let remembered = models().get(&key).cloned();
        let model = match remembered {
            Some(model) => model,
            None => Arc::new(train(task)?),
        };
        models().insert(key, model.clone());
        Ok(Box::new(Shared(model)))
    }
}

struct Shared(Arc<Taught>);

impl Trained for Shared {
    fn predictions(&self) -> Option<&Predictions> {
        Some(&self.0.exported.predictions)
    }

    fn model(&self) -> Option<&Exported> {
        Some(&self.0.exported)
    }

    fn propose(&self, ask: &Ask<'_>, tried: &[Known]) -> Result<Option<Known>, MethodError> {
        self.0.propose(ask, tried)
    }
}
