//! `figures`: what the project's texts say it reaches.

use std::path::PathBuf;

use wattgate_cli::shard::{Jobs, Ran};

use super::{Failure, print_text};
use crate::figures::{FiguresError, Results};

const EXAMPLE: &str = "\
Examples:
  wattgate-lab figures                     writes RESULTS.md and the texts from RESULTS.json
  wattgate-lab figures --run loads,units   runs these commands first, and takes their figures
  wattgate-lab figures --check --run gate  runs, and names each figure that differs; writes nothing

RESULTS.json has sections of runs: a command, the kind of its figures, and for each figure a pattern of what the
command prints. A text shows a figure as [0.3 s](../RESULTS.md#NAME), and the lines between <!-- results: NAME --> and
<!-- end --> are those of a command. The commands run in the present folder. --shard I/N runs every N-th command from the
I-th on, and prints a part for `wattgate-lab merge`.

Exit code 3: a text or a figure differs from RESULTS.json.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    /// The figures
    #[arg(value_name = "RESULTS", default_value = "RESULTS.json")]
    results: PathBuf,
    /// Run these commands, by their names
    #[arg(long, value_name = "RUN", value_delimiter = ',')]
    run: Vec<String>,
    /// Write nothing, and fail where a figure differs
    #[arg(long)]
    check: bool,
}

pub fn run(arguments: &Arguments, jobs: &Jobs) -> Result<(), Failure> {
    let path = &arguments.results;
    let mut results = Results::read(path)?;
    // Before the commands, whose figures take the place of those that are compared.
    let mut differences = match arguments.check {
        true => results.differences(path)?,
        false => Vec::new(),
    };
    let printed = match results.print(&arguments.run, jobs)? {
        Ran::Whole(printed) => printed,
        Ran::Part(part) => return print_text(&part),
    };
    differences.extend(results.take(printed)?);
    for difference in &differences {
        eprintln!("{difference}");
    }
    match differences.len() {
        _ if !arguments.check => Ok(results.write(path)?),
        0 => Ok(()),
        count => Err(FiguresError::Differ { count }.into()),
    }
}
