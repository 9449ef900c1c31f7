//! `evaluate`: compares methods by their prediction errors.

use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;
use wattgate_cli::shard::{Jobs, Ran};

use super::inputs::{CorpusArgument, read_references};
use super::{
    Failure, MethodArgument, SamplingArgument, ShapeArgument, print_json, print_text, progress_bar,
    show, values,
};
use crate::compare::CompareError;
use crate::compare::evaluate::{
    Comparison, Evaluation, EvaluationRow, Quartiles, evaluate_in_shards,
};
use crate::compare::plots;
use crate::compare::plots::PlotError;
use crate::methods::Method;
use wattgate_trainer::fit::Priors;
use wattgate_trainer::plan::{Amount, Sampling};
use wattgate_trainer::read::Corpus;

const EXAMPLE: &str = "\
Examples:
  wattgate-lab evaluate tx1.csv --modes 50 --runs 10
  wattgate-lab evaluate tx1.csv --reference tx2.csv --modes 15,50,90% --methods wattgate,powertrain-nn,powertrain-transfer,gbt,linear --plots plots

Every run draws new training modes, which all methods share, and scores the methods on the
held-out modes. wattgate is scored through the exported file and the runtime. Only wattgate,
powertrain-transfer… and linear-energy use references; wattgate-scratch is wattgate without them. --shard I/N runs every
N-th training from the I-th on, and prints a part for `wattgate-lab merge`.

With --json: {\"version\": 1, \"kind\", \"corpus\", \"reference\", \"results\": [{\"method\", \"target\", \"modes\",
\"sampling\", \"runs\", \"mape\": {\"median\", \"q1\", \"q3\"}, \"within_5_pct\": {…},
\"within_10_pct\": {…}, \"within_15_pct\": {…}, \"within_20_pct\": {…}, \"rmse\": {…}, \"mae\": {…},
\"seconds\": {…}, \"board_minutes\": {…}, \"teacher_mape\": {…}, \"added\": {…},
\"coverage\": [{\"confidence\", \"share\", \"mean_share\", \"ratio\"}]}], \"runs\": [{\"method\",
\"modes\", \"sampling\", \"seed\", \"time\": {\"mape\", …}, \"power\": {…}, \"teacher\", \"coverage\", \"bytes\",
\"seconds\", \"board_minutes\"}]}; rmse and mae in ms and mW; keys
that do not apply to a method are absent.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    #[command(flatten)]
    compared: Compared,
}

/// Arguments of the commands that compare methods.
#[derive(Debug, Args)]
pub struct Compared {
    #[command(flatten)]
    input: CorpusArgument,
    /// A reference for methods that transfer: a corpus or a model file; repeat it for several
    #[arg(long, value_name = "FILE")]
    reference: Vec<PathBuf>,
    /// Modes to train on: numbers, or shares of the profiled ones such as 90% [default: 50, or half of the profiled
    /// ones if there are no more]
    #[arg(long, value_name = "N", value_parser = values::amount, value_delimiter = ',', allow_hyphen_values = true)]
    modes: Vec<Amount>,
    /// How the training modes are chosen
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        value_delimiter = ',',
        default_value = "random"
    )]
    sampling: Vec<SamplingArgument>,
    /// Number of runs, with the seeds from --seed on
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = values::whole::<u64>(1, 1000))]
    runs: u64,
    /// Seed of the first run
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = values::seed)]
    seed: u64,
    /// Widths of the hidden layers of exported networks
    #[arg(long, value_name = "WIDTHS", value_enum, default_value = "32")]
    hidden: ShapeArgument,
    /// Methods to compare
    #[arg(
        long,
        value_name = "NAMES",
        value_enum,
        value_delimiter = ',',
        default_value = "wattgate,random"
    )]
    methods: Vec<MethodArgument>,
    /// A folder for plots as SVG
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Compared {
    /// Reads the files, compares methods on them, and plots and prints the result.
    pub fn compare<T: Serialize>(
        &self,
        compare: impl FnOnce(&Comparison<'_>, &ProgressBar) -> Result<Ran<T>, CompareError>,
        plot: impl FnOnce(&T, &Path) -> Result<(), PlotError>,
        text: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        let (path, blank) = (&self.input.corpus, self.input.rows.blank.meaning());
        let corpus: Corpus = self.input.read()?;
        let references = read_references(&self.reference, blank, &corpus.workload)?;
        let methods: Vec<Box<dyn Method>> =
            self.methods.iter().map(MethodArgument::method).collect();
        let samplings: Vec<Sampling> = self.sampling.iter().copied().map(Into::into).collect();
        let amounts = match self.modes.is_empty() {
            true => vec![Amount::by_default([&corpus])],
            false => self.modes.clone(),
        };
        let comparison = Comparison {
            priors: Priors::shipped(),
            corpus: &corpus,
            name: &path.display().to_string(),
            references: &references,
            methods: &methods,
            amounts: &amounts,
            samplings: &samplings,
            runs: self.runs,
            seed: self.seed,
            shape: self.hidden.0,
        };
        let progress = progress_bar(comparison.trainings()).with_message("run");
        let result = compare(&comparison, &progress);
        progress.finish_and_clear();
        let result = result.map_err(|why| Failure::Compare {
            path: path.clone(),
            why,
        })?;
        let result = match result {
            Ran::Whole(result) => result,
            Ran::Part(part) => return print_text(&part),
        };
        if let Some(folder) = &self.plots {
            plot(&result, folder)?;
        }
        if self.json {
            print_json(&result)
        } else {
            print_text(&text(&result))
        }
    }
}

pub fn run(arguments: &Arguments, jobs: &Jobs) -> Result<(), Failure> {
    let compared = &arguments.compared;
    if compared.plots.is_some() && !matches!(jobs, Jobs::All) {
        return Err(Failure::PlotsOfShards);
    }
    let evaluate = |comparison: &Comparison<'_>, progress: &ProgressBar| {
        evaluate_in_shards(comparison, jobs, progress)
    };
    compared.compare(evaluate, plots::of_evaluation, text)
}

