//! Why the demo failed.

use std::io;
use std::path::PathBuf;

use thiserror::Error;
use wattgate_board_tables::BoardError;
use wattgate_cli::output::OutputError;
use wattgate_judge::files::corpus::ReadError;
use wattgate_judge::replay::ReplayError;
use wattgate_lab::compare::CompareError;
use wattgate_lab::methods::MethodError;
use wattgate_runtime::FormatError;
use wattgate_simulated_board::recording::RecordingError;
use wattgate_simulated_board::workload::WorkloadError;
use wattgate_trainer::fit::FitError;
use wattgate_trainer::read::CorpusError;
use wattgate_trainer::read::ReferenceError;

/// Why the demo failed.
#[derive(Debug, Error)]
pub enum DemoError {
    #[error("{}: cannot write: {source}; name a folder with -o", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("{0}")]
    Output(#[from] OutputError),
    #[error("{0}")]
    Board(#[from] BoardError),
    #[error("{0}")]
    Workload(#[from] WorkloadError),
    #[error("{0}")]
    Corpus(#[from] CorpusError),
    #[error("{0}")]
    Truth(#[from] ReadError),
    #[error("{0}")]
    Recording(#[from] RecordingError),
    #[error("{0}")]
    Fit(#[from] FitError),
    #[error("{0}")]
    Compare(#[from] CompareError),
    #[error("{0}")]
    Method(#[from] MethodError),
    #[error("{0}")]
    Reference(#[from] ReferenceError),
    #[error(
        "the runtime refuses the reference's model: {0}; this is a defect of wattgate, please report it"
    )]
    Model(#[from] FormatError),
    #[error("{0}")]
    Replay(#[from] ReplayError),
}
