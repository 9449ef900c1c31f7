//! `kernels boards`: what several boards are worth.

use clap::Args;

use super::{CorporaArgument, LearnerArgument};
use crate::cli::{Failure, print_json, print_text, progress_bar, values};
use crate::kernels::boards::{Boards, boards, steps};
use crate::kernels::evaluate::units;
use wattgate_trainer::score::Target;

const EXAMPLE: &str = "\
Example:
  wattgate-lab kernels boards --corpus kernels.csv --test-units 12,13

A model of all other units is compared with models of one of them each. Both are scored on the test units,
which neither has seen. `unit` is how far a test unit is from the model of the others.

With --json: {\"version\": 1, \"kind\", \"device\", \"test_units\", \"results\": [{\"kernel\", \"target\",
\"several\": SCORE, \"one\": SCORE, \"gain_pct\": {\"within_5\", \"within_10\", \"rmse\", \"mae\"},
\"difference_pct\": [{\"unit\", \"pct\"}]}]}; a SCORE is a result of `kernels evaluate`.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    #[command(flatten)]
    corpora: CorporaArgument,
    /// Units to score; the others train
    #[arg(long, value_name = "UNIT", value_delimiter = ',', required = true)]
    test_units: Vec<String>,
    #[command(flatten)]
    learner: LearnerArgument,
    /// Seed of the learner
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = values::seed)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let corpus = arguments.corpora.read()?;
    let failed = |why| arguments.corpora.failed(why);
    let test = units(&corpus, &arguments.test_units).map_err(failed)?;
    let learner = arguments.learner.learner()?;
    let progress = progress_bar(steps(&corpus, &learner));
    let result = boards(
        &corpus,
        &test,
        &learner,
        arguments.seed,
        &progress.clone().with_message("train"),
    );
    progress.finish_and_clear();
    let boards = result.map_err(failed)?;
    match arguments.json {
        true => print_json(&boards),
        false => print_text(&text(&boards)),
    }
}

fn text(boards: &Boards) -> String {
    let mut text = format!(
        "{}, {}: models of one unit and of several, scored on {}\n",
        boards.device,
        boards.kind,
        boards.test_units.join(", ")
    );
    for target in Target::ALL {
        let results = || {
            boards
                .results
                .iter()
                .filter(move |result| result.target == target)
        };
        if results().next().is_none() {
            continue;
        }
        text += &format!(
            "\n{:<20}{:>16}{:>16}{:>8}{:>9}{:>9}{:>8}\n",
            target.to_string(),
            "within 5 %",
            "within 10 %",
            "gain",
            "RMSE",
            "MAE",
            "unit"
        );
        for result in results() {
            let from_to = |limit: u32| {
                let [one, several] =
                    [&result.one, &result.several].map(|score| score.within(limit));
                format!("{one:.1} -> {several:.1}")
            };
            let units = result.difference_pct.iter();
            let units: Vec<String> = units.map(|unit| format!("{:+.1} %", unit.pct)).collect();
            text += &format!(
                "{:<20}{:>16}{:>16}{:>6.1} %{:>7.1} %{:>7.1} %  {}\n",
                result.kernel,
                from_to(5),
                from_to(10),
                result.gain_pct.within_10,
                -result.gain_pct.rmse,
                -result.gain_pct.mae,
                units.join(", ")
            );
        }
        let count = results().count() as f64;
        let mean = |gain: &dyn Fn(&crate::kernels::boards::GainPct) -> f64| {
            results().map(|result| gain(&result.gain_pct)).sum::<f64>() / count
        };
        text += &format!(
            "{:<20}{:>16}{:>16}{:>6.1} %{:>7.1} %{:>7.1} %\n",
            "mean of kernels",
            format!("{:+.1} %", mean(&|gain| gain.within_5)),
            "",
            mean(&|gain| gain.within_10),
            -mean(&|gain| gain.rmse),
            -mean(&|gain| gain.mae)
        );
    }
    text
}
