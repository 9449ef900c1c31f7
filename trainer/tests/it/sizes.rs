//! The minibatch as an input: errors for sizes that were not profiled, and choices of size and mode.

use std::path::Path;

use indicatif::ProgressBar;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use wattgate_board_tables::Board;
use wattgate_simulated_board::corpus::{Feeding, fed_csv};
use wattgate_simulated_board::pipeline::Clocks;
use wattgate_simulated_board::profile::Profiler;
use wattgate_simulated_board::steady::Steady;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;
use wattgate_trainer::characterize::joint::Joint;
use wattgate_trainer::corpus::modes::all_modes;
use wattgate_trainer::corpus::{Blank, Corpus, fed};

use crate::common::{folder, run};

/// A workload on a board, profiled with some sizes.
struct Sized {
    board: Board,
    workload: Workload,
    workers: u32,
}

impl Sized {
    fn of(board: &str, workload: &str) -> Self {
        let workload = Workload::named(workload).expect("shipped");
        Self {
            board: Board::named(board).expect("known"),
            workers: workload.loader.workers,
            workload,
        }
    }

    fn with(&self, minibatch: u32) -> (Feeding, Workload) {
        let feeding = Feeding {
            minibatch,
            workers: self.workers,
            storage: None,
        };
        let workload = feeding.apply(&self.workload, &self.board);
        (feeding, workload.expect("it fits"))
    }

    /// Random modes.
    fn random(&self, number: usize) -> Vec<[u32; 4]> {
        let mut modes = self.board.all_modes();
        modes.shuffle(&mut ChaCha8Rng::seed_from_u64(1));
        modes.truncate(number);
        modes
    }

    /// Modes that `plan` chooses for the board.
    fn planned(&self, folder: &Path, number: usize) -> Vec<[u32; 4]> {
        let plan = format!("plan --board {} --modes {number} --json", self.board.name);
        let plan = run(folder, &plan).json();
        let modes = plan["modes"].as_array().expect("a list").iter();
        let knobs = ["cores", "cpu_khz", "gpu_khz", "emc_khz"];
        modes
            .map(|mode| knobs.map(|knob| mode[knob].as_u64().expect("a number") as u32))
            .collect()
    }

    /// Writes a corpus of sizes, each with some modes.
    fn profile(&self, folder: &Path, sizes: &[(u32, &[[u32; 4]])]) {
        let runs: Vec<_> = sizes
            .iter()
            .map(|&(size, modes)| {
                let (feeding, workload) = self.with(size);
                let mut profiler = Profiler::new(&self.board, Unit::NOMINAL, &workload, 1);
                (feeding, profiler.profile_all(modes))
            })
            .collect();
        let text = fed_csv(&self.board, &Unit::NOMINAL, &self.workload.name, &runs);
        std::fs::write(folder.join("sizes.csv"), text).expect("written");
    }

    /// The true time of a sample in ms and power in W.
    fn truth(&self, size: u32, knobs: [u32; 4]) -> [f64; 2] {
        let (_, workload) = self.with(size);
        let clocks = Clocks::of(&self.board, knobs);
        let steady = Steady::of(&self.board, &Unit::NOMINAL, &workload, &clocks);
        [
            1e3 * steady.step.period / f64::from(size),
            steady.watts.total(),
        ]
    }
}

