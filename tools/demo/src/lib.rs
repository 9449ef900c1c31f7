//! The demo: one page that shows all steps, from profiling to a watchdog that holds a changing power limit. The main job runs on a
//! recorded board, which plays back what a real Jetson TX1 did; a second workload and NVIDIA's presets on a simulated AGX Orin.
//!
//! | step | module |
//! |---|---|
//! | profile the recorded board, or a simulated one: [`simulate`] | `profile` |
//! | train each method on the recorded workload | `learn` |
//! | choose a mode under each limit | `choose`, with the best modes from `truth` |
//! | hold a changing limit | `replay` |
//! | train the reference models of the simulated board | `reference` |
//! | transfer them to a second workload, over the number of training modes | `transfer` |
//!
//! The steps record their results in a [`Story`] (module `story`), the data of the page. The module
//! `output` writes the models and the page, `picture` draws the replay of the recorded board as an image.

mod choose;
mod error;
mod learn;
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

use choose::{choices, summary};
use learn::{CONTESTANTS, TrainedContestant};
use replay::{Job, ON_RECORDED, ON_SIMULATED, replay};
use round::round;
use story::{Choices, Made, PUBLISHED, Point, RecordedPart, SimulatedPart};
use truth::Modes;

pub use error::DemoError;
pub use profile::simulate;
pub use replay::Series;
pub use story::Story;

/// The limits of the choices on the recorded board, in quarters of a W: from a quarter of its span to its highest power.
const LIMITS_QUARTERS: std::ops::RangeInclusive<u32> = 10..=32;

/// The limits of the replay on the recorded board, in mW.
const RECORDED_LIMITS: [u32; 4] = [6_500, 4_000, 5_500, 3_500];

/// The simulated board, its workloads, and the limits of its replay in mW.
const BOARD: &str = "orin-agx-64";
const REFERENCE: &str = "resnet18";
const WORKLOAD: &str = "mobilenetv3";
const SIMULATED_LIMITS: [u32; 4] = [36_000, 22_000, 30_000, 18_000];

/// The stages of the work.
struct Stages<'a> {
    start: Instant,
    progress: &'a ProgressBar,
}

impl Stages<'_> {
    /// Begins a stage, whose work the bar counts anew.
    fn begin(&self, name: &'static str, work: u64) {
        let Self { start, progress } = self;
        // Where no bar is drawn, a line a stage.
        if progress.is_hidden() {
            eprintln!("{:>4.0} s  {name}", start.elapsed().as_secs_f64());
        }
        progress.set_position(0);
        progress.set_length(work);
        progress.set_prefix(name);
    }
}

/// Profiles, trains, chooses and holds; writes the corpora, the model files, the page and the picture of the recorded board's
/// replay to a folder.
pub fn make(folder: &Path, seed: u64, progress: &ProgressBar) -> Result<Story, DemoError> {
    let start = Instant::now();
    fs::create_dir_all(folder).map_err(|source| DemoError::Folder {
        path: folder.to_owned(),
        source,
    })?;
    let page = AtomicFile::create(&folder.join("index.html"))?;
    let picture = AtomicFile::create(&folder.join("held-limit.svg"))?;
    let stages = Stages { start, progress };
    let recorded = recorded(folder, seed, &stages)?;
    picture.commit(picture::draw(&recorded.replay).as_bytes())?;
    let simulated = simulated(folder, seed, &stages)?;
    let story = Story {
        made: Made {
            version: env!("CARGO_PKG_VERSION"),
            seed,
            seconds: round(start.elapsed().as_secs_f64(), 1),
            command: "wattgate-demo",
        },
        recorded,
        simulated,
    };
    page.commit(output::page(&story).as_bytes())?;
    Ok(story)
}

/// The main job on the recorded board.
fn recorded(folder: &Path, seed: u64, stages: &Stages<'_>) -> Result<RecordedPart, DemoError> {
    let progress = stages.progress;
    stages.begin("profile", 1);
    let board = profile::record(folder, seed)?;
    let modes = Modes::new(&board.measured);

    stages.begin("learn", learn::steps());
    let trained = learn::train(&board.profiled, seed, progress)?;
    for contestant in &trained {
        contestant.export(folder)?;
    }

    stages.begin("choose", 1);
    let limits: Vec<f64> = LIMITS_QUARTERS.map(|it| f64::from(it) / 4.0).collect();
    let optimum: Vec<Option<Point>> = limits.iter().map(|&limit| modes.fastest(limit)).collect();
    let choices = trained
        .iter()
        .map(|contestant| choices(contestant, &modes, &limits));
    let choices = choices.collect::<Result<Vec<Choices>, _>>()?;

    stages.begin("hold", ON_RECORDED.len() as u64);
    let [first, ..] = &CONTESTANTS;
    let job = Job {
        board: &board.board,
        workload: &board.workload,
        model: &output::model_path(folder, &first.file_name()),
        limits: RECORDED_LIMITS,
        holders: ON_RECORDED,
        seed,
    };
    let replay = replay(&job, progress)?;
    let learned = |contestant: &TrainedContestant| contestant.learned(&modes);
    Ok(RecordedPart {
        board: board.measured.device.clone(),
        workload: board.measured.workload.clone(),
        grid: board.measured.grid.modes(),
        truth: modes.truth(),
        front: modes.front(),
        models: trained.iter().filter_map(learned).collect(),
        summary: choices
            .iter()
            .filter_map(|by| summary(by, &limits, &optimum))
            .collect(),
        limits,
        optimum,
        choices,
        replay,
    })
}

/// A second workload and NVIDIA's presets, on a simulated board.
fn simulated(folder: &Path, seed: u64, stages: &Stages<'_>) -> Result<SimulatedPart, DemoError> {
    let progress = stages.progress;
    stages.begin("profile", 2);
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

    stages.begin("reference", reference::steps());
    let references = reference::learn(&old, seed, folder, progress)?;

    stages.begin("transfer", transfer::CURVE_STEPS);
    let learning = transfer::curves(&new, &references, seed, progress)?;

    stages.begin("learn", transfer::MODEL_STEPS);
    let name = format!("{WORKLOAD}-{}", transfer::MODES);
    let model = transfer::model(&new, &references, seed, progress)?;
    output::write_model(folder, &name, &model)?;

    stages.begin("hold", ON_SIMULATED.len() as u64);
    let job = Job {
        board: &board,
        workload: &workload,
        model: &output::model_path(folder, &name),
        limits: SIMULATED_LIMITS,
        holders: ON_SIMULATED,
        seed,
    };
    Ok(SimulatedPart {
        board: BOARD,
        reference: REFERENCE,
        workload: WORKLOAD,
        learning,
        published: PUBLISHED,
        modes: transfer::MODES,
        replay: replay(&job, progress)?,
    })
}
