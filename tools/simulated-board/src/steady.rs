//! A workload that has run for a while: an average minibatch, and power at the temperature
//! that it leads to with the fan at its highest speed.

use crate::heat::Heat;
use crate::pipeline::{Clocks, Luck, Pipeline, Step};
use crate::power::{Activity, Watts, watts};
use crate::unit::Unit;
use crate::workload::Workload;
use wattgate_board_tables::Board;

/// The air around the board, in °C.
pub const AMBIENT_C: f64 = 25.0;

/// The steady state of a workload in a power mode.
#[derive(Clone, Copy, Debug)]
pub struct Steady {
    /// An average minibatch.
    pub step: Step,
    /// Power by domain.
    pub watts: Watts,
    /// Temperature of the die in °C.
    pub die_c: f64,
}

impl Steady {
    /// That of a workload at certain clocks.
    pub fn of(board: &Board, unit: &Unit, workload: &Workload, clocks: &Clocks) -> Self {
        let step = Pipeline::new(board, workload, *clocks).step(None, &Luck::NONE);
        let activity = Activity::of(&step, clocks.cores);
        let (watts, die_c) = settled(board, unit, clocks, &activity);
        Self { step, watts, die_c }
    }
}

/// Power and die temperature in °C when both have settled.
pub fn settled(board: &Board, unit: &Unit, clocks: &Clocks, activity: &Activity) -> (Watts, f64) {
    let thermal = &board.physics().thermal;
    let mut die_c = AMBIENT_C;
    let mut drawn = Watts::default();
    for _ in 0..20 {
        drawn = watts(board, unit, clocks, activity, die_c);
        die_c = Heat::settled(thermal, drawn.total(), AMBIENT_C, 1.0).die_c;
    }
    (drawn, die_c)
}
