//! `wattgate`: the product as a method of the comparison. The runtime chooses from the model file.

use wattgate_runtime::{Front, Milliwatts, Model, Query, SelectError};

use super::{Ask, Method, MethodError, Trained, fastest_within};
use crate::corpus::modes::Known;
use crate::learn::plan::promise;
use crate::learn::predictions::Predictions;
use crate::learn::teacher::Expected;
use crate::train::{Exported, Task, train};

/// Capacity of the Pareto front; fronts of measured modes are smaller.
const FRONT: usize = 4_096;

/// The method `wattgate`.
pub struct Wattgate;

impl Method for Wattgate {
    fn name(&self) -> &'static str {
        "wattgate"
    }

    fn train(&self, task: &Task<'_>) -> Result<Box<dyn Trained>, MethodError> {
        Ok(Box::new(train(task)?))
    }
}

impl Trained for Exported {
    fn predictions(&self) -> Option<&Predictions> {
        Some(&self.predictions)
    }

    fn model(&self) -> Option<&Exported> {
        Some(self)
    }

    fn propose(&self, ask: &Ask<'_>, tried: &[Known]) -> Result<Option<Known>, MethodError> {
        if ask.tries > 1 {
            return self.most_promising(ask, tried);
        }
        if !tried.is_empty() {
            return Ok(None);
        }
        let model = Model::parse(&self.bytes)?;
        if !model.has_power() {
            return Err(MethodError::NoPower);
        }
        let query = Query {
            power_limit: Some(Milliwatts(ask.limit_mw as u32)),
            confidence: ask.confidence,
            ..Query::default()
        };
        let mut modes = Vec::new();
        model.sweep(&model.profiled(), |mode, prediction| {
            // Training modes compete with their measurements, below.
            let is = |known: &Known| known.id == usize::from(mode.0);
            if ask.offered.iter().any(is) && !ask.used.iter().any(is) {
                modes.push((mode, prediction));
            }
        });
        let front = Front::<FRONT>::of_modes(&model, modes);
        let measured = fastest_within(ask.limit_mw, ask.used.iter().copied());
        match front.select(&query) {
            Ok(choice) => {
                let faster = |mode: &Known| mode.time_us < f64::from(choice.time.0);
                let id = usize::from(choice.mode.0);
                let predicted = ask.offered.iter().find(|known| known.id == id).copied();
                Ok(measured.filter(faster).or(predicted))
            }
            Err(SelectError::Guard(why)) => Err(why.into()),
            Err(_) => Ok(measured),
        }
    }
}

impl Exported {
    /// The mode with the largest [`promise`], after conditioning the teachers on `tried`.
    fn most_promising(&self, ask: &Ask<'_>, tried: &[Known]) -> Result<Option<Known>, MethodError> {
        let mut teachers = self.teachers.clone();
        for mode in tried {
            teachers = teachers.observe(mode)?;
        }
        let measured = || tried.iter().chain(ask.used);
        let open: Vec<Known> = ask
            .offered
            .iter()
            .filter(|mode| measured().all(|known| known.id != mode.id))
            .copied()
            .collect();
        let modes: Vec<[u32; 4]> = open.iter().map(|mode| mode.knobs).collect();
        let [times, powers] = &teachers.predict(&modes)[..] else {
            return Err(MethodError::NoPower);
        };
        let slowest = times
            .iter()
            .map(|time| time.median)
            .fold(f64::NEG_INFINITY, f64::max);
        let fastest = fastest_within(ask.limit_mw, measured().copied());
        let best = fastest.map_or(slowest, |mode| mode.time_us.ln());
        let promise =
            |(time, power): (&Expected, &Expected)| promise(ask.limit_mw.ln(), best, time, power);
        let promises = times.iter().zip(powers).map(promise).zip(&open);
        let best = promises.max_by(|a, b| a.0.total_cmp(&b.0));
        Ok(best.map(|(_, mode)| *mode))
    }
}
