//! `kernels search`: searches hyper-parameters of the boosted trees.

use std::path::{Path, PathBuf};

use clap::Args;
use wattgate_cli::output::AtomicFile;
use wattgate_kernels::Kind;

use super::CorporaArgument;
use crate::cli::{Failure, print_text, progress_bar, values};
use crate::kernels::search::{BRACKET, Budget, read, search, to_csv};
use crate::kernels::trees::Settings;
use crate::kernels::tuned::{Trial, Tuned};
use wattgate_trainer::cli::inputs::refuse_input;
use wattgate_trainer::score::Target;

const EXAMPLE: &str = "\
Example:
  wattgate-lab kernels search --corpus kernels.csv --budget 9 -o settings.csv
  wattgate-lab kernels fit --corpus kernels.csv --settings settings.csv -o kernels.wgk

For each kernel and target: a bracket tries nine settings on a ninth of the rows, the three best on a third,
and the best on all; it costs three trainings on all rows. A model of the results proposes the settings of
later brackets. A fifth of the units is held out to score them. Every result is written at once. If the file
exists the search goes on where it ended, also with a larger budget; corpus and seed must be the same.

The file is CSV with a row for each result: kernel,target,bracket,rows,n_estimators,max_depth,learning_rate,
subsample,colsample,min_child_weight,reg_lambda,reg_alpha,loss. The loss is the root mean square of
ln(measured / predicted).";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    #[command(flatten)]
    corpora: CorporaArgument,
    /// Trainings on all rows that the search of a kernel's target is worth
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = values::whole::<u32>(u64::from(BRACKET), 3_000))]
    budget: u32,
    /// Seed of the parts, the proposals and the trees
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = values::seed)]
    seed: u64,
    /// The results to write, or to go on from
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let inputs: Vec<Option<&Path>> = arguments.corpora.paths().map(Some).collect();
    let output = &arguments.output;
    refuse_input(output, &inputs)?;
    AtomicFile::create(output)?;
    let known = match output.exists() {
        true => read_trials(output)?,
        false => Vec::new(),
    };
    let corpus = arguments.corpora.read()?;
    let budget = Budget {
        brackets: arguments.budget / BRACKET,
        seed: arguments.seed,
    };
    let progress = progress_bar(budget.trials(&corpus));
    let bar = progress.clone().with_message("search");
    let write = |trials: &[Trial]| -> Result<(), Failure> {
        Ok(AtomicFile::create(output)?.commit(&to_csv(trials))?)
    };
    let result = search(&corpus, budget, (output, known), write, &bar);
    progress.finish_and_clear();
    let trials = result?;
    write(&trials)?;
    print_text(&text(&trials, output))
}

/// Reads a file of results.
pub fn read_trials(path: &Path) -> Result<Vec<Trial>, Failure> {
    Ok(read(path)?)
}

fn text(trials: &[Trial], output: &Path) -> String {
    let tuned = Tuned::best(trials);
    let mut text = format!(
        "{:<20}{:>8}{:>8}{:>7}{:>8}{:>8}{:>9}\n",
        "best settings", "target", "trees", "depth", "rate", "loss", "results"
    );
    for kind in Kind::ALL {
        for target in Target::ALL {
            let own = trials
                .iter()
                .filter(|trial| trial.kernel == kind.name() && trial.target == target.to_string());
            let own: Vec<&Trial> = own.collect();
            let Settings {
                n_estimators,
                max_depth,
                learning_rate,
                ..
            } = tuned.for_kernel(kind, target);
            let most = own.iter().map(|trial| trial.rows).max();
            let on_most = own.iter().filter(|trial| Some(trial.rows) == most);
            let best = on_most
                .map(|trial| trial.loss)
                .fold(f64::INFINITY, f64::min);
            if most.is_some() {
                text += &format!(
                    "{:<20}{target:>8}{n_estimators:>8}{max_depth:>7}{learning_rate:>8.4}{best:>8.4}{:>9}\n",
                    kind.name(),
                    own.len()
                );
            }
        }
    }
    text + &format!("wrote {}\n", output.display())
}
