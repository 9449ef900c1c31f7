//! Idle power: from a few modes that were measured before the workload started to a line over the power of the front's
//! modes.
//!
//! Clocks that are pinned switch their clock trees in an idle board, too: each domain draws C·V²·f, and the voltage rises with
//! the clock. Over the clocks of a Jetson, f^1.5 is near V²·f (its powers on simulated boards are within 8 % in 95 % of the
//! modes). So the idle power of a mode is
//!
//! ```text
//! base + cpu · n·f_cpu^1.5 + gpu · f_gpu^1.5 + emc · f_emc^1.5,    all factors ≥ 0
//! ```
//!
//! The runtime knows of a mode on the front only its power, so the file has the line that fits the front's modes best.

use wattgate_runtime::format::FormatError;
use wattgate_runtime::grid::{Axis, Grid};
use wattgate_runtime::idle::Idle;
use wattgate_runtime::{Confidence, Front, Milliwatts, Model, PowerMode};

use super::exported::Exported;
use crate::corpus::IdleReading;
use crate::learn::predictions::Predictions;

/// Factors of the formula.
const FACTORS: usize = 4;

/// Rounds of the coordinate descent. Five readings of four factors need some hundreds.
const DESCENT_ROUNDS: usize = 10_000;

/// Points of a front, at most.
const FRONT_POINTS: usize = 256;

/// Fits the idle power of the front's modes, without readings above the bound of what the workload draws. That bound is the
/// runtime's, so it takes the file as it is so far.
pub fn find(exported: &mut Exported) -> Result<(), FormatError> {
    if exported.origin.idle.is_empty() {
        return Ok(());
    }
    let so_far = exported.unscored();
    let model = Model::parse(&so_far)?;
    if !model.has_power() {
        return Ok(());
    }
    let grid = &exported.origin.grid;
    // A model of few modes may support no such bound; then all readings count.
    let guarded = Predictions::guarded(&model, Confidence::P95).ok();
    let bounds = guarded.and_then(|guarded| guarded.power);
    let is_above = |reading: &IdleReading| {
        let id = grid.id(PowerMode::from_knobs(at_least(grid, reading.knobs)));
        let bound = bounds.as_ref().zip(id);
        bound.is_some_and(|(bounds, id)| reading.power_mw > bounds[usize::from(id.0)])
    };
    let readings = exported.origin.idle.iter().copied();
    let (above, used) = readings.partition::<Vec<_>, _>(is_above);
    let of_modes = OfModes::fit(&used);
    let idle = of_modes.map(|idle| idle.on_front(&model, grid));
    exported.idle = idle.unwrap_or(Idle::NONE);
    exported.idle_left_out = above;
    Ok(())
}

/// The lowest mode of a grid that is not below a mode in any knob; where the grid ends before, its highest value.
fn at_least(grid: &Grid, knobs: [u32; 4]) -> [u32; 4] {
    let mut pairs = Axis::ALL.into_iter().zip(knobs);
    std::array::from_fn(|_| {
        let (axis, knob) = pairs.next().expect("a knob for each axis");
        let values = grid.axis(axis);
        let found = values.iter().find(|value| **value >= knob);
        *found.or(values.last()).expect("an axis has values")
    })
}

/// Idle power in mW of each mode of a board.
#[derive(Clone, Copy, Debug)]
pub struct OfModes {
    factors: [f64; FACTORS],
    /// The terms are relative to those of this mode, the highest one.
    highest: [f64; FACTORS],
}

fn terms([cores, cpu, gpu, emc]: [u32; 4]) -> [f64; FACTORS] {
    let power = |khz: u32| f64::from(khz).powf(1.5);
    [1.0, f64::from(cores) * power(cpu), power(gpu), power(emc)]
}

