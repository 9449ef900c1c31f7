//! The command line: arguments, exit codes, and what each command prints, as `wattgate-trainer` has them.

mod advise;
mod characterize;
mod compose;
mod evaluate;
mod figures;
mod kernels;
mod matrix;
mod optimize;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use serde::Serialize;
use thiserror::Error;
use wattgate_cli::exit::{self, Failed, end};
use wattgate_cli::output::OutputError;
use wattgate_cli::shard::{Jobs, ShardError};
use wattgate_trainer::cli::{
    self, SamplingArgument, ShapeArgument, inputs, pages, progress_bar, reading_bar, show, values,
};
use wattgate_trainer::plan::SplitError;

use crate::characterize::advice::AdviceError;
use crate::characterize::breakdown::BreakdownError;
use crate::characterize::energy::SampleError;
use crate::characterize::four_modes::FourModesError;
use crate::compare::CompareError;
use crate::compare::plots::PlotError;
use crate::figures::FiguresError;
use crate::kernels::corpus::KernelCorpusError;
use crate::kernels::evaluate::ScoreError;
use crate::kernels::models::ModelsError;
use crate::kernels::search::SearchError;
use crate::methods::{self, Method, MethodError};
use crate::networks::fit::NetworkFitError;
use crate::networks::graph::NetworkFileError;
use crate::networks::operator::NetworkError;

/// Compares ways of predicting the time and power of a workload, and re-enacts published experiments.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, after_help = after_help())]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Example:
  wattgate-lab evaluate tx1.csv --modes 50 --runs 10
  wattgate-lab optimize tx1.csv --modes 50";

/// The end of the general help.
fn after_help() -> String {
    format!("{AFTER_HELP}\n\n{}", exit::TABLE.trim_end())
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compare methods by their prediction errors on held-out modes
    Evaluate(evaluate::Arguments),
    /// Compare methods by their choices under power limits
    Optimize(optimize::Arguments),
    /// Evaluate transfers between all pairs of corpora
    Matrix(matrix::Arguments),
    /// Tell where time and energy of a training go
    Characterize(characterize::Arguments),
    /// Advise what would make a training faster under a power limit
    Advise(advise::Arguments),
    /// Learn the kernels of networks, to predict networks that nobody profiled
    Kernels(kernels::Arguments),
    /// Predict a network that nobody profiled, from the models of its kernels
    Compose(compose::Arguments),
    /// Write what the project's texts say it reaches, from what its commands print
    Figures(figures::Arguments),
    /// Print what a command prints, from the parts that its shards have printed
    Merge(Merge),
    /// Print the completions of a shell
    #[command(after_help = pages::example("wattgate-lab"))]
    Completions(pages::Completions),
    /// Write manual pages and completions
    #[command(hide = true)]
    Pages(pages::Pages),
}

const MERGE: &str = "\
Example:
  wattgate-lab evaluate tx1.csv --modes 50 --runs 100 --shard 1/2 > part-1
  wattgate-lab evaluate tx1.csv --modes 50 --runs 100 --shard 2/2 > part-2
  wattgate-lab merge part-1 part-2

evaluate, matrix and figures take --shard I/N, on as many machines as you like. merge prints what the whole command prints; only
the seconds that trainings took are those of the shards. It names a shard that is missing or cut off, which is run again alone.";

#[derive(Debug, clap::Args)]
#[command(after_help = MERGE)]
struct Merge {
    /// What each shard has printed
    #[arg(value_name = "PART", required = true)]
    parts: Vec<PathBuf>,
}

