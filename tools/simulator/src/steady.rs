//! The steady state of a workload: an average minibatch, and the power at the settled
//! temperature with the fan at full speed.

use crate::heat::Heat;
use crate::pipeline::{Clocks, Luck, Pipeline, Step};
use crate::power::{Activity, Draw, Watts, leakage};
use crate::unit::Unit;
use crate::workload::Workload;
use wattgate_board_tables::Board;

/// Ambient temperature in °C.
pub const AMBIENT_C: f64 = 25.0;

/// The steady state of a workload in a power mode.
#[derive(Clone, Copy, Debug)]
pub struct Steady {
    /// An average minibatch.
    pub step: Step,
    /// Power by domain.
    pub watts: Watts,
    /// Die temperature in °C.
    pub die_c: f64,
}

impl Steady {
    /// Computes the steady state of a workload at fixed clocks.
    pub fn compute(board: &Board, unit: &Unit, workload: &Workload, clocks: &Clocks) -> Self {
        let step = Pipeline::new(board, workload, *clocks).step(None, &Luck::NONE);
        let activity = Activity::from_step(&step, clocks.cores);
        let (watts, die_c) = settled(board, unit, clocks, &activity);
        Self { step, watts, die_c }
    }
}

/// Power of an idle board with a logger. With DVFS all cores are online at the lowest clocks and the GPU
/// is off; without, all clocks are at their maximum.
pub fn idle(board: &Board, unit: &Unit, dvfs: bool) -> Watts {
    let at = |knobs| Clocks::from_knobs(board, knobs);
    let (clocks, gpu_on) = if dvfs {
        let [_, lowest @ ..] = board.axes().map(|axis| axis[0]);
        let [cpu, gpu, emc] = lowest;
        (at([board.cores(), cpu, gpu, emc]), false)
    } else {
        (at(board.maxn()), true)
    };
    let activity = Activity {
        gpu_on,
        ..Activity::IDLE
    };
    settled(board, unit, &clocks, &activity).0
}

/// Iterates power and die temperature to a fixed point, because leakage depends on temperature.
/// Returns both; the temperature is in °C.
pub fn settled(board: &Board, unit: &Unit, clocks: &Clocks, activity: &Activity) -> (Watts, f64) {
    let thermal = &board.physics().thermal;
    let draw = Draw::new(board, unit, clocks, activity);
    let mut die_c = AMBIENT_C;
    let mut drawn = Watts::default();
    for _ in 0..20 {
        drawn = draw.at(leakage(unit, die_c));
        die_c = Heat::settled(thermal, drawn.total(), AMBIENT_C, 1.0).die_c;
    }
    (drawn, die_c)
}
