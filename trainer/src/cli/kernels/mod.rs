//! `kernels`: models of the building blocks of networks.

mod boards;
mod evaluate;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{Failure, reading_bar};
use crate::kernels::corpus::KernelCorpus;
use crate::kernels::evaluate::ScoreError;
use crate::kernels::learner::Learner;
use crate::kernels::trees::Settings;

const EXAMPLE: &str = "\
Example:
  wattgate-simulator kernels --board xavier-agx --rows 100000 -o kernels.csv
  wattgate-trainer kernels evaluate --corpus kernels.csv --test-units 12,13
  wattgate-trainer kernels boards --corpus kernels.csv --test-units 12,13

A kernel corpus is a CSV file with a row for each measurement of a kernel:
  device,unit,kernel,PARAMETERS,cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw

  kernel               parameters
  conv2d               batch channels height width out_channels kernel_h kernel_w stride_h stride_w
                       padding_h padding_w dilation_h dilation_w groups
  max_pool2d           batch channels height width kernel_h kernel_w stride_h stride_w padding_h
                       padding_w dilation_h dilation_w
  adaptive_avg_pool2d  batch channels height width out_h out_w
  batch_norm2d, relu,  batch channels height width
  add
  cat                  batch channels height width inputs (the shape is that of the output)
  mat_mul              batch rows inner columns

kernel_size, stride, padding and dilation name both sides of a square window, in_channels is channels.
Parameters of other kernels are blank, and a column that no row needs may be absent. So may a knob that
the board does not vary. A blank time or power is unknown. All rows are of one board, several units of
which may be in one file or in several.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Score models of kernels on rows or units that they were not trained on
    Evaluate(evaluate::Arguments),
    /// Compare models of one unit with a model of several
    Boards(boards::Arguments),
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Evaluate(arguments) => evaluate::run(arguments),
        Command::Boards(arguments) => boards::run(arguments),
    }
}

/// Kernel corpora as the input of a command.
#[derive(Debug, Args)]
struct CorporaArgument {
    /// Kernel corpora of one board, as CSV
    #[arg(long, value_name = "FILE", num_args = 1.., required = true)]
    corpus: Vec<PathBuf>,
}

impl CorporaArgument {
    fn read(&self) -> Result<KernelCorpus, Failure> {
        let progress = reading_bar();
        let corpus = KernelCorpus::read(&self.corpus, &progress);
        progress.finish_and_clear();
        Ok(corpus?)
    }

    /// A failure to learn from these files.
    fn failed(&self, why: ScoreError) -> Failure {
        let path = self.corpus[0].clone();
        Failure::Kernels { path, why }
    }
}

/// The learner of a command.
#[derive(Debug, Args)]
struct LearnerArgument {
    /// How the kernels are learned
    #[arg(long, value_name = "NAME", value_enum, default_value = "wattgate")]
    learner: LearnerName,
    /// Number of boosted trees of each model
    #[arg(long, value_name = "N", default_value_t = Settings::default().n_estimators, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    trees: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LearnerName {
    /// A roofline that boosted trees correct
    Wattgate,
    /// The crate forust, which grows trees as XGBoost does
    Forust,
}

impl LearnerArgument {
    fn learner(&self) -> Learner {
        let settings = Settings {
            n_estimators: self.trees,
            ..Settings::default()
        };
        match self.learner {
            LearnerName::Wattgate => Learner::Wattgate(settings),
            LearnerName::Forust => Learner::Forust(settings),
        }
    }
}
