//! The command line: commands, failures and their exit codes.

mod check;
mod hold;
mod learn;
mod observe;
mod options;
mod probe;
mod profile;
mod run;
mod shared;
mod site;
mod step;
mod workload;

use std::env;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::Parser;
use rustix::process::Pid;
use serde::Serialize;
use thiserror::Error;
use wattgate_board::{DiscoverError, SettableError};
use wattgate_cli::aim::AimError;
use wattgate_cli::arguments::Told;
use wattgate_cli::delimited::FileError;
use wattgate_cli::exit::{self, Failed, end};
use wattgate_cli::model::advice;
use wattgate_cli::output::OutputError;
use wattgate_cli::planning::LEAST_MODES;
use wattgate_cli::program::{Command, Does, Program};
use wattgate_probe::format::{OpenError, ProbeError};
use wattgate_runtime::grid::GridError;
use wattgate_runtime::{Confidence, FormatError};
use wattgate_watchdog::client::ClientError;
use wattgate_watchdog::config::ConfigError;
use wattgate_watchdog::lock::LockError;
use wattgate_watchdog::quantity::Placed;
use wattgate_watchdog::saved_state::SavedStateError;
use wattgate_watchdog::setup::SetupError;
use wattgate_watchdog::sudo_user::UserError;

use crate::name;
use crate::planner::PlannerError;
use crate::row::CorpusError;
use crate::session::SessionError;
use crate::steps::pattern::PatternError;
use crate::world::Exit;

const NOTES: &str = "\
Every command has --help.
";

/// Runs a command with the arguments that follow its name.
type Run = fn(Parser) -> Result<(), Failure>;

const PROGRAM: Program<Run> = Program {
    name: "wattgate",
    version: env!("CARGO_PKG_VERSION"),
    does: Does::Commands {
        about: "Learn the power of a workload on a Jetson, and hold a power limit while it runs",
        notes: NOTES,
        commands: &[
            Command::new("learn", learn::help, learn::run),
            Command::new("run", run::help, run::run),
            Command::new("status", shared::status_help, shared::status),
            Command::new("watch", shared::watch_help, shared::watch),
            Command::new("set-limit", shared::set_limit_help, shared::set_limit),
            Command::new("restore", shared::restore_help, shared::restore),
            Command::new("profile", profile::help, profile::run),
            Command::new("step", step::help, step::run),
            Command::new("check", check::help, check::run),
            Command::new("probe", probe::help, probe::run),
        ],
    },
};

/// Why a command failed.
#[derive(Debug, Error)]
pub enum Failure {
    #[error("{}", Told(.0))]
    Arguments(#[from] lexopt::Error),
    #[error("{0}")]
    Shared(#[from] wattgate_watchdog::cli::Failure),
    #[error("missing {0}")]
    Missing(&'static str),
    /// Without a config, the daemon has no model either.
    #[error("{0}")]
    User(#[from] UserError),
    #[error("{0}")]
    Aim(#[from] AimError),
    #[error("{option}: expected {expected}, found `{value}`")]
    Value {
        option: &'static str,
        value: String,
        expected: &'static str,
    },
    #[error("{0} and {1} exclude each other; give one of them")]
    Exclusive(&'static str, &'static str),
    #[error("--steps-from: {0}")]
    StepsFrom(#[from] PatternError),
    #[error("--modes: {0}{advice}", advice = match .0 {
        FileError::Io { .. } => "; expected a number, or a CSV file with the columns cores, cpu_khz, gpu_khz and emc_khz",
        FileError::Defect { .. } => "",
    })]
    Modes(FileError),
    #[error("{0}")]
    Board(#[from] DiscoverError),
    /// A board in a probe.
    #[error("{}: {why}", path.display())]
    Recorded { path: PathBuf, why: DiscoverError },
    #[error("the board's tables form no grid: {0}; report the board with `wattgate probe`")]
    Grid(#[from] GridError),
    #[error("{0}")]
    Settable(#[from] SettableError),
    #[error("{0}{advice}", advice = match .0 {
        LockError::Io { source, .. } => as_root(source),
        LockError::Held { .. } => "",
    })]
    Lock(#[from] LockError),
    #[error("{}: cannot be written: {source}{}", path.display(), as_root(source))]
    NotWritable { path: PathBuf, source: io::Error },
    #[error("{0}")]
    Daemon(#[from] ClientError),
    #[error("{0}{advice}", advice = match .0 {
        SavedStateError::Io { source, .. } => as_root(source),
        _ => "",
    })]
    SavedState(#[from] SavedStateError),
    #[error("{0}")]
    Session(#[from] SessionError),
    #[error("{0}")]
    Planner(#[from] PlannerError),
    #[error("{0}")]
    Corpus(#[from] CorpusError),
    #[error("--root: {}: {source}; expected the folder of a board's files", path.display())]
    Root { path: PathBuf, source: io::Error },
    #[error("{0}")]
    Probe(#[from] OpenError),
    #[error("{0}")]
    Output(#[from] OutputError),
    #[error(
        "{measured} modes were measured, a model needs {LEAST_MODES}: raise --modes or --limit; {} keeps \
         the rows",
        corpus.display()
    )]
    Few { measured: usize, corpus: PathBuf },
    /// No model of so many modes has the confidence that is asked for.
    #[error(
        "--modes: {asked} modes are too few: a model with a confidence of {confidence} needs {least}; ask for {least} or more"
    )]
    FewAsked {
        asked: usize,
        least: usize,
        confidence: Confidence,
    },
    #[error("{}: no model has a confidence of {confidence}; write at most 0.99", config.display())]
    Confidence {
        config: PathBuf,
        confidence: Confidence,
    },
    #[error("{workload} does not tell the name of the workload: name it with --name")]
    Unnamed { workload: String },
    #[error(
        "the workload tells the name `{told}`, but a name has {}: name it with --name",
        name::EXPECTED
    )]
    ToldName { told: String },
    #[error(
        "{}: the model is of `{}` on board `{}`, expected `{}` on `{}`; name another file with --model, or move this one away",
        path.display(), found[0], found[1], wanted[0], wanted[1]
    )]
    OtherModel {
        path: PathBuf,
        /// The workload and the board.
        found: [String; 2],
        wanted: [String; 2],
    },
    #[error("the model is not installed, since a daemon would refuse it: {why}; the rows are kept in {}", corpus.display())]
    Refused { why: String, corpus: PathBuf },
    #[error("{0}; its own output may say why")]
    Workload(Exit),
    /// The summary has told the figures.
    #[error(
        "the limit was not held: the summary above tells for how long; `wattgate learn` makes a model of this workload"
    )]
    Exceeded,
    #[error(
        "another client of the daemon has the board, so the daemon holds no limit; try again when it has ended"
    )]
    Yielded,
    #[error(
        "--model: {} is not in {}, where the daemon that runs looks for models; put it there",
        path.display(),
        folder.display()
    )]
    Folder { path: PathBuf, folder: PathBuf },
    /// Found before anything is measured.
    #[error("{}: cannot be written: {source}; name another file with {option}", path.display())]
    NotPrepared {
        path: PathBuf,
        source: io::Error,
        option: &'static str,
    },
    #[error("{0}")]
    Config(#[from] ConfigError),
    #[error("{0}")]
    Setup(#[from] SetupError),
    #[error(
        "no mode is within {limit}: the lowest needs {least}, with the guard band; raise --limit"
    )]
    Limit { limit: Placed, least: Placed },
    #[error("the planner's model: {0}; {advice}", advice = advice(.0))]
    Model(#[from] FormatError),
    #[error("{program}: cannot be started: {source}; name a program that is in PATH, or its path")]
    Start { program: String, source: io::Error },
    #[error("--attach: process {pid}: {source}; name a process that runs, and that you may signal")]
    Attach { pid: Pid, source: io::Error },
    #[error("--log: {}: {source}; name the file that the process writes its output to", path.display())]
    Log { path: PathBuf, source: io::Error },
    #[error("the socket for steps: {0}{advice}", advice = elsewhere(.0))]
    Socket(io::Error),
    #[error("cannot install signal handlers: {0}")]
    Signals(io::Error),
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

/// What to do about a socket that cannot be opened. An error of our own says it.
fn elsewhere(error: &io::Error) -> &'static str {
    match (error.kind(), as_root(error)) {
        (ErrorKind::Other, _) => "",
        (_, "") => "; name another path with --socket",
        (_, as_root) => as_root,
    }
}