#[test]
fn a_size_between_profiled_ones_is_predicted_nearly_as_well() {
    let folder = folder();
    for name in ["mobilenetv3", "resnet18"] {
        let sized = Sized::of("orin-agx-64", name);
        let modes = sized.random(40);
        let few = &modes[..20];
        sized.profile(
            folder.path(),
            &[(16, &modes), (8, few), (32, few), (64, few)],
        );
        let path = folder.path().join("sizes.csv");
        let fed = Corpus::read_fed(&path, Blank::Defect, &ProgressBar::hidden());
        let joint = Joint::fit(&fed.expect("a corpus"), 1).expect("enough modes");
        // Of the profiled clocks, as for a choice.
        let mut modes: Vec<[u32; 4]> = all_modes(&joint.grid).collect();
        modes.shuffle(&mut ChaCha8Rng::seed_from_u64(8));
        modes.truncate(150);
        let on = joint.on(&modes);
        let errors = |size: u32| -> [f64; 2] {
            let feeding = fed::Feeding {
                minibatch: Some(size),
                workers: Some(sized.workers),
                storage: None,
                epoch: Some(1),
            };
            let predicted = on.with(&feeding).expect("within the profiled sizes");
            let mut sums = [0.0; 2];
            for (knobs, predicted) in modes.iter().zip(predicted) {
                let [time, power] = sized.truth(size, *knobs);
                let item_ms = 1e-3 * predicted.time_us / f64::from(size);
                sums[0] += (item_ms / time - 1.0).abs();
                sums[1] += (1e-3 * predicted.power_mw / power - 1.0).abs();
            }
            sums.map(|sum| 100.0 * sum / modes.len() as f64)
        };
        let mean = |sizes: &[u32], at: usize| {
            let all = sizes.iter().map(|&size| errors(size)[at]);
            all.sum::<f64>() / sizes.len() as f64
        };
        for (at, target) in ["time", "power"].into_iter().enumerate() {
            let [profiled, between] = [&[8, 32, 64][..], &[12, 24, 48]].map(|of| mean(of, at));
            println!(
                "{name}, {target}: profiled {profiled:.2} %, between {between:.2} %, simulated"
            );
            assert!(between <= 1.5 * profiled, "{name}: {between} {profiled}");
        }
        let beyond = fed::Feeding {
            minibatch: Some(128),
            ..joint.fed[0].feeding.clone()
        };
        assert!(!joint.covers(&beyond) && on.with(&beyond).is_none());
    }
}

/// How much slower a chosen size and mode is than the fastest ones, by the time of a sample, in percent.
struct Cost {
    /// Than the fastest size and mode within the limit.
    of_limit: f64,
    /// Than the fastest within the power that the choice draws, so without the price of the guard band.
    of_drawn: f64,
    /// The same of the fastest mode of the chosen size: what the choice of the size alone costs.
    of_size: f64,
    /// By how much the drawn power exceeds the limit, in percent; negative below it.
    excess: f64,
}

/// Profiles the modes of a plan with each size, fits a model for each, and compares the choices of `select` under
/// every whole limit in W with a search through all sizes and modes.
fn choices(sized: &Sized, folder: &Path) -> Vec<Cost> {
    let sizes = [8, 16, 32];
    let modes = sized.planned(folder, 60);
    let of_size = |size| (size, &modes[..]);
    sized.profile(folder, &[16, 8, 32].map(of_size));
    for size in sizes {
        let fit = run(
            folder,
            &format!(
                "fit sizes.csv --minibatch {size} --board {} -o model-{size}.wgt",
                sized.board.name
            ),
        );
        assert_eq!(fit.code, 0, "{}", fit.stderr);
        assert_eq!(
            fit.stdout
                .contains("transferred from sizes.csv, minibatch 16"),
            size != 16
        );
        let bytes = std::fs::metadata(folder.join(format!("model-{size}.wgt"))).expect("written");
        assert!(bytes.len() <= 1_536);
    }
    let modes = sized.board.all_modes();
    let truths = sizes.map(|size| -> Vec<[f64; 2]> {
        let truths = modes.iter().map(|&knobs| sized.truth(size, knobs));
        truths.collect()
    });
    let least = |truths: &[Vec<[f64; 2]>], limit: f64| {
        let within = truths.iter().flatten().filter(|[_, watts]| *watts <= limit);
        within.map(|[time, _]| *time).fold(f64::INFINITY, f64::min)
    };
    let powers = || truths.iter().flatten().map(|[_, watts]| *watts);
    let [lowest, highest] = [
        powers().fold(f64::INFINITY, f64::min),
        powers().fold(0.0, f64::max),
    ];
    let mut costs = Vec::new();
    for limit in lowest.ceil() as u32..=highest as u32 {
        let models = "model-8.wgt model-16.wgt model-32.wgt";
        let chosen = run(
            folder,
            &format!("select {models} --minibatch any --limit {limit}W --json"),
        );
        // The guard band leaves no mode below the lowest limits.
        if chosen.code == 4 {
            continue;
        }
        let chosen = chosen.json();
        let number = |of: &serde_json::Value| of.as_u64().expect("a number") as u32;
        let mode =
            ["cores", "cpu_khz", "gpu_khz", "emc_khz"].map(|knob| number(&chosen["mode"][knob]));
        let size = number(&chosen["minibatch"]);
        let [time, power] = sized.truth(size, mode);
        let of_this = sizes.iter().position(|of| *of == size).expect("a size");
        let over = |a: f64, b: f64| 100.0 * (a / b - 1.0);
        let best_of_drawn = least(&truths, power);
        let of_this = least(&truths[of_this..=of_this], power);
        costs.push(Cost {
            of_limit: over(time, least(&truths, f64::from(limit))),
            of_drawn: over(time, best_of_drawn),
            of_size: over(of_this, best_of_drawn),
            excess: over(power, f64::from(limit)),
        });
    }
    costs
}

