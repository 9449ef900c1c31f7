//! Prints the bounds of the trainer on measured corpora beside the figures that it reaches
//! (`tools/bounds.sh`). Fails if a bound is missed.
//!
//! Every figure is the median of twenty runs on held-out modes, of the exported file read through
//! the runtime. A row is scored twice: with the shipped priors, and *nested*, with priors that were
//! learned without the family of the corpus. The bounds are for nested.
//!
//! `gate` is a quick check: it scores two of the rows, nested only, in six runs. So few runs scatter
//! more, and its bounds are wider.

mod families;
mod hindsight;
mod nested;
mod once;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;

use families::MEASURED;
use indicatif::ProgressBar;
use nested::Nested;
use once::Once;
use wattgate_lab::compare::evaluate::{Comparison, Covered, Quartiles, TrainedRun, evaluate};
use wattgate_lab::compare::optimize::{Choosing, Limits, optimize};
use wattgate_lab::methods::Method;
use wattgate_runtime::shape::Shape;
use wattgate_runtime::{Confidence, Model};
use wattgate_trainer::fit::Priors;
use wattgate_trainer::plan::{Amount, Sampling};
use wattgate_trainer::read::Corpus;
use wattgate_trainer::read::Reference;
use wattgate_trainer::score::{Predictions, Target};

const TX1: &str = "tx1__image5000__translucence";
const TX2: &str = "tx2__image5000__translucence";
const XCEPTION: &str = "tx2__xception-600x600__flexibo";
const INCEPTION: &str = "tx2__inceptionv3-600x600__flexibo";

const PARTS: [&str; 6] = [
    "errors",
    "coverage",
    "choices",
    "interval",
    "hindsight",
    "gate",
];

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

/// Confidences of the guard band. After a training on 50 random modes, the share of held-out modes
/// within the band must lie in the first range on each corpus, and in the second on average. In percent.
const COVERAGE: [(f64, [f64; 2], [f64; 2]); 3] = [
    (0.90, [87.0, 93.0], [89.0, 91.0]),
    (0.95, [92.0, 98.0], [94.0, 96.0]),
    (0.99, [98.0, 100.0], [98.0, 100.0]),
];

/// The band of the power may score at most this share, in percent, of what a band with one factor for
/// all modes scores ([`interval_score`]).
const INTERVAL: f64 = 80.0;

/// What must be reached under 34 power limits of the TX1, in percent.
struct Limited {
    modes: usize,
    sampling: Sampling,
    confidence: u16,
    tries: usize,
    penalty: f64,
    over: Option<f64>,
}

const LIMITED: [Limited; 5] = [
    Limited {
        modes: 50,
        sampling: Sampling::Random,
        confidence: 9_500,
        tries: 1,
        penalty: 4.0,
        over: Some(5.0),
    },
    Limited {
        modes: 50,
        sampling: Sampling::Planned,
        confidence: 9_500,
        tries: 1,
        penalty: 4.0,
        over: Some(5.0),
    },
    UNGUARDED,
    Limited {
        sampling: Sampling::Planned,
        ..UNGUARDED
    },
    Limited {
        modes: 15,
        sampling: Sampling::Planned,
        confidence: 9_500,
        tries: 3,
        penalty: 1.5,
        over: Some(0.0),
    },
];

const UNGUARDED: Limited = Limited {
    modes: 50,
    sampling: Sampling::Random,
    confidence: 5_000,
    tries: 1,
    penalty: 1.2,
    over: None,
};

/// The rows of the gate, with bounds for its few runs.
const GATE: (Errors, Limited) = (
    errors(TX1, Amount::Modes(30), Sampling::Planned, 2.0, Some(3.2)),
    Limited {
        modes: 50,
        sampling: Sampling::Random,
        confidence: 9_500,
        tries: 1,
        penalty: 10.0,
        over: Some(6.0),
    },
);
const GATE_RUNS: u64 = 6;

/// Prints lines and counts the bounds that were missed.
#[derive(Default)]
struct Table {
    missed: u32,
}

