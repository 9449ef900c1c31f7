//! `transfer`: trains a model on a few modes with references.

use std::path::PathBuf;

use clap::Args;

use super::Failure;
use super::fit::{TrainingArguments, write_transferred};

const EXAMPLE: &str = "\
Examples:
  wattgate-trainer transfer yolo.csv --reference resnet.wgt --modes 15 -o yolo.wgt
  wattgate-trainer transfer yolo.csv --reference resnet.csv --reference vit.csv --modes 15 -o yolo.wgt
  wattgate-trainer transfer xavier.csv --reference orin.csv --modes 30 -o xavier.wgt

A reference is a model file or a corpus of another workload, minibatch size or board. Clocks
of different boards are compared as fractions of the board's highest. The modes of the corpus
decide the weight of the references. The workload itself is refused as a reference.

With --json: as `fit --json`.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    /// A reference: a model file or a corpus; repeat it for several
    #[arg(long, value_name = "FILE", required = true)]
    reference: Vec<PathBuf>,
    #[command(flatten)]
    training: TrainingArguments,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    write_transferred(&arguments.training, &arguments.reference)
}