#[test]
fn size_and_mode_are_chosen_together() {
    let folder = folder();
    let path = folder.path();
    let mut of_all = [0; 4];
    for (board, workload) in [("xavier-agx", "resnet18"), ("orin-agx-64", "mobilenetv3")] {
        let costs = choices(&Sized::of(board, workload), path);
        let sorted = |of: fn(&Cost) -> f64| {
            let mut all: Vec<f64> = costs.iter().map(of).collect();
            all.sort_unstable_by(f64::total_cmp);
            [all[all.len() / 2], all[all.len() - 1]]
        };
        let [limit, drawn, size] = [
            sorted(|cost| cost.of_limit),
            sorted(|cost| cost.of_drawn),
            sorted(|cost| cost.of_size),
        ];
        let over = costs.iter().filter(|cost| cost.excess > 0.0).count();
        let [_, excess] = sorted(|cost| cost.excess);
        println!(
            "{board}, {workload}, {} limits, median and worst: {:.1} / {:.1} % over the best within what is drawn, \
             of which the size {:.1} / {:.1} %; {:.1} / {:.1} % over the best within the limit; {over} over the \
             limit, by at most {excess:.1} %; simulated",
            costs.len(),
            drawn[0],
            drawn[1],
            size[0],
            size[1],
            limit[0],
            limit[1],
        );
        // At the power drawn: the price of the guard band is another one.
        let near = costs.iter().filter(|cost| cost.of_drawn <= 3.0).count();
        println!("within 3 %: {near} of {}", costs.len());
        let far = costs.iter().filter(|cost| cost.of_drawn > 8.0).count();
        assert_eq!(size[0], 0.0);
        assert!(excess <= 2.5);
        of_all[0] += over;
        of_all[1] += far;
        of_all[2] += near;
        of_all[3] += costs.len();
    }
    // Neighbouring limits share a mode, so these are shares of the limits of both boards.
    let [over, far, near, limits] = of_all;
    assert!(
        20 * over <= limits && 20 * far <= limits && 5 * near >= 4 * limits,
        "{over} over, {far} far and {near} near of {limits}"
    );
    // Each of three models takes a third of the risk.
    let json = |arguments: &str| run(path, arguments).json();
    let any =
        json("select model-8.wgt model-16.wgt model-32.wgt --minibatch any --limit 20W --json");
    let size = &any["minibatch"];
    let alone = json(&format!(
        "select model-{size}.wgt --limit 20W --confidence 0.9834 --json"
    ));
    assert_eq!(any["guarded_power_mw"], alone["guarded_power_mw"]);
    assert_eq!(any["confidence"], 0.95);
    let models = "model-8.wgt model-16.wgt model-32.wgt";
    let refused = |arguments: &str| {
        let run = run(path, arguments);
        (run.code, run.stderr)
    };
    assert_eq!(
        refused(&format!("select {models}")),
        (
            2,
            "error: several models: choose among their sizes with --minibatch any, or name one\n"
                .to_owned()
        )
    );
    assert_eq!(
        refused(&format!("select {models} --minibatch 64")),
        (
            2,
            "error: --minibatch: no minibatch of 64; there are 8, 16, 32\n".to_owned()
        )
    );
    assert_eq!(
        refused(&format!(
            "select {models} --minibatch any --limit 20W --confidence 0.99"
        )),
        (
            3,
            "error: model-8.wgt: a choice among 3 models takes a confidence of 99.67 % from each, but the \
             model's data supports no confidence above 99.00 %\n"
                .to_owned()
        )
    );
    assert_eq!(
        refused("select model-8.wgt model-8.wgt --minibatch any"),
        (
            3,
            "error: model-8.wgt: a model before has the same minibatch\n".to_owned()
        )
    );
    assert_eq!(
        refused("fit sizes.csv --minibatch 12 -o none.wgt"),
        (
            2,
            "error: sizes.csv: no minibatch of 12; there are 8, 16, 32\n".to_owned()
        )
    );
    let (code, message) = refused("fit sizes.csv -o none.wgt");
    assert_eq!(code, 3);
    assert!(message.contains("such a file is for"), "{message}");
}