impl Table {
    /// `values` has one value for each column, the nested one last.
    fn line(&mut self, what: &str, values: &[f64], [least, most]: [f64; 2]) {
        let held = values
            .last()
            .is_some_and(|nested| (least..=most).contains(nested));
        self.missed += u32::from(!held);
        let bound = if least > 0.0 {
            format!("{least:.1} … {most:.1}")
        } else {
            format!("≤ {most:.1}")
        };
        let values: String = values
            .iter()
            .map(|value| format!("{value:>8.2} %"))
            .collect();
        let verdict = if held { "" } else { "  MISSED" };
        println!("{what:<68}{values:>20}{bound:>15}{verdict}");
    }
}

/// One column of the table: its priors, and our method, which all rows share.
struct Column {
    /// `None` for the shipped priors.
    nested: Option<Nested>,
    methods: [Box<dyn Method>; 1],
}

impl Column {
    fn shipped() -> Self {
        Self {
            nested: None,
            methods: [Box::new(Once::default())],
        }
    }

    fn nested() -> Self {
        Self {
            nested: Some(Nested::default()),
            ..Self::shipped()
        }
    }

    fn priors(&self, folder: &Path, corpus: &str) -> Rc<Priors> {
        match &self.nested {
            None => Rc::new(Priors::shipped().clone()),
            Some(nested) => nested.priors(folder, corpus),
        }
    }
}

fn main() -> ExitCode {
    let folder = std::env::args_os().nth(1);
    let folder = folder.map_or_else(|| PathBuf::from("../shared/data"), PathBuf::from);
    let part = std::env::args().nth(2);
    if let Some(part) = &part
        && !PARTS.contains(&&**part)
    {
        stop(&format_args!("`{part}` is none of {}", PARTS.join(", ")));
    }
    let is_gate = part.as_deref() == Some("gate");
    let bench = Bench {
        columns: match is_gate {
            true => vec![Column::nested()],
            false => vec![Column::shipped(), Column::nested()],
        },
        runs: if is_gate { GATE_RUNS } else { RUNS },
        folder,
    };
    let runs = bench.runs;
    let head = format!("median of {runs} runs on measured corpora");
    let columns = if is_gate {
        "nested"
    } else {
        "shipped    nested"
    };
    println!("{head:<68}{columns:>20}{:>15}", "bound");
    let mut table = Table::default();
    if is_gate {
        bench.hold_errors(&GATE.0, &mut table);
        bench.hold_limits(&GATE.1, &mut table);
    }
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
    if wanted("interval") {
        for name in [TX1, TX2] {
            bench.hold_interval(name, &mut table);
        }
    }
    if wanted("hindsight") {
        bench.show_hindsight();
    }
    println!("{} bounds missed", table.missed);
    ExitCode::from(u8::from(table.missed > 0))
}

fn stop(why: &dyn std::fmt::Display) -> ! {
    eprintln!("error: {why}");
    std::process::exit(5);
}

struct Bench {
    folder: PathBuf,
    columns: Vec<Column>,
    runs: u64,
}

impl Bench {
    fn read(&self, name: &str) -> Corpus {
        families::read(&self.folder, name).unwrap_or_else(|why| stop(&why))
    }

