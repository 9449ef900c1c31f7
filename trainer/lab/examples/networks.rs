//! Networks that nobody ran: predicted by their kernels, compared with the simulated board.
//!
//! `networks KERNELS.wgk FOLDER [SEED]` composes each ONNX file of a folder. The truth is simulated on three
//! units that the kernels' models have not seen, in 300 random modes each, of which half score and
//! the others may be profiled as `plan` chooses them. The guard band is checked on sixty more units. What is scored is the exported
//! file, read back through the runtime. With ten profiled modes of the network the sum is corrected; beside
//! it stands a model of these modes alone.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use indicatif::ProgressBar;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use wattgate_board_tables::Board;
use wattgate_lab::kernels::models::KernelModels;
use wattgate_lab::networks::compose::{Composed, Composer};
use wattgate_lab::networks::fit::{Network, NetworkOptions, fit, grid};
use wattgate_lab::networks::graph::Graph;
use wattgate_lab::networks::lower::{Engine, Layer, lower};
use wattgate_runtime::format::Kind;
use wattgate_runtime::grid::Grid;
use wattgate_runtime::shape::Shape;
use wattgate_runtime::{Confidence, Model};
use wattgate_simulated_board::kernels::network_of;
use wattgate_simulated_board::profile::Profiler;
use wattgate_simulated_board::unit::Unit;
use wattgate_trainer::fit::Priors;
use wattgate_trainer::fit::{Task, train};
use wattgate_trainer::plan::{Amount, Sampling, Split};
use wattgate_trainer::read::Corpus;
use wattgate_trainer::read::Feeding;
use wattgate_trainer::read::Units;
use wattgate_trainer::read::{Known, all_modes};
use wattgate_trainer::score::Predictions;

/// Modes in which a network is simulated on each unit.
const MODES: usize = 300;

/// Units on which it is simulated.
const UNITS: u64 = 3;

/// Units and modes of each on which the guard band is checked.
const HELD_UNITS: u64 = 60;
const HELD_MODES: usize = 10;

/// Numbers of profiled modes.
const PROFILED: [usize; 3] = [5, 10, 25];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kernels, folder, rest @ ..] = &arguments[..] else {
        eprintln!("usage: networks KERNELS.wgk FOLDER [SEED]");
        return ExitCode::from(2);
    };
    let seed: u64 = rest.first().and_then(|text| text.parse().ok()).unwrap_or(1);
    let models = KernelModels::read(Path::new(kernels)).expect("models of kernels");
    let board = Board::named(&models.device).expect("a known board");
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "onnx"));
    files.sort();
    println!(
        "simulated, {}: mean absolute percentage errors, time / energy",
        models.device
    );
    print!(
        "{:<26}{:>6}{:>16}{:>16}{:>14}{:>14}",
        "network", "calls", "never run", "plain sum", "95 % hold", "spread"
    );
    for n in PROFILED {
        print!("{:>16}{:>16}", format!("{n} modes"), "they alone");
    }
    println!();
    let mut sums: Vec<Vec<f64>> = Vec::new();
    for path in &files {
        let graph = Graph::read(path, None).expect("a network");
        let layers = lower(&graph, Engine::PyTorch).expect("calls");
        let scores = Bench {
            models: &models,
            board: &board,
            layers: &layers,
            seed,
        }
        .scores();
        let name = path
            .file_stem()
            .expect("a file")
            .to_string_lossy()
            .into_owned();
        row(&name, layers.len(), &scores);
        sums.push(scores);
    }
    let mean = |at: usize| sums.iter().map(|row| row[at]).sum::<f64>() / sums.len() as f64;
    let means: Vec<f64> = (0..sums[0].len()).map(mean).collect();
    row("mean", 0, &means);
    ExitCode::SUCCESS
}

