//! What choices under power limits would cost if the margin were known in hindsight: the penalty with
//! the least number of deviations for which at most 5 % of the choices exceed their limit. No guard
//! band can do better with the same predictions.

use wattgate_lab::compare::evaluate::{Quartiles, TrainedRun, quantile};
use wattgate_trainer::read::Known;

/// Number of limits, from the 5 % to the 95 % quantile of the measured powers.
const LIMITS: usize = 34;

/// Tried margins in standard deviations.
const STEP: f64 = 0.05;
const STEPS: usize = 80;

/// Share of the choices that may exceed their limit, in percent.
const AT_MOST: f64 = 5.0;

/// The choices of one run with one margin, in percent.
#[derive(Clone, Copy)]
pub struct Choices {
    over: f64,
    penalty: f64,
}

/// The choices of one run among all profiled modes, by margin.
pub fn choices(run: &TrainedRun<'_>) -> Option<Vec<Choices>> {
    let predictions = &run.trained.model()?.predictions;
    let (power, spread) = (predictions.power.as_ref()?, predictions.spread.as_ref()?);
    let split = &run.split;
    let modes = [&split.used[..], &split.unused, &split.held_out].concat();
    let mut measured: Vec<(&Known, f64)> = modes
        .iter()
        .filter_map(|mode| Some((mode, mode.power_mw?)))
        .collect();
    let mut powers: Vec<f64> = measured.iter().map(|(_, power)| *power).collect();
    powers.sort_unstable_by(f64::total_cmp);
    let [low, high] = [quantile(&powers, 0.05)?, quantile(&powers, 0.95)?];
    measured.sort_unstable_by(|(a, _), (b, _)| {
        predictions.time[a.id].total_cmp(&predictions.time[b.id])
    });
    let with = |margin: f64| {
        let (mut over, mut penalties) = (0, Vec::new());
        for at in 0..LIMITS {
            let limit = low + (high - low) * at as f64 / (LIMITS - 1) as f64;
            let within = measured.iter().filter(|(_, power)| *power <= limit);
            let best = within.map(|(mode, _)| mode.time_us).min_by(f64::total_cmp);
            let fits = |(mode, _): &&(&Known, f64)| {
                power[mode.id] * (margin * spread[mode.id]).exp() <= limit
            };
            if let Some(((mode, power), best)) = measured.iter().find(fits).zip(best) {
                over += u32::from(*power > limit);
                penalties.push(100.0 * (mode.time_us / best - 1.0));
            }
        }
        Some(Choices {
            over: 100.0 * f64::from(over) / LIMITS as f64,
            penalty: Quartiles::from_values(penalties)?.median,
        })
    };
    (0..STEPS).map(|step| with(STEP * step as f64)).collect()
}

/// The median penalty in percent with the least margin that is good enough on average over the runs.
pub fn penalty(runs: &[Vec<Choices>]) -> Option<f64> {
    let with = |step: usize| runs.iter().map(move |run| run[step]);
    let step = (0..STEPS).find(|step| {
        let over: f64 = with(*step).map(|choices| choices.over).sum();
        over / runs.len() as f64 <= AT_MOST
    })?;
    Some(Quartiles::from_values(with(step).map(|choices| choices.penalty))?.median)
}
