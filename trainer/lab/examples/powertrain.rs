//! PowerTrain's claims on measured trainings (`tools/powertrain.sh`): one workload to another, on the same board and
//! on another, with few modes. For each method, the error of time and of power, and what the mode costs that is chosen
//! at each whole watt. Medians over runs; all methods train on the same modes and are scored on the same others.
//! For each target it prints all rows, then the rows of the two tables in `trainer/README.md`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use indicatif::ProgressBar;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use wattgate_lab::compare::evaluate::{Comparison, Evaluation};
use wattgate_lab::compare::optimize::{Choosing, Limits};
use wattgate_lab::compare::{both, plots};
use wattgate_lab::methods::{Method, method};
use wattgate_runtime::Confidence;
use wattgate_runtime::shape::Shape;
use wattgate_trainer::fit::Priors;
use wattgate_trainer::plan::{Amount, Sampling};
use wattgate_trainer::read::Corpus;
use wattgate_trainer::read::Reference;
use wattgate_trainer::read::profiled;
use wattgate_trainer::score::Target;

/// A workload to transfer to, and the references: the other workload of its board, and one of another board.
const TARGETS: [(&str, [&str; 2]); 4] = [
    (XAVIER_VIT, [XAVIER_RESNET, TX2_RESNET]),
    (XAVIER_RESNET, [XAVIER_VIT, TX2_VIT]),
    (TX2_VIT, [TX2_RESNET, XAVIER_RESNET]),
    (TX2_RESNET, [TX2_VIT, XAVIER_VIT]),
];

const XAVIER_RESNET: &str = "xavier-agx__train-resnet50-imagenet-mb8__bofl";
const XAVIER_VIT: &str = "xavier-agx__train-vit-cifar10-mb32__bofl";
const TX2_RESNET: &str = "tx2__train-resnet50-imagenet-mb8__bofl";
const TX2_VIT: &str = "tx2__train-vit-cifar10-mb32__bofl";

/// Modes of the target's workload.
const MODES: [usize; 5] = [10, 15, 30, 50, 100];

/// Modes of the smaller reference, an eighth of PowerTrain's grid.
const SMALL_REFERENCE: usize = 546;

/// Methods that learn from the target alone.
const FROM_SCRATCH: [&str; 4] = ["wattgate-scratch", "powertrain-nn", "gbt", "random-forest"];

/// Methods that transfer from a reference.
const TRANSFERRED: [&str; 3] = [
    "wattgate",
    "powertrain-transfer",
    "powertrain-transfer-frozen",
];

/// No method but ours has a guard band; without one, a choice is as often over its limit as not.
const CONFIDENCES: [u16; 2] = [5_000, 9_500];

const SEED: u64 = 101;

