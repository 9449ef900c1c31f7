//! The command line: arguments, exit codes, and what each command prints.
//!
//! Results go to standard output, as text or with `--json` as one JSON document; progress
//! and errors go to standard error.

mod check;
mod evaluate;
mod fit;
mod inspect;
mod select;
mod show;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

use clap::{Parser, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use thiserror::Error;
use wattgate_runtime::{ConstraintError, FormatError, Model, SelectError, Shape};

use crate::corpus::{Corpus, CorpusError};
use crate::fit::FitError;
use crate::output::OutputError;

/// Learns time and power of a workload for every power mode of a Jetson.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Example:
  wattgate-trainer check tx1.csv
  wattgate-trainer fit --corpus tx1.csv --modes 50 -o model.wgt
  wattgate-trainer select --weights model.wgt --limit 5W

Exit codes:
  0  done
  2  the arguments are wrong
  3  an input file is defective, or is not enough for what was asked
  4  no mode fits the query
  5  a file cannot be read or written";

#[derive(Debug, Subcommand)]
enum Command {
    /// Report what corpora hold and what in them is suspect
    Check(check::Arguments),
    /// Train a model on a corpus and write it as a model file
    Fit(fit::Arguments),
    /// Train on many random choices of modes and report the errors on the others
    Evaluate(evaluate::Arguments),
    /// Show what a model file holds
    Inspect(inspect::Arguments),
    /// Ask a model file which power mode to take
    Select(select::Arguments),
}

/// Why a command failed.
#[derive(Debug, Error)]
enum Failure {
    #[error("{0}")]
    Corpus(#[from] CorpusError),
    #[error("{}: {why}", path.display())]
    Fit { path: PathBuf, why: FitError },
    #[error("{0}")]
    Output(#[from] OutputError),
    #[error("{}: the output would replace the corpus", path.display())]
    OutputIsCorpus { path: PathBuf },
    #[error("{}: cannot read: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: {why}", path.display())]
    Model { path: PathBuf, why: FormatError },
    #[error("{0}")]
    Constraint(#[from] ConstraintError),
    #[error("{0}")]
    Select(#[from] SelectError),
    /// Already reported as a result.
    #[error("defects were found")]
    Defects,
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

impl Failure {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Corpus(CorpusError::Io { .. })
            | Self::Output(_)
            | Self::Read { .. }
            | Self::Print(_) => 5,
            Self::Constraint(_)
            | Self::Select(SelectError::OverLimit { .. } | SelectError::TooSlow { .. }) => 4,
            Self::OutputIsCorpus { .. }
            | Self::Fit {
                why:
                    FitError::ModesOutOfRange { .. }
                    | FitError::TooManyModes { .. }
                    | FitError::NothingHeldOut { .. },
                ..
            } => 2,
            Self::Corpus(CorpusError::Defect { .. })
            | Self::Fit { .. }
            | Self::Model { .. }
            | Self::Select(_)
            | Self::Defects => 3,
        }
    }
}

/// Runs the program.
pub fn run() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Check(arguments) => check::run(&arguments),
        Command::Fit(arguments) => fit::run(&arguments),
        Command::Evaluate(arguments) => evaluate::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Select(arguments) => select::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has gone, as `head` does: nothing is left to tell it.
        Err(Failure::Print(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

/// The supported layer shapes as arguments.
#[derive(Clone, Copy, Debug)]
struct ShapeArgument(Shape);

impl ValueEnum for ShapeArgument {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: std::sync::OnceLock<Vec<ShapeArgument>> = std::sync::OnceLock::new();
        ALL.get_or_init(|| Shape::ALL.iter().copied().map(Self).collect())
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.to_string()))
    }
}

/// A bar on standard error for work of more than two seconds; hidden where standard error
/// is no terminal.
fn progress_bar(length: u64) -> ProgressBar {
    let style = "{msg:>8} [{bar:40}] {percent:>3} % {elapsed} of about {duration}";
    let style = ProgressStyle::with_template(style).expect("a valid template");
    ProgressBar::new(length).with_style(style.progress_chars("=> "))
}

/// A bar that counts the bytes of a file.
fn reading_bar() -> ProgressBar {
    progress_bar(0).with_message("read")
}

fn read_corpus(path: &Path) -> Result<Corpus, Failure> {
    let progress = reading_bar();
    let corpus = Corpus::read(path, &progress);
    progress.finish_and_clear();
    Ok(corpus?)
}

fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
    print_text(&format!("{text}\n"))
}

fn print_text(text: &str) -> Result<(), Failure> {
    use io::Write;
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

/// The bytes of a model file, to be parsed by [`parse_model`].
fn read_model(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|source| Failure::Read {
        path: path.to_owned(),
        source,
    })
}

fn parse_model<'a>(path: &Path, bytes: &'a [u8]) -> Result<Model<'a>, Failure> {
    Model::parse(bytes).map_err(|why| Failure::Model {
        path: path.to_owned(),
        why,
    })
}
