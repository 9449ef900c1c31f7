//! `wattgate`: the product as a method of the comparison. The runtime chooses from the model file.

use statrs::distribution::{ContinuousCDF, Normal};
use wattgate_runtime::{Front, Milliwatts, Model, Query, SelectError};

use super::{Ask, Method, MethodError, Trained, fastest_within};
use crate::corpus::modes::Known;
use crate::export::exported::Exported;
use crate::learn::plan::promise;
use crate::learn::predictions::Predictions;
use crate::train::{Task, Taught, train};

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

impl Trained for Taught {
    fn predictions(&self) -> Option<&Predictions> {
        Some(&self.exported.predictions)
    }

    fn model(&self) -> Option<&Exported> {
        Some(&self.exported)
    }

    fn propose(&self, ask: &Ask<'_>, tried: &[Known]) -> Result<Option<Known>, MethodError> {
        if ask.tries > 1 {
            return self.most_promising(ask, tried);
        }
        if !tried.is_empty() {
            return Ok(None);
        }
        let model = Model::parse(&self.exported.bytes)?;
        if !model.has_power() {
            return Err(MethodError::NoPower);
        }
        let query = Query {
            power_limit: Some(Milliwatts(ask.limit_mw as u32)),
            ..Query::default()
        };
        let mut modes = Vec::new();
        model.sweep(&model.profiled(), |mode, prediction| {
            if ask
                .offered
                .iter()
                .any(|known| known.id == usize::from(mode.0))
            {
                modes.push((mode, prediction));
            }
        });
        let front = Front::<FRONT>::of_modes(&model, modes, ask.confidence);
        match front.select(&query) {
            Ok(choice) => {
                let id = usize::from(choice.mode.0);
                Ok(ask.offered.iter().find(|known| known.id == id).copied())
            }
            Err(SelectError::Guard(why)) => Err(why.into()),
            Err(_) => Ok(None),
        }
    }
}

impl Taught {
    /// The mode with the largest [`promise`] among those that are within the limit with such a
    /// probability that all tries together are with the confidence asked for (Bonferroni). The
    /// teachers are conditioned on `tried` first.
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
        let ln_limit = ask.limit_mw.ln();
        let confidence = f64::from(ask.confidence.per_ten_thousand()) / 1e4;
        let of_one = 1.0 - (1.0 - confidence) / ask.tries as f64;
        let deviations = Normal::standard().inverse_cdf(of_one);
        let pairs = times.iter().zip(powers).zip(&open);
        let safe = pairs.filter(|((_, power), _)| power.median + deviations * power.sd <= ln_limit);
        let promises =
            safe.map(|((time, power), mode)| (promise(ln_limit, best, time, power), mode));
        let best = promises.max_by(|a, b| a.0.total_cmp(&b.0));
        Ok(best.map(|(_, mode)| *mode))
    }
}
