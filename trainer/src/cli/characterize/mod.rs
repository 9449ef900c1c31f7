//! `characterize`: where time and energy of a training go.

mod energy;
mod modes;

use clap::Subcommand;

use super::Failure;

const EXAMPLE: &str = "\
Example:
  wattgate-trainer characterize modes lenet.csv resnet.csv mobilenet.csv --samples 60000,50000,23080 -o four.json
  wattgate-trainer characterize energy power.csv";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Find the four modes that predict the time of an epoch in all others, or use them
    Modes(modes::Arguments),
    /// Add up irregular samples of the power
    Energy(energy::Arguments),
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Modes(arguments) => modes::run(arguments),
        Command::Energy(arguments) => energy::run(arguments),
    }
}
