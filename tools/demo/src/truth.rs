//! What the simulation knows of every mode: true times and powers, their Pareto front, and the
//! fastest mode within a limit.

use wattgate_trainer::read::Known;

use super::story::{Point, Truth};

/// Simulated time and power of all modes.
pub fn truth(all: &[Known]) -> Truth {
    let knobs = |mode: &Known| {
        let [cores, clocks @ ..] = mode.knobs.map(f64::from);
        let [cpu, gpu, emc] = clocks.map(|khz| khz / 1e3);
        [cores, cpu, gpu, emc]
    };
    let points = || all.iter().map(Point::from_mode);
    Truth {
        knobs: all.iter().map(knobs).collect(),
        time_ms: points().map(|point| point.time_ms).collect(),
        power_w: points().map(|point| point.power_w).collect(),
    }
}

/// The Pareto front as indices into `all`, in ascending order of power.
pub fn front(all: &[Known]) -> Vec<usize> {
    let mut points: Vec<Point> = all.iter().map(Point::from_mode).collect();
    points.sort_by(|a, b| {
        a.power_w
            .total_cmp(&b.power_w)
            .then(a.time_ms.total_cmp(&b.time_ms))
    });
    let mut best = f64::INFINITY;
    points.retain(|point| {
        let faster = point.time_ms < best;
        best = best.min(point.time_ms);
        faster
    });
    points.into_iter().map(|point| point.mode).collect()
}

/// The fastest mode whose power is within a limit in W.
pub fn fastest(all: &[Known], limit_w: u32) -> Option<Point> {
    let within = |mode: &&Known| {
        mode.power_mw
            .is_some_and(|mw| mw <= 1e3 * f64::from(limit_w))
    };
    let fastest = all
        .iter()
        .filter(within)
        .min_by(|a, b| a.time_us.total_cmp(&b.time_us));
    fastest.map(Point::from_mode)
}
