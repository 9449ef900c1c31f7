//! `random`: the fastest training mode whose measured power is within the limit.

use super::{Ask, Method, MethodError, Trained, fastest_within};
use wattgate_trainer::fit::Task;
use wattgate_trainer::read::Known;

/// The baseline `random`.
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