/// A column of a table: the method, and which of the references it has.
type Column = (&'static str, Option<usize>);

/// The columns of the errors. References are the workload of the same board, a part of it, then those of the other.
const ERRORS: [Column; 9] = [
    ("wattgate-scratch", None),
    ("wattgate", Some(0)),
    ("wattgate", Some(1)),
    ("wattgate", Some(2)),
    ("powertrain-nn", None),
    ("powertrain-transfer", Some(0)),
    ("powertrain-transfer-frozen", Some(0)),
    ("gbt", None),
    ("random-forest", None),
];

/// The columns of the choices, with the confidence in units of 1/10,000 where the method has one.
const CHOICES: [(Column, u16); 8] = [
    (("wattgate-scratch", None), CONFIDENCES[0]),
    (("wattgate", Some(0)), CONFIDENCES[0]),
    (("wattgate", Some(0)), CONFIDENCES[1]),
    (("powertrain-nn", None), CONFIDENCES[0]),
    (("powertrain-transfer", Some(0)), CONFIDENCES[0]),
    (("powertrain-transfer-frozen", Some(0)), CONFIDENCES[0]),
    (("gbt", None), CONFIDENCES[0]),
    (("random-forest", None), CONFIDENCES[0]),
];

/// Numbers of modes whose choices are shown.
const CHOOSING: [usize; 2] = [15, 50];

/// What one method reached with a number of modes.
struct Line {
    method: String,
    reference: Option<usize>,
    modes: usize,
    confidence: u16,
    errors: String,
    choices: String,
}

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
    for (target, references) in TARGETS {
        let table = Table {
            folder: Path::new(folder),
            target,
            runs,
            plots: plots.first().map(Path::new),
        };
        if let Err(why) = table.show(references) {
            eprintln!("error: {why}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

type Failed = Box<dyn std::error::Error>;

/// All methods on one target.
struct Table<'a> {
    folder: &'a Path,
    target: &'a str,
    runs: u64,
    plots: Option<&'a Path>,
}

impl Table<'_> {
    fn show(&self, references: [&str; 2]) -> Result<(), Failed> {
        let corpus = self.read(self.target)?;
        println!("\n## {}\n", self.target);
        println!(
            "| method | reference, modes | modes | confidence | time / power | penalty | Area | A/L | A/L+1 | unserved |"
        );
        println!("|---|---|---|---|---|---|---|---|---|---|");
        let (scratch, mut lines) = self.compare(&corpus, &FROM_SCRATCH, ("–", None), &[])?;
        let mut known = 0;
        for name in references {
            let whole = self.read(name)?;
            let mut small = whole.clone();
            small.modes.shuffle(&mut ChaCha8Rng::seed_from_u64(SEED));
            small.modes.truncate(SMALL_REFERENCE);
            for reference in [whole, small] {
                let label = format!("{name}, {}", reference.modes.len());
                let reference =
                    Reference::of_corpus(name.to_owned(), reference, Priors::shipped())?;
                let label_and_number = (&label[..], Some(known));
                let (mut evaluation, more) =
                    self.compare(&corpus, &TRANSFERRED, label_and_number, &[reference])?;
                known += 1;
                lines.extend(more);
                if let Some(plots) = self.plots {
                    evaluation.results.extend(scratch.results.clone());
                    let folder = label.replace(", ", "-");
                    plots::of_evaluation(&evaluation, &plots.join(self.target).join(folder))?;
                }
            }
        }
        self.summarise(&lines);
        Ok(())
    }

    /// Prints the rows of README's two tables.
    fn summarise(&self, lines: &[Line]) {
        let find = |(method, reference): Column, modes: usize, confidence: u16| {
            lines.iter().find(|line| {
                (
                    &line.method[..],
                    line.reference,
                    line.modes,
                    line.confidence,
                ) == (method, reference, modes, confidence)
            })
        };
        let row = |first: String, cells: Vec<Option<&String>>| {
            let cells = cells.into_iter().map(|cell| cell.map_or("–", |it| it));
            println!("| {first} | {} |", cells.collect::<Vec<_>>().join(" | "));
        };
        println!();
        for modes in MODES {
            let cell = |column: &Column| find(*column, modes, CONFIDENCES[0]).map(|it| &it.errors);
            let cells = ERRORS.iter().map(cell).collect();
            row(format!("{} | {modes}", self.target), cells);
        }
        println!();
        for modes in CHOOSING {
            let cell = |(column, confidence): &(Column, u16)| {
                find(*column, modes, *confidence).map(|it| &it.choices)
            };
            let cells = CHOICES.iter().map(cell).collect();
            row(format!("{}, {modes}", self.target), cells);
        }
    }

    fn read(&self, name: &str) -> Result<Corpus, Failed> {
        let path: PathBuf = self.folder.join(format!("{name}.csv"));
        Ok(Corpus::read(&path, &ProgressBar::hidden())?)
    }

    /// Prints a row for each method, number of modes and confidence.
    fn compare(
        &self,
        corpus: &Corpus,
        names: &[&str],
        (label, reference): (&str, Option<usize>),
        references: &[Reference],
    ) -> Result<(Evaluation, Vec<Line>), Failed> {
        let methods: Vec<Box<dyn Method>> = names.iter().copied().filter_map(method).collect();
        let comparison = Comparison {
            priors: Priors::shipped(),
            corpus,
            name: self.target,
            references,
            methods: &methods,
            amounts: &MODES.map(Amount::Modes),
            samplings: &[Sampling::Random],
            runs: self.runs,
            seed: SEED,
            shape: Shape::Wide32,
        };
        let limits = whole_watts(corpus);
        let choosing = CONFIDENCES.map(|confidence| Choosing {
            limits,
            confidence: Confidence::new(confidence).expect("a confidence"),
            tries: 1,
        });
        let (evaluation, choices) = both(&comparison, &choosing, &ProgressBar::hidden())?;
        let mut lines = Vec::new();
        for (choices, confidence) in choices.iter().zip(CONFIDENCES) {
            for row in &choices.results {
                if row.confidence.is_none() && confidence != CONFIDENCES[0] {
                    continue;
                }
                let error = |target| mape(&evaluation, row.method, row.modes, target);
                lines.push(Line {
                    method: row.method.to_owned(),
                    reference,
                    modes: row.modes,
                    confidence,
                    errors: format!("{} / {}", error(Target::Time), error(Target::Power)),
                    choices: format!(
                        "{:.1}; {:.2}; {:.0} / {:.0}; {:.0}",
                        row.time_penalty_pct,
                        row.area_w,
                        row.over_pct,
                        row.over_1w_pct,
                        row.unserved_pct
                    ),
                });
                println!(
                    "| {} | {label} | {} | {} | {} / {} % | {:.1} % | {:.2} W | {:.0} % | {:.0} % | {:.0} % |",
                    row.method,
                    row.modes,
                    row.confidence.map_or("–".to_owned(), |confidence| format!(
                        "{:.0} %",
                        100.0 * confidence
                    )),
                    error(Target::Time),
                    error(Target::Power),
                    row.time_penalty_pct,
                    row.area_w,
                    row.over_pct,
                    row.over_1w_pct,
                    row.unserved_pct
                );
            }
        }
        Ok((evaluation, lines))
    }
}

/// Every whole watt between the least and the most power of a corpus.
fn whole_watts(corpus: &Corpus) -> Limits {
    let [highest, lowest] = [f64::max, f64::min].map(|extreme| {
        let powers = profiled(corpus)
            .into_iter()
            .filter_map(|mode| mode.power_mw);
        powers.reduce(extreme).unwrap_or(0.0)
    });
    Limits::Range([
        (lowest / 1e3).ceil() * 1e3,
        (highest / 1e3).floor() * 1e3,
        1e3,
    ])
}

fn mape(evaluation: &Evaluation, method: &str, modes: usize, target: Target) -> String {
    let mut rows = evaluation.results.iter();
    let row = rows.find(|row| row.method == method && row.modes == modes && row.target == target);
    row.map_or("–".to_owned(), |row| format!("{:.1}", row.mape.median))
}
