//! The oracle is always in the fastest mode of the model's front that holds the limit. It knows the
//! true power, and finds and sets its modes in no time.
//!
//! It stays three standard deviations of the mean power below the limit, like any governor that
//! holds the limit.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use wattgate_runtime::{Confidence, Front, Model, PowerMode};
use wattgate_watchdog::setup::POINTS;

use super::plant::Plant;
use crate::course::LIMIT_WINDOW;
use wattgate_simulated_board::machine::{RIPPLE, SLICE};
use wattgate_simulated_board::pipeline::Clocks;
use wattgate_simulated_board::power::{Activity, watts};
use wattgate_simulated_board::steady::Steady;

/// True figures of a mode at its steady temperature.
#[derive(Clone, Copy, Debug)]
struct SteadyMode {
    /// Mean power at rest, and what the workload adds, in W.
    rest: f64,
    work: f64,
    /// Time from one minibatch to the next, in s.
    period: f64,
}

/// The number of minibatches that the oracle runs in a scenario.
pub fn minibatches(plant: &Plant<'_>) -> io::Result<f64> {
    let bytes = std::fs::read(&plant.course.model)?;
    let model = Model::parse(&bytes).map_err(|why| io::Error::other(why.to_string()))?;
    let front = Front::<POINTS>::from_model(&model, &model.profiled(), Confidence::P95);
    let modes = front.points().iter();
    let modes: Vec<PowerMode> = modes.filter_map(|p| model.grid().mode(p.mode)).collect();
    let scenario = plant.task.scenario;
    // The ripple of a slice, averaged over the slices in the window.
    let deviation = RIPPLE / LIMIT_WINDOW.div_duration_f64(SLICE).sqrt();
    let margin = 1.0 + 3.0 * deviation;
    let mut modes_of: BTreeMap<&str, Vec<SteadyMode>> = BTreeMap::new();
    let mut minibatches = 0.0;
    for second in 0..scenario.length {
        let at = Duration::from_secs(second);
        let Some(workload) = scenario.workload(at) else {
            continue;
        };
        if !modes_of.contains_key(workload) {
            modes_of.insert(workload, steady_modes(plant, workload, &modes)?);
        }
        let modes = &modes_of[workload];
        let limit = f64::from(plant.limit_mw(at)) / 1e3;
        let factor = scenario.power_factor(at);
        let watts = |mode: &SteadyMode| mode.rest + factor * mode.work;
        let fits = modes.iter().filter(|mode| watts(mode) * margin <= limit);
        let slowest = modes.iter().map(|mode| mode.period).fold(0.0, f64::max);
        minibatches += 1.0 / fits.map(|mode| mode.period).fold(slowest, f64::min);
    }
    Ok(minibatches)
}

fn steady_modes(
    plant: &Plant<'_>,
    workload: &str,
    modes: &[PowerMode],
) -> io::Result<Vec<SteadyMode>> {
    let workload = plant.task.case.workload(workload);
    let workload = workload.map_err(io::Error::other)?;
    let (board, unit) = (&plant.board, &plant.unit);
    let steady_mode = |mode: &PowerMode| {
        let clocks = Clocks::from_knobs(board, mode.knobs());
        let steady = Steady::compute(board, unit, &workload, &clocks);
        let activity = Activity::from_step(&steady.step, clocks.cores).at_rest();
        let rest = watts(board, unit, &clocks, &activity, steady.die_c).total();
        let work = steady.watts.total() - rest;
        SteadyMode {
            rest,
            work,
            period: steady.step.period,
        }
    };
    Ok(modes.iter().map(steady_mode).collect())
}