    /// What `evaluate` makes of each column's comparison of our method on a corpus.
    fn columns<T>(
        &self,
        name: &str,
        (amount, sampling): (Amount, Sampling),
        evaluate: impl Fn(&Comparison<'_>) -> T,
    ) -> Vec<T> {
        let corpus = self.read(name);
        let one = |column: &Column| {
            evaluate(&Comparison {
                corpus: &corpus,
                name: "",
                references: &[],
                priors: &column.priors(&self.folder, name),
                methods: &column.methods,
                amounts: &[amount],
                samplings: &[sampling],
                runs: self.runs,
                seed: SEED,
                shape: Shape::Wide32,
            })
        };
        self.columns.iter().map(one).collect()
    }

    fn hold_errors(&self, row: &Errors, table: &mut Table) {
        let columns = self.columns(row.corpus, (row.amount, row.sampling), |comparison| {
            let reference = row.reference.map(|name| {
                let (name, corpus) = (name.to_owned(), self.read(name));
                let reference = Reference::of_corpus(name, corpus, comparison.priors);
                reference.unwrap_or_else(|why| stop(&why))
            });
            let comparison = Comparison {
                references: reference.as_slice(),
                ..*comparison
            };
            evaluate(&comparison, &ProgressBar::hidden()).expect("a fit")
        });
        let from = row.reference.map_or("", |_| ", transferred");
        for (target, bound) in Target::ALL.into_iter().zip(row.at_most) {
            let Some(bound) = bound else {
                continue;
            };
            let reached = columns.iter().map(|evaluation| {
                let row = evaluation.results.iter().find(|row| row.target == target);
                row.expect("a row for each target").mape.median
            });
            let what = format!(
                "{}, {} {}{from}: error of {target}",
                row.corpus, row.amount, row.sampling
            );
            table.line(&what, &reached.collect::<Vec<f64>>(), [0.0, bound]);
        }
    }

    fn hold_coverage(&self, table: &mut Table) {
        let mut of_all = COVERAGE.map(|_| [Vec::new(), Vec::new()]);
        for name in MEASURED.iter().flat_map(|(_, names)| *names) {
            let asked = (Amount::Modes(50), Sampling::Random);
            let columns = self.columns(name, asked, |comparison| {
                let evaluation = evaluate(comparison, &ProgressBar::hidden());
                evaluation.expect("a fit").results
            });
            for (at, row) in columns[0].iter().enumerate() {
                for ((confidence, bounds, _), of_all) in COVERAGE.into_iter().zip(&mut of_all) {
                    let knots = columns.iter().map(|rows| {
                        let mut knots = rows[at].coverage.iter();
                        knots.find(|knot| knot.confidence == confidence)
                    });
                    let percent = 100.0 * confidence;
                    let mut what = format!("{name}: {} in its band at {percent:.0} %", row.target);
                    // A file refuses a confidence that its residuals cannot carry.
                    let Some(knots) = knots.collect::<Option<Vec<_>>>() else {
                        println!("{what}: no file reaches it");
                        continue;
                    };
                    let runs = knots.iter().map(|knot| knot.runs).min().unwrap_or(0);
                    if runs < row.runs {
                        write!(what, ", {runs} of {} files", row.runs).expect("text");
                    }
                    let [shares, means] = [
                        |knot: &&Covered| 100.0 * knot.share,
                        |knot: &&Covered| 100.0 * knot.mean_share,
                    ]
                    .map(|value_at| knots.iter().map(value_at).collect::<Vec<f64>>());
                    table.line(&what, &shares, bounds);
                    of_all[0].push(shares);
                    of_all[1].push(means);
                }
            }
        }
        for ((confidence, _, bounds), of_all) in COVERAGE.into_iter().zip(of_all) {
            for (of_runs, rows) in ["", ", means of runs"].iter().zip(of_all) {
                let mean = |column: usize| {
                    let sum: f64 = rows.iter().map(|shares| shares[column]).sum();
                    sum / rows.len() as f64
                };
                let means: Vec<f64> = (0..self.columns.len()).map(mean).collect();
                let percent = 100.0 * confidence;
                let what = format!("mean of all corpora and targets at {percent:.0} %{of_runs}");
                table.line(&what, &means, bounds);
            }
        }
    }

    fn hold_limits(&self, row: &Limited, table: &mut Table) {
        let choosing = Choosing {
            limits: Limits::Automatic,
            confidence: Confidence::new(row.confidence).expect("a confidence"),
            tries: row.tries,
        };
        let asked = (Amount::Modes(row.modes), row.sampling);
        let columns = self.columns(TX1, asked, |comparison| {
            let result = optimize(comparison, &choosing, &ProgressBar::hidden());
            result.expect("a fit").results.swap_remove(0)
        });
        let what = format!(
            "{TX1}, {} {}, {} %, {} tries",
            row.modes,
            row.sampling,
            f64::from(row.confidence) / 100.0,
            row.tries
        );
        let penalties: Vec<f64> = columns.iter().map(|row| row.time_penalty_pct).collect();
        table.line(
            &format!("{what}: time"),
            &penalties,
            [f64::MIN, row.penalty],
        );
        if let Some(over) = row.over {
            let reached: Vec<f64> = columns.iter().map(|row| row.over_pct).collect();
            table.line(&format!("{what}: over"), &reached, [0.0, over]);
        }
    }

    /// The penalty of choices if their margin were known in hindsight, with 50 modes and with half of the
    /// corpus. It bounds what a guard band can reach, and so has no bound itself.
    fn show_hindsight(&self) {
        let random =
            [Amount::Modes(50), Amount::Percent(50.0)].map(|amount| (amount, Sampling::Random));
        for asked in [random[0], (random[0].0, Sampling::Planned), random[1]] {
            let columns = self.columns(TX1, asked, |comparison| {
                let runs =
                    comparison.run(&ProgressBar::hidden(), |run| Ok(hindsight::choices(run)));
                let runs: Vec<_> = runs.expect("a fit").into_iter().flatten().collect();
                hindsight::penalty(&runs).unwrap_or(f64::NAN)
            });
            let (amount, sampling) = asked;
            let what = format!("{TX1}, {amount} {sampling}, 5 % over in hindsight: time");
            let columns = columns.iter().map(|penalty| format!("{penalty:>8.2} %"));
            println!("{what:<68}{:>20}", columns.collect::<String>());
        }
    }

    /// The interval score of the power's band, relative to that of one factor for all modes.
    fn hold_interval(&self, name: &str, table: &mut Table) {
        let asked = (Amount::Modes(50), Sampling::Random);
        let columns = self.columns(name, asked, |comparison| {
            let ratios = comparison.run(&ProgressBar::hidden(), |run| Ok(interval_score(run)));
            let ratios = ratios.expect("a fit").into_iter().flatten();
            100.0 * Quartiles::from_values(ratios).expect("a run").median
        });
        let what = format!("{name}: interval score, of that of one factor");
        table.line(&what, &columns, [0.0, INTERVAL]);
    }
}

/// Scores two bands of the power on the held-out modes: the band of the file, which is wider for some modes
/// than for others, and a band that is equally wide for all. Returns the first score divided by the second
/// one; a lower score is better. `None` for a corpus without power.
///
/// The score (Gneiting and Raftery 2007, equation 43) is that of a central interval of 90 % for ln power.
/// The one width is the conformal quantile of the training modes' residuals, each mode left out in turn.
fn interval_score(run: &TrainedRun<'_>) -> Option<f64> {
    const TAILS: f64 = 0.1;
    let exported = run.trained.model()?;
    let file = exported.unscored();
    let model = Model::parse(&file).ok()?;
    let guarded = Predictions::guarded(&model, Confidence::new(9_500)?)
        .ok()?
        .power?;
    let predicted = exported.predictions.power.as_ref()?;

    let mut residuals: Vec<f64> = exported.left_out[1]
        .as_ref()?
        .iter()
        .map(|r| r.abs())
        .collect();
    residuals.sort_unstable_by(f64::total_cmp);
    let rank = ((1.0 - TAILS) * (residuals.len() + 1) as f64).ceil() as usize;
    let one_width = *residuals.get(rank - 1)?;

    let score = |half_width: &dyn Fn(usize) -> f64| {
        let scores = run.split.held_out.iter().filter_map(|mode| {
            let error = (mode.power_mw? / predicted[mode.id]).ln().abs();
            let half = half_width(mode.id);
            Some(2.0 * half + 2.0 / TAILS * (error - half).max(0.0))
        });
        scores.sum::<f64>()
    };
    let by_mode = score(&|id| (guarded[id] / predicted[id]).ln());
    Some(by_mode / score(&|_| one_width))
}
