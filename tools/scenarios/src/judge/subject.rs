//! The board that is judged, and the true speed and power of its modes.

use std::path::Path;

use wattgate_board::Board as Discovered;
use wattgate_board_tables::Board;
use wattgate_runtime::{Axis, Grid, ModeId};
use wattgate_simulated_board::pipeline::Clocks;
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
            ..Clocks::of(self.board, knobs)
        };
        let mode = TimedMode::at(self.board, self.workload, clocks);
        Truth::of(&mode, self.board, &self.unit, None)
    }

    /// The power in W at which a mode settles.
    pub fn settled_w(&self, truth: &Truth) -> f64 {
        truth.settled_w(&self.board.physics().thermal, &self.unit, self.fan)
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
