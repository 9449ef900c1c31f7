//! `evaluate`: errors over many random choices of modes.

use clap::Args;

use super::fit::Training;
use super::{Failure, print_json, print_text, progress_bar, read_corpus, show};
use crate::evaluate::{Evaluation, Quartiles, evaluate};
use crate::fit::PROGRESS;

const EXAMPLE: &str = "\
Example:
  wattgate-trainer evaluate --corpus tx1.csv --modes 50 --runs 10

Every run trains on other modes and is scored on the modes that it did not see, through
the exported file and the runtime.

With --json: {\"kind\", \"corpus\", \"reference\", \"results\": [{\"method\", \"target\", \"modes\",
\"sampling\", \"runs\", \"mape\": {\"median\", \"q1\", \"q3\"}, \"teacher_mape\": {…}, \"added\":
{…}}], \"runs\": [as `fit --json`]}";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    #[command(flatten)]
    training: Training,
    /// Number of runs, with the seeds from --seed on
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let path = &arguments.training.corpus;
    let corpus = read_corpus(path)?;
    let progress = progress_bar(PROGRESS * arguments.runs);
    let options = arguments.training.options();
    let name = path.display().to_string();
    let result = evaluate(&corpus, &name, &options, arguments.runs, &progress);
    progress.finish_and_clear();
    let evaluation = result.map_err(|why| Failure::Fit {
        path: path.clone(),
        why,
    })?;
    if arguments.json {
        print_json(&evaluation)
    } else {
        print_text(&text(&evaluation))
    }
}

fn text(evaluation: &Evaluation) -> String {
    let mut text = format!(
        "{} ({}), mean absolute percentage error on held-out modes\n",
        evaluation.corpus, evaluation.kind
    );
    let columns = [
        "teacher time",
        "power",
        "exported time",
        "power",
        "bytes",
        "seconds",
    ];
    text += &format!("{:<8}{:>6}", "seed", "modes");
    columns
        .iter()
        .for_each(|column| text += &format!("{column:>15}"));
    text += "\n";
    for run in &evaluation.runs {
        text += &format!("{:<8}{:>6}", run.seed, run.modes_used);
        for errors in [&run.teacher, &run.exported] {
            for mape in [errors.time_mape, errors.power_mape] {
                text += &format!("{:>15}", show::percent(mape));
            }
        }
        text += &format!("{:>15}{:>15.1}\n", run.bytes, run.seconds);
    }
    let three = |q: Quartiles| format!("{:.2} % ({:.2} … {:.2})", q.median, q.q1, q.q3);
    for row in &evaluation.results {
        text += &format!(
            "{:<6} median (quartiles): exported {}, teacher {}, added {:.2} points\n",
            row.target,
            three(row.mape),
            three(row.teacher_mape),
            row.added.median
        );
    }
    text
}
