//! A network as a workload: its kernel calls one after another, synchronised after each batch.

use wattgate_board_tables::Board;
use wattgate_kernels::Call;

use super::{GpuWork, LAUNCH_MISSES, Library, launch_kcycles, of_kernels};
use crate::unit::Unit;
use crate::workload::{Kernels, Workload};

/// The workload of some calls, which hold a whole batch. The launches of different kernels cost the CPU the same here: their mean.
pub fn network_of(name: String, calls: &[Call], board: &Board, unit: &Unit) -> Workload {
    let library = Library::for_board(board);
    let kernels: Vec<Kernels> = calls
        .iter()
        .map(|call| {
            let work = GpuWork::from_call(call, &library);
            Kernels {
                count: work.launches,
                mflop_per_sample: 1e-6 * work.flop,
                efficiency: work.efficiency,
                mb_per_sample: 0.0,
                mb: 1e-6 * work.bytes,
                blocks_per_sample: work.blocks,
            }
        })
        .collect();
    let launches: f64 = kernels.iter().map(|group| group.count).sum();
    let kcycles: f64 = calls.iter().map(|call| launch_kcycles(call.kind())).sum();
    of_kernels(
        name,
        kernels,
        unit.launch * kcycles / launches,
        LAUNCH_MISSES * calls.len() as f64 / launches,
    )
}
