//! What a real board did with a workload: a recorded board plays it back in place of the physics.
//!
//! A recording keeps, for each measured mode, the measured time and power over the simulated ones. In such a mode the
//! board has the measured time and, once its temperature has settled with the fan at full speed, the measured power.
//!
//! Between the measured modes the logarithms of both ratios are interpolated by inverse distances in the weights of
//! Franke and Little ("Scattered data interpolation", 1980): w = ((R - d) / (R d))² for each mode at a distance d below R,
//! where R is `REACH` times the distance of the `NEIGHBOURS`th nearest mode. The result is exact in each measured mode
//! and continuous between them. Distances are in the logarithms of cores and clocks, each from 0 at the least to
//! 1 at the greatest measured value. Beyond these the ratio is that of the nearest edge.
//!
//! | question | module |
//! |---|---|
//! | the rows of a corpus | [`corpus`] |
//! | the board that plays them back | [`board`] |

pub mod board;
pub mod corpus;

use wattgate_board_tables::Board;

use crate::heat::Heat;
use crate::pipeline::{Clocks, Luck, Pipeline};
use crate::power::{Activity, watts};
use crate::steady::AMBIENT_C;
use crate::unit::Unit;
use crate::workload::Workload;

pub use board::{RecordedBoard, RecordingError};

/// Number of measured modes whose distance sets how far the others count, and the least number in a recording.
pub const NEIGHBOURS: usize = 8;

/// Reach of the interpolation, in multiples of the distance of the last neighbour. Above 1, so that modes at equal distances,
/// as in the middle of a cell of a grid, all count.
const REACH: f64 = 1.5;

/// A measured mode that is nearer than this is the mode itself: the mean of equal clocks may have a rounding error.
const SAME: f64 = 1e-9;

/// Time and power of a mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Number of online cores, then CPU, GPU and memory clock in kHz.
    pub knobs: [u32; 4],
    /// Time of a step in s.
    pub seconds: f64,
    /// Settled power of the module in W.
    pub watts: f64,
}

/// A recorded time and power over the simulated ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Factor on the time.
    pub time: f64,
    /// Logarithm of the factor on the power.
    pub power_log: f64,
}

impl Ratio {
    /// That of a workload without a recording.
    pub const NONE: Self = Self {
        time: 1.0,
        power_log: 0.0,
    };
}

/// What a real board did with a workload.
#[derive(Debug)]
pub struct Recording {
    /// Logarithms of the least value of each knob, and the difference to that of the greatest; 0 for a knob that does not
    /// change.
    axes: [[f64; 2]; 4],
    modes: Vec<Place>,
}

/// A measured mode.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: [f64; 4],
    /// Logarithms of measured over simulated time and power.
    logs: [f64; 2],
}

impl Recording {
    /// The recording of at least [`NEIGHBOURS`] different modes, beside the physics of a workload without a recording on a
    /// board.
    pub fn new(board: &Board, workload: &Workload, modes: &[Measured]) -> Self {
        let axes = std::array::from_fn(|axis| {
            let logs = modes.iter().map(|mode| f64::from(mode.knobs[axis]).ln());
            let least = logs.clone().fold(f64::INFINITY, f64::min);
            [least, logs.fold(f64::NEG_INFINITY, f64::max) - least]
        });
        let place = |mode: &Measured| Place {
            at: place(&axes, mode.knobs.map(f64::from)),
            logs: logs(board, workload, mode),
        };
        Self {
            axes,
            modes: modes.iter().map(place).collect(),
        }
    }

    /// The ratios at some clocks.
    pub fn ratio(&self, clocks: &Clocks) -> Ratio {
        let khz = [clocks.cpu_ghz, clocks.gpu_ghz, clocks.emc_ghz].map(|ghz| 1e6 * ghz);
        let at = place(&self.axes, [clocks.cores, khz[0], khz[1], khz[2]]);
        let [time_log, power_log] = self.logs_at(&at);
        Ratio {
            time: time_log.exp(),
            power_log,
        }
    }

    fn logs_at(&self, at: &[f64; 4]) -> [f64; 2] {
        let distance = |mode: &Place| {
            let squares = mode.at.iter().zip(at).map(|(a, b)| (a - b).powi(2));
            squares.sum::<f64>().sqrt()
        };
        let mut near: Vec<(f64, [f64; 2])> = self
            .modes
            .iter()
            .map(|mode| (distance(mode), mode.logs))
            .collect();
        let last = NEIGHBOURS.min(near.len()) - 1;
        let (_, (furthest, _), _) = near.select_nth_unstable_by(last, |a, b| a.0.total_cmp(&b.0));
        let reach = REACH * *furthest;
        let (mut sums, mut all) = ([0.0; 2], 0.0);
        for (distance, logs) in near {
            if distance < SAME {
                return logs;
            }
            let weight = (1.0 / distance - 1.0 / reach).max(0.0).powi(2);
            all += weight;
            sums = [sums[0] + weight * logs[0], sums[1] + weight * logs[1]];
        }
        sums.map(|sum| sum / all)
    }
}

/// The place of a mode: each knob from 0 to 1.
fn place(axes: &[[f64; 2]; 4], knobs: [f64; 4]) -> [f64; 4] {
    std::array::from_fn(|axis| {
        let [least, span] = axes[axis];
        match span > 0.0 {
            true => ((knobs[axis].ln() - least) / span).clamp(0.0, 1.0),
            false => 0.0,
        }
    })
}

/// Logarithms of measured over simulated time and power. The simulated power is that of the measured pace at the temperature at
/// which the measured power settles, so that the board settles at the measured power.
fn logs(board: &Board, workload: &Workload, mode: &Measured) -> [f64; 2] {
    let clocks = Clocks::from_knobs(board, mode.knobs);
    let step = Pipeline::new(board, workload, clocks).step(None, &Luck::NONE);
    let time = mode.seconds / step.period;
    let activity = Activity::from_step(&step.slowed(time), clocks.cores);
    let die_c = Heat::settled(&board.physics().thermal, mode.watts, AMBIENT_C, 1.0).die_c;
    let simulated = watts(board, &Unit::NOMINAL, &clocks, &activity, die_c).total();
    [time.ln(), (mode.watts / simulated).ln()]
}
