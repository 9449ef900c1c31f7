//! `random`: the best of the modes that were profiled, by what was measured.

use super::{Ask, Method, MethodError, Trained, fastest_within};
use crate::corpus::modes::Known;
use crate::train::Task;

/// The baseline.
pub struct Random;

struct Profiled(Vec<Known>);

impl Method for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn train(&self, task: &Task<'_>) -> Result<Box<dyn Trained>, MethodError> {
        Ok(Box::new(Profiled(task.used.to_vec())))
    }
}

impl Trained for Profiled {
    fn propose(&self, ask: &Ask<'_>, tried: &[Known]) -> Result<Option<Known>, MethodError> {
        let untried = self.0.iter().filter(|mode| !tried.contains(mode));
        Ok(fastest_within(ask.limit_mw, untried.copied()))
    }
}
