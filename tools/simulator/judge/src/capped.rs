//! What clocks that Linux lowers cost and gain beside pinned ones: the same modes, set both ways on a simulated board.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use wattgate_board::{Board as Discovered, Clocks};
use wattgate_board_tables::Board;
use wattgate_runtime::PowerMode;
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;
use wattgate_watchdog::setup::SetupError;

use crate::fleet::{boot, unbeaten};
use crate::judge::{JudgeError, Subject};
use crate::parallel::on_all_cores;
use crate::recorded::RecordedTree;
use crate::replay::ReplayError;
use crate::replay::warmth::Fan;

/// Time in which clocks and temperatures settle in a mode, and over which it is measured.
const SETTLING_TIME: Duration = Duration::from_secs(30);
const MEASURED_TIME: Duration = Duration::from_secs(10);

/// A mode with its clocks pinned, and with its clocks as ceilings.
#[derive(Clone, Debug, Serialize)]
pub struct Capped {
    pub board: String,
    pub workload: String,
    /// Cores, CPU, GPU and EMC clock in kHz.
    pub mode: [u32; 4],
    pub pinned: Figures,
    pub capped: Figures,
}

/// How a mode runs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Time of a step in ms.
    pub time_ms: f64,
    /// Power under load, and of the idle board, in W.
    pub power_w: f64,
    pub idle_w: f64,
}

/// Runs modes of a workload's true front both ways: so many, from the slowest to the fastest.
pub fn capped(board: &Board, workload: &Workload, modes: usize) -> Result<Vec<Capped>, JudgeError> {
    let subject = Subject::new(board, workload, Unit::NOMINAL, boot(board), Fan::Full)?;
    let front = unbeaten(&subject)?;
    let last = front.len().saturating_sub(1);
    let chosen: Vec<[u32; 4]> = (0..modes)
        .map(|at| last - at * last / modes.saturating_sub(1).max(1))
        .filter_map(|at| front.get(at))
        .map(|mode| mode.knobs)
        .collect();
    on_all_cores(&chosen, |mode| {
        let figures = |clocks| -> Result<Figures, JudgeError> {
            let [power_w, rate] = run(board, Some(workload), *mode, clocks)?;
            let [idle_w, _] = run(board, None, *mode, clocks)?;
            Ok(Figures {
                time_ms: 1e3 / rate,
                power_w,
                idle_w,
            })
        };
        Ok(Capped {
            board: board.name.clone(),
            workload: workload.name.clone(),
            mode: *mode,
            pinned: figures(Clocks::Pin)?,
            capped: figures(Clocks::Cap)?,
        })
    })
}

/// Mean true power in W, and steps a second, in a mode.
fn run(
    board: &Board,
    workload: Option<&Workload>,
    mode: [u32; 4],
    clocks: Clocks,
) -> Result<[f64; 2], JudgeError> {
    let tree = Tree::new(board.clone(), Unit::NOMINAL, 0, boot(board));
    let mut tree = tree.map_err(ReplayError::Boot)?;
    tree.jetson_mut().set_workload(workload.cloned());
    tree.jetson_mut().follow_load();
    let mut files = RecordedTree::new(tree);
    let discovered = Discovered::discover(&files, Path::new("/"));
    let mut discovered = discovered.map_err(|why| ReplayError::Setup(SetupError::Board(why)))?;
    discovered.set_clocks(clocks);
    let set = discovered.apply(&mut files, &PowerMode::from_knobs(mode));
    set.map_err(|why| ReplayError::Holder(std::io::Error::other(why)))?;
    files.until(files.now() + SETTLING_TIME);
    let seen = |files: &mut RecordedTree| {
        let jetson = files.tree().jetson();
        [jetson.energy_j(), jetson.minibatches()]
    };
    let before = seen(&mut files);
    files.until(files.now() + MEASURED_TIME);
    let after = seen(&mut files);
    Ok([0, 1].map(|quantity| (after[quantity] - before[quantity]) / MEASURED_TIME.as_secs_f64()))
}
