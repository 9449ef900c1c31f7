//! Step "profile": profiles a workload on a simulated board, or on one that plays back a measured corpus.

use std::path::Path;

use indicatif::ProgressBar;
use wattgate_board_tables::Board;
use wattgate_cli::output::AtomicFile;
use wattgate_judge::files::corpus;
use wattgate_simulated_board::corpus::csv;
use wattgate_simulated_board::profile::Profiler;
use wattgate_simulated_board::recording::RecordedBoard;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;
use wattgate_trainer::read::Corpus;

use super::error::DemoError;

/// The corpus of the recorded board, as a file of this repository. Its licence wants to be beside each copy.
const MEASURED: &str = include_str!("../../../trainer/corpora/tx1-image5000.csv");
const LICENCE: &str = include_str!("../../../trainer/corpora/LICENSE-translucence");

/// A board that plays back a measured corpus, and what was profiled on it.
pub struct Recorded {
    pub board: Board,
    pub workload: Workload,
    /// The corpus that is played back.
    pub measured: Corpus,
    /// The rows of a profiler on this board, with its noise, in the same modes.
    pub profiled: Corpus,
}

/// Profiles the recorded board in all measured modes. Writes the measured corpus with its licence, and the profiled one.
pub fn record(folder: &Path, seed: u64) -> Result<Recorded, DemoError> {
    let path = folder.join("tx1-image5000.csv");
    AtomicFile::create(&folder.join("LICENSE-translucence"))?.commit(LICENCE.as_bytes())?;
    AtomicFile::create(&path)?.commit(MEASURED.as_bytes())?;
    let measured = Corpus::read(&path, &ProgressBar::hidden())?;
    let recorded = RecordedBoard::new(&corpus::read(&path, None)?, None)?;
    let RecordedBoard {
        board, workload, ..
    } = recorded;
    let path = folder.join("tx1-profiled.csv");
    let profiled = simulate(&board, &workload, &recorded.measured, seed, &path)?;
    Ok(Recorded {
        board,
        workload,
        measured,
        profiled,
    })
}

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
