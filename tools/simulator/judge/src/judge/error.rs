//! Why nothing can be judged.

use std::path::PathBuf;

use thiserror::Error;
use wattgate_cli::delimited::FileError;

use crate::replay::ReplayError;

/// Why nothing can be judged.
#[derive(Debug, Error)]
pub enum JudgeError {
    /// The board cannot boot, or the model cannot be used.
    #[error("{0}")]
    Replay(#[from] ReplayError),
    /// A trace or a corpus cannot be read.
    #[error("{0}")]
    File(#[from] FileError),
    /// The model is of another board.
    #[error("{}: the model's grid has {found}, which `{board}` lacks; name a model of this board", path.display())]
    OtherGrid {
        path: PathBuf,
        found: String,
        board: String,
    },
    /// No row of the corpus has a time and a power.
    #[error("{}: no row has a measurement; name a corpus with times or powers", path.display())]
    NoRow { path: PathBuf },
    /// Every mode of the model has been measured.
    #[error("{}: no mode is left to compare, since all have been measured; leave --measured out", path.display())]
    NoMode { path: PathBuf },
    /// The stretch is too short to have a mean.
    #[error(
        "from {from} s until {until} s: expected a stretch of at least 1 s; correct --from or --until"
    )]
    Stretch { from: f64, until: f64 },
    /// The trace is shorter than the stretch.
    #[error("{}: the trace ends at {end} s, expected {until} s; record for longer, or lower --until", path.display())]
    TooShort { path: PathBuf, end: f64, until: f64 },
}
