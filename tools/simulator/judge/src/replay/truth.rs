//! The true speed and power of a mode.

use wattgate_board_tables::{Board, Thermal};
use wattgate_simulated_board::heat::Heat;
use wattgate_simulated_board::machine::CRITICAL_C;
use wattgate_simulated_board::machine::mode_errors::ModeErrors;
use wattgate_simulated_board::pipeline::{Clocks, Luck, Pipeline, Step};
use wattgate_simulated_board::power::{Activity, Draw, leakage};
use wattgate_simulated_board::steady::AMBIENT_C;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;

use super::warmth::Fan;

/// Number of bisections to the settled temperature, which is then exact to 1 nK.
const BISECTIONS: usize = 40;

/// A mode with the times of an average minibatch in it on the nominal unit.
#[derive(Clone, Copy, Debug)]
pub struct TimedMode {
    clocks: Clocks,
    step: Step,
}

impl TimedMode {
    /// Times a workload's average minibatch in a mode with all TPCs.
    pub fn from_knobs(board: &Board, workload: &Workload, knobs: [u32; 4]) -> Self {
        Self::at(board, workload, Clocks::from_knobs(board, knobs))
    }

    /// Times a workload's average minibatch at some clocks.
    pub fn at(board: &Board, workload: &Workload, clocks: Clocks) -> Self {
        let step = Pipeline::new(board, workload, clocks).step(None, &Luck::NONE);
        Self { clocks, step }
    }
}

/// The true speed and power of a mode on a unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Truth {
    /// Minibatches a second.
    pub rate: f64,
    /// Power at rest in W: the fixed part, and the part that is multiplied by the leakage.
    pub(super) rest: [f64; 2],
    /// Power that full activity adds, in the same two parts.
    pub(super) added: [f64; 2],
}

impl Truth {
    /// The truth of a mode with planted errors.
    pub fn new(mode: &TimedMode, board: &Board, unit: &Unit, errors: Option<&ModeErrors>) -> Self {
        let TimedMode { clocks, step } = mode;
        let activity = Activity::from_step(step, clocks.cores).slowed(unit.time);
        let draw = |activity| Draw::new(board, unit, clocks, activity);
        let totals = |draw: Draw| [draw.fixed.total(), draw.leaking.total()];
        let (rest, work) = (totals(draw(&activity.at_rest())), totals(draw(&activity)));
        let factor = errors.map_or(1.0, |errors| errors.factor(board, clocks));
        Self {
            rate: 1.0 / (step.period * unit.time),
            rest,
            added: std::array::from_fn(|at| factor * (work[at] - rest[at])),
        }
    }

    /// The power in W at an activity and a leakage.
    pub(super) fn watts(&self, activity: f64, leakage: f64) -> f64 {
        let with_leakage = |[fixed, leaking]: [f64; 2]| fixed + leakage * leaking;
        with_leakage(self.rest) + activity * with_leakage(self.added)
    }

    /// Whether this mode is at least as fast as another one and draws no more power at any activity
    /// and temperature.
    pub(super) fn beats(&self, other: &Self) -> bool {
        let all = |truth: &Self| [truth.rest, truth.added];
        let pairs = all(self).into_iter().flatten();
        let mut pairs = pairs.zip(all(other).into_iter().flatten());
        self.rate >= other.rate && pairs.all(|(one, other)| one <= other)
    }

    /// The power in W at full activity that the mode settles at. Where the fan has no speed that keeps
    /// the die on its side of a threshold, the die stays at the threshold on average.
    pub fn settled_w(&self, thermal: &Thermal, unit: &Unit, fan: Fan) -> f64 {
        let watts = |die_c| self.watts(1.0, leakage(unit, die_c));
        let (mut cool_c, mut hot_c) = (AMBIENT_C, CRITICAL_C);
        for _ in 0..BISECTIONS {
            let die_c = f64::midpoint(cool_c, hot_c);
            let settled = Heat::settled(thermal, watts(die_c), AMBIENT_C, fan.speed(die_c));
            match settled.die_c > die_c {
                true => cool_c = die_c,
                false => hot_c = die_c,
            }
        }
        watts(hot_c)
    }
}
