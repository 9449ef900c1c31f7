//! Asks model files of measured corpora for modes, and prints how often the bounds of the answers hold and what
//! the choices cost (`tools/answers.sh`).
//!
//! A run trains a file on a few modes. All others score the file's bounds. A choice may also be a mode of the
//! training; then a simulated repeat of it scores the choice, since its row was trained on.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use indicatif::ProgressBar;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use wattgate_lab::compare::optimize::{Limits, repeated};
use wattgate_runtime::shape::Shape;
use wattgate_runtime::{Confidence, Front, Microseconds, Milliwatts, Model, Objective, Query};
use wattgate_trainer::fit::Priors;
use wattgate_trainer::fit::REPEAT;
use wattgate_trainer::fit::{Task, train};
use wattgate_trainer::plan::{Amount, Sampling, Split};
use wattgate_trainer::read::Corpus;
use wattgate_trainer::read::Reference;
use wattgate_trainer::read::{Known, profiled};
use wattgate_trainer::score::Predictions;

/// Held-out modes at one value of a clock that make its share worth a word, over all runs.
const LEAST_AT_A_CLOCK: usize = 100;

const USAGE: &str =
    "usage: answers FOLDER-OF-CORPORA MODES RUNS random|planned [PART-OF-A-NAME [REFERENCE]]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, modes, runs, sampling, rest @ ..] = &arguments[..] else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let (Ok(modes), Ok(runs)) = (modes.parse::<usize>(), runs.parse::<u64>()) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let sampling = match &sampling[..] {
        "planned" => Sampling::Planned,
        _ => Sampling::Random,
    };
    let part = rest.first().map_or("", |part| part);
    let mut files: Vec<_> = match std::fs::read_dir(folder) {
        Ok(files) => files.filter_map(|file| Some(file.ok()?.path())).collect(),
        Err(why) => {
            eprintln!("error: {folder}: {why}");
            return ExitCode::FAILURE;
        }
    };
    files.retain(|file| file.extension().is_some_and(|name| name == "csv"));
    files.sort();
    let read = |file: &Path| Corpus::read(file, &ProgressBar::hidden());
    let reference = rest.get(1).map(|name| {
        let file = Path::new(folder).join(format!("{name}.csv"));
        let corpus = read(&file).expect("a reference");
        Reference::of_corpus(name.clone(), corpus, Priors::shipped()).expect("a reference")
    });
    println!(
        "| corpus, {modes} {sampling} modes | error: time / power | covered at 90 %: time / power | at 95 % | worst tenth | least clock | limits: over / own bound / worst tenth / unserved | penalty | best measured | deadlines: missed / worst tenth / unserved | bytes | width: time / power |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        if !name.contains(part) {
            continue;
        }
        let corpus = match read(&file) {
            Ok(corpus) => corpus,
            Err(why) => {
                println!("| {name} | refused: {why} |");
                continue;
            }
        };
        let known: Vec<Known> = profiled(&corpus)
            .into_iter()
            .filter(|mode| mode.power_mw.is_some())
            .collect();
        if known.len() < 2 * modes {
            continue;
        }
        let references: Vec<Reference> = reference.iter().cloned().collect();
        let scores: Vec<Score> = (0..runs)
            .into_par_iter()
            .map(|seed| score(&corpus, &known, modes, sampling, &references, seed))
            .collect();
        println!("| {name} | {}", row(&scores));
    }
    ExitCode::SUCCESS
}

/// What one run scores. Shares are in percent.
#[derive(Default)]
struct Score {
    errors: [f64; 2],
    /// At 90 and at 95 %, of time and of power.
    covered: [[f64; 2]; 2],
    /// Mean bounds at 95 % over predictions.
    width: [f64; 2],
    /// By target, axis and clock: held-out modes, and those within their bound at 95 %.
    by_clock: BTreeMap<(usize, usize, u32), [usize; 2]>,
    /// Of the limits: exceeded, the bound of the chosen mode exceeded, without a choice.
    over: f64,
    own: f64,
    unserved: f64,
    penalty: f64,
    best_measured: f64,
    missed: f64,
    late_unserved: f64,
    bytes: f64,
}

