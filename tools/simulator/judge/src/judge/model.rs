//! How far a model's predictions are from the truth, and what the model allows under a limit.

use std::collections::HashSet;
use std::path::Path;

use serde::Serialize;
use wattgate_runtime::{Confidence, Front, Milliwatts, Model, Query, Region};
use wattgate_watchdog::setup::POINTS;

use super::error::JudgeError;
use super::subject::TrueMode;

/// The errors of a model on the modes that were not measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelFigures {
    /// Number of these modes.
    pub other_modes: usize,
    /// Mean absolute percentage error of the time.
    pub time_mape: f64,
    /// The same of the power.
    pub power_mape: f64,
    /// What holds below the limit, if there is one.
    #[serde(flatten)]
    pub within: Option<WithinFigures>,
}

/// The errors on the modes whose true power is within the limit, and the choice at the limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WithinFigures {
    /// Number of these modes.
    pub other_modes_within: usize,
    /// Mean absolute percentage error of the time; `None` without modes.
    pub time_mape_within: Option<f64>,
    /// The same of the power.
    pub power_mape_within: Option<f64>,
    /// The fastest mode that the model allows with its guard band: its true speed in percent of
    /// that of the fastest mode that is truly within the limit. `None` without either mode.
    pub choice_speed_pct: Option<f64>,
    /// The true power of the mode that the model chooses.
    pub choice_power_mw: Option<f64>,
}

