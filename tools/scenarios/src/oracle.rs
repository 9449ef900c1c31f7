//! The oracle: always in the fastest mode of the model's front whose true mean power stays below
//! the limit by three times the spread of such a mean, as any governor has to that holds the
//! limit. It needs no time to find that mode or to change.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use wattgate_runtime::{Front, Model, PowerMode};
use wattgate_watchdog::setup::POINTS;

use super::account::SPAN;
use super::plant::Plant;
use wattgate_simulated_board::machine::{RIPPLE, SLICE};
use wattgate_simulated_board::pipeline::Clocks;
use wattgate_simulated_board::power::{Activity, watts};
use wattgate_simulated_board::steady::Steady;
use wattgate_simulated_board::workload::Workload;

/// What a mode truly does: W, and s from one minibatch to the next.
type Truth = [f64; 2];

/// The minibatches of the oracle in the time of a scenario.
pub fn minibatches(plant: &Plant<'_>) -> io::Result<f64> {
    let bytes = std::fs::read(&plant.course.model)?;
    let model = Model::parse(&bytes).map_err(|why| io::Error::other(why.to_string()))?;
    let front = Front::<POINTS>::of(&model, &model.profiled());
    let modes = front.points().iter();
    let modes: Vec<PowerMode> = modes.filter_map(|p| model.grid().mode(p.mode)).collect();
    let scenario = plant.task.scenario;
    // The spread of a mean is that of a slice of the board's power over the root of their number.
    let spread = RIPPLE / SPAN.div_duration_f64(SLICE).sqrt();
    let margin = 1.0 + 3.0 * spread;
    let mut truths: BTreeMap<&str, Vec<Truth>> = BTreeMap::new();
    let mut minibatches = 0.0;
    for second in 0..scenario.length {
        let at = Duration::from_secs(second);
        let Some(workload) = scenario.workload(at) else {
            continue;
        };
        if !truths.contains_key(workload) {
            truths.insert(workload, truth(plant, workload, &modes)?);
        }
        let truth = &truths[workload];
        let limit = f64::from(plant.limit_mw(at)) / 1e3;
        let fits = truth.iter().filter(|[watts, _]| watts * margin <= limit);
        let slowest = truth.iter().map(|[_, period]| *period).fold(0.0, f64::max);
        minibatches += 1.0 / fits.map(|[_, period]| *period).fold(slowest, f64::min);
    }
    Ok(minibatches)
}

fn truth(plant: &Plant<'_>, workload: &str, modes: &[PowerMode]) -> io::Result<Vec<Truth>> {
    let workload = Workload::named(workload).map_err(io::Error::other)?;
    let factor = plant.task.scenario.power_factor();
    let (board, unit) = (&plant.description, &plant.unit);
    let truth = |mode: &PowerMode| {
        let clocks = Clocks::of(board, mode.knobs());
        let steady = Steady::of(board, unit, &workload, &clocks);
        let idle = Activity {
            gpu_on: true,
            ..Activity::IDLE
        };
        let rest = watts(board, unit, &clocks, &idle, steady.die_c).total();
        let work = steady.watts.total() - rest;
        [rest + factor * work, steady.step.period]
    };
    Ok(modes.iter().map(truth).collect())
}
