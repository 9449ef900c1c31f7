//! Prints the bounds of the trainer on measured corpora beside the figures that it reaches
//! (`tools/bounds.sh`). Fails if a bound is missed.
//!
//! Every figure is the median of twenty runs on held-out modes, of the exported file read through
//! the runtime. A row is scored twice: with the shipped priors, and *nested*, with priors that were
//! learned without the family of the corpus. The bounds are for nested.

mod families;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use families::MEASURED;
use indicatif::ProgressBar;
use wattgate_runtime::{Confidence, Shape};
use wattgate_trainer::corpus::Corpus;
use wattgate_trainer::lab::evaluate::{Comparison, evaluate};
use wattgate_trainer::lab::optimize::{Choosing, Limits, optimize};
use wattgate_trainer::learn::families::learn;
use wattgate_trainer::learn::predictions::Target;
use wattgate_trainer::learn::priors::Priors;
use wattgate_trainer::learn::reference::Reference;
use wattgate_trainer::learn::split::{Amount, Sampling};
use wattgate_trainer::methods::{Method, method};

const TX1: &str = "tx1__image5000__translucence";
const TX2: &str = "tx2__image5000__translucence";
const XCEPTION: &str = "tx2__xception-600x600__flexibo";
const INCEPTION: &str = "tx2__inceptionv3-600x600__flexibo";

const RUNS: u64 = 20;
const SEED: u64 = 101;

/// Errors in percent that must not be exceeded, of time and of power.
struct Errors {
    corpus: &'static str,
    reference: Option<&'static str>,
    amount: Amount,
    sampling: Sampling,
    at_most: [Option<f64>; 2],
}

const ERRORS: [Errors; 7] = [
    errors(TX1, Amount::Modes(50), Sampling::Random, 1.7, Some(2.9)),
    errors(TX1, Amount::Modes(15), Sampling::Random, 4.0, Some(6.0)),
    errors(TX1, Amount::Modes(15), Sampling::Planned, 3.0, Some(4.2)),
    errors(TX1, Amount::Modes(30), Sampling::Planned, 1.4, Some(2.7)),
    errors(XCEPTION, Amount::Modes(50), Sampling::Random, 1.9, None),
    Errors {
        reference: Some(INCEPTION),
        ..errors(XCEPTION, Amount::Modes(15), Sampling::Random, 2.9, None)
    },
    errors(TX2, Amount::Modes(50), Sampling::Random, 8.0, Some(9.8)),
];

const fn errors(
    corpus: &'static str,
    amount: Amount,
    sampling: Sampling,
    time: f64,
    power: Option<f64>,
) -> Errors {
    Errors {
        corpus,
        reference: None,
        amount,
        sampling,
        at_most: [Some(time), power],
    }
}

/// Confidences, and the least and largest share in percent of held-out modes that may lie
/// within the guard band, with 50 random modes, on every corpus.
const COVERAGE: [(f64, [f64; 2]); 3] = [
    (0.90, [88.0, 92.0]),
    (0.95, [93.0, 97.0]),
    (0.99, [98.0, 100.0]),
];

/// What must be reached under 34 power limits of the TX1, in percent.
struct Limited {
    modes: usize,
    sampling: Sampling,
    confidence: u16,
    tries: usize,
    penalty: f64,
    over: Option<f64>,
}

const PLANNED: Limited = Limited {
    modes: 50,
    sampling: Sampling::Planned,
    confidence: 9_500,
    tries: 1,
    penalty: 4.0,
    over: Some(5.0),
};

const UNGUARDED: Limited = Limited {
    confidence: 5_000,
    penalty: 1.2,
    over: None,
    ..PLANNED
};

const LIMITED: [Limited; 5] = [
    Limited {
        sampling: Sampling::Random,
        penalty: 6.0,
        ..PLANNED
    },
    PLANNED,
    Limited {
        sampling: Sampling::Random,
        ..UNGUARDED
    },
    UNGUARDED,
    Limited {
        modes: 15,
        tries: 3,
        penalty: 4.4,
        over: Some(0.0),
        ..PLANNED
    },
];

/// Prints lines and counts the bounds that were missed.
struct Table {
    missed: u32,
}

impl Table {
    fn line(&mut self, what: &str, [shipped, nested]: [f64; 2], [least, most]: [f64; 2]) {
        let held = (least..=most).contains(&nested);
        self.missed += u32::from(!held);
        let bound = if least > 0.0 {
            format!("{least:.1} … {most:.1}")
        } else {
            format!("≤ {most:.1}")
        };
        let verdict = if held { "" } else { "  MISSED" };
        println!("{what:<62}{shipped:>8.2} %{nested:>8.2} %{bound:>15}{verdict}");
    }
}

/// The priors of one column of the table, by the corpus that is scored.
enum Column {
    Shipped,
    /// By family.
    Nested(BTreeMap<&'static str, Priors>),
}

impl Column {
    fn nested(folder: &Path) -> Self {
        let families = families::all(folder).unwrap_or_else(|why| stop(&why));
        let without = |name: &str| {
            let others = families.iter().filter(|(other, _)| *other != name);
            let others: Vec<Vec<Corpus>> = others.map(|(_, corpora)| corpora.clone()).collect();
            learn(&others).unwrap_or_else(|why| stop(&why))
        };
        Self::Nested(
            MEASURED
                .iter()
                .map(|(name, _)| (*name, without(name)))
                .collect(),
        )
    }