/// Compares a model with the truth of `modes`, which are those of its grid in the order of their
/// ids. Modes with these `measured` knobs are left out of the errors. The limit is in mW.
pub fn errors(
    (path, model): (&Path, &Model<'_>),
    modes: &[TrueMode],
    measured: &HashSet<[u32; 4]>,
    limit: Option<u32>,
) -> Result<ModelFigures, JudgeError> {
    // The absolute relative errors of time and power.
    let mut errors = vec![[f64::NAN; 2]; modes.len()];
    let index = |id| modes.binary_search_by_key(&id, |mode| mode.id);
    model.sweep(&Region::all(model.grid()), |id, prediction| {
        if let (Ok(at), Some(power)) = (index(id), model.power(prediction)) {
            let time_s = f64::from(model.time(prediction).0) / 1e6;
            let time = time_s * modes[at].truth.rate;
            let power = f64::from(power.0) / 1e3 / modes[at].watts;
            errors[at] = [time, power].map(|ratio| (ratio - 1.0).abs());
        }
    });
    let all: Vec<(&TrueMode, [f64; 2])> = modes
        .iter()
        .zip(errors)
        .filter(|(mode, _)| !measured.contains(&mode.knobs))
        .collect();
    let (Some(time_mape), Some(power_mape)) = (mape(&all, 0), mape(&all, 1)) else {
        return Err(JudgeError::NoMode {
            path: path.to_owned(),
        });
    };
    let within = limit.map(|limit| {
        let is_within = |mode: &TrueMode| 1e3 * mode.watts <= f64::from(limit);
        let below = all.iter().filter(|(mode, _)| is_within(mode));
        let below: Vec<_> = below.copied().collect();
        let choice = choice(model, modes, limit);
        let rates = modes.iter().filter(|mode| is_within(mode));
        let fastest = rates.map(|mode| mode.truth.rate).reduce(f64::max);
        let speed = |(choice, fastest): (&TrueMode, f64)| 100.0 * choice.truth.rate / fastest;
        WithinFigures {
            other_modes_within: below.len(),
            time_mape_within: mape(&below, 0),
            power_mape_within: mape(&below, 1),
            choice_speed_pct: choice.zip(fastest).map(speed),
            choice_power_mw: choice.map(|choice| 1e3 * choice.watts),
        }
    });
    Ok(ModelFigures {
        other_modes: all.len(),
        time_mape,
        power_mape,
        within,
    })
}

/// The mean of the time's (0) or the power's (1) errors, in percent.
fn mape(errors: &[(&TrueMode, [f64; 2])], quantity: usize) -> Option<f64> {
    let sum: f64 = errors.iter().map(|(_, error)| error[quantity]).sum();
    (!errors.is_empty()).then(|| 100.0 * sum / errors.len() as f64)
}

/// The fastest mode that the model allows under a limit in mW, with its guard band of 95 %. It
/// chooses from the modes that it was trained around, as the daemon does.
fn choice<'a>(model: &Model<'_>, modes: &'a [TrueMode], limit: u32) -> Option<&'a TrueMode> {
    let index = |id| modes.binary_search_by_key(&id, |mode| mode.id);
    let mut profiled = Vec::new();
    model.sweep(&model.profiled(), |id, prediction| {
        profiled.extend(index(id).is_ok().then_some((id, prediction)));
    });
    let front = Front::<POINTS>::of_modes(model, profiled, Confidence::P95);
    let choice = front.select(&Query {
        power_limit: Some(Milliwatts(limit)),
        ..Query::default()
    });
    modes.get(index(choice.ok()?.mode).ok()?)
}

#[cfg(test)]
mod tests {
    use super::super::Subject;
    use super::*;
    use crate::replay::warmth::Fan;
    use wattgate_board_tables::Board;
    use wattgate_simulated_board::unit::Unit;
    use wattgate_simulated_board::workload::Workload;

    /// Calls `test` with a model and modes whose truth is what the model predicts.
    fn with_perfect_model(test: impl FnOnce((&Path, &Model<'_>), Vec<TrueMode>)) {
        let path = crate::models::path("orin-nano-8-super", Path::new("../../../weights"));
        let bytes = std::fs::read(&path).expect("a file");
        let model = Model::parse(&bytes).expect("a model");
        let board = Board::named("orin-nano-8-super").expect("a board");
        let workload = Workload::named("resnet18").expect("a workload");
        let unit = Unit::NOMINAL;
        let subject = Subject::new(&board, &workload, unit, Some(2), Fan::Automatic);
        let subject = subject.expect("a board");
        let mut modes = subject.modes(model.grid(), &path).expect("a grid");
        model.sweep(&Region::all(model.grid()), |id, prediction| {
            let mode = modes.iter_mut().find(|mode| mode.id == id);
            let mode = mode.expect("a mode of the board");
            mode.truth.rate = 1e6 / f64::from(model.time(prediction).0);
            let power = model.power(prediction).expect("a power");
            mode.watts = f64::from(power.0) / 1e3;
        });
        test((&path, &model), modes);
    }

    #[test]
    fn a_perfect_model_has_no_error_and_planted_ones_are_found() {
        with_perfect_model(|model, mut modes| {
            let none = HashSet::new();
            let judged = |modes: &[TrueMode], measured, limit| {
                errors(model, modes, measured, limit).expect("modes")
            };
            let perfect = judged(&modes, &none, Some(9_000));
            assert_eq!(perfect.other_modes, modes.len());
            assert!(perfect.time_mape < 1e-9 && perfect.power_mape < 1e-9);
            let within = perfect.within.expect("a limit");
            let below: Vec<_> = modes.iter().filter(|mode| mode.watts <= 9.0).collect();
            assert_eq!(within.other_modes_within, below.len());
            let fastest = below.iter().map(|mode| mode.truth.rate);
            let fastest = fastest.fold(0.0, f64::max);
            // The guard band keeps the choice below the limit, and costs some speed.
            let (speed, power) = (within.choice_speed_pct, within.choice_power_mw);
            let (speed, power) = (speed.expect("a mode"), power.expect("a mode"));
            assert!((80.0..100.0).contains(&speed) && (7_000.0..9_000.0).contains(&power));
            let is_choice = |mode: &&TrueMode| {
                let rate = 100.0 * mode.truth.rate / fastest;
                1e3 * mode.watts == power && (rate - speed).abs() < 1e-9
            };
            assert_eq!(below.iter().copied().filter(is_choice).count(), 1);

            // In every other mode, the time is predicted too long by a quarter, and the power too
            // low by a fifth.
            let half = modes.len() / 2;
            for mode in modes.iter_mut().step_by(2).take(half) {
                mode.truth.rate *= 1.25;
                mode.watts *= 1.25;
            }
            let planted = judged(&modes, &none, None);
            assert!((planted.time_mape - 12.5).abs() < 1e-6 && planted.within.is_none());
            assert!((planted.power_mape - 10.0).abs() < 1e-6);
            // What was measured does not count.
            let wrong = modes.iter().step_by(2).take(half);
            let measured = wrong.map(|mode| mode.knobs).collect();
            let others = judged(&modes, &measured, None);
            assert_eq!(others.other_modes, modes.len() - half);
            assert!(others.time_mape < 1e-9 && others.power_mape < 1e-9);
            let all = modes.iter().map(|mode| mode.knobs).collect();
            let found = errors(model, &modes, &all, None);
            assert!(matches!(found, Err(JudgeError::NoMode { .. })));
        });
    }
}
