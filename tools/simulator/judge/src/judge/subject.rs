//! The board that is judged, and the true speed and power of its modes.

use std::path::Path;

use wattgate_board::Board as Discovered;
use wattgate_board_tables::Board;
use wattgate_runtime::ModeId;
use wattgate_runtime::grid::{Axis, Grid};
use wattgate_simulated_board::pipeline::Clocks;
use wattgate_simulated_board::power::Activity;
use wattgate_simulated_board::steady::settled;
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;
use wattgate_watchdog::setup::SetupError;

use super::error::JudgeError;
use crate::recorded::RecordedTree;
use crate::replay::ReplayError;
use crate::replay::truth::{TimedMode, Truth};
use crate::replay::warmth::{Fan, Warmth};

/// A board with a workload.
#[derive(Debug)]
pub struct Subject<'a> {
    pub board: &'a Board,
    pub unit: Unit,
    pub workload: &'a Workload,
    pub fan: Fan,
    /// Temperatures and fan of the idle board, which has booted.
    pub booted: Warmth,
    /// Fraction of the TPCs that the mode of the boot leaves powered.
    tpcs: f64,
    discovered: Discovered,
}

/// A mode with its true speed and power.
#[derive(Clone, Copy, Debug)]
pub struct TrueMode {
    pub id: ModeId,
    pub knobs: [u32; 4],
    pub truth: Truth,
    /// The settled power in W.
    pub watts: f64,
}

impl<'a> Subject<'a> {
    /// A unit of a board that has booted in a mode of nvpmodel, or in its default mode.
    pub fn new(
        board: &'a Board,
        workload: &'a Workload,
        unit: Unit,
        boot: Option<u32>,
        fan: Fan,
    ) -> Result<Self, JudgeError> {
        let tree = Tree::new(board.clone(), unit, 0, boot).map_err(ReplayError::Boot)?;
        let jetson = tree.jetson();
        let booted = Warmth::new(jetson.heat(), fan);
        let tpcs = board.powered_tpcs(jetson.settings().tpc_pg_mask);
        let files = RecordedTree::new(tree);
        let discovered = Discovered::discover(&files, Path::new("/"));
        let discovered = discovered.map_err(|why| ReplayError::Setup(SetupError::Board(why)))?;
        Ok(Self {
            board,
            unit,
            workload,
            fan,
            booted,
            tpcs,
            discovered,
        })
    }

    /// The truth of a mode of the board's tables.
    pub fn truth(&self, knobs: [u32; 4]) -> Truth {
        let clocks = Clocks {
            tpcs: self.tpcs,
            ..Clocks::from_knobs(self.board, knobs)
        };
        let mode = TimedMode::at(self.board, self.workload, clocks);
        Truth::new(&mode, self.board, &self.unit, None)
    }

    /// The power in W at which a mode settles.
    pub fn settled_w(&self, truth: &Truth) -> f64 {
        truth.settled_w(&self.board.physics().thermal, &self.unit, self.fan)
    }

    /// The power in W at which the idle board, with a power-gated GPU, settles in a mode of the board's tables.
    pub fn idle_w(&self, knobs: [u32; 4]) -> f64 {
        let clocks = Clocks {
            tpcs: self.tpcs,
            ..Clocks::from_knobs(self.board, knobs)
        };
        let (watts, _) = settled(self.board, &self.unit, &clocks, &Activity::IDLE);
        watts.total()
    }

    /// All modes of a model's grid that the board can be set to.
    pub fn modes(&self, grid: &Grid, path: &Path) -> Result<Vec<TrueMode>, JudgeError> {
        for (axis, known) in Axis::ALL.into_iter().zip(self.board.axes()) {
            let mut values = grid.axis(axis).iter();
            if let Some(value) = values.find(|value| !known.contains(value)) {
                return Err(JudgeError::OtherGrid {
                    path: path.to_owned(),
                    found: match axis {
                        Axis::Cores => format!("{value} cores"),
                        Axis::Cpu => format!("a CPU clock of {value} kHz"),
                        Axis::Gpu => format!("a GPU clock of {value} kHz"),
                        Axis::Emc => format!("a memory clock of {value} kHz"),
                    },
                    board: self.board.name.clone(),
                });
            }
        }
        let settable = self.discovered.settable(grid).map_err(|why| {
            let path = path.to_owned();
            ReplayError::Setup(SetupError::Nothing { path, why })
        })?;
        let ids = (0..grid.modes()).map(|id| ModeId(id as u16));
        let modes = ids.filter_map(|id| {
            let mode = grid.mode(id).filter(|mode| settable.can_set(mode))?;
            let truth = self.truth(mode.knobs());
            Some(TrueMode {
                id,
                knobs: mode.knobs(),
                truth,
                watts: self.settled_w(&truth),
            })
        });
        Ok(modes.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use wattgate_simulated_board::machine::trace::Segment;

    /// Seconds after which die and heat sink have settled.
    const SETTLED_S: u64 = 2000;

    /// A unit of a board that has run a workload in MAXN; its trace, and its temperatures at the
    /// end.
    fn run(subject: &Subject<'_>, boot: u32) -> (Vec<Segment>, Warmth) {
        let tree = Tree::new(subject.board.clone(), subject.unit, 1, Some(boot));
        let mut tree = tree.expect("a mode");
        let jetson = tree.jetson_mut();
        jetson.set_workload(Some(subject.workload.clone()));
        jetson.keep_trace();
        tree.advance(Duration::from_secs(2 * SETTLED_S));
        let jetson = tree.jetson_mut();
        let warmth = Warmth::new(jetson.heat(), Fan::Automatic);
        (jetson.take_trace(), warmth)
    }

    /// On the AGX Orin the fan switches on and off, on the AGX Xavier it runs steadily.
    #[test]
    fn a_board_that_runs_on_has_the_settled_power_and_the_followed_temperature() {
        for (name, boot) in [("orin-agx-64", 0), ("xavier-agx", 0)] {
            let board = Board::named(name).expect("a board");
            let workload = Workload::named("mobilenetv3").expect("a workload");
            let unit = Unit::drawn(3);
            let fan = Fan::Automatic;
            let subject = Subject::new(&board, &workload, unit, Some(boot), fan);
            let subject = subject.expect("a board");
            let (trace, end) = run(&subject, boot);

            let start = trace.partition_point(|it| it.until.as_secs() < SETTLED_S);
            let (mut joules, mut seconds) = (0.0, 0.0);
            for pair in trace[start..].windows(2) {
                let length = (pair[1].until - pair[0].until).as_secs_f64();
                joules += length * pair[1].calm_watts;
                seconds += length;
            }
            let truth = subject.truth(board.maxn());
            let settled = subject.settled_w(&truth);
            let mean = joules / seconds;
            assert!(
                (mean / settled - 1.0).abs() < 0.003,
                "{name}: {mean}, {settled}"
            );
            let [first, last] = [&trace[start], trace.last().expect("a segment")];
            let rate =
                (last.minibatches - first.minibatches) / (last.until - first.until).as_secs_f64();
            assert!((rate / truth.rate - 1.0).abs() < 1e-9, "{name}: {rate}");

            let mut followed = subject.booted;
            followed.follow(&board.physics().thermal, &trace, last.until);
            let [found, expected] = [followed, end].map(|it| [it.heat.die_c, it.heat.sink_c]);
            for (found, expected) in found.into_iter().zip(expected) {
                assert!(
                    (found - expected).abs() < 0.5,
                    "{name}: {found}, {expected}"
                );
            }
        }
    }
}