    fn priors(&self, corpus: &str) -> &Priors {
        let family = MEASURED.iter().find(|(_, names)| names.contains(&corpus));
        match (self, family) {
            (Self::Nested(priors), Some((family, _))) => &priors[family],
            _ => Priors::shipped(),
        }
    }
}

fn main() -> ExitCode {
    let folder = std::env::args_os().nth(1);
    let folder = folder.map_or_else(|| PathBuf::from("../shared/data"), PathBuf::from);
    let bench = Bench {
        columns: [Column::Shipped, Column::nested(&folder)],
        folder,
    };
    let mut table = Table { missed: 0 };
    println!(
        "{:<62}{:>10}{:>10}{:>15}",
        "median of 20 runs on measured corpora", "shipped", "nested", "bound"
    );
    let part = std::env::args().nth(2);
    let wanted = |name| part.as_deref().is_none_or(|part| part == name);
    if wanted("errors") {
        for row in &ERRORS {
            bench.hold_errors(row, &mut table);
        }
    }
    if wanted("coverage") {
        bench.hold_coverage(&mut table);
    }
    if wanted("choices") {
        for row in &LIMITED {
            bench.hold_limits(row, &mut table);
        }
    }
    println!("{} bounds missed", table.missed);
    ExitCode::from(u8::from(table.missed > 0))
}

fn stop(why: &dyn std::fmt::Display) -> ! {
    eprintln!("error: {why}");
    std::process::exit(5);
}

fn ours() -> [Box<dyn Method>; 1] {
    [method("wattgate").expect("our method")]
}

fn comparison<'a>(
    corpus: &'a Corpus,
    priors: &'a Priors,
    methods: &'a [Box<dyn Method>],
    amounts: &'a [Amount],
    samplings: &'a [Sampling],
) -> Comparison<'a> {
    Comparison {
        corpus,
        name: "",
        reference: None,
        priors,
        methods,
        amounts,
        samplings,
        runs: RUNS,
        seed: SEED,
        shape: Shape::Wide32,
    }
}

struct Bench {
    folder: PathBuf,
    columns: [Column; 2],
}

impl Bench {
    fn read(&self, name: &str) -> Corpus {
        families::read(&self.folder, name).unwrap_or_else(|why| stop(&why))
    }

    fn hold_errors(&self, row: &Errors, table: &mut Table) {
        let corpus = self.read(row.corpus);
        let evaluations = self.columns.each_ref().map(|column| {
            let priors = column.priors(row.corpus);
            let reference = row.reference.map(|name| {
                Reference::of_corpus(name.to_owned(), self.read(name), priors)
                    .unwrap_or_else(|why| stop(&why))
            });
            let (methods, amounts, samplings) = (ours(), [row.amount], [row.sampling]);
            let comparison = Comparison {
                reference: reference.as_ref(),
                ..comparison(&corpus, priors, &methods, &amounts, &samplings)
            };
            evaluate(&comparison, &ProgressBar::hidden()).expect("a fit")
        });
        let from = row.reference.map_or("", |_| ", transferred");
        for (target, bound) in Target::ALL.into_iter().zip(row.at_most) {
            let Some(bound) = bound else {
                continue;
            };
            let reached = evaluations.each_ref().map(|evaluation| {
                let row = evaluation.results.iter().find(|row| row.target == target);
                row.expect("a row for each target").mape.median
            });
            let what = format!(
                "{}, {} {}{from}: error of {target}",
                row.corpus, row.amount, row.sampling
            );
            table.line(&what, reached, [0.0, bound]);
        }
    }

    fn hold_coverage(&self, table: &mut Table) {
        for name in MEASURED.iter().flat_map(|(_, names)| *names) {
            let corpus = self.read(name);
            let evaluations = self.columns.each_ref().map(|column| {
                let (methods, priors) = (ours(), column.priors(name));
                let (amounts, samplings) = ([Amount::Modes(50)], [Sampling::Random]);
                let comparison = comparison(&corpus, priors, &methods, &amounts, &samplings);
                evaluate(&comparison, &ProgressBar::hidden()).expect("a fit")
            });
            let [shipped, nested] = evaluations.each_ref().map(|evaluation| &evaluation.results);
            for (shipped, nested) in shipped.iter().zip(nested) {
                for (confidence, bounds) in COVERAGE {
                    let shares = [shipped, nested].map(|row| {
                        let covered = row.coverage.iter().find(|c| c.confidence == confidence);
                        100.0 * covered.expect("a knot").share
                    });
                    let what = format!(
                        "{name}: {} in its band at {:.0} %",
                        nested.target,
                        100.0 * confidence
                    );
                    table.line(&what, shares, bounds);
                }
            }
        }
    }

    fn hold_limits(&self, row: &Limited, table: &mut Table) {
        let corpus = self.read(TX1);
        let choosing = Choosing {
            limits: Limits::Automatic,
            confidence: Confidence::new(row.confidence).expect("a confidence"),
            tries: row.tries,
        };
        let results = self.columns.each_ref().map(|column| {
            let (methods, amounts, samplings) =
                (ours(), [Amount::Modes(row.modes)], [row.sampling]);
            let comparison =
                comparison(&corpus, column.priors(TX1), &methods, &amounts, &samplings);
            optimize(&comparison, &choosing, &ProgressBar::hidden()).expect("a fit")
        });
        let reached = results.each_ref().map(|result| &result.results[0]);
        let what = format!(
            "{TX1}, {} {}, {} %, {} tries",
            row.modes,
            row.sampling,
            f64::from(row.confidence) / 100.0,
            row.tries
        );
        table.line(
            &format!("{what}: time"),
            reached.map(|row| row.time_penalty_pct),
            [f64::MIN, row.penalty],
        );
        if let Some(over) = row.over {
            let reached = reached.map(|row| row.over_pct);
            table.line(&format!("{what}: over"), reached, [0.0, over]);
        }
    }
}
