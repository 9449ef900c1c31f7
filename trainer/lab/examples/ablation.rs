//! Fits the teacher without one of its parts, for each part in turn, and prints its errors
//! (`tools/ablation.sh`).
//!
//! Every figure is the median of twenty runs on held-out modes, of the teacher itself, with priors
//! that were learned without the family of the corpus.

mod families;
mod nested;

use std::path::PathBuf;

use indicatif::ProgressBar;
use nested::Nested;
use rayon::prelude::*;
use wattgate_lab::compare::evaluate::Quartiles;
use wattgate_trainer::fit::Blend;
use wattgate_trainer::fit::Priors;
use wattgate_trainer::fit::Teachers;
use wattgate_trainer::plan::{Amount, Sampling, Split};
use wattgate_trainer::read::Corpus;
use wattgate_trainer::read::all_modes;
use wattgate_trainer::score::{Errors, Predictions};

const RUNS: u64 = 20;
const SEED: u64 = 101;

const ROWS: [(&str, usize, Sampling); 4] = [
    ("tx1__image5000__translucence", 15, Sampling::Random),
    ("tx1__image5000__translucence", 50, Sampling::Random),
    ("tx1__image5000__translucence", 30, Sampling::Planned),
    ("tx2__image5000__translucence", 50, Sampling::Random),
];

/// What is taken away.
#[derive(Clone, Copy)]
enum Part {
    None,
    Physics,
    Covariance,
    Samples,
    Priors,
}

const PARTS: [(Part, &str); 5] = [
    (Part::None, "the whole teacher"),
    (Part::Physics, "without the processes with a physical mean"),
    (Part::Covariance, "without the processes without one"),
    (Part::Samples, "one estimate (MAP) in place of samples"),
    (Part::Priors, "priors of theory in place of learned ones"),
];

fn main() {
    let folder = std::env::args_os().nth(1);
    let folder = folder.map_or_else(|| PathBuf::from("../shared/data"), PathBuf::from);
    let nested = Nested::default();
    for (name, modes, sampling) in ROWS {
        let corpus = families::read(&folder, name).unwrap_or_else(|why| stop(&why));
        let priors = nested.priors(&folder, name);
        let priors: &Priors = &priors;
        println!("{name}, {modes} {sampling}: errors of time and power");
        for (part, what) in PARTS {
            let runs = (SEED..SEED + RUNS).into_par_iter();
            let errors: Vec<Errors> = runs
                .map(|seed| run(&corpus, (modes, sampling), priors, part, seed))
                .collect();
            let median = |error: fn(&Errors) -> Option<f64>| {
                Quartiles::from_values(errors.iter().filter_map(error))
                    .map_or(f64::NAN, |it| it.median)
            };
            let (time, power) = (median(|it| it.time_mape), median(|it| it.power_mape));
            println!("    {what:<44}{time:>8.2} %{power:>8.2} %");
        }
    }
}

fn run(
    corpus: &Corpus,
    (modes, sampling): (usize, Sampling),
    priors: &Priors,
    part: Part,
    seed: u64,
) -> Errors {
    let amount = Amount::Modes(modes);
    let split = Split::with_fixed_held_out(corpus, amount, sampling, priors, seed);
    let split = split.unwrap_or_else(|why| stop(&why));
    let (grid, used) = (&corpus.grid, &split.used);
    let theory = Priors::theory();
    let blend = |priors| Blend::any_board(priors);
    let hidden = ProgressBar::hidden();
    let fit = |blend: Blend<'_>| Teachers::fit(grid, used, &[], &blend, seed, &hidden);
    let teachers = match part {
        Part::None => fit(blend(priors)),
        Part::Physics => fit(blend(priors).weighing([0.0; 2])),
        Part::Covariance => fit(blend(priors).weighing([1.0; 2])),
        Part::Samples => Teachers::fit_map(grid, used, priors),
        Part::Priors => fit(blend(&theory)),
    };
    let teachers = teachers.unwrap_or_else(|why| stop(&why));
    let modes: Vec<[u32; 4]> = all_modes(grid).collect();
    let expected = teachers.predict(&modes);
    let medians: Vec<Vec<f64>> = expected
        .iter()
        .map(|target| target.iter().map(|mode| mode.median).collect())
        .collect();
    Predictions::of_logs(&medians).errors(&split.held_out)
}

fn stop(why: &dyn std::fmt::Display) -> ! {
    eprintln!("error: {why}");
    std::process::exit(5);
}
