//! Why a board cannot be controlled with a config.

use std::io;
use std::path::PathBuf;

use thiserror::Error;
use wattgate_board::{BackstopError, DiscoverError, SettableError};
use wattgate_cli::exit;
use wattgate_cli::model::advice as model_advice;
use wattgate_runtime::FormatError;
use wattgate_runtime::grid::GridError;
use wattgate_runtime::guard::GuardError;

use crate::quantity::Cores;

/// Why a board cannot be controlled with a config.
#[derive(Debug, Error)]
pub enum SetupError {
    /// The model cannot be read.
    #[error("{}: the model cannot be read: {source}; `wattgate learn` makes one", path.display())]
    Model { path: PathBuf, source: io::Error },
    /// The file is not a valid model.
    #[error("{}: {why}; {}", path.display(), model_advice(why))]
    Format { path: PathBuf, why: FormatError },
    /// The model predicts time only.
    #[error("{}: the model does not predict power; train it on a corpus with powers", path.display())]
    NoPower { path: PathBuf },
    /// The model's data do not support the confidence.
    #[error("confidence: {0}")]
    Confidence(GuardError),
    /// The board cannot be discovered, for example because it has no power sensor.
    #[error("{0}")]
    Board(#[from] DiscoverError),
    /// The model was made for another board.
    #[error(
        "{}: the model is for `{device}`, but the board is `{board}`; profile the workload on this board (`wattgate learn`)",
        path.display()
    )]
    OtherBoard {
        path: PathBuf,
        device: String,
        board: &'static str,
    },
    /// The GPU has other TPCs than that of the board that was profiled: it draws another power.
    #[error(
        "{}: profiled with TPC_PG_MASK {profiled}, but the board has {board}: set the mode of nvpmodel that \
         was profiled, or profile the board as it is",
        path.display()
    )]
    OtherTpcs {
        path: PathBuf,
        profiled: u32,
        board: u32,
    },
    /// On some axis the model and the board have no value in common.
    #[error(
        "{}: {why}: the model is for another board or another L4T release; profile the workload again (`wattgate learn`)",
        path.display()
    )]
    Nothing { path: PathBuf, why: SettableError },
    /// The board's own tables make no grid.
    #[error("the board's tables: {0}; `wattgate probe` gathers them for a report")]
    Grid(#[from] GridError),
    /// The board can be set to none of its own modes.
    #[error("{0}; `wattgate probe` gathers the board's tables for a report")]
    Tables(SettableError),
    /// The limit is a current, but the board has no sensor for the module's input.
    #[error("limit: a current needs a sensor at the module's input, such as VDD_IN; set a power")]
    NoInput,
    /// The supply's meter is a sensor of the module itself.
    #[error(
        "supply: {} is of the sensor of the module's own rail {rail}; name a meter at the supply's input, or take the key out",
        path.display()
    )]
    MeterOfModule { path: PathBuf, rail: String },
    /// The config asks for the backstop, but the board cannot have it.
    #[error("backstop: {0}; take the key out, and the daemon holds the limit without it")]
    Backstop(#[from] BackstopError),
    /// The model has no mode with these numbers of cores on this board.
    #[error(
        "cores: no mode{} that the board supports has {}; there are {}",
        path.as_ref().map_or_else(String::new, |path| format!(" of {}", path.display())),
        cores.counted(),
        listed(exist)
    )]
    NoCores {
        path: Option<PathBuf>,
        cores: Cores,
        /// The numbers that there are, ascending.
        exist: Vec<u32>,
    },
    /// The board supports no mode of the region in which the model was profiled.
    #[error(
        "{}: the board supports no mode of the profiled region; profile the workload again (`wattgate learn`)",
        path.display()
    )]
    NotProfiled { path: PathBuf },
}

impl SetupError {
    /// The exit code of a program that fails by it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Model { .. } => exit::OTHER,
            Self::Confidence(_) => exit::ARGUMENTS,
            _ => exit::INPUT,
        }
    }
}

fn listed(numbers: &[u32]) -> String {
    let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
    numbers.join(", ")
}
