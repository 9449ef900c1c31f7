//! A model's file: its workload, and the true times of the modes in its grid.

use std::fs;
use std::path::Path;

use wattgate_board::Board as Discovered;
use wattgate_board_tables::Board;
use wattgate_runtime::Model;
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;
use wattgate_watchdog::setup::SetupError;

use super::error::ReplayError;
use super::truth::TimedMode;
use crate::recorded::RecordedTree;

/// The bytes of a model's file.
pub fn read_model(path: &Path) -> Result<Vec<u8>, ReplayError> {
    fs::read(path).map_err(|source| ReplayError::Model {
        path: path.to_owned(),
        source,
    })
}

/// The model in the bytes of a file. It has to predict power.
pub fn parse<'a>(path: &Path, bytes: &'a [u8]) -> Result<Model<'a>, ReplayError> {
    let model = Model::parse(bytes).map_err(|why| ReplayError::Format {
        path: path.to_owned(),
        why,
    })?;
    match model.has_power() {
        true => Ok(model),
        false => Err(ReplayError::NoPower {
            path: path.to_owned(),
        }),
    }
}

/// The workload of which a model was made.
pub fn workload_of(path: &Path) -> Result<Workload, ReplayError> {
    let bytes = read_model(path)?;
    let model = parse(path, &bytes)?;
    let provenance = model.provenance().map_err(|why| ReplayError::Format {
        path: path.to_owned(),
        why,
    })?;
    let workload = Workload::named(provenance.workload);
    let workload = workload.and_then(|workload| match provenance.minibatch {
        Some(minibatch) => workload.with_minibatch(minibatch),
        None => Ok(workload),
    });
    workload.map_err(|why| ReplayError::ModelsWorkload {
        path: path.to_owned(),
        why,
    })
}

/// The true times of all modes in a model's profiled grid that the board can set. They depend on
/// board, model and workload alone: compute them once for many runs.
pub fn timed_modes(
    board: &Board,
    path: &Path,
    workload: &Workload,
) -> Result<Vec<TimedMode>, ReplayError> {
    let bytes = read_model(path)?;
    let model = parse(path, &bytes)?;
    let tree = Tree::new(board.clone(), Unit::NOMINAL, 0, None)?;
    let files = RecordedTree::new(tree);
    let found = Discovered::discover(&files, Path::new("/")).map_err(SetupError::Board)?;
    let settable = found.settable(model.grid()).map_err(|why| {
        let path = path.to_owned();
        SetupError::Nothing { path, why }
    })?;
    let mut modes = Vec::new();
    model.sweep(&model.profiled(), |id, _| {
        let mode = model.grid().mode(id).filter(|mode| settable.can_set(mode));
        modes.extend(mode.map(|mode| TimedMode::from_knobs(board, workload, mode.knobs())));
    });
    Ok(modes)
}
