//! Step "choose": each trained method chooses a mode under each limit.

use wattgate_lab::compare::evaluate::Quartiles;
use wattgate_lab::methods::{Ask, MethodError};
use wattgate_runtime::Confidence;
use wattgate_trainer::read::Known;

use super::round::round;
use super::story::{Choice, Choices, Point, Summary};
use super::transfer::TrainedContestant;

/// The choices of a contestant under each limit in W. `all` are the modes to choose from.
pub fn choices(
    contestant: &TrainedContestant,
    all: &[Known],
    limits_w: &[u32],
) -> Result<Choices, MethodError> {
    let by = limits_w.iter().map(|&limit| choose(contestant, all, limit));
    Ok(Choices {
        name: contestant.contestant.name,
        by: by.collect::<Result<_, _>>()?,
    })
}

fn choose(
    contestant: &TrainedContestant,
    all: &[Known],
    limit_w: u32,
) -> Result<Option<Choice>, MethodError> {
    let TrainedContestant { trained, split, .. } = contestant;
    let limit_mw = 1e3 * f64::from(limit_w);
    let ask = Ask {
        limit_mw,
        confidence: Confidence::P95,
        offered: all,
        used: &split.used,
        tries: 1,
    };
    let chosen = trained.propose(&ask, &[])?;
    let upper = contestant.guarded_powers();
    Ok(chosen.map(|mode| {
        let known = split.used.iter().any(|used| used.id == mode.id);
        let predictions = trained.predictions().filter(|_| !known);
        let predicted = predictions.and_then(|all| Some(all.power.as_ref()?[mode.id] / 1e3));
        Choice {
            point: Point::from_mode(&mode),
            predicted_w: predicted.map(|watts| round(watts, 2)),
            bound_w: predicted
                .zip(upper.as_ref())
                .map(|(_, upper)| round(upper[mode.id] / 1e3, 2)),
        }
    }))
}

/// Aggregates choices over all limits in W. None if no limit has both a choice and an optimum.
pub fn summary(choices: &Choices, limits: &[u32], optimum: &[Option<Point>]) -> Option<Summary> {
    let chosen: Vec<(f64, Point, Point)> = choices
        .by
        .iter()
        .zip(limits)
        .zip(optimum)
        .filter_map(|((choice, &limit), best)| {
            Some((f64::from(limit), choice.as_ref()?.point, (*best)?))
        })
        .collect();
    let n = chosen.len() as f64;
    let over = |(limit, choice, _): &(f64, Point, Point)| (choice.power_w - limit).max(0.0);
    let share = |above: f64| 100.0 * chosen.iter().filter(|c| over(c) > above).count() as f64 / n;
    let penalties = chosen
        .iter()
        .map(|(_, choice, best)| 100.0 * (choice.time_ms / best.time_ms - 1.0));
    Some(Summary {
        name: choices.name,
        time_penalty_pct: Quartiles::from_values(penalties)?.median,
        area_w: chosen.iter().map(over).sum::<f64>() / n,
        over_pct: share(0.0),
        over_1w_pct: share(1.0),
    })
}