fn score(
    corpus: &Corpus,
    known: &[Known],
    modes: usize,
    sampling: Sampling,
    references: &[Reference],
    seed: u64,
) -> Score {
    let priors = Priors::shipped();
    let (used, held_out) = match sampling {
        Sampling::Random => {
            let mut order = known.to_vec();
            order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed + 101));
            let held_out = order.split_off(modes);
            (order, held_out)
        }
        Sampling::Planned => {
            let split = Split::new(corpus, Amount::Modes(modes), sampling, priors, seed + 101)
                .expect("enough modes");
            (split.used, [split.unused, split.held_out].concat())
        }
    };
    let held_out: Vec<Known> = held_out
        .into_iter()
        .filter(|mode| mode.power_mw.is_some())
        .collect();
    let task = Task {
        corpus,
        used: &used,
        references,
        priors,
        seed,
        shape: Shape::Wide32,
        progress: &ProgressBar::hidden(),
    };
    let bytes = train(&task).expect("trained").exported.unscored();
    let model = Model::parse(&bytes).expect("a model");
    let predicted = Predictions::of_model(&model);
    let bounds = [9_000, 9_500]
        .map(|at| Predictions::guarded(&model, Confidence::new(at).expect("a confidence")));
    let errors = predicted.errors(&held_out);
    let mut score = Score {
        errors: [errors.time_mape, errors.power_mape].map(|error| error.unwrap_or(f64::NAN)),
        bytes: bytes.len() as f64,
        ..Score::default()
    };
    let n = held_out.len() as f64;
    let values = |predictions: &Predictions, id: usize| {
        [
            predictions.time[id],
            predictions.power.as_ref().map_or(0.0, |power| power[id]),
        ]
    };
    for (at, bounds) in bounds.iter().enumerate() {
        let Ok(bounds) = bounds else {
            score.covered[at] = [f64::NAN; 2];
            continue;
        };
        for mode in &held_out {
            let (bound, middle) = (values(bounds, mode.id), values(&predicted, mode.id));
            let measured = [mode.time_us, mode.power_mw.expect("kept")];
            for target in 0..2 {
                let within = measured[target] <= bound[target];
                score.covered[at][target] += f64::from(u8::from(within)) * 100.0 / n;
                if at == 1 {
                    score.width[target] += 100.0 * (bound[target] / middle[target] - 1.0) / n;
                    for axis in 1..3 {
                        let key = (target, axis, mode.knobs[axis]);
                        let [all, held] = score.by_clock.entry(key).or_default();
                        *all += 1;
                        *held += usize::from(within);
                    }
                }
            }
        }
    }
    choices(&model, known, &used, seed, &mut score);
    score
}

/// Asks for the fastest mode under limits, and for the least power under deadlines.
fn choices(model: &Model<'_>, known: &[Known], used: &[Known], seed: u64, score: &mut Score) {
    // A repeat of each mode of the training, and the row of each other.
    let row = |mode: &Known| (mode.id, [mode.time_us, mode.power_mw.expect("kept")]);
    let mut rows: BTreeMap<usize, [f64; 2]> = known.iter().map(row).collect();
    rows.extend(repeated(used, seed).iter().map(row));
    let front = {
        let mut modes = Vec::new();
        model.sweep(&model.profiled(), |mode, at| {
            if rows.contains_key(&usize::from(mode.0)) {
                modes.push((mode, at));
            }
        });
        Front::<4_096>::of_modes(model, modes, Confidence::P95)
    };
    let asked = |quantity: &dyn Fn(&[f64; 2]) -> f64| {
        Limits::Automatic.resolve(rows.values().map(quantity))
    };
    let limits = asked(&|[_, power]| *power);
    // Times span decades.
    let deadlines = asked(&|[time, _]| time.ln()).into_iter().map(f64::exp);
    let each = 100.0 / limits.len() as f64;
    let (mut penalties, mut of_measured) = (Vec::new(), Vec::new());
    for limit in limits {
        let within = |row: &&[f64; 2]| row[1] <= limit;
        let times = rows.values().filter(within).map(|row| row[0]);
        let Some(best) = times.min_by(f64::total_cmp) else {
            continue;
        };
        // What a person would do without a model: the fastest that was measured and fits with a margin.
        let margin = (1.645 * 2_f64.sqrt() * REPEAT).exp();
        let fits = used
            .iter()
            .filter(|mode| mode.power_mw.is_some_and(|p| p * margin <= limit));
        if let Some(mode) = fits.min_by(|a, b| a.time_us.total_cmp(&b.time_us)) {
            of_measured.push(100.0 * (rows[&mode.id][0] / best - 1.0));
        }
        let query = Query {
            power_limit: Some(Milliwatts(limit as u32)),
            ..Query::default()
        };
        match front.select(&query) {
            Ok(choice) => {
                let row = rows[&usize::from(choice.mode.0)];
                penalties.push(100.0 * (row[0] / best - 1.0));
                score.over += f64::from(u8::from(row[1] > limit)) * each;
                let bound = f64::from(choice.guarded_power.unwrap_or_default().0);
                score.own += f64::from(u8::from(row[1] > bound)) * each;
            }
            Err(_) => score.unserved += each,
        }
    }
    for deadline in deadlines {
        let query = Query {
            objective: Objective::Power,
            deadline: Some(Microseconds(deadline as u32)),
            ..Query::default()
        };
        match front.select(&query) {
            Ok(choice) => {
                let row = rows[&usize::from(choice.mode.0)];
                score.missed += f64::from(u8::from(row[0] > deadline)) * each;
            }
            Err(_) => score.late_unserved += each,
        }
    }
    score.penalty = median(penalties);
    score.best_measured = median(of_measured);
}

