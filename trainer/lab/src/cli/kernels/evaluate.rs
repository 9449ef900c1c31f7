//! `kernels evaluate`: scores models of kernels.

use clap::Args;

use super::{CorporaArgument, LearnerArgument};
use crate::cli::{Failure, print_json, print_text, progress_bar, values};
use crate::kernels::evaluate::{Evaluation, evaluate, steps, units};
use crate::kernels::score::WITHIN;
use crate::kernels::split::HeldOut;
use wattgate_trainer::score::Target;

const EXAMPLE: &str = "\
Example:
  wattgate-lab kernels evaluate --corpus kernels.csv --test-units 12,13
  wattgate-lab kernels evaluate --corpus conv2d.csv relu.csv --folds 5 --json

Without --test-units each of N parts is held out in turn. A part has whole units; in a corpus of one unit it
has whole calls, that is all rows with the same parameters.

With --json: {\"version\": 1, \"kind\", \"device\", \"learner\", \"results\": [{\"kernel\", \"target\", \"rows\",
\"within_pct\": {\"5\", \"10\", \"15\", \"20\"}, \"mape\", \"rmse\", \"mae\"}], \"skipped\": [KERNEL]}; rmse and mae are in
ms and W, and kernels with too few rows are skipped.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    #[command(flatten)]
    corpora: CorporaArgument,
    /// Units to score; the others train
    #[arg(
        long,
        value_name = "UNIT",
        value_delimiter = ',',
        conflicts_with = "folds"
    )]
    test_units: Vec<String>,
    /// Number of parts that are held out in turn
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = values::whole::<u16>(2, 1000))]
    folds: u16,
    #[command(flatten)]
    learner: LearnerArgument,
    /// Seed of the parts and of the learner
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = values::seed)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let corpus = arguments.corpora.read()?;
    let failed = |why| arguments.corpora.failed(why);
    let held_out = match &arguments.test_units[..] {
        [] => HeldOut::Folds(arguments.folds.into()),
        names => HeldOut::Units(units(&corpus, names).map_err(failed)?),
    };
    let learner = arguments.learner.learner()?;
    let progress = progress_bar(steps(&corpus, &held_out, &learner));
    let result = evaluate(
        &corpus,
        &held_out,
        &learner,
        arguments.seed,
        &progress.clone().with_message("train"),
    );
    progress.finish_and_clear();
    let evaluation = result.map_err(failed)?;
    match arguments.json {
        true => print_json(&evaluation),
        false => print_text(&text(&evaluation)),
    }
}

fn text(evaluation: &Evaluation) -> String {
    let mut text = format!(
        "{}, {}, learned by {}: rows that were not trained on\n",
        evaluation.device, evaluation.kind, evaluation.learner
    );
    for target in Target::ALL {
        let unit = match target {
            Target::Time => "ms",
            Target::Power => "W",
        };
        let scores = || {
            evaluation
                .results
                .iter()
                .filter(move |score| score.target == target)
        };
        if scores().next().is_none() {
            continue;
        }
        text += &format!("\n{:<20}{:>9}", format!("{target}, within"), "rows");
        for limit in WITHIN {
            text += &format!("{:>8}", format!("{limit} %"));
        }
        text += &format!(
            "{:>9}{:>10}{:>10}\n",
            "MAPE",
            format!("RMSE {unit}"),
            format!("MAE {unit}")
        );
        for score in scores() {
            text += &format!("{:<20}{:>9}", score.kernel, score.rows);
            for limit in WITHIN {
                text += &format!("{:>8.1}", score.within(limit));
            }
            text += &format!(
                "{:>7.2} %{:>10.3}{:>10.3}\n",
                score.mape, score.rmse, score.mae
            );
        }
        let count = scores().count() as f64;
        text += &format!("{:<20}{:>9}", "mean of kernels", "");
        for limit in WITHIN {
            let sum: f64 = scores().map(|score| score.within(limit)).sum();
            text += &format!("{:>8.1}", sum / count);
        }
        let sum: f64 = scores().map(|score| score.mape).sum();
        text += &format!("{:>7.2} %\n", sum / count);
    }
    for kernel in &evaluation.skipped {
        text += &format!("\n{kernel}: too few rows, skipped\n");
    }
    text
}
