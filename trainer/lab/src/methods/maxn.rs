//! `maxn`: the fastest candidate, whatever its power; the speed of a board without a limit.

use super::{Ask, Method, MethodError, Trained, fastest_within};
use wattgate_trainer::fit::Task;
use wattgate_trainer::read::Known;

/// The baseline `maxn`.
pub struct Maxn;

impl Method for Maxn {
    fn name(&self) -> &'static str {
        "maxn"
    }

    fn train(&self, _: &Task<'_>) -> Result<Box<dyn Trained>, MethodError> {
        Ok(Box::new(Self))
    }
}

impl Trained for Maxn {
    fn propose(&self, ask: &Ask<'_>, tried: &[Known]) -> Result<Option<Known>, MethodError> {
        let offered = ask.offered.iter().copied();
        Ok(fastest_within(f64::INFINITY, offered).filter(|mode| !tried.contains(mode)))
    }
}
