//! `kernels`: models of the building blocks of networks.

mod boards;
mod evaluate;
mod fit;
mod search;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};

use super::{Failure, reading_bar, values};
use crate::kernels::corpus::KernelCorpus;
use crate::kernels::evaluate::ScoreError;
use crate::kernels::learner::Learner;
use crate::kernels::trees::Settings;
use crate::kernels::tuned::Tuned;

const EXAMPLE: &str = "\
Example:
  wattgate-simulator kernels --board xavier-agx --rows 100000 -o kernels.csv
  wattgate-lab kernels evaluate --corpus kernels.csv --test-units 12,13
  wattgate-lab kernels boards --corpus kernels.csv --test-units 12,13
  wattgate-lab kernels fit --corpus kernels.csv -o kernels.wgk

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

The names of PyTorch's classes are accepted, too: Conv2d is conv2d, MaxPool2d is max_pool2d.
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
    /// Search hyper-parameters of the learner
    Search(search::Arguments),
    /// Learn the kernels of a board and write their models
    Fit(fit::Arguments),
    /// Compare models of one unit with a model of several
    Boards(boards::Arguments),
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Evaluate(arguments) => evaluate::run(arguments),
        Command::Search(arguments) => search::run(arguments),
        Command::Fit(arguments) => fit::run(arguments),
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
    fn paths(&self) -> impl Iterator<Item = &Path> {
        self.corpus.iter().map(PathBuf::as_path)
    }

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

/// The settings of the boosted trees.
#[derive(Debug, Args)]
struct TuningArgument {
    /// Number of boosted trees of each model
    #[arg(long, value_name = "N", default_value_t = Settings::default().n_estimators, value_parser = values::whole::<u32>(1, 10_000))]
    trees: u32,
    /// The best settings of a search: a file of `kernels search`
    #[arg(long, value_name = "FILE", conflicts_with = "trees")]
    settings: Option<PathBuf>,
}

impl TuningArgument {
    fn file(&self) -> Option<&Path> {
        self.settings.as_deref()
    }

    fn tuned(&self) -> Result<Tuned, Failure> {
        Ok(match &self.settings {
            Some(path) => Tuned::best(&search::read_trials(path)?),
            None => Tuned::all(Settings {
                n_estimators: self.trees,
                ..Settings::default()
            }),
        })
    }
}

/// The learner of a command.
#[derive(Debug, Args)]
struct LearnerArgument {
    /// How the kernels are learned
    #[arg(long, value_name = "NAME", value_enum, default_value = "wattgate")]
    learner: LearnerName,
    #[command(flatten)]
    tuning: TuningArgument,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LearnerName {
    /// A roofline that boosted trees correct
    Wattgate,
    /// The crate forust, which grows trees as XGBoost does
    Forust,
}

impl LearnerArgument {
    fn learner(&self) -> Result<Learner, Failure> {
        let tuned = self.tuning.tuned()?;
        Ok(match self.learner {
            LearnerName::Wattgate => Learner::Wattgate(tuned),
            LearnerName::Forust => Learner::Forust(tuned),
        })
    }
}
