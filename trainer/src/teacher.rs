//! The teacher: a Gaussian process for log time and one for log power.
//!
//! It predicts every mode of the grid from the few that were profiled. Its predictions
//! are what the exported network learns.

use wattgate_runtime::{Axis, Grid};

use crate::gp::{GaussianProcess, Input, LeftOut, SingularKernel};
use crate::standard::Standard;

/// The exponent of the Box–Cox transform of a knob. Between the logarithm (0) and the
/// inverse square root (−½), which each win on some corpora; −¼ is never far behind.
const BOX_COX: f64 = -0.25;

/// A knob to a spread of one: Box–Cox transformed, then standardised over its axis.
struct Scale {
    highest: f64,
    standard: Standard,
}

impl Scale {
    fn of(axis: &[u32]) -> Self {
        let highest = axis.iter().copied().max().map_or(1.0, f64::from);
        let transformed = axis.iter().map(|&value| box_cox(value, highest));
        Self {
            highest,
            standard: Standard::of(transformed),
        }
    }

    fn apply(&self, value: u32) -> f64 {
        self.standard.apply(box_cox(value, self.highest))
    }
}

fn box_cox(value: u32, unit: f64) -> f64 {
    ((f64::from(value) / unit).powf(BOX_COX) - 1.0) / BOX_COX
}

/// How the process takes the modes of a grid.
pub struct Scales([Scale; 4]);

impl Scales {
    /// The scales of a grid.
    pub fn of(grid: &Grid) -> Self {
        Self(Axis::ALL.map(|axis| Scale::of(grid.axis(axis))))
    }

    /// The input of a mode given by its knobs.
    pub fn input(&self, knobs: [u32; 4]) -> Input {
        std::array::from_fn(|i| self.0[i].apply(knobs[i]))
    }
}

/// A process for the logarithm of one target.
#[derive(Clone, Debug)]
pub struct Teacher {
    process: GaussianProcess,
    /// Log of the target in every mode of the grid, by id.
    pub log_predictions: Vec<f64>,
}

impl Teacher {
    /// Learns a target from modes and their positive values, in random order.
    pub fn fit(grid: &Grid, modes: &[([u32; 4], f64)]) -> Result<Self, SingularKernel> {
        let scales = Scales::of(grid);
        let known: Vec<Input> = modes
            .iter()
            .map(|&(knobs, _)| scales.input(knobs))
            .collect();
        let targets: Vec<f64> = modes.iter().map(|&(_, value)| value.ln()).collect();
        let process = GaussianProcess::fit(&known, &targets)?;
        let all: Vec<Input> = all_modes(grid).map(|knobs| scales.input(knobs)).collect();
        Ok(Self {
            log_predictions: process.predict(&all),
            process,
        })
    }

    /// For each mode, in the order of the fit, what the others say of it.
    pub fn left_out(&self) -> &[LeftOut] {
        self.process.left_out()
    }
}

/// The knobs of every mode of a grid, by id.
pub fn all_modes(grid: &Grid) -> impl Iterator<Item = [u32; 4]> + Clone {
    let axis = |axis| grid.axis(axis).iter().copied();
    axis(Axis::Cores).flat_map(move |cores| {
        axis(Axis::Cpu).flat_map(move |cpu| {
            axis(Axis::Gpu)
                .flat_map(move |gpu| axis(Axis::Emc).map(move |emc| [cores, cpu, gpu, emc]))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattgate_runtime::{ModeId, PowerMode};

    #[test]
    fn modes_are_listed_by_id() {
        let grid = Grid::new([&[1, 2], &[10, 20, 30], &[5], &[7, 8]]).expect("a grid");
        let listed: Vec<_> = all_modes(&grid).collect();
        let by_id: Vec<_> = (0..grid.modes() as u16)
            .map(|id| {
                grid.mode(ModeId(id))
                    .map(PowerMode::knobs)
                    .expect("in range")
            })
            .collect();
        assert_eq!(listed, by_id);
    }

    #[test]
    fn inputs_have_a_spread_of_one_and_zero_on_a_constant_axis() {
        let grid = Grid::new([&[3], &[100, 200, 900], &[5, 6], &[7, 8]]).expect("a grid");
        let scales = Scales::of(&grid);
        let all: Vec<Input> = all_modes(&grid).map(|knobs| scales.input(knobs)).collect();
        let spread = |i: usize| all.iter().map(|x| x[i].powi(2)).sum::<f64>() / all.len() as f64;
        assert_eq!(spread(0), 0.0);
        for axis in 1..4 {
            assert!((spread(axis) - 1.0).abs() < 1e-9);
        }
    }
}