fn row(scores: &[Score]) -> String {
    let all = |figure: &dyn Fn(&Score) -> f64| -> Vec<f64> {
        scores
            .iter()
            .map(figure)
            .filter(|value| value.is_finite())
            .collect()
    };
    let mean = |figure: &dyn Fn(&Score) -> f64| {
        let values = all(figure);
        values.iter().sum::<f64>() / values.len() as f64
    };
    let median = |figure: &dyn Fn(&Score) -> f64| median(all(figure));
    // The mean over the tenth of the runs in which a share is worst.
    let worst = |figure: &dyn Fn(&Score) -> f64, ascending: bool| {
        let mut values = all(figure);
        values.sort_by(f64::total_cmp);
        if !ascending {
            values.reverse();
        }
        let tenth = values.len().div_ceil(10);
        values[..tenth].iter().sum::<f64>() / tenth as f64
    };
    let least_clock = |target: usize| {
        let mut sums: BTreeMap<(usize, u32), [usize; 2]> = BTreeMap::new();
        for ((predicted, axis, clock), counts) in scores.iter().flat_map(|score| &score.by_clock) {
            if *predicted == target {
                let sum = sums.entry((*axis, *clock)).or_default();
                *sum = [sum[0] + counts[0], sum[1] + counts[1]];
            }
        }
        let shares = sums.values().filter(|[all, _]| *all >= LEAST_AT_A_CLOCK);
        shares
            .map(|[all, held]| 100.0 * *held as f64 / *all as f64)
            .fold(100.0, f64::min)
    };
    format!(
        "{:.2} / {:.2} | {:.1} / {:.1} | {:.1} / {:.1} | {:.1} / {:.1} | {:.0} / {:.0} | {:.1} / {:.1} / {:.1} / {:.1} | {:.1} | {:.1} | {:.1} / {:.1} / {:.1} | {:.0} | {:.1} / {:.1} |",
        median(&|s| s.errors[0]),
        median(&|s| s.errors[1]),
        mean(&|s| s.covered[0][0]),
        mean(&|s| s.covered[0][1]),
        mean(&|s| s.covered[1][0]),
        mean(&|s| s.covered[1][1]),
        worst(&|s| s.covered[1][0], true),
        worst(&|s| s.covered[1][1], true),
        least_clock(0),
        least_clock(1),
        mean(&|s| s.over),
        mean(&|s| s.own),
        worst(&|s| s.over, false),
        mean(&|s| s.unserved),
        mean(&|s| s.penalty),
        mean(&|s| s.best_measured),
        mean(&|s| s.missed),
        worst(&|s| s.missed, false),
        mean(&|s| s.late_unserved),
        mean(&|s| s.bytes),
        mean(&|s| s.width[0]),
        mean(&|s| s.width[1]),
    )
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n => f64::midpoint(values[(n - 1) / 2], values[n / 2]),
    }
}