fn row(name: &str, calls: usize, scores: &[f64]) {
    print!("{name:<26}{calls:>6}");
    let pair = |at: usize| format!("{:.2} / {:.2}", scores[at], scores[at + 1]);
    print!("{:>16}{:>16}", pair(0), pair(2));
    print!("{:>14}", format!("{:.1} / {:.1}", scores[4], scores[5]));
    print!("{:>14}", pair(6));
    for at in (8..scores.len()).step_by(2) {
        print!("{:>16}", pair(at));
    }
    println!();
}

struct Bench<'a> {
    models: &'a KernelModels,
    board: &'a Board,
    layers: &'a [Layer],
    seed: u64,
}

impl Bench<'_> {
    /// Errors of time and energy without profiling, of the plain sum, the share within the band of time and
    /// of power, then for each number of modes the errors of the corrected sum and of the modes alone.
    fn scores(&self) -> Vec<f64> {
        let composer = Composer::new(self.models, self.layers).expect("all kernels");
        let axes = self.board.axes();
        let of_board = Grid::new(axes.each_ref().map(Vec::as_slice)).expect("a grid");
        let (grid, profiled) = grid(self.models, &of_board).expect("common clocks");
        let network = Network::compose(self.models, &composer, grid.clone());
        let options = NetworkOptions {
            workload: "network",
            batch: 1,
            profiled,
            seed: 1,
            shape: Shape::Wide32,
        };
        let hidden = ProgressBar::hidden();
        let never_run = fit(&network, None, &options, &hidden)
            .expect("a model")
            .exported;
        let upper = {
            let file = never_run.unscored();
            let model = Model::parse(&file).expect("a model");
            let confidence = Confidence::new(9_500).expect("a confidence");
            Predictions::guarded(&model, confidence).expect("a band")
        };
        let mut scores = vec![0.0; 8 + 4 * PROFILED.len()];
        for unit in 0..UNITS {
            let truth = self.truth(&grid, 90_000 + 100 * self.seed + unit, MODES);
            let mut add = |at: usize, errors: [f64; 2]| {
                for (score, error) in scores[at..at + 2].iter_mut().zip(errors) {
                    *score += error / UNITS as f64;
                }
            };
            add(
                0,
                errors(&truth, |id| time_and_energy(&never_run.predictions, id)),
            );
            let composed = network.composed();
            add(
                2,
                errors(&truth, |id| {
                    let composed_mode = &composed[id];
                    let plain =
                        composed_mode.energy_mj / composed_mode.time_ms * composed_mode.sum_ms;
                    [composed_mode.sum_ms, plain]
                }),
            );
            add(6, spread(&truth, composed));
            for (at, n) in PROFILED.into_iter().enumerate() {
                let priors = Priors::shipped();
                let all = self.corpus(&grid, &truth);
                let amount = Amount::Modes(n);
                let split = Split::with_fixed_held_out(&all, amount, Sampling::Planned, priors, 1);
                let Split { used, held_out, .. } = split.expect("a split");
                let corpus = self.corpus(&grid, &used);
                let corrected = fit(&network, Some(&corpus), &options, &hidden);
                let corrected = corrected.expect("a model").exported.predictions;
                add(
                    8 + 4 * at,
                    errors(&held_out, |id| time_and_energy(&corrected, id)),
                );
                let task = Task {
                    corpus: &corpus,
                    used: &used,
                    references: &[],
                    priors,
                    seed: 1,
                    shape: Shape::Wide32,
                    progress: &hidden,
                };
                let alone = train(&task).expect("a model").exported.predictions;
                add(
                    10 + 4 * at,
                    errors(&held_out, |id| time_and_energy(&alone, id)),
                );
            }
        }
        let held = self.held(&grid, &upper);
        scores[4..6].copy_from_slice(&held);
        scores
    }

    /// Percentage of times and of powers within their bounds on many units.
    fn held(&self, grid: &Grid, upper: &Predictions) -> [f64; 2] {
        let power = upper.power.as_ref().expect("a power");
        let (mut held, mut count) = ([0_u32; 2], 0_u32);
        for unit in 0..HELD_UNITS {
            for known in self.truth(grid, 95_000 + 100 * self.seed + unit, HELD_MODES) {
                held[0] += u32::from(known.time_us <= upper.time[known.id]);
                held[1] += u32::from(known.power_mw <= Some(power[known.id]));
                count += 1;
            }
        }
        held.map(|held| 100.0 * f64::from(held) / f64::from(count))
    }

    /// What a unit measures in random modes of a grid, in random order.
    fn truth(&self, grid: &Grid, unit: u64, number: usize) -> Vec<Known> {
        let unit = Unit::drawn(unit);
        let calls: Vec<_> = self.layers.iter().map(|layer| layer.call).collect();
        let workload = network_of("network".to_owned(), &calls, self.board, &unit);
        let mut modes: Vec<(usize, [u32; 4])> = all_modes(grid).enumerate().collect();
        modes.shuffle(&mut ChaCha8Rng::seed_from_u64(self.seed));
        modes.truncate(number);
        modes
            .into_par_iter()
            .map(|(id, knobs)| {
                let profile = Profiler::new(self.board, unit, &workload, self.seed).profile(knobs);
                Known {
                    id,
                    knobs,
                    time_us: 1e3 * profile.time_ms,
                    power_mw: Some(profile.power_mw),
                    is_confirmed: false,
                }
            })
            .collect()
    }

    fn corpus(&self, grid: &Grid, known: &[Known]) -> Corpus {
        let profile = |known: &Known| wattgate_trainer::read::Profile {
            knobs: known.knobs,
            times: vec![(1e-3 * known.time_us) as f32],
            powers: known
                .power_mw
                .map(|power| power as f32)
                .into_iter()
                .collect(),
            fetches: Vec::new(),
            computes: Vec::new(),
        };
        Corpus {
            kind: Kind::Simulated,
            device: self.models.device.clone(),
            workload: "network".to_owned(),
            feeding: Feeding {
                minibatch: Some(1),
                ..Feeding::default()
            },
            has_cores: true,
            tpc_pg_mask: None,
            units: Units::one(None),
            idle: Vec::new(),
            rows: known.len() as u64,
            modes: known.iter().map(profile).collect(),
            grid: grid.clone(),
        }
    }
}

