//! The command line: arguments, exit codes, and what each command prints.
//!
//! Results go to standard output, as text or with `--json` as one JSON document with a version;
//! progress and errors go to standard error.

mod ask_tell;
mod check;
mod fit;
pub mod inputs;
mod inspect;
pub mod pages;
mod plan;
mod predict;
mod select;
pub mod show;
mod todo;
pub mod values;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use thiserror::Error;
use wattgate_cli::aim::AimError;
use wattgate_cli::exit::{self, Failed, end};
use wattgate_cli::model::advice;
use wattgate_cli::planning::MOST_REFERENCES;
use wattgate_runtime::guard::GuardError;
use wattgate_runtime::region::ConstraintError;
use wattgate_runtime::shape::Shape;
use wattgate_runtime::{Confidence, FormatError, SelectError};

use crate::corpus::CorpusError;
use crate::fit::FitError;
use crate::learn::fleet::JoinError;
use crate::learn::gp::SingularCovariance;
use crate::learn::reference::{OwnReference, ReferenceError};
use crate::learn::split::{Sampling, SplitError};
use wattgate_cli::output::OutputError;

/// Learns the time and power of a workload in every power mode of a Jetson.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, after_help = after_help())]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Example:
  wattgate-trainer check tx1.csv
  wattgate-trainer fit tx1.csv --modes 50 -o model.wgt
  wattgate-trainer select model.wgt --limit 5W

To start from another workload or board, `fit` takes references (--reference). `wattgate-lab` compares methods, and
predicts networks that nobody ran.";

/// The end of the help of `completions`.
fn completions_help() -> String {
    let example = pages::example("wattgate-trainer");
    format!("{example}\n\nThe Debian package installs them for bash, fish and zsh.")
}

/// The end of the general help.
fn after_help() -> String {
    format!("{AFTER_HELP}\n\n{}", exit::TABLE.trim_end())
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Summarise corpora and report defects and outliers
    Check(check::Arguments),
    /// Train a model on a corpus and write it as a model file
    Fit(fit::Arguments),
    /// Choose the modes to profile
    Plan(plan::Arguments),
    /// Show the contents of a model file
    Inspect(inspect::Arguments),
    /// Print the predictions of a model file with their bounds
    Predict(predict::Arguments),
    /// Choose a power mode with a model file
    Select(select::Arguments),
    /// Print the completions of a shell
    #[command(after_help = completions_help())]
    Completions(pages::Completions),
    /// Write manual pages and completions for a package
    #[command(hide = true)]
    Pages(pages::Pages),
}

