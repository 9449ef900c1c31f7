//! The demo: one page that shows all steps on a simulated board, from profiling to a watchdog that
//! holds a changing power limit. All numbers are simulated.

mod replay;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use indicatif::ProgressBar;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::Serialize;
use thiserror::Error;
use wattgate_board_tables::{Board, BoardError};
use wattgate_cli::output::{AtomicFile, OutputError};
use wattgate_runtime::{Confidence, FormatError, Model, Shape};
use wattgate_scenarios::replay::ReplayError;
use wattgate_simulated_board::corpus::csv;
use wattgate_simulated_board::profile::Profiler;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::{Workload, WorkloadError};

use replay::{Replay, replay};
use wattgate_trainer::corpus::modes::{Known, profiled};
use wattgate_trainer::corpus::{Corpus, CorpusError};
use wattgate_trainer::fit::{FitError, FitOptions, fit};
use wattgate_trainer::lab::LabError;
use wattgate_trainer::lab::evaluate::{Comparison, Quartiles, evaluate};
use wattgate_trainer::learn::gp::SingularKernel;
use wattgate_trainer::learn::predictions::Target;
use wattgate_trainer::learn::reference::Reference;
use wattgate_trainer::learn::split::{Amount, Sampling, Split};
use wattgate_trainer::methods::Wattgate;
use wattgate_trainer::methods::{Ask, Method, MethodError, Trained, method};
use wattgate_trainer::train::Task;

const BOARD: &str = "orin-agx-64";
const REFERENCE: &str = "resnet18";
const WORKLOAD: &str = "mobilenetv3";

/// The power limits of PowerTrain's evaluation, in W.
const LIMITS_W: std::ops::RangeInclusive<u32> = 17..=50;

/// Number of the reference's modes on which PowerTrain's network is trained; its authors found 546
/// as good as all.
const RECIPE_REFERENCE: usize = 600;

/// Numbers of training modes of the learning curves.
const CURVE: [Amount; 3] = [Amount::Modes(10), Amount::Modes(20), Amount::Modes(50)];

/// Number of runs per point of the learning curves.
const CURVE_RUNS: u64 = 2;

/// Number of stages, for the progress bar.
const STAGES: u64 = 6;

const PAGE: &str = include_str!("page.html");

/// The placeholder of the page's data.
const MARKER: &str = "/*DATA*/null";

/// A method with its training modes.
struct Contestant {
    /// The name on the page.
    name: &'static str,
    method: &'static str,
    modes: usize,
    sampling: Sampling,
}

const CONTESTANTS: [Contestant; 6] = [
    contestant("wattgate, 50 planned modes", "wattgate", 50),
    contestant("wattgate, 15 planned modes", "wattgate", 15),
    random("PowerTrain's recipe, 50 modes", "powertrain-transfer"),
    random("best of 50 random modes", "random"),
    random("NVIDIA's presets", "presets"),
    random("MAXN", "maxn"),
];

const fn contestant(name: &'static str, method: &'static str, modes: usize) -> Contestant {
    Contestant {
        name,
        method,
        modes,
        sampling: Sampling::Planned,
    }
}

const fn random(name: &'static str, method: &'static str) -> Contestant {
    Contestant {
        sampling: Sampling::Random,
        ..contestant(name, method, 50)
    }
}

