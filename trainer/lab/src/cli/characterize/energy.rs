//! `characterize energy`: adds up irregular samples of the power.

use std::path::PathBuf;

use crate::characterize::energy::Energy;
use crate::cli::{Failure, print_json, print_text};

const EXAMPLE: &str = "\
Example:
  wattgate-lab characterize energy power.csv

The file has the columns seconds,watts. Each sample counts for the time since the one before. An interval of
more than five times the median one is a gap: its energy is unknown and does not count.

With --json: {\"version\": 1, \"seconds\", \"joules\", \"mean_w\", \"gaps\": [{\"from_s\", \"to_s\"}]}.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    /// Samples of the power, as CSV
    #[arg(value_name = "LOG")]
    log: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let energy = Energy::read(&arguments.log)?;
    if arguments.json {
        return print_json(&energy);
    }
    let Energy {
        seconds,
        joules,
        mean_w,
        gaps,
    } = &energy;
    let mut text = format!("{joules:.1} J in {seconds:.1} s, {mean_w:.2} W on average\n");
    for gap in gaps {
        text += &format!(
            "no samples from {} s to {} s: the energy of this time is unknown and does not count\n",
            gap.from_s, gap.to_s
        );
    }
    print_text(&text)
}