impl OfModes {
    /// Fits the formula by least squares; `None` without readings. What no reading tells apart counts as the base.
    pub fn fit(readings: &[IdleReading]) -> Option<Self> {
        let mut highest = [f64::MIN_POSITIVE; FACTORS];
        for reading in readings {
            let terms = terms(reading.knobs);
            highest = std::array::from_fn(|at| highest[at].max(terms[at]));
        }
        let scaled = |reading: &IdleReading| {
            let terms = terms(reading.knobs);
            (
                std::array::from_fn(|at| terms[at] / highest[at]),
                reading.power_mw,
            )
        };
        let rows: Vec<([f64; FACTORS], f64)> = readings.iter().map(scaled).collect();
        let least = rows.iter().map(|(_, power)| *power).reduce(f64::min)?;
        // Coordinate descent from the flat board on: a factor stays 0 where the readings do not need it.
        let mut factors = [least, 0.0, 0.0, 0.0];
        for _ in 0..DESCENT_ROUNDS {
            for at in 0..FACTORS {
                let square: f64 = rows.iter().map(|(x, _)| x[at] * x[at]).sum();
                let slope: f64 = rows
                    .iter()
                    .map(|(x, power)| {
                        let predicted: f64 =
                            x.iter().zip(factors).map(|(x, factor)| x * factor).sum();
                        x[at] * (power - predicted)
                    })
                    .sum();
                factors[at] = (factors[at] + slope / square).max(0.0);
            }
        }
        Some(Self { factors, highest })
    }

    /// The idle power of a mode in mW.
    pub fn power_mw(&self, knobs: [u32; 4]) -> f64 {
        let terms = terms(knobs);
        let parts = (0..FACTORS).map(|at| self.factors[at] * terms[at] / self.highest[at]);
        parts.sum()
    }

    /// The line over the power under load that fits the modes of a model's front best.
    pub fn on_front(&self, model: &Model<'_>, grid: &Grid) -> Idle {
        let front = Front::<FRONT_POINTS>::from_model(model, &model.profiled(), Confidence::P50);
        let points: Vec<[f64; 2]> = front
            .points()
            .iter()
            .filter_map(|point| {
                let knobs = grid.mode(point.mode)?.knobs();
                let load = f64::from(point.power.0);
                Some([load, self.power_mw(knobs).min(load)])
            })
            .collect();
        let n = points.len().max(1) as f64;
        let [load, idle] = [0, 1].map(|column| points.iter().map(|it| it[column]).sum::<f64>() / n);
        let sum = |with: usize| -> f64 {
            let off = |it: &[f64; 2]| (it[0] - load) * (it[with] - [load, idle][with]);
            points.iter().map(off).sum()
        };
        let share = match sum(0) > 0.0 {
            true => (sum(1) / sum(0)).clamp(0.0, 0.99),
            false => 0.0,
        };
        // A line below 0 at no load would be too low between.
        let share = share.min(idle / load.max(1.0));
        Idle {
            base: Milliwatts((idle - share * load).max(0.0).round() as u32),
            share: (65_536.0 * share) as u16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(knobs: [u32; 4], power_mw: f64) -> IdleReading {
        IdleReading { knobs, power_mw }
    }

    #[test]
    fn a_board_of_the_formula_is_found_again() {
        let truth = |knobs: [u32; 4]| {
            let [_, cpu, gpu, emc] = terms(knobs);
            2_000.0 + 2e-7 * cpu + 4e-6 * gpu + 1e-6 * emc
        };
        let modes = [
            [2, 400_000, 100_000, 200_000],
            [8, 2_000_000, 100_000, 200_000],
            [2, 400_000, 1_300_000, 200_000],
            [2, 400_000, 100_000, 3_000_000],
            [8, 2_000_000, 1_300_000, 3_000_000],
        ];
        let fitted = OfModes::fit(&modes.map(|mode| reading(mode, truth(mode)))).expect("readings");
        for mode in [[4, 1_000_000, 500_000, 1_600_000], modes[0], modes[4]] {
            let ratio = fitted.power_mw(mode) / truth(mode);
            assert!((0.99..1.01).contains(&ratio), "{mode:?}: {ratio}");
        }
    }

    #[test]
    fn one_reading_holds_for_all_modes_and_none_says_nothing() {
        assert!(OfModes::fit(&[]).is_none());
        let fitted = OfModes::fit(&[reading([2, 400_000, 100_000, 200_000], 3_000.0)]);
        let fitted = fitted.expect("a reading");
        let power = fitted.power_mw([8, 2_000_000, 1_300_000, 3_000_000]);
        assert!((power - 3_000.0).abs() < 1.0, "{power}");
    }
}