/// Why the demo failed.
#[derive(Debug, Error)]
pub enum DemoError {
    #[error("{}: cannot write: {source}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("{0}")]
    Output(#[from] OutputError),
    #[error("{0}")]
    Board(#[from] BoardError),
    #[error("{0}")]
    Workload(#[from] WorkloadError),
    #[error("{0}")]
    Corpus(#[from] CorpusError),
    #[error("{0}")]
    Fit(#[from] FitError),
    #[error("{0}")]
    Compare(#[from] LabError),
    #[error("{0}")]
    Method(#[from] MethodError),
    #[error("{0}")]
    Reference(#[from] SingularKernel),
    #[error("the runtime refuses the reference's model: {0}")]
    Model(#[from] FormatError),
    #[error("{0}")]
    Replay(#[from] ReplayError),
}

/// The data of the page; its script reads these names.
#[derive(Clone, Debug, Serialize)]
pub struct Story {
    /// Always `simulated`.
    pub kind: String,
    pub board: &'static str,
    pub reference: &'static str,
    pub workload: &'static str,
    pub made: Made,
    /// Minibatches per epoch.
    pub minibatches: f64,
    pub truth: Truth,
    /// The true Pareto front as indices into [`Truth`], in ascending order of power.
    pub front: Vec<usize>,
    pub models: Vec<Learned>,
    /// Power limits in W.
    pub limits: Vec<u32>,
    /// The fastest mode within each limit.
    pub optimum: Vec<Option<Point>>,
    pub choices: Vec<Choices>,
    pub summary: Vec<Summary>,
    pub learning: Vec<Curve>,
    pub published: [Published; 2],
    pub replay: Replay,
}

/// How the page was made.
#[derive(Clone, Debug, Serialize)]
pub struct Made {
    pub version: &'static str,
    pub seed: u64,
    pub seconds: f64,
    pub command: &'static str,
}

/// Simulated time and power of every mode.
#[derive(Clone, Debug, Serialize)]
pub struct Truth {
    /// Cores, then CPU, GPU and EMC clock in MHz.
    pub knobs: Vec<[f64; 4]>,
    pub time_ms: Vec<f64>,
    pub power_w: Vec<f64>,
}

/// A model and its predictions.
#[derive(Clone, Debug, Serialize)]
pub struct Learned {
    pub name: &'static str,
    pub method: &'static str,
    pub modes: usize,
    pub sampling: Sampling,
    pub profiled: Vec<usize>,
    pub time_ms: Vec<f64>,
    pub power_w: Vec<f64>,
    /// Predicted power plus the guard band at 95 %.
    pub power_upper_w: Option<Vec<f64>>,
    /// Errors on the held-out modes, in percent.
    pub mape: Mape,
    pub file_bytes: Option<usize>,
}

/// Mean absolute percentage errors.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Mape {
    pub time: f64,
    pub power: f64,
}

/// A mode with its simulated time and power.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Point {
    pub mode: usize,
    pub time_ms: f64,
    pub power_w: f64,
}

/// The choices of a method, one per limit.
#[derive(Clone, Debug, Serialize)]
pub struct Choices {
    pub name: &'static str,
    pub by: Vec<Option<Choice>>,
}

/// A chosen mode with its simulated and predicted values.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Choice {
    #[serde(flatten)]
    pub point: Point,
    pub predicted_w: Option<f64>,
    pub bound_w: Option<f64>,
}

/// The choices of a method, aggregated over all limits.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Summary {
    pub name: &'static str,
    /// Median over limits of the time above the optimum, in percent.
    pub time_penalty_pct: f64,
    /// Mean over limits of the power above the limit, in W.
    pub area_w: f64,
    pub over_pct: f64,
    pub over_1w_pct: f64,
}

/// A learning curve: errors over the number of training modes.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    pub name: &'static str,
    pub target: Target,
    pub points: Vec<CurvePoint>,
}

/// A point of a learning curve.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CurvePoint {
    pub modes: usize,
    #[serde(flatten)]
    pub mape: Quartiles,
}

/// Errors that PowerTrain's paper reports for a real board, in percent.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Published {
    pub what: &'static str,
    pub time_mape: f64,
    pub power_mape: f64,
}

/// Midpoints of the published ranges (PowerTrain, section 4.2).
const PUBLISHED: [Published; 2] = [
    Published {
        what: "PowerTrain, ResNet→MobileNet, 50 modes",
        time_mape: 15.1,
        power_mape: 5.4,
    },
    Published {
        what: "PowerTrain, ResNet→YOLO, 50 modes",
        time_mape: 11.6,
        power_mape: 4.9,
    },
];

/// Number of steps of the progress bar.
pub fn steps() -> u64 {
    STAGES + CONTESTANTS.len() as u64 + CURVE.len() as u64 * CURVE_RUNS * 2
}

/// Simulates, trains and chooses; writes the corpora, the model files and the page to a folder.
pub fn tell(folder: &Path, seed: u64, progress: &ProgressBar) -> Result<Story, DemoError> {
    let start = Instant::now();
    fs::create_dir_all(folder).map_err(|source| DemoError::Folder {
        path: folder.to_owned(),
        source,
    })?;
    let page = AtomicFile::create(&folder.join("index.html"))?;
    let stage = |name: &'static str| {
        progress.inc(1);
        progress.set_message(name);
    };

    stage("profile");
    let board = Board::named(BOARD)?;
    let workload = Workload::named(WORKLOAD)?;
    let modes = board.papers_modes();
    let corpus = |workload: &Workload| {
        let path = folder.join(format!("{}.csv", workload.name));
        simulate(&board, workload, &modes, seed, &path)
    };
    let old = corpus(&Workload::named(REFERENCE)?)?;
    let new = corpus(&workload)?;

    stage("reference");
    let options = FitOptions {
        amount: Amount::All,
        sampling: Sampling::Random,
        reference: None,
        seed,
        shape: Shape::Wide32,
    };
    let transfer = method("powertrain-transfer").expect("a method");
    let (fitted, recipes) = rayon::join(
        || fit(&old, &options, &ProgressBar::hidden()),
        || {
            let recipes = Reference::of_corpus(REFERENCE.to_owned(), thinned(&old, seed))?;
            transfer.prepare(Some(&recipes));
            Ok::<_, DemoError>(recipes)
        },
    );
    let (bytes, recipes) = (fitted?.bytes, recipes?);
    write(folder, REFERENCE, &bytes)?;
    let model = Model::parse(&bytes)?;
    let ours = Reference::of_model(format!("{REFERENCE}.wgt"), &model)?;

    stage("transfer");
    let all = profiled(&new);
    let trained = CONTESTANTS
        .par_iter()
        .map(|contestant| {
            let fresh;
            let (method, reference) = match contestant.method {
                "wattgate" => (&Wattgate as &dyn Method, &ours),
                "powertrain-transfer" => (&*transfer, &recipes),
                name => {
                    fresh = method(name).expect("a method");
                    (&*fresh, &recipes)
                }
            };
            let amount = Amount::Modes(contestant.modes);
            let split =
                Split::new(&new, amount, contestant.sampling, seed).map_err(LabError::from)?;
            let task = Task {
                corpus: &new,
                used: &split.used,
                reference: Some(reference),
                seed,
                shape: Shape::Wide32,
                progress: &ProgressBar::hidden(),
            };
            let trained = method.train(&task)?;
            progress.inc(1);
            Ok(Told {
                contestant,
                trained,
                split,
            })
        })
        .collect::<Result<Vec<Told>, DemoError>>()?;
    for told in &trained {
        if let Some(exported) = told.trained.model() {
            write(
                folder,
                &exported_name(told.contestant.modes),
                &exported.bytes,
            )?;
        }
    }

    stage("compare");
    let learning = learning(&new, &ours, &recipes, seed, progress)?;

    stage("choose");
    let limits: Vec<u32> = LIMITS_W.collect();
    let optimum: Vec<Option<Point>> = limits.iter().map(|&limit| fastest(&all, limit)).collect();
    let choices = trained
        .iter()
        .map(|told| {
            let by = limits.iter().map(|&limit| told.choose(&all, limit));
            Ok(Choices {
                name: told.contestant.name,
                by: by.collect::<Result<_, MethodError>>()?,
            })
        })
        .collect::<Result<Vec<Choices>, DemoError>>()?;

    stage("replay");
    let [first, ..] = &CONTESTANTS;
    let model = file(folder, &exported_name(first.modes));
    let replay = replay(&board, &workload, seed, &model)?;
    let models = trained.iter().filter_map(Told::learned);
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
    page.commit(fill(&story).as_bytes())?;
    Ok(story)
}

/// Profiles modes of a nominal board, writes the corpus and reads it back from its file.
pub fn simulate(
    board: &Board,
    workload: &Workload,
    modes: &[[u32; 4]],
    seed: u64,
    path: &Path,
) -> Result<Corpus, DemoError> {
    let file = AtomicFile::create(path)?;
    let mut profiler = Profiler::new(board, Unit::NOMINAL, workload, seed);
    let profiles = profiler.profile_all(modes);
    file.commit(csv(board, workload, &profiles).as_bytes())?;
    Ok(Corpus::read(path, &ProgressBar::hidden())?)
}

/// Name of the model trained on `modes` modes.
fn exported_name(modes: usize) -> String {
    format!("{WORKLOAD}-{modes}")
}

/// Path of a model file.
fn file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.wgt"))
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), OutputError> {
    AtomicFile::create(&file(folder, name))?.commit(bytes)
}

/// A corpus of [`RECIPE_REFERENCE`] random modes.
fn thinned(corpus: &Corpus, seed: u64) -> Corpus {
    let mut thinned = corpus.clone();
    thinned.modes.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    thinned.modes.truncate(RECIPE_REFERENCE);
    thinned
}

/// A trained contestant.
struct Told {
    contestant: &'static Contestant,
    trained: Box<dyn Trained>,
    split: Split,
}

impl Told {
    fn choose(&self, all: &[Known], limit_w: u32) -> Result<Option<Choice>, MethodError> {
        let limit_mw = 1e3 * f64::from(limit_w);
        let ask = Ask {
            limit_mw,
            confidence: Confidence::P95,
            offered: all,
            used: &self.split.used,
            tries: 1,
        };
        let chosen = self.trained.propose(&ask, &[])?;
        let upper = self.upper();
        Ok(chosen.map(|mode| {
            let known = self.split.used.iter().any(|used| used.id == mode.id);
            let predictions = self.trained.predictions().filter(|_| !known);
            let predicted = predictions.and_then(|all| Some(all.power.as_ref()?[mode.id] / 1e3));
            Choice {
                point: point(&mode),
                predicted_w: predicted.map(|watts| round(watts, 2)),
                bound_w: predicted
                    .zip(upper)
                    .map(|(watts, factor)| round(watts * factor, 2)),
            }
        }))
    }

