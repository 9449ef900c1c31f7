//! Why a command is not obeyed.

use thiserror::Error;

use super::super::errno::Errno;
use super::super::preset::NvpmodelError;
use crate::workload::WorkloadError;

/// Why a command is not obeyed.
#[derive(Debug, Error)]
pub enum ControlError {
    #[error("unknown command `{word}`")]
    UnknownCommand { word: String },
    #[error("missing {what}")]
    Missing { what: &'static str },
    #[error("`{word}` is too much")]
    TooMuch { word: String },
    #[error("unknown rail `{rail}`; there are {}", known.join(", "))]
    UnknownRail { rail: String, known: Vec<String> },
    #[error("unknown path `{path}`")]
    UnknownPath { path: String },
    #[error("`{path}` cannot be written")]
    ReadOnly { path: String },
    #[error("`{path}` has no fault")]
    NoFault { path: String },
    #[error("`{word}`, expected {expected}")]
    UnknownWord {
        word: String,
        expected: &'static str,
    },
    #[error("{what} is `{word}`, expected {least} … {most}")]
    OutOfRange {
        what: &'static str,
        word: String,
        least: f64,
        most: f64,
    },
    #[error("{0}")]
    Workload(#[from] WorkloadError),
    #[error("{0}")]
    Nvpmodel(#[from] NvpmodelError),
    #[error("{path}: {errno}")]
    Refused { path: String, errno: Errno },
}
