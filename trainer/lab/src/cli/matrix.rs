//! `matrix`: evaluates transfers between all pairs of corpora.

use std::path::PathBuf;

use clap::Args;
use rayon::prelude::*;
use wattgate_cli::shard::{Jobs, Ran};

use super::inputs::{BlankArgument, read_corpus};
use super::{
    Failure, MethodArgument, SamplingArgument, cli, print_json, print_text, progress_bar, values,
};
use crate::compare::matrix::{Matrix, MatrixError, MatrixOptions, matrix, short};
use wattgate_trainer::fit::Priors;
use wattgate_trainer::plan::Amount;
use wattgate_trainer::read::Corpus;
use wattgate_trainer::read::Reference;
use wattgate_trainer::score::Target;

const EXAMPLE: &str = "\
Example:
  wattgate-lab matrix resnet.csv mobilenet.csv yolo.csv --modes 15 --runs 5

Each cell is the median over runs of the error on the held-out modes of one corpus, with
another corpus as the reference. The column `none` is training from scratch. --shard I/N computes every N-th cell from
the I-th on, and prints a part for `wattgate-lab merge`.

With --json: {\"version\": 1, \"method\", \"modes\", \"runs\", \"cells\": [{\"reference\", \"corpus\", \"kind\",
\"target\", \"mape\": {\"median\", \"q1\", \"q3\"}}]}; reference is null for training from scratch.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    /// At least two corpora
    #[arg(value_name = "CORPUS", num_args = 2.., required = true)]
    corpora: Vec<PathBuf>,
    #[command(flatten)]
    blank: BlankArgument,
    /// The method
    #[arg(long, value_name = "NAME", value_enum, default_value = "wattgate")]
    method: MethodArgument,
    /// Modes to train on: a number, or a share of the profiled ones such as 90% [default: 50, or half of the profiled
    /// ones of a corpus that has no more]
    #[arg(long, value_name = "N", value_parser = values::amount, allow_hyphen_values = true)]
    modes: Option<Amount>,
    /// How the training modes are chosen
    #[arg(long, value_enum, value_name = "HOW", default_value = "random")]
    sampling: SamplingArgument,
    /// Runs of each cell, with the seeds from --seed on
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = values::whole::<u64>(1, 1000))]
    runs: u64,
    /// Seed of the first run
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = values::seed)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments, jobs: &Jobs) -> Result<(), Failure> {
    let blank = arguments.blank.meaning();
    let read = |path: &PathBuf| Ok((path.display().to_string(), read_corpus(path, blank)?));
    let corpora: Result<Vec<(String, Corpus)>, Failure> =
        arguments.corpora.iter().map(read).collect();
    let corpora = corpora?;
    let references: Result<Vec<Reference>, cli::Failure> = corpora
        .par_iter()
        .map(|(name, corpus)| {
            Reference::of_corpus(name.clone(), corpus.clone(), Priors::shipped()).map_err(|why| {
                cli::Failure::Reference {
                    path: name.into(),
                    why,
                }
            })
        })
        .collect();
    let references = references?;
    let progress = progress_bar((corpora.len() * corpora.len()) as u64 * arguments.runs);
    let options = MatrixOptions {
        method: &|| arguments.method.method(),
        amount: arguments
            .modes
            .unwrap_or_else(|| Amount::by_default(corpora.iter().map(|(_, corpus)| corpus))),
        sampling: arguments.sampling.into(),
        runs: arguments.runs,
        seed: arguments.seed,
    };
    let result = matrix(
        &corpora,
        &references,
        &options,
        jobs,
        &progress.with_message("run"),
    );
    let matrix = result.map_err(|MatrixError(path, why)| Failure::Compare {
        path: path.into(),
        why,
    })?;
    let matrix = match matrix {
        Ran::Whole(matrix) => matrix,
        Ran::Part(part) => return print_text(&part),
    };
    if arguments.json {
        print_json(&matrix)
    } else {
        print_text(&text(&matrix, &corpora))
    }
}

fn text(matrix: &Matrix, corpora: &[(String, Corpus)]) -> String {
    let mut text = format!(
        "{}, {} modes, {} runs: median error on held-out modes, MAPE %\n",
        matrix.method, matrix.modes, matrix.runs
    );
    for (at, (name, corpus)) in corpora.iter().enumerate() {
        text += &format!("{:>3}  {} ({})\n", at + 1, short(name), corpus.kind);
    }
    for target in Target::ALL {
        let cells = || {
            matrix
                .cells
                .iter()
                .filter(move |cell| cell.target == target)
        };
        if cells().next().is_none() {
            continue;
        }
        text += &format!("\n{:<18}{:>9}", format!("{target}, reference"), "none");
        for at in 1..=corpora.len() {
            text += &format!("{at:>8}");
        }
        text += "\n";
        for (at, (name, _)) in corpora.iter().enumerate() {
            let references = corpora.iter().map(|(name, _)| Some(name));
            let row: Vec<String> = [None]
                .into_iter()
                .chain(references)
                .map(|reference| {
                    let cell = cells().find(|cell| {
                        &cell.subject.corpus == name && cell.subject.reference.as_ref() == reference
                    });
                    cell.map_or("-".to_owned(), |cell| format!("{:.2}", cell.mape.median))
                })
                .collect();
            if row.iter().all(|cell| cell == "-") {
                continue;
            }
            text += &format!("{:<18}{:>9}", format!("corpus {}", at + 1), row[0]);
            row[1..]
                .iter()
                .for_each(|cell| text += &format!("{cell:>8}"));
            text += "\n";
        }
    }
    text
}
