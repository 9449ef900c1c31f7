//! The modes of a grid and the profiled modes of a corpus.

use wattgate_runtime::PowerMode;
use wattgate_runtime::grid::{Axis, Grid};

use crate::corpus::{Corpus, Profile, median};

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
    /// Whether at least two runs agree with them. A row that was copied is no second run.
    pub is_confirmed: bool,
}

/// A run agrees with the median of its mode if the larger of both is at most this many times the other.
pub const AGREEMENT: f64 = 1.35;

/// Whether at least two runs agree with their median.
pub fn agree(runs: impl IntoIterator<Item = f64>, median: f64) -> bool {
    let agrees = |run: &f64| (run / median).ln().abs() <= AGREEMENT.ln();
    runs.into_iter().filter(agrees).count() > 1
}

/// The modes of a corpus that have a time, in ascending order of the knobs.
pub fn profiled(corpus: &Corpus) -> Vec<Known> {
    let known = corpus.modes.iter().filter_map(|profile| {
        let id = corpus.grid.id(PowerMode::from_knobs(profile.knobs))?;
        let (time_ms, power_mw) = (profile.time()?, profile.power());
        Some(Known {
            id: usize::from(id.0),
            knobs: profile.knobs,
            time_us: 1e3 * time_ms,
            power_mw,
            is_confirmed: profile.times.len() > 1
                && (power_mw.is_none() || profile.powers.len() > 1)
                && (differ(&profile.times) || differ(&profile.powers)),
        })
    });
    known.collect()
}

fn differ(runs: &[f32]) -> bool {
    runs.iter().any(|run| *run != runs[0])
}

/// The lowest and the highest of several runs if no two of them agree with their median: then nothing tells which
/// value is right.
pub fn contradiction(runs: &[f32]) -> Option<[f64; 2]> {
    let all = || runs.iter().copied().map(f64::from);
    let median = median(runs)?;
    let ends = [all().fold(median, f64::min), all().fold(median, f64::max)];
    (runs.len() > 1 && !agree(all(), median)).then_some(ends)
}

/// The number of modes of which nothing tells which run is right.
pub fn disagreeing(corpus: &Corpus, runs: impl Fn(&Profile) -> &Vec<f32>) -> usize {
    let disagree = |mode: &&Profile| contradiction(runs(mode)).is_some();
    corpus.modes.iter().filter(disagree).count()
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
    fn a_mode_is_confirmed_by_two_runs_that_agree_with_the_median() {
        assert!(!agree([2.0], 2.0), "one run");
        assert!(agree([2.0, 2.1], 2.05));
        // One run read half of the true value. Two runs do not show which of them is wrong; of three, two agree.
        assert!(!agree([1.0, 2.0], 1.5));
        assert!(agree([1.0, 2.0, 2.0], 2.0));
        assert_eq!(contradiction(&[1.0]), None);
        assert_eq!(contradiction(&[2.0, 1.0]), Some([1.0, 2.0]));
        assert_eq!(contradiction(&[2.0, 1.0, 2.1]), None);
        assert_eq!(contradiction(&[4.0, 1.0, 2.0]), Some([1.0, 4.0]));
    }

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
