//! Simulated Jetsons on the command line: `wattgate-simulator COMMAND`. Exit codes are those of the
//! trainer.
#![forbid(unsafe_code)]

mod anchors;
mod board;
mod corpus;
mod load;
mod loads;
mod replay;
mod scenarios;

use std::io::{self, Write};
use std::process::ExitCode;

use lexopt::{Arg, Parser};
use thiserror::Error;

use wattgate_board_tables::BoardError;
use wattgate_cli::exit::{Failed, end};
use wattgate_cli::output::OutputError;
use wattgate_scenarios::replay::ReplayError;
use wattgate_simulated_board::anchors::AnchorError;
use wattgate_simulated_board::corpus::ModesError;
use wattgate_simulated_board::load::LoadError;
use wattgate_simulated_board::tree::mirror::MirrorError;
use wattgate_simulated_board::tree::nvpmodel::NvpmodelError;
use wattgate_simulated_board::workload::WorkloadError;

const USAGE: &str = "\
A simulated Jetson. Everything that it says is simulated, nothing is measured.

Usage: wattgate-simulator COMMAND

Commands:
  anchors  Published measurements of real boards beside the simulated ones
  corpus   Profile a simulated board and write the corpus
  board    Keep the files of a simulated board alive in a directory
  scenarios  Governors beside each other in simulated time
  load    Write a built-in load as a file
  replay  Replay a load from a file under a limit
  loads   Replay all built-in loads on several boards

`wattgate-simulator COMMAND --help` tells more.
";

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  2  the arguments are wrong
  3  an input file is defective, or an anchor is not met
  5  a file cannot be read or written
";

/// Why a command failed.
#[derive(Debug, Error)]
enum Failure {
    #[error("{0}")]
    Arguments(#[from] lexopt::Error),
    #[error("missing {0}")]
    Missing(&'static str),
    #[error("{option} is `{value}`, expected {expected}")]
    Value {
        option: &'static str,
        value: String,
        expected: &'static str,
    },
    #[error("{0}")]
    Board(#[from] BoardError),
    #[error("{0}")]
    Workload(#[from] WorkloadError),
    #[error("{0}")]
    Modes(#[from] ModesError),
    #[error("{0}")]
    Output(#[from] OutputError),
    #[error("--mode: {0}")]
    Mode(#[from] NvpmodelError),
    #[error("{0}")]
    Mirror(#[from] MirrorError),
    #[error("cannot wait for signals: {0}")]
    Signals(io::Error),
    #[error("{0}")]
    Scenario(io::Error),
    #[error("{0}")]
    Load(#[from] LoadError),
    #[error("{0}")]
    Replay(#[from] ReplayError),
    #[error("{0} anchors are not met")]
    Anchors(usize),
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

impl From<AnchorError> for Failure {
    fn from(error: AnchorError) -> Self {
        match error {
            AnchorError::Board(error) => Self::Board(error),
            AnchorError::Workload(error) => Self::Workload(error),
        }
    }
}

impl Failed for Failure {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Arguments(_)
            | Self::Missing(_)
            | Self::Value { .. }
            | Self::Board(_)
            | Self::Workload(WorkloadError::NoSuchWorkload { .. })
            | Self::Mode(_)
            | Self::Mirror(MirrorError::NotEmpty { .. })
            | Self::Replay(
                ReplayError::Board(_)
                | ReplayError::Boot(_)
                | ReplayError::Samples { .. }
                | ReplayError::ModelsWorkload { .. },
            )
            | Self::Modes(_) => 2,
            Self::Workload(WorkloadError::Defect { .. } | WorkloadError::Impossible { .. })
            | Self::Load(LoadError::Line { .. })
            | Self::Replay(
                ReplayError::Format { .. } | ReplayError::NoPower { .. } | ReplayError::Setup(_),
            )
            | Self::Anchors(_) => 3,
            Self::Workload(WorkloadError::Io { .. })
            | Self::Output(_)
            | Self::Mirror(_)
            | Self::Signals(_)
            | Self::Scenario(_)
            | Self::Load(LoadError::Io { .. })
            | Self::Replay(ReplayError::Model { .. } | ReplayError::Holder(_))
            | Self::Print(_) => 5,
        }
    }

    fn print_error(&self) -> Option<&io::Error> {
        match self {
            Self::Print(error) => Some(error),
            _ => None,
        }
    }
}

fn main() -> ExitCode {
    end(dispatch(Parser::from_env()))
}

fn dispatch(mut arguments: Parser) -> Result<(), Failure> {
    match arguments.next()? {
        Some(Arg::Value(command)) if command == "anchors" => anchors::run(arguments),
        Some(Arg::Value(command)) if command == "corpus" => corpus::run(arguments),
        Some(Arg::Value(command)) if command == "board" => board::run(arguments),
        Some(Arg::Value(command)) if command == "scenarios" => scenarios::run(arguments),
        Some(Arg::Value(command)) if command == "load" => load::run(arguments),
        Some(Arg::Value(command)) if command == "replay" => replay::run(arguments),
        Some(Arg::Value(command)) if command == "loads" => loads::run(arguments),
        Some(Arg::Short('h') | Arg::Long("help")) => print(&format!("{USAGE}\n{EXIT_CODES}")),
        Some(argument) => Err(argument.unexpected().into()),
        None => Err(Failure::Missing("a command; try --help")),
    }
}

fn print(text: &str) -> Result<(), Failure> {
    Ok(io::stdout().lock().write_all(text.as_bytes())?)
}

/// The boards and workloads, for the help of commands that take them.
fn lists() -> String {
    format!(
        "Boards: {}\nWorkloads: {}, or a file; workloads/ has those of this list\n",
        wattgate_board_tables::names().join(", "),
        wattgate_simulated_board::workload::names().join(", ")
    )
}