/// Why a command failed.
#[derive(Debug, Error)]
enum Failure {
    /// An input that the trainer's commands take as well, or standard output.
    #[error("{0}")]
    Input(#[from] cli::Failure),
    #[error("{0}")]
    KernelCorpus(#[from] KernelCorpusError),
    #[error("{}: {why}", path.display())]
    Kernels { path: PathBuf, why: ScoreError },
    #[error("{0}")]
    KernelModels(#[from] ModelsError),
    #[error("{0}")]
    Search(#[from] SearchError),
    #[error("{0}")]
    NetworkFile(NetworkFileError),
    #[error("{}: {why}", path.display())]
    Network { path: PathBuf, why: NetworkError },
    #[error("{}: {why}", path.display())]
    NetworkFit { path: PathBuf, why: NetworkFitError },
    #[error("cannot draw the figure: {why}")]
    Figure { why: String },
    #[error("{}: {why}", path.display())]
    Compare { path: PathBuf, why: CompareError },
    #[error("{}: {why}", path.display())]
    FourModes { path: PathBuf, why: FourModesError },
    #[error("{}: {why}", path.display())]
    Advice { path: PathBuf, why: AdviceError },
    #[error("{0}")]
    Breakdown(#[from] BreakdownError),
    #[error("{0}")]
    Samples(#[from] SampleError),
    #[error("--samples has {found} numbers for {corpora} corpora; name one for each")]
    SamplesOfEach { corpora: usize, found: usize },
    #[error("{}: --samples needs the column `minibatch`; add it, or leave --samples out", path.display())]
    NoMinibatch { path: PathBuf },
    #[error("{}: not a file of `characterize modes`: {why}; name one that it wrote", path.display())]
    Stored {
        path: PathBuf,
        why: serde_json::Error,
    },
    #[error("{0}")]
    Output(#[from] OutputError),
    #[error("{0}")]
    Plot(#[from] PlotError),
    #[error(
        "--plots needs all runs, and parts have no modes to plot; leave one of --plots and --shard out"
    )]
    PlotsOfShards,
    #[error("{0}")]
    Shard(#[from] ShardError),
    #[error("{0}")]
    Figures(#[from] FiguresError),
}

impl Failed for Failure {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Input(why) => why.exit_code(),
            Self::Shard(why) => why.exit_code(),
            Self::KernelCorpus(KernelCorpusError::Io { .. })
            | Self::KernelModels(ModelsError::Io { .. })
            | Self::Search(SearchError::Io { .. })
            | Self::NetworkFile(NetworkFileError::Io { .. })
            | Self::Figure { .. }
            | Self::Figures(
                FiguresError::Io { .. } | FiguresError::Command { .. } | FiguresError::Output(_),
            )
            | Self::Samples(SampleError::Io { .. })
            | Self::Output(_)
            | Self::Plot(_) => exit::OTHER,
            Self::Advice {
                why: AdviceError::OverLimit { .. },
                ..
            } => exit::LIMIT,
            Self::SamplesOfEach { .. }
            | Self::PlotsOfShards
            | Self::Figures(FiguresError::NoRun { .. })
            | Self::Kernels {
                why:
                    ScoreError::NoSuchUnit { .. }
                    | ScoreError::UnitTwice { .. }
                    | ScoreError::NoTraining { .. },
                ..
            }
            | Self::Compare {
                why:
                    CompareError::Split(
                        SplitError::ModesOutOfRange { .. } | SplitError::NothingHeldOut { .. },
                    )
                    | CompareError::Method(MethodError::NoReferenceCorpus { .. }),
                ..
            } => exit::ARGUMENTS,
            Self::KernelCorpus(KernelCorpusError::Defect { .. })
            | Self::KernelModels(_)
            | Self::Search(_)
            | Self::NetworkFile(_)
            | Self::Network { .. }
            | Self::NetworkFit { .. }
            | Self::Kernels { .. }
            | Self::FourModes { .. }
            | Self::Advice { .. }
            | Self::Breakdown(_)
            | Self::Samples(_)
            | Self::NoMinibatch { .. }
            | Self::Stored { .. }
            | Self::Figures(_)
            | Self::Compare { .. } => exit::INPUT,
        }
    }

    fn print_error(&self) -> Option<&io::Error> {
        match self {
            Self::Input(why) => why.print_error(),
            _ => None,
        }
    }
}

/// Runs the program.
pub fn run() -> ExitCode {
    end(dispatch())
}

/// The commands that run in shards.
const SHARDED: [&str; 3] = ["evaluate", "matrix", "figures"];

fn dispatch() -> Result<(), Failure> {
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_default();
    let (jobs, rest) = Jobs::take(arguments.collect(), &SHARDED)?;
    match Arguments::parse_from(std::iter::once(program).chain(rest)).command {
        Command::Evaluate(arguments) => evaluate::run(&arguments, &jobs),
        Command::Optimize(arguments) => optimize::run(&arguments),
        Command::Matrix(arguments) => matrix::run(&arguments, &jobs),
        Command::Characterize(arguments) => characterize::run(&arguments),
        Command::Advise(arguments) => advise::run(&arguments),
        Command::Kernels(arguments) => kernels::run(&arguments),
        Command::Compose(arguments) => compose::run(&arguments),
        Command::Figures(arguments) => figures::run(&arguments, &jobs),
        Command::Merge(_) => Err(ShardError::NoParts.into()),
        Command::Completions(arguments) => Ok(pages::print_completions::<Arguments>(&arguments)?),
        Command::Pages(arguments) => Ok(pages::write_pages::<Arguments>(&arguments)?),
    }
}

/// The methods as arguments.
#[derive(Clone, Debug)]
struct MethodArgument(&'static str);

impl MethodArgument {
    fn method(&self) -> Box<dyn Method> {
        methods::method(self.0).expect("a name of the list")
    }
}

impl ValueEnum for MethodArgument {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: [MethodArgument; methods::NAMES.len()] = {
            let mut all = [const { MethodArgument("") }; methods::NAMES.len()];
            let mut at = 0;
            while at < all.len() {
                all[at] = MethodArgument(methods::NAMES[at]);
                at += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0))
    }
}

fn json(result: &impl Serialize) -> Result<String, Failure> {
    Ok(cli::json(result)?)
}

fn print_json(result: &impl Serialize) -> Result<(), Failure> {
    Ok(cli::print_json(result)?)
}

fn print_text(text: &str) -> Result<(), Failure> {
    Ok(cli::print_text(text)?)
}
