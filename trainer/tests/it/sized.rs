//! A simulated workload that is profiled with several minibatch sizes.

use std::path::Path;

use wattgate_board_tables::Board;
use wattgate_simulated_board::corpus::{Feeding, fed_csv};
use wattgate_simulated_board::pipeline::Clocks;
use wattgate_simulated_board::profile::Profiler;
use wattgate_simulated_board::steady::Steady;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;

/// A workload on a board, profiled with some sizes.
pub struct Sized {
    pub board: Board,
    pub workload: Workload,
    pub workers: u32,
}

impl Sized {
    pub fn new(board: &str, workload: &str) -> Self {
        let workload = Workload::named(workload).expect("shipped");
        Self {
            board: Board::named(board).expect("known"),
            workers: workload.loader.workers,
            workload,
        }
    }

    pub fn with(&self, minibatch: u32) -> (Feeding, Workload) {
        let feeding = Feeding {
            minibatch,
            workers: self.workers,
            storage: None,
        };
        let workload = feeding.apply(&self.workload, &self.board);
        (feeding, workload.expect("it fits"))
    }

    /// Writes a corpus of sizes, each with some modes.
    pub fn profile(&self, folder: &Path, sizes: &[(u32, &[[u32; 4]])]) {
        let runs: Vec<_> = sizes
            .iter()
            .map(|&(size, modes)| {
                let (feeding, workload) = self.with(size);
                let mut profiler = Profiler::new(&self.board, Unit::NOMINAL, &workload, 1);
                (feeding, profiler.profile_all(modes))
            })
            .collect();
        let text = fed_csv(&self.board, &Unit::NOMINAL, &self.workload.name, &runs);
        std::fs::write(folder.join("sizes.csv"), text).expect("written");
    }

    /// The true time of a sample in ms and power in W.
    pub fn truth(&self, size: u32, knobs: [u32; 4]) -> [f64; 2] {
        let (_, workload) = self.with(size);
        let clocks = Clocks::from_knobs(&self.board, knobs);
        let steady = Steady::compute(&self.board, &Unit::NOMINAL, &workload, &clocks);
        [
            1e3 * steady.step.period / f64::from(size),
            steady.watts.total(),
        ]
    }
}