/// Why a command failed.
#[derive(Debug, Error)]
pub enum Failure {
    #[error("{0}")]
    Corpus(#[from] CorpusError),
    #[error("{}: {why}", path.display())]
    Fit { path: PathBuf, why: FitError },
    /// Corpora that are not of units of one board with one workload.
    #[error("{0}")]
    Join(JoinError),
    #[error("{place}: no minibatch of {asked}; {sizes}")]
    NoSize {
        place: String,
        asked: u32,
        sizes: String,
    },
    #[error(
        "several models: choose among their sizes with --minibatch any, or name one of the files"
    )]
    SeveralModels,
    #[error(
        "{}: a choice among {models} models takes a confidence of {of_each} from each, but {why}",
        path.display()
    )]
    SharedRisk {
        path: PathBuf,
        models: usize,
        of_each: Confidence,
        why: SelectError,
    },
    #[error("{}: {why}", path.display())]
    Incomparable { path: PathBuf, why: String },
    #[error("{0}")]
    Output(#[from] OutputError),
    #[error("{}: the output would replace an input; name another file with -o", path.display())]
    OutputIsInput { path: PathBuf },
    #[error(
        "{}: the file exists; name it as CORPUS as well, and the rows are added to it",
        path.display()
    )]
    Exists { path: PathBuf },
    #[error("{}: {why}", path.display())]
    Reference { path: PathBuf, why: ReferenceError },
    #[error("{0}")]
    OwnReference(OwnReference),
    #[error(
        "--reference: {found} references; at most {MOST_REFERENCES} can be used at once, name the most alike ones"
    )]
    ManyReferences { found: usize },
    #[error("{why}")]
    Plan { why: SingularCovariance },
    #[error(
        "--modes: cannot plan {asked} modes: the board has {available}; ask for 1 to {available}"
    )]
    PlanSize { asked: usize, available: usize },
    #[error("{}: {mode} is not a mode of the board: {why}", path.display())]
    NotOfBoard {
        path: PathBuf,
        mode: String,
        why: String,
    },
    /// A corpus that does not say how many cores its modes have.
    #[error(
        "{}: cores is blank, so nobody knows which modes of the board these are; write the number of cores that were online",
        path.display()
    )]
    NoCores { path: PathBuf },
    #[error("{}: {mode} is not a mode of the model: {why}", path.display())]
    NotOfModel {
        path: PathBuf,
        mode: String,
        why: String,
    },
    #[error("{0}")]
    Guard(#[from] GuardError),
    #[error("{0}")]
    Board(#[from] inputs::NoBoard),
    #[error("{}: {why}", path.display())]
    Todo { path: PathBuf, why: csv::Error },
    #[error("the board is not named: name it with --board, or its values with --axes")]
    BoardMissing,
    #[error("{0}")]
    Aim(#[from] AimError),
    #[error("{0}")]
    Page(#[from] pages::PageError),
    #[error("{}: cannot read: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: {why}; {}", path.display(), advice(why))]
    Model { path: PathBuf, why: FormatError },
    #[error("{0}")]
    Constraint(#[from] ConstraintError),
    #[error("{0}")]
    Select(#[from] SelectError),
    #[error("no mode fits: {needed}")]
    NoMode { needed: String },
    /// The results already list the defects.
    #[error("defects were found; correct or delete the rows that are named above")]
    Defects,
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

impl Failed for Failure {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Corpus(CorpusError::Io { .. })
            | Self::Output(_)
            | Self::Read { .. }
            | Self::Page(_)
            | Self::Print(_) => exit::OTHER,
            Self::Board(why) => why.exit_code(),
            Self::Constraint(_)
            | Self::NoMode { .. }
            | Self::Select(SelectError::OverLimit { .. } | SelectError::TooSlow { .. }) => {
                exit::LIMIT
            }
            Self::OutputIsInput { .. }
            | Self::NoSize { .. }
            | Self::SeveralModels
            | Self::Exists { .. }
            | Self::ManyReferences { .. }
            | Self::PlanSize { .. }
            | Self::NotOfModel { .. }
            | Self::BoardMissing
            | Self::Aim(_)
            | Self::Fit {
                why:
                    FitError::Split(
                        SplitError::ModesOutOfRange { .. } | SplitError::NothingHeldOut { .. },
                    ),
                ..
            } => exit::ARGUMENTS,
            Self::Corpus(CorpusError::Defect { .. })
            | Self::Join(_)
            | Self::SharedRisk { .. }
            | Self::Incomparable { .. }
            | Self::Fit { .. }
            | Self::Reference { .. }
            | Self::OwnReference(_)
            | Self::Plan { .. }
            | Self::NotOfBoard { .. }
            | Self::NoCores { .. }
            | Self::Todo { .. }
            | Self::Model { .. }
            | Self::Guard(_)
            | Self::Select(_)
            | Self::Defects => exit::INPUT,
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
    let result = match Arguments::parse().command {
        Command::Check(arguments) => check::run(&arguments),
        Command::Fit(arguments) => fit::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Predict(arguments) => predict::run(&arguments),
        Command::Select(arguments) => select::run(&arguments),
        Command::Completions(arguments) => pages::print_completions::<Arguments>(&arguments),
        Command::Pages(arguments) => pages::write_pages::<Arguments>(&arguments),
    };
    end(result)
}

/// The supported layer shapes as arguments.
#[derive(Clone, Copy, Debug)]
pub struct ShapeArgument(pub Shape);

impl ValueEnum for ShapeArgument {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: std::sync::OnceLock<Vec<ShapeArgument>> = std::sync::OnceLock::new();
        ALL.get_or_init(|| Shape::ALL.iter().copied().map(Self).collect())
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.to_string()))
    }
}

/// How training modes are chosen, as an argument.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum SamplingArgument {
    /// Drawn at random
    Random,
    /// Chosen by `plan`
    Planned,
}

impl From<SamplingArgument> for Sampling {
    fn from(argument: SamplingArgument) -> Self {
        match argument {
            SamplingArgument::Random => Self::Random,
            SamplingArgument::Planned => Self::Planned,
        }
    }
}

/// How often the bar is drawn again. Its clock moves during a long step, so that nobody thinks the program hangs.
const TICK: Duration = Duration::from_secs(1);

/// A progress bar on standard error, of the work that is done; hidden if standard error is not a terminal.
pub fn progress_bar(length: u64) -> ProgressBar {
    let style = "{msg:>9} [{bar:40}] {percent:>3} % of the work, {elapsed_precise}";
    let style = ProgressStyle::with_template(style).expect("a valid template");
    let bar = ProgressBar::new(length).with_style(style.progress_chars("=> "));
    bar.enable_steady_tick(TICK);
    bar
}

/// A progress bar that counts the bytes of a file.
pub fn reading_bar() -> ProgressBar {
    progress_bar(0).with_message("read")
}

/// Version of the JSON that every command prints. It rises when a key is removed, renamed or gets
/// another meaning; new keys do not raise it.
const JSON_VERSION: u32 = 1;

/// A JSON document as it is printed: the version, then the keys of the command.
#[derive(Serialize)]
struct Versioned<'a, T> {
    version: u32,
    #[serde(flatten)]
    result: &'a T,
}

/// The text of a JSON document.
pub fn json(result: &impl Serialize) -> Result<String, Failure> {
    let document = Versioned {
        version: JSON_VERSION,
        result,
    };
    let text = serde_json::to_string_pretty(&document).map_err(io::Error::from)?;
    Ok(format!("{text}\n"))
}

/// Prints a JSON document.
pub fn print_json(result: &impl Serialize) -> Result<(), Failure> {
    print_text(&json(result)?)
}

/// Prints a text.
pub fn print_text(text: &str) -> Result<(), Failure> {
    use io::Write;
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}
