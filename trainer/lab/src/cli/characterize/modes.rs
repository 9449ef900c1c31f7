//! `characterize modes`: the four modes that predict the time of an epoch in all others.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use wattgate_cli::output::AtomicFile;
use wattgate_runtime::PowerMode;

use crate::characterize::four_modes::{FourModes, Network, Scores};
use crate::cli::{Failure, cli, json, print_json, print_text, show, values};
use wattgate_trainer::cli::{inputs::BlankArgument, inputs::read_corpus, inputs::refuse_input};

const EXAMPLE: &str = "\
Examples:
  wattgate-lab characterize modes lenet.csv resnet.csv mobilenet.csv --samples 60000,50000,23080 -o four.json
  wattgate-lab characterize modes vgg.csv --samples 50000 --modes four.json

Without --modes all sets of four of the modes that the corpora share are tried (at most 20 modes). With it
the stored four are used, also for networks that had no part in their choice. The errors are those of
Characterizing's linear models and of our own ones, from the same four modes, on all modes of a corpus.

With --json: {\"version\": 1, \"kind\", \"device\", \"modes\": [[CORES, CPU, GPU, EMC]], \"error\", \"energy\": [J, …],
\"networks\": [{\"workload\", \"time\": [S, …]}], \"scores\": [{\"workload\", \"modes\", \"is_new\", \"linear_time\", \"ours_time\",
\"linear_energy\", \"ours_energy\"}]}; coefficients are a constant, then factors of the four knobs in kHz, and for the
energy of the time; scores are MAPE in percent. The file of -o has the same keys without scores.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    /// Profiled modes of one network each, on one board
    #[arg(value_name = "CORPUS", required = true)]
    corpora: Vec<PathBuf>,
    #[command(flatten)]
    blank: BlankArgument,
    /// Samples of an epoch, one for each corpus, which then needs a minibatch [an epoch of one step]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = values::whole::<u32>(1, u32::MAX.into()))]
    samples: Vec<u32>,
    /// Four modes of an earlier search
    #[arg(long, value_name = "FILE", conflicts_with = "output")]
    modes: Option<PathBuf>,
    /// A file for the four modes
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Seed of our models
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = values::seed)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The four modes with the errors of models that were fitted to them.
#[derive(Serialize)]
struct Scored<'a> {
    #[serde(flatten)]
    four: &'a FourModes,
    scores: &'a [Scores],
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let first = &arguments.corpora[0];
    let failed = |path: &Path, why| Failure::FourModes {
        path: path.to_owned(),
        why,
    };
    if !arguments.samples.is_empty() && arguments.samples.len() != arguments.corpora.len() {
        return Err(Failure::SamplesOfEach {
            corpora: arguments.corpora.len(),
            found: arguments.samples.len(),
        });
    }
    if let Some(output) = &arguments.output {
        let inputs: Vec<_> = arguments.corpora.iter().map(|path| Some(&**path)).collect();
        refuse_input(output, &inputs)?;
    }
    let mut networks = Vec::new();
    for (at, path) in arguments.corpora.iter().enumerate() {
        let corpus = read_corpus(path, arguments.blank.meaning())?;
        let steps = match arguments.samples.get(at) {
            Some(&samples) => {
                let minibatch = corpus
                    .feeding
                    .minibatch
                    .ok_or_else(|| Failure::NoMinibatch { path: path.clone() })?;
                f64::from(samples.div_ceil(minibatch))
            }
            None => 1.0,
        };
        networks.push(Network { corpus, steps });
    }
    let four = match &arguments.modes {
        Some(path) => read(path)?,
        None => FourModes::search(&networks).map_err(|why| failed(first, why))?,
    };
    let mut scores = Vec::new();
    for (network, path) in networks.iter().zip(&arguments.corpora) {
        let scored = four.score(network, arguments.seed);
        scores.push(scored.map_err(|why| failed(path, why))?);
    }
    if let Some(path) = &arguments.output {
        AtomicFile::create(path)?.commit(json(&four)?.as_bytes())?;
    }
    let scored = Scored {
        four: &four,
        scores: &scores,
    };
    if arguments.json {
        return print_json(&scored);
    }
    print_text(&text(&four, &scores))
}

/// Reads a file of `-o`.
fn read(path: &Path) -> Result<FourModes, Failure> {
    let text = fs::read_to_string(path).map_err(|source| cli::Failure::Read {
        path: path.to_owned(),
        source,
    })?;
    let four: FourModes = serde_json::from_str(&text).map_err(|why| Failure::Stored {
        path: path.to_owned(),
        why,
    })?;
    four.check().map_err(|why| Failure::FourModes {
        path: path.to_owned(),
        why,
    })?;
    Ok(four)
}

fn text(four: &FourModes, scores: &[Scores]) -> String {
    let mut text = format!("{} on {}: the four modes\n", four.kind, four.device);
    for mode in &four.modes {
        text += &format!("  {}\n", show::mode(PowerMode::from_knobs(*mode)));
    }
    text += &format!(
        "\n{:<40}{:>18}{:>18}\n{:<40}{:>10}{:>8}{:>10}{:>8}\n",
        "error on all modes of a corpus, MAPE %",
        "time",
        "energy",
        "",
        "linear",
        "ours",
        "linear",
        "ours"
    );
    for score in scores {
        let new = if score.is_new { ", new" } else { "" };
        text += &format!(
            "{:<40}{:>10.1}{:>8.1}{:>10.1}{:>8.1}\n",
            format!("  {}{new}, {} modes", score.workload, score.modes),
            score.linear_time,
            score.ours_time,
            score.linear_energy,
            score.ours_energy
        );
    }
    text
}