/// Standard deviations over the modes of ln(predicted / measured) in percent, of time and of power: what is
/// left if a unit were off by the same in all modes.
fn spread(truth: &[Known], composed: &[Composed]) -> [f64; 2] {
    let errors = |log_ratio: &dyn Fn(&Known) -> f64| {
        let errors: Vec<f64> = truth.iter().map(log_ratio).collect();
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        let square: f64 = errors.iter().map(|error| (error - mean).powi(2)).sum();
        100.0 * (square / errors.len() as f64).sqrt()
    };
    [
        errors(&|known| (1e3 * composed[known.id].time_ms / known.time_us).ln()),
        errors(&|known| (composed[known.id].power_mw() / known.power_mw.expect("simulated")).ln()),
    ]
}

/// Predicted time in ms and energy in mJ of a mode.
fn time_and_energy(predictions: &Predictions, id: usize) -> [f64; 2] {
    let time = 1e-3 * predictions.time[id];
    let power = predictions.power.as_ref().expect("a power")[id];
    [time, 1e-3 * time * power]
}

/// Mean absolute percentage errors of time and energy.
fn errors(truth: &[Known], predicted: impl Fn(usize) -> [f64; 2]) -> [f64; 2] {
    let mut sums = [0.0; 2];
    for known in truth {
        let time = 1e-3 * known.time_us;
        let energy = 1e-3 * time * known.power_mw.expect("simulated");
        let [t, e] = predicted(known.id);
        sums[0] += (t / time - 1.0).abs();
        sums[1] += (e / energy - 1.0).abs();
    }
    sums.map(|sum| 100.0 * sum / truth.len() as f64)
}
