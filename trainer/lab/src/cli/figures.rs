//! `figures`: what the project's texts say it reaches.

use std::path::PathBuf;

use super::Failure;
use crate::figures::{FiguresError, Results};

const EXAMPLE: &str = "\
Examples:
  wattgate-lab figures                     writes RESULTS.md and the texts from RESULTS.json
  wattgate-lab figures --run loads,units   runs these commands first, and takes their figures
  wattgate-lab figures --check --run gate  runs, and names each figure that differs; writes nothing

RESULTS.json has sections of runs: a command, the kind of its figures, and for each figure a pattern of what the
command prints. A text shows a figure as [0.3 s](../RESULTS.md#NAME). The commands run in the present folder.

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

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let path = &arguments.results;
    let mut results = Results::read(path)?;
    if !arguments.check {
        for change in results.run(&arguments.run)? {
            eprintln!("{change}");
        }
        return Ok(results.write(path)?);
    }
    // Before the commands, whose figures take the place of those that are compared.
    let mut differences = results.differences(path)?;
    differences.extend(results.run(&arguments.run)?);
    for difference in &differences {
        eprintln!("{difference}");
    }
    match differences.len() {
        0 => Ok(()),
        count => Err(FiguresError::Differ { count }.into()),
    }
}
