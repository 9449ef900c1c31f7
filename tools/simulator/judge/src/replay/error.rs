//! Why a load cannot be replayed.

use std::io;
use std::path::PathBuf;

use thiserror::Error;
use wattgate_board_tables::BoardError;
use wattgate_cli::model::advice;
use wattgate_runtime::FormatError;
use wattgate_simulated_board::tree::nvpmodel::NvpmodelError;
use wattgate_simulated_board::workload::WorkloadError;
use wattgate_watchdog::setup::SetupError;

/// Why a load cannot be replayed.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The model cannot be read.
    #[error("{}: cannot read: {source}", path.display())]
    Model { path: PathBuf, source: io::Error },
    /// The file is not a model.
    #[error("{}: {why}; {}", path.display(), advice(why))]
    Format { path: PathBuf, why: FormatError },
    /// The model predicts the time only.
    #[error("{}: the model does not predict power; name one that was trained with powers", path.display())]
    NoPower { path: PathBuf },
    /// The simulator does not have the workload of the model.
    #[error("{}: {why}; name another workload with --workload", path.display())]
    ModelsWorkload { path: PathBuf, why: WorkloadError },
    /// The board's driver cannot set the number of samples.
    #[error("--samples {samples}: the driver of `{board}` has a fixed number; leave --samples out")]
    Samples { board: String, samples: u32 },
    /// The board is unknown, or it cannot be simulated.
    #[error("{0}")]
    Board(#[from] BoardError),
    /// The board cannot boot in its nvpmodel mode.
    #[error("{0}")]
    Boot(#[from] NvpmodelError),
    /// The model does not fit the board.
    #[error("{0}")]
    Setup(#[from] SetupError),
    /// The holder has failed.
    #[error("{0}")]
    Holder(#[from] io::Error),
}
