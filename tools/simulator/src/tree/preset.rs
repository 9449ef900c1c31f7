//! Modes of nvpmodel, by id.

use thiserror::Error;
use wattgate_board_tables::{Board, Preset};

/// Why the mode is not changed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NvpmodelError {
    /// No mode has this id.
    #[error("unknown mode {id}; there are {}", known.join(", "))]
    UnknownMode { id: u32, known: Vec<String> },
    /// The masks differ, so a reboot is needed. Standard input is closed, so the prompt gets no
    /// answer.
    #[error("Reboot required for changing to this power mode: {id}; NVPM ERROR: bad input!")]
    RebootRequired { id: u32 },
}

/// The mode of a board with this id, or its boot default.
pub fn mode(board: &Board, id: Option<u32>) -> Result<&Preset, NvpmodelError> {
    let wanted = |mode: &&Preset| match id {
        Some(id) => mode.id == id,
        None => mode.default,
    };
    let found = board.modes.iter().find(wanted);
    let found = found.or_else(|| board.modes.first().filter(|_| id.is_none()));
    found.ok_or_else(|| NvpmodelError::UnknownMode {
        id: id.unwrap_or(0),
        known: board
            .modes
            .iter()
            .map(|mode| format!("{} {}", mode.id, mode.name))
            .collect(),
    })
}
