//! The modes of a grid and the profiled modes of a corpus.

use wattgate_runtime::{Axis, Grid, PowerMode};

use crate::corpus::Corpus;

/// A profiled mode with the medians of its measurements, in the runtime's units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    /// Mode id in the grid of the corpus.
    pub id: usize,
    /// Cores, CPU, GPU and EMC clock in kHz.
    pub knobs: [u32; 4],
    /// Median time in µs.
    pub time_us: f64,
    /// Median power in mW; `None` if it was not measured.
    pub power_mw: Option<f64>,
    /// Whether several runs agree on them.
    pub is_confirmed: bool,
}

/// Runs of a mode agree if the largest value is at most this many times the least.
pub const AGREEMENT: f64 = 1.35;

fn agree(runs: &[f32]) -> bool {
    let least = runs.iter().copied().fold(f32::INFINITY, f32::min);
    let most = runs.iter().copied().fold(0.0, f32::max);
    runs.len() > 1 && f64::from(most) <= AGREEMENT * f64::from(least)
}

/// The modes of a corpus that have a time, in ascending order of the knobs.
pub fn profiled(corpus: &Corpus) -> Vec<Known> {
    let known = corpus.modes.iter().filter_map(|profile| {
        let id = corpus.grid.id(PowerMode::from_knobs(profile.knobs))?;
        Some(Known {
            id: usize::from(id.0),
            knobs: profile.knobs,
            time_us: 1e3 * profile.time()?,
            power_mw: profile.power(),
            is_confirmed: agree(&profile.times)
                && (profile.powers.is_empty() || agree(&profile.powers)),
        })
    });
    known.collect()
}

/// The knobs of every mode of a grid, in the order of the ids.
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
    use wattgate_runtime::ModeId;

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
}
