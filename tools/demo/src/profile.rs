//! Step "profile": profiles a workload on the simulated board.

use std::path::Path;

use indicatif::ProgressBar;
use wattgate_board_tables::Board;
use wattgate_cli::output::AtomicFile;
use wattgate_simulated_board::corpus::csv;
use wattgate_simulated_board::profile::Profiler;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;
use wattgate_trainer::read::Corpus;

use super::error::DemoError;

/// Profiles modes of a nominal board, writes the corpus and reads it back from its file.
pub fn simulate(
    board: &Board,
    workload: &Workload,
    modes: &[[u32; 4]],
    seed: u64,
    path: &Path,
) -> Result<Corpus, DemoError> {
    let file = AtomicFile::create(path)?;
    let mut profiler = Profiler::new(board, Unit::NOMINAL, workload, seed);
    let profiles = profiler.profile_all(modes);
    file.commit(csv(board, &Unit::NOMINAL, workload, &profiles).as_bytes())?;
    Ok(Corpus::read(path, &ProgressBar::hidden())?)
}