fn text(evaluation: &Evaluation) -> String {
    let mut text = format!(
        "{} ({})",
        evaluation.subject.corpus, evaluation.subject.kind
    );
    if let Some(reference) = &evaluation.subject.reference {
        text += &format!(", reference {reference}");
    }
    text += "\nmean absolute percentage error on held-out modes, median (quartiles) over runs; minutes of the \
             board for the training modes\n";
    text += &format!(
        "{:<26}{:<7}{:>6}{:>11} {:<9}{:>5}{:>26}{:>9}{:>9}{:>9}\n",
        "method",
        "target",
        "modes",
        "board",
        "sampling",
        "runs",
        "error",
        "≤ 5 %",
        "≤ 10 %",
        "training"
    );
    for row in &evaluation.results {
        text += &format!(
            "{:<26}{:<7}{:>6}{:>7.0} min {:<9}{:>5}{:>26}{:>9}{:>9}{:>7.1} s\n",
            row.method,
            row.target,
            row.modes,
            row.board_minutes.median,
            row.sampling,
            row.runs,
            three(row.mape),
            show::percent(Some(row.within_5_pct.median)),
            show::percent(Some(row.within_10_pct.median)),
            row.seconds.median
        );
    }
    for row in evaluation
        .results
        .iter()
        .filter(|row| !row.coverage.is_empty())
    {
        text += &guard_band(row);
    }
    text
}

fn guard_band(row: &EvaluationRow) -> String {
    let wanted = |c: &&crate::compare::evaluate::Covered| [0.9, 0.95, 0.99].contains(&c.confidence);
    let shares = row.coverage.iter().filter(wanted).map(|covered| {
        let of_runs = if covered.runs < row.runs {
            format!(", {} of {} runs", covered.runs, row.runs)
        } else {
            String::new()
        };
        format!(
            "{:.1} % at {:.0} % (+{:.1} %{of_runs})",
            100.0 * covered.share,
            100.0 * covered.confidence,
            100.0 * (covered.ratio - 1.0)
        )
    });
    let added = row.added.map_or(0.0, |added| added.median);
    format!(
        "{} {}, {} {} modes: export adds {added:.2} points; guard band holds {}\n",
        row.method,
        row.target,
        row.modes,
        row.sampling,
        shares.collect::<Vec<_>>().join(", ")
    )
}

fn three(q: Quartiles) -> String {
    format!("{:.2} % ({:.2} … {:.2})", q.median, q.q1, q.q3)
}
