//! Step "choose": each trained method chooses a mode under each limit.

use wattgate_lab::compare::evaluate::Quartiles;
use wattgate_lab::methods::{Ask, MethodError};
use wattgate_runtime::Confidence;

use super::learn::TrainedContestant;
use super::round::round;
use super::story::{Choice, Choices, Point, Summary};
use super::truth::Modes;

/// The choices of a contestant among all modes under each limit in W.
pub fn choices(
    contestant: &TrainedContestant,
    modes: &Modes,
    limits_w: &[f64],
) -> Result<Choices, MethodError> {
    let by = limits_w
        .iter()
        .map(|&limit| choose(contestant, modes, limit));
    Ok(Choices {
        name: contestant.contestant.name,
        by: by.collect::<Result<_, _>>()?,
    })
}

fn choose(
    contestant: &TrainedContestant,
    modes: &Modes,
    limit_w: f64,
) -> Result<Option<Choice>, MethodError> {
    let TrainedContestant { trained, split, .. } = contestant;
    let ask = Ask {
        limit_mw: 1e3 * limit_w,
        confidence: Confidence::P95,
        offered: modes.all(),
        used: &split.used,
        tries: 1,
    };
    let Some(chosen) = trained.propose(&ask, &[])? else {
        return Ok(None);
    };
    let upper = contestant.guarded_powers();
    let known = split.used.iter().any(|used| used.id == chosen.id);
    let predictions = trained.predictions().filter(|_| !known);
    let predicted = predictions.and_then(|all| Some(all.power.as_ref()?[chosen.id] / 1e3));
    Ok(modes.point(chosen.id).map(|point| Choice {
        point,
        predicted_w: predicted.map(|watts| round(watts, 2)),
        bound_w: predicted
            .zip(upper.as_ref())
            .map(|(_, upper)| round(upper[chosen.id] / 1e3, 2)),
    }))
}

/// Aggregates choices over all limits in W. None if no limit has both a choice and an optimum.
pub fn summary(choices: &Choices, limits: &[f64], optimum: &[Option<Point>]) -> Option<Summary> {
    let chosen: Vec<(f64, Point, Point)> = choices
        .by
        .iter()
        .zip(limits)
        .zip(optimum)
        .filter_map(|((choice, &limit), best)| Some((limit, choice.as_ref()?.point, (*best)?)))
        .collect();
    let n = chosen.len() as f64;
    let over =
        |(limit, choice, _): &(f64, Point, Point)| 100.0 * (choice.power_w / limit - 1.0).max(0.0);
    let share = |above: f64| 100.0 * chosen.iter().filter(|c| over(c) > above).count() as f64 / n;
    let penalties = chosen
        .iter()
        .map(|(_, choice, best)| 100.0 * (choice.time_s / best.time_s - 1.0));
    Some(Summary {
        name: choices.name,
        time_penalty_pct: Quartiles::from_values(penalties)?.median,
        excess_pct: chosen.iter().map(over).sum::<f64>() / n,
        over_pct: share(0.0),
        over_by_5_pct: share(5.0),
    })
}
