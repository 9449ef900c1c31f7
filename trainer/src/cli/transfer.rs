//! `transfer`: from a reference and a few modes to a model file.

use std::path::PathBuf;

use clap::Args;

use super::Failure;
use super::fit::{Training, write_model};

const EXAMPLE: &str = "\
Examples:
  wattgate-trainer transfer --reference resnet.wgt --corpus yolo.csv --modes 15 -o yolo.wgt
  wattgate-trainer transfer --reference orin.csv --corpus xavier.csv --modes 30 -o xavier.wgt

The reference is a model file, or a corpus from which one is made first. It may be of another
workload, minibatch size or board. On the same board its clocks are taken as they are; those
of another board are mapped by their part of the highest. How much of the reference is used
is decided from the modes of the corpus, so that one that does not fit does no harm.

With --json: as `fit --json`.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    /// A model file or a corpus to transfer from
    #[arg(long, value_name = "FILE")]
    reference: PathBuf,
    #[command(flatten)]
    training: Training,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    write_model(&arguments.training, Some(&arguments.reference))
}
