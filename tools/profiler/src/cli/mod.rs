//! The command line: commands, failures and their exit codes.

mod profile;
mod step;
mod workload;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::{Arg, Parser};
use rustix::process::Pid;
use thiserror::Error;
use wattgate_board::{DiscoverError, SettableError};
use wattgate_cli::exit::{Failed, end};
use wattgate_runtime::GridError;
use wattgate_watchdog::lock::LockError;
use wattgate_watchdog::prior::PriorError;

use crate::planner::PlannerError;
use crate::row::CorpusError;
use crate::session::SessionError;
use crate::steps::pattern::PatternError;

const USAGE: &str = "\
Profile a running workload on a Jetson

Usage: wattgate COMMAND [options]

Commands:
  profile  Measure time and power of a step in a few power modes
  step     Tell that a shell script has done a step

Every command has --help.
";

/// Why a command failed.
#[derive(Debug, Error)]
pub enum Failure {
    #[error("{0}")]
    Arguments(#[from] lexopt::Error),
    #[error("missing {0}")]
    Missing(&'static str),
    #[error("{option}: expected {expected}, found `{value}`")]
    Value {
        option: &'static str,
        value: String,
        expected: &'static str,
    },
    #[error("{0} and {1} exclude each other")]
    Exclusive(&'static str, &'static str),
    #[error("--steps-from: {0}")]
    StepsFrom(#[from] PatternError),
    #[error("{}: {why}", path.display())]
    Modes { path: PathBuf, why: String },
    #[error("{0}")]
    Board(#[from] DiscoverError),
    #[error("the board shows no {0}, so its modes are not known")]
    NoAxis(&'static str),
    #[error("the board's tables: {0}")]
    Grid(#[from] GridError),
    #[error("{0}")]
    Settable(#[from] SettableError),
    #[error("{0}")]
    Lock(#[from] LockError),
    #[error("{0}")]
    Prior(#[from] PriorError),
    #[error("{0}")]
    Session(#[from] SessionError),
    #[error("{0}")]
    Planner(#[from] PlannerError),
    #[error("{0}")]
    Corpus(#[from] CorpusError),
    #[error("{program}: cannot be started: {source}")]
    Start { program: String, source: io::Error },
    #[error("process {pid}: {source}")]
    Attach { pid: Pid, source: io::Error },
    #[error("{}: {source}", path.display())]
    Log { path: PathBuf, source: io::Error },
    #[error("the socket for steps: {0}")]
    Socket(io::Error),
    #[error("cannot install signal handlers: {0}")]
    Signals(io::Error),
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

impl Failed for Failure {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Arguments(_)
            | Self::Missing(_)
            | Self::Value { .. }
            | Self::Exclusive(..)
            | Self::StepsFrom(_) => 2,
            Self::Modes { .. }
            | Self::Corpus(CorpusError::Defect { .. } | CorpusError::Other { .. })
            | Self::NoAxis(_)
            | Self::Grid(_)
            | Self::Settable(_)
            | Self::Board(_) => 3,
            Self::Session(SessionError::LimitTooLow { .. }) => 4,
            _ => 5,
        }
    }

    fn print_error(&self) -> Option<&io::Error> {
        match self {
            Self::Print(error) => Some(error),
            _ => None,
        }
    }
}

/// Runs the program.
pub fn run() -> ExitCode {
    end(command())
}

fn command() -> Result<(), Failure> {
    let mut parser = Parser::from_env();
    match parser.next()? {
        Some(Arg::Value(name)) if name == "profile" => profile::run(parser),
        Some(Arg::Value(name)) if name == "step" => step::run(parser),
        Some(Arg::Short('h') | Arg::Long("help")) => print(USAGE),
        Some(Arg::Value(name)) => Err(Failure::Value {
            option: "COMMAND",
            value: name.to_string_lossy().into_owned(),
            expected: "profile or step",
        }),
        Some(argument) => Err(argument.unexpected().into()),
        None => Err(Failure::Missing("COMMAND")),
    }
}

/// Prints to stdout at once.
fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    Ok(stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())?)
}
