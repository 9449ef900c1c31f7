//! Errors of the control language.

use thiserror::Error;

use super::super::errno::Errno;
use super::super::preset::NvpmodelError;
use crate::workload::WorkloadError;

/// Why a command is rejected or fails.
#[derive(Debug, Error)]
pub enum ControlError {
    #[error("unknown command `{word}`; `wattgate-simulator board --help` lists the commands")]
    UnknownCommand { word: String },
    #[error("missing {what}")]
    Missing { what: &'static str },
    #[error("`{word}` is one argument too many")]
    TooMuch { word: String },
    #[error("unknown rail `{rail}`; there are {}", known.join(", "))]
    UnknownRail { rail: String, known: Vec<String> },
    #[error(
        "unknown path `{path}`; name a file of the board, such as /sys/class/hwmon/hwmon0/curr1_input"
    )]
    UnknownPath { path: String },
    #[error("`{path}` is read-only")]
    ReadOnly { path: String },
    #[error("`{path}` has no fault to clear; `refuse` and `ignore` make faults")]
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
    #[error("`{word}` was not recorded; this board plays back `{recorded}` alone")]
    NotRecorded { word: String, recorded: String },
    #[error("{0}")]
    Workload(#[from] WorkloadError),
    #[error("{0}")]
    Nvpmodel(#[from] NvpmodelError),
    #[error("{path}: {errno}")]
    Refused { path: String, errno: Errno },
}
