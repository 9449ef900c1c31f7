//! `wattgate` and `wattgate-scratch`: the product as a method of the comparison. The runtime chooses from the model file.

use statrs::distribution::{ContinuousCDF, Normal};
use wattgate_runtime::{Front, Milliwatts, Model, Query, SelectError};

use super::{Ask, Method, MethodError, Trained, fastest_within};
use wattgate_trainer::fit::Exported;
use wattgate_trainer::fit::Residual;
use wattgate_trainer::fit::deviations;
use wattgate_trainer::fit::{Task, Taught, train};
use wattgate_trainer::plan::promise;
use wattgate_trainer::read::Known;
use wattgate_trainer::score::Predictions;

/// Capacity of the Pareto front; fronts of measured modes are smaller.
const FRONT_POINTS: usize = 4_096;

/// The methods of the product.
#[derive(Clone, Copy)]
pub enum Wattgate {
    /// `wattgate`: uses all references.
    WithReferences,
    /// `wattgate-scratch`: uses none.
    Scratch,
}

impl Method for Wattgate {
    fn name(&self) -> &'static str {
        match self {
            Self::WithReferences => "wattgate",
            Self::Scratch => "wattgate-scratch",
        }
    }

    fn train(&self, task: &Task<'_>) -> Result<Box<dyn Trained>, MethodError> {
        let references = match self {
            Self::WithReferences => task.references,
            Self::Scratch => &[],
        };
        Ok(Box::new(train(&Task {
            references,
            ..*task
        })?))
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
            return most_promising(self, ask, tried);
        }
        if !tried.is_empty() {
            return Ok(None);
        }
        let file = self.exported.unscored();
        let model = Model::parse(&file)?;
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
        let front = Front::<FRONT_POINTS>::of_modes(&model, modes, ask.confidence);
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

/// How much more risk a try takes than the one before: later tries know more, and the last one is the choice.
const RISK_GROWS: f64 = 3.0;

/// The share of the risk that the try after `tried` others takes. The shares of all `tries` sum to one.
fn share_of_risk(tried: usize, tries: usize) -> f64 {
    let weight = |at: usize| RISK_GROWS.powi(at as i32);
    weight(tried) / (0..tries).map(weight).sum::<f64>()
}

/// The mode with the largest [`promise`] among those that are within the limit with such a
/// probability that all tries together are with the confidence asked for (Bonferroni). The
/// teachers are conditioned on `tried` first, whose residuals count like those of cross-validation.
fn most_promising(
    taught: &Taught,
    ask: &Ask<'_>,
    tried: &[Known],
) -> Result<Option<Known>, MethodError> {
    let mut teachers = taught.teachers.clone();
    let left_out = teachers.left_out().iter();
    let mut residuals: Vec<Residual> = left_out.filter_map(|mode| mode.power).collect();
    for mode in tried {
        let expected = teachers.predict(&[mode.knobs]);
        if let (Some(power), [_, of_power]) = (mode.power_mw, &expected[..]) {
            residuals.push(of_power[0].residual(power.ln()));
        }
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
    let risk = (1.0 - confidence) * share_of_risk(tried.len(), ask.tries);
    // The teachers' distribution has thinner tails than the residuals of some boards.
    let expected = Normal::standard().inverse_cdf(1.0 - risk);
    let deviations = deviations(&residuals, risk).max(expected);
    let pairs = times.iter().zip(powers).zip(&open);
    let safe = pairs.filter(|((_, power), _)| power.median + deviations * power.sd <= ln_limit);
    let promises = safe.map(|((time, power), mode)| (promise(ln_limit, best, time, power), mode));
    let best = promises.max_by(|a, b| a.0.total_cmp(&b.0));
    Ok(best.map(|(_, mode)| *mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_the_risk_grow_and_sum_to_one() {
        let shares = [0, 1, 2].map(|tried| share_of_risk(tried, 3));
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!((shares[2] / shares[1] - RISK_GROWS).abs() < 1e-12 && shares[0] < shares[1]);
        assert_eq!(share_of_risk(0, 1), 1.0);
    }
}
