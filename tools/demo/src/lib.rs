//! The demo: one page that shows all steps on a simulated board, from profiling to a watchdog that
//! holds a changing power limit. All numbers are simulated.
//!
//! | step | module |
//! |---|---|
//! | profile a workload: [`simulate`] | `profile` |
//! | train the reference models | `reference` |
//! | train each method on the new workload | `transfer` |
//! | compare the methods over the number of training modes | `compare` |
//! | choose a mode under each limit | `choose`, with the best modes from `truth` |
//! | hold a changing limit | `replay` |
//!
//! The steps record their results in a [`Story`] (module `story`), the data of the page. The module
//! `output` writes the models and the page, `picture` draws the replay as an image.

mod choose;
mod compare;
mod error;
mod output;
mod picture;
mod profile;
mod reference;
mod replay;
mod round;
mod story;
mod transfer;
mod truth;

use std::fs;
use std::path::Path;
use std::time::Instant;

use indicatif::ProgressBar;
use wattgate_board_tables::Board;
use wattgate_cli::output::AtomicFile;
use wattgate_simulated_board::workload::Workload;
use wattgate_trainer::read::profiled;

use choose::{choices, summary};
use replay::replay;
use round::round;
use story::{Choices, Made, PUBLISHED, Point};
use transfer::{CONTESTANTS, TrainedContestant};
use truth::{fastest, front, truth};

pub use error::DemoError;
pub use profile::simulate;
pub use replay::Series;
pub use story::Story;

const BOARD: &str = "orin-agx-64";
const REFERENCE: &str = "resnet18";
const WORKLOAD: &str = "mobilenetv3";

/// The power limits of PowerTrain's evaluation, in W.
const LIMITS_W: std::ops::RangeInclusive<u32> = 17..=50;

/// Simulates, trains and chooses; writes the corpora, the model files, the page and the picture of the
/// replay to a folder. The progress bar counts the work of each stage anew.
pub fn make(folder: &Path, seed: u64, progress: &ProgressBar) -> Result<Story, DemoError> {
    let start = Instant::now();
    fs::create_dir_all(folder).map_err(|source| DemoError::Folder {
        path: folder.to_owned(),
        source,
    })?;
    let page = AtomicFile::create(&folder.join("index.html"))?;
    let picture = AtomicFile::create(&folder.join("held-limit.svg"))?;
    let stage = |name: &'static str, work: u64| {
        // Where no bar is drawn, a line a stage.
        if progress.is_hidden() {
            eprintln!("{:>4.0} s  {name}", start.elapsed().as_secs_f64());
        }
        progress.set_position(0);
        progress.set_length(work);
        progress.set_prefix(name);
    };

    stage("profile", 2);
    let board = Board::named(BOARD)?;
    let workload = Workload::named(WORKLOAD)?;
    let modes = board.papers_modes();
    let corpus = |workload: &Workload| {
        let path = folder.join(format!("{}.csv", workload.name));
        let corpus = simulate(&board, workload, &modes, seed, &path);
        progress.inc(1);
        corpus
    };
    let old = corpus(&Workload::named(REFERENCE)?)?;
    let new = corpus(&workload)?;

    stage("reference", reference::steps());
    let references = reference::learn(&old, seed, folder, progress)?;

    stage("transfer", transfer::steps());
    let all = profiled(&new);
    let trained = transfer::train(&new, &references, seed, progress)?;
    for contestant in &trained {
        contestant.export(folder)?;
    }

    stage("compare", compare::COMPARE_STEPS);
    let learning = compare::curves(&new, &references, seed, progress)?;

    stage("choose", 1);
    let limits: Vec<u32> = LIMITS_W.collect();
    let optimum: Vec<Option<Point>> = limits.iter().map(|&limit| fastest(&all, limit)).collect();
    let choices = trained
        .iter()
        .map(|contestant| choices(contestant, &all, &limits));
    let choices = choices.collect::<Result<Vec<Choices>, _>>()?;

    stage("replay", replay::REPLAY_STEPS);
    let [first, ..] = &CONTESTANTS;
    let model = output::model_path(folder, &first.file_name());
    let replay = replay(&board, &workload, seed, &model, progress)?;
    picture.commit(picture::draw(&replay).as_bytes())?;
    let models = trained.iter().filter_map(TrainedContestant::learned);
    let story = Story {
        kind: new.kind.to_string(),
        board: BOARD,
        reference: REFERENCE,
        workload: WORKLOAD,
        made: Made {
            version: env!("CARGO_PKG_VERSION"),
            seed,
            seconds: round(start.elapsed().as_secs_f64(), 1),
            command: "wattgate-demo",
        },
        minibatches: workload.minibatches(),
        truth: truth(&all),
        front: front(&all),
        models: models.collect(),
        summary: choices
            .iter()
            .filter_map(|by| summary(by, &limits, &optimum))
            .collect(),
        limits,
        optimum,
        choices,
        learning,
        published: PUBLISHED,
        replay,
    };
    page.commit(output::page(&story).as_bytes())?;
    Ok(story)
}
