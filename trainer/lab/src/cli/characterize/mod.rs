//! `characterize`: where time and energy of a training go.

mod energy;
mod modes;
mod report;

use clap::Subcommand;

use super::Failure;

const EXAMPLE: &str = "\
Example:
  wattgate-lab characterize report fed.csv --idle 7.5W --html page.html
  wattgate-lab characterize modes lenet.csv resnet.csv mobilenet.csv --samples 60000,50000,23080 -o four.json
  wattgate-lab characterize energy power.csv";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print and draw where the time of the steps goes, over workers, cores, page cache, storage and minibatch
    Report(report::Arguments),
    /// Find the four modes that predict the time of an epoch in all others, or use them
    Modes(modes::Arguments),
    /// Add up irregular samples of the power
    Energy(energy::Arguments),
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Report(arguments) => report::run(arguments),
        Command::Modes(arguments) => modes::run(arguments),
        Command::Energy(arguments) => energy::run(arguments),
    }
}