/// What to do about a permission that is missing.
fn as_root(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::PermissionDenied => "; run wattgate as root",
        ErrorKind::ReadOnlyFilesystem => "; in a container, start it with --privileged",
        _ => "",
    }
}

impl Failed for Failure {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Arguments(_)
            | Self::Missing(_)
            | Self::Aim(_)
            | Self::Value { .. }
            | Self::Exclusive(..)
            | Self::Folder { .. }
            | Self::FewAsked { .. }
            | Self::Unnamed { .. }
            | Self::ToldName { .. }
            | Self::Confidence { .. }
            | Self::StepsFrom(_) => exit::ARGUMENTS,
            Self::Workload(exit) => exit.shell_code(),
            Self::Shared(why) => why.exit_code(),
            Self::Config(why) => why.exit_code(),
            Self::Setup(why) => why.exit_code(),
            Self::Daemon(why) => why.exit_code(),
            Self::Probe(OpenError {
                why: ProbeError::Unreadable(_),
                ..
            }) => exit::OTHER,
            Self::Modes(FileError::Defect { .. })
            | Self::Probe(_)
            | Self::Corpus(
                CorpusError::Defect { .. } | CorpusError::Other { .. } | CorpusError::NotFed { .. },
            )
            | Self::Grid(_)
            | Self::Settable(_)
            | Self::Few { .. }
            | Self::OtherModel { .. }
            | Self::Refused { .. }
            | Self::Model(_)
            | Self::Recorded { .. }
            | Self::Board(_) => exit::INPUT,
            Self::Session(SessionError::LimitTooLow { .. } | SessionError::Disobeys { .. })
            | Self::Limit { .. }
            | Self::Exceeded => exit::LIMIT,
            _ => exit::OTHER,
        }
    }

    fn print_error(&self) -> Option<&io::Error> {
        match self {
            Self::Print(error) => Some(error),
            Self::Shared(why) => why.print_error(),
            _ => None,
        }
    }

    fn argument_error(&self) -> Option<&lexopt::Error> {
        match self {
            Self::Arguments(error) => Some(error),
            Self::Shared(why) => why.argument_error(),
            _ => None,
        }
    }
}

/// Runs the program.
pub fn run() -> ExitCode {
    let arguments = env::args_os().skip(1).collect();
    end(PROGRAM.run(arguments, |run, arguments| run(arguments)))
}

/// Prints to stdout at once.
fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    Ok(stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())?)
}

/// Prints a line of JSON to stdout at once.
fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let line = serde_json::to_string(value).map_err(io::Error::from)?;
    print(&format!("{line}\n"))
}
