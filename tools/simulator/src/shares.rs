//! Where the time of a step goes.
//!
//! The parts are counterfactual: the wait for the storage is what a step loses against one whose
//! samples are in the page cache, and preprocessing is what it then still loses against one whose
//! samples are ready.

use wattgate_board_tables::Board;

use crate::pipeline::{Clocks, Luck, Pipeline};
use crate::workload::{Reading, Workload};

/// The parts of a step in s. Their sum is the time of the step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// The GPU computes, or waits for launches.
    pub compute_s: f64,
    /// The main process copies the minibatch and prepares its launches.
    pub main_s: f64,
    /// The main process waits for workers that preprocess.
    pub preprocess_s: f64,
    /// The main process waits for workers that wait for the storage.
    pub storage_s: f64,
}

impl Shares {
    /// The parts of an average step.
    pub fn compute(board: &Board, workload: &Workload, clocks: Clocks) -> Self {
        let step =
            |workload: &Workload| Pipeline::new(board, workload, clocks).step(None, &Luck::NONE);
        let with = step(workload);
        let mut cached = workload.clone();
        cached.reading = Reading::default();
        let cached = step(&cached);
        // More traffic of other parts moves the fixed point a little.
        let storage_s = (with.period - cached.period).clamp(0.0, with.fetch);
        Self {
            compute_s: with.gpu,
            main_s: with.stall - with.fetch,
            preprocess_s: with.fetch - storage_s,
            storage_s,
        }
    }

    /// The time of the step in s.
    pub fn total_s(&self) -> f64 {
        self.compute_s + self.main_s + self.preprocess_s + self.storage_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{Epoch, STORAGES};

    #[test]
    fn the_parts_make_up_the_step() {
        let board = Board::named("xavier-agx").expect("known");
        let clocks = Clocks::from_knobs(&board, board.maxn());
        for workers in [0, 1, 4] {
            for storage in STORAGES {
                let workload = Workload::named("mobilenetv3").expect("shipped");
                let workload = workload.with_workers(workers).expect("a number");
                let workload = workload.stored_on(&storage, Epoch::First, &board);
                let workload = workload.expect("told");
                let shares = Shares::compute(&board, &workload, clocks);
                let period = Pipeline::new(&board, &workload, clocks)
                    .step(None, &Luck::NONE)
                    .period;
                assert!((shares.total_s() - period).abs() < 1e-9 * period);
                let parts = [
                    shares.compute_s,
                    shares.main_s,
                    shares.preprocess_s,
                    shares.storage_s,
                ];
                assert!(parts.iter().all(|part| *part >= 0.0), "{parts:?}");
                let waits = workers == 0 || storage.name == "hdd";
                assert!(
                    !waits || shares.storage_s > 0.0,
                    "{workers} {}",
                    storage.name
                );
                assert!(workers < 4 || shares.preprocess_s < 0.05 * period);
            }
        }
    }
}
