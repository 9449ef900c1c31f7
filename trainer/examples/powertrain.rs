//! PowerTrain's claims on measured trainings (`tools/powertrain.sh`): one workload to another, on the same board and
//! on another, with few modes. For each pair and method, the error of time and of power, and what the mode costs
//! that is chosen at each whole watt. Medians over runs; all methods train on the same modes and are scored on the
//! same others.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use indicatif::ProgressBar;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use wattgate_runtime::{Confidence, Shape};
use wattgate_trainer::corpus::Corpus;
use wattgate_trainer::corpus::modes::profiled;
use wattgate_trainer::lab::evaluate::{Comparison, Evaluation};
use wattgate_trainer::lab::optimize::{Choosing, Limits};
use wattgate_trainer::lab::{both, plots};
use wattgate_trainer::learn::predictions::Target;
use wattgate_trainer::learn::priors::Priors;
use wattgate_trainer::learn::reference::Reference;
use wattgate_trainer::learn::split::{Amount, Sampling};
use wattgate_trainer::methods::{Method, method};

/// The reference, and the workload to transfer to. The last two go to another board.
const PAIRS: [[&str; 2]; 6] = [
    [
        "xavier-agx__train-resnet50-imagenet-mb8__bofl",
        "xavier-agx__train-vit-cifar10-mb32__bofl",
    ],
    [
        "xavier-agx__train-vit-cifar10-mb32__bofl",
        "xavier-agx__train-resnet50-imagenet-mb8__bofl",
    ],
    [
        "tx2__train-resnet50-imagenet-mb8__bofl",
        "tx2__train-vit-cifar10-mb32__bofl",
    ],
    [
        "tx2__train-vit-cifar10-mb32__bofl",
        "tx2__train-resnet50-imagenet-mb8__bofl",
    ],
    [
        "xavier-agx__train-resnet50-imagenet-mb8__bofl",
        "tx2__train-vit-cifar10-mb32__bofl",
    ],
    [
        "tx2__train-resnet50-imagenet-mb8__bofl",
        "xavier-agx__train-vit-cifar10-mb32__bofl",
    ],
];

/// Modes of the target's workload.
const MODES: [usize; 5] = [10, 15, 30, 50, 100];

/// Modes of the smaller reference: a fifth of PowerTrain's grid of 4,368 would be 874; the paper also shows 546.
const SMALL_REFERENCE: usize = 546;

const METHODS: [&str; 7] = [
    "wattgate",
    "wattgate-scratch",
    "powertrain-nn",
    "powertrain-transfer",
    "powertrain-transfer-frozen",
    "gbt",
    "random-forest",
];

const SEED: u64 = 101;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, runs, plots @ ..] = &arguments[..] else {
        eprintln!("usage: powertrain FOLDER-OF-CORPORA RUNS [FOLDER-FOR-PLOTS]");
        return ExitCode::from(2);
    };
    let Ok(runs) = runs.parse() else {
        eprintln!("error: RUNS is `{runs}`; expected a number");
        return ExitCode::from(2);
    };
    for pair in PAIRS {
        if let Err(why) = show(Path::new(folder), pair, runs, plots.first().map(Path::new)) {
            eprintln!("error: {why}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn show(
    folder: &Path,
    [from, to]: [&str; 2],
    runs: u64,
    plots: Option<&Path>,
) -> Result<(), Box<dyn std::error::Error>> {
    let read = |name: &str| {
        let path: PathBuf = folder.join(format!("{name}.csv"));
        Corpus::read(&path, &ProgressBar::hidden())
    };
    let (corpus, whole) = (read(to)?, read(from)?);
    let mut small = whole.clone();
    small.modes.shuffle(&mut ChaCha8Rng::seed_from_u64(SEED));
    small.modes.truncate(SMALL_REFERENCE);
    let [highest, lowest] = [f64::max, f64::min].map(|of| {
        let powers = profiled(&corpus)
            .into_iter()
            .filter_map(|mode| mode.power_mw);
        powers.reduce(of).unwrap_or(0.0)
    });
    let limits = [
        (lowest / 1e3).ceil() * 1e3,
        (highest / 1e3).floor() * 1e3,
        1e3,
    ];
    for reference in [whole, small] {
        let of = reference.modes.len();
        println!("\n## {from} ({of} modes) → {to}\n");
        println!("| method | modes | time / power | penalty | Area | A/L | A/L+1 | unserved |");
        println!("|---|---|---|---|---|---|---|---|");
        let references = [Reference::of_corpus(
            from.to_owned(),
            reference,
            Priors::shipped(),
        )?];
        let methods: Vec<Box<dyn Method>> = METHODS.into_iter().filter_map(method).collect();
        let comparison = Comparison {
            priors: Priors::shipped(),
            corpus: &corpus,
            name: to,
            references: &references,
            methods: &methods,
            amounts: &MODES.map(Amount::Modes),
            samplings: &[Sampling::Random],
            runs,
            seed: SEED,
            shape: Shape::Wide32,
        };
        let choosing = Choosing {
            limits: Limits::Range(limits),
            confidence: Confidence::new(5_000).ok_or("a confidence")?,
            tries: 1,
        };
        let (evaluation, choices) = both(&comparison, &choosing, &ProgressBar::hidden())?;
        for row in &choices.results {
            let error = |target| mape(&evaluation, row.method, row.modes, target);
            println!(
                "| {} | {} | {} / {} % | {:.1} % | {:.2} W | {:.0} % | {:.0} % | {:.0} % |",
                row.method,
                row.modes,
                error(Target::Time),
                error(Target::Power),
                row.time_penalty_pct,
                row.area_w,
                row.over_pct,
                row.over_1w_pct,
                row.unserved_pct
            );
        }
        if let Some(plots) = plots {
            plots::of_evaluation(&evaluation, &plots.join(format!("{from}-{of}-{to}")))?;
        }
    }
    Ok(())
}

fn mape(evaluation: &Evaluation, method: &str, modes: usize, target: Target) -> String {
    let mut rows = evaluation.results.iter();
    let row = rows.find(|row| row.method == method && row.modes == modes && row.target == target);
    row.map_or("–".to_owned(), |row| format!("{:.1}", row.mape.median))
}