    /// Factor of the power's guard band at 95 %.
    fn upper(&self) -> Option<f64> {
        let guard = self.trained.model()?.guard(Target::Power)?;
        let factor = guard.factor(Confidence::P95).ok()?;
        Some(f64::from(factor.q16()) / 65_536.0)
    }

    fn learned(&self) -> Option<Learned> {
        let predictions = self.trained.predictions()?;
        let power = predictions.power.as_ref()?;
        let errors = predictions.errors(&self.split.held_out);
        let rounded = |values: &[f64], factor: f64, digits| {
            values.iter().map(|v| round(v * factor, digits)).collect()
        };
        Some(Learned {
            name: self.contestant.name,
            method: self.contestant.method,
            modes: self.contestant.modes,
            sampling: self.contestant.sampling,
            profiled: self.split.used.iter().map(|mode| mode.id).collect(),
            time_ms: rounded(&predictions.time, 1e-3, 2),
            power_w: rounded(power, 1e-3, 2),
            power_upper_w: self.upper().map(|factor| rounded(power, 1e-3 * factor, 2)),
            mape: Mape {
                time: round(errors.time_mape?, 2),
                power: round(errors.power_mape?, 2),
            },
            file_bytes: self.trained.model().map(|model| model.bytes.len()),
        })
    }
}

fn learning(
    corpus: &Corpus,
    ours: &Reference,
    recipes: &Reference,
    seed: u64,
    progress: &ProgressBar,
) -> Result<Vec<Curve>, DemoError> {
    let sides = [
        ("wattgate, planned", "wattgate", ours, Sampling::Planned),
        (
            "PowerTrain's recipe",
            "powertrain-transfer",
            recipes,
            Sampling::Random,
        ),
    ];
    let mut curves = Vec::new();
    for (name, side, reference, sampling) in sides {
        let comparison = Comparison {
            corpus,
            name: WORKLOAD,
            reference: Some(reference),
            methods: &[method(side).expect("a method")],
            amounts: &CURVE,
            samplings: &[sampling],
            runs: CURVE_RUNS,
            seed,
            shape: Shape::Wide32,
        };
        let rows = evaluate(&comparison, progress)?.results;
        for target in Target::ALL {
            let points = rows.iter().filter(|row| row.target == target);
            let points = points.map(|row| CurvePoint {
                modes: row.modes,
                mape: row.mape,
            });
            curves.push(Curve {
                name,
                target,
                points: points.collect(),
            });
        }
    }
    Ok(curves)
}

fn point(mode: &Known) -> Point {
    Point {
        mode: mode.id,
        time_ms: round(mode.time_us / 1e3, 2),
        power_w: round(mode.power_mw.unwrap_or(f64::NAN) / 1e3, 3),
    }
}

fn fastest(all: &[Known], limit_w: u32) -> Option<Point> {
    let within = |mode: &&Known| {
        mode.power_mw
            .is_some_and(|mw| mw <= 1e3 * f64::from(limit_w))
    };
    let fastest = all
        .iter()
        .filter(within)
        .min_by(|a, b| a.time_us.total_cmp(&b.time_us));
    fastest.map(point)
}

fn truth(all: &[Known]) -> Truth {
    let knobs = |mode: &Known| {
        let [cores, clocks @ ..] = mode.knobs.map(f64::from);
        let [cpu, gpu, emc] = clocks.map(|khz| khz / 1e3);
        [cores, cpu, gpu, emc]
    };
    let points = || all.iter().map(point);
    Truth {
        knobs: all.iter().map(knobs).collect(),
        time_ms: points().map(|point| point.time_ms).collect(),
        power_w: points().map(|point| point.power_w).collect(),
    }
}

fn front(all: &[Known]) -> Vec<usize> {
    let mut points: Vec<Point> = all.iter().map(point).collect();
    points.sort_by(|a, b| {
        a.power_w
            .total_cmp(&b.power_w)
            .then(a.time_ms.total_cmp(&b.time_ms))
    });
    let mut best = f64::INFINITY;
    points.retain(|point| {
        let faster = point.time_ms < best;
        best = best.min(point.time_ms);
        faster
    });
    points.into_iter().map(|point| point.mode).collect()
}

fn summary(choices: &Choices, limits: &[u32], optimum: &[Option<Point>]) -> Option<Summary> {
    let chosen: Vec<(f64, Point, Point)> = choices
        .by
        .iter()
        .zip(limits)
        .zip(optimum)
        .filter_map(|((choice, &limit), best)| {
            Some((f64::from(limit), choice.as_ref()?.point, (*best)?))
        })
        .collect();
    let n = chosen.len() as f64;
    let over = |(limit, choice, _): &(f64, Point, Point)| (choice.power_w - limit).max(0.0);
    let share = |above: f64| 100.0 * chosen.iter().filter(|c| over(c) > above).count() as f64 / n;
    let penalties = chosen
        .iter()
        .map(|(_, choice, best)| 100.0 * (choice.time_ms / best.time_ms - 1.0));
    Some(Summary {
        name: choices.name,
        time_penalty_pct: Quartiles::of(penalties)?.median,
        area_w: chosen.iter().map(over).sum::<f64>() / n,
        over_pct: share(0.0),
        over_1w_pct: share(1.0),
    })
}

fn fill(story: &Story) -> String {
    let json = serde_json::to_string(story).expect("numbers and texts");
    // Escaped, because `</script>` inside a string would end the script.
    PAGE.replace(MARKER, &json.replace('<', "\\u003c"))
}

fn round(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_takes_its_data_in_one_place() {
        assert_eq!(PAGE.matches(MARKER).count(), 1);
        assert!(
            !PAGE.contains("http://") && !PAGE.contains("https://"),
            "a page by itself"
        );
    }
}
