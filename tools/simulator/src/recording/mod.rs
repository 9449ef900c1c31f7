//! What a real board did with a workload: a recorded board plays it back in place of the physics.
//!
//! A recording keeps, for each measured mode, the measured time and power over the simulated ones. In such a mode the
//! board has the measured time and, once its temperature has settled with the fan at full speed, the measured power.
//!
//! | question | module |
//! |---|---|
//! | the ratios between the measured modes | [`interpolation`] |
//! | the rows of a corpus | [`corpus`] |
//! | the board that plays them back | [`board`] |

pub mod board;
pub mod corpus;
pub mod interpolation;

use wattgate_board_tables::Board;

use crate::heat::Heat;
use crate::pipeline::{Clocks, Luck, Pipeline};
use crate::power::{Activity, watts};
use crate::steady::AMBIENT_C;
use crate::unit::Unit;
use crate::workload::Workload;

pub use board::{RecordedBoard, RecordingError};
use interpolation::Recording;

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

/// The recording of measured modes, beside the physics of a workload without a recording on a board.
pub fn record(board: &Board, workload: &Workload, modes: &[Measured]) -> Recording {
    let modes: Vec<_> = modes
        .iter()
        .map(|mode| (mode.knobs, logs(board, workload, mode)))
        .collect();
    Recording::new(&modes)
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
