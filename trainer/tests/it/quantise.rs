//! The integers of a model file compute what the floating-point network computed.

use std::fs;

use crate::common::{folder, run};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use wattgate_runtime::format::{Kind, Provenance};
use wattgate_runtime::grid::Grid;
use wattgate_runtime::guard::{GuardBand, Knot};
use wattgate_runtime::idle::Idle;
use wattgate_runtime::model::Prediction;
use wattgate_runtime::quantities::Factor;
use wattgate_runtime::shape::{INPUTS, Shape};
use wattgate_runtime::{ModeId, Model, Region};
use wattgate_trainer::file::GridInputs;
use wattgate_trainer::file::{Dense, Plan, forward};
use wattgate_trainer::file::{Layers, ModelFile, Spreads};

fn grid() -> Grid {
    let cpu: Vec<u32> = (1..=15).map(|i| 100_000 * i).collect();
    Grid::new([
        &[1, 2, 3, 4],
        &cpu,
        &[76_800, 307_200, 921_600],
        &[204_000, 1_600_000],
    ])
    .expect("a grid")
}

/// A network as training might leave it: outputs of some units of ln, large biases, and
/// one unit that is never active.
fn network(shape: Shape, seed: u64) -> Vec<Dense> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let widths = shape.widths().0.map(usize::from);
    let hidden = widths.into_iter().filter(|&width| width > 0);
    let sizes: Vec<usize> = [INPUTS].into_iter().chain(hidden).chain([2]).collect();
    let mut layers: Vec<Dense> = sizes
        .windows(2)
        .map(|pair| {
            let mut normal = |scale: f64| -> f64 {
                let sample: f64 = StandardNormal.sample(&mut random);
                scale * sample
            };
            let scale = (pair[0] as f64).sqrt().recip();
            let mut row = |_| (0..pair[0]).map(|_| normal(scale)).collect();
            let weights: Vec<Vec<f64>> = (0..pair[1]).map(&mut row).collect();
            let biases = (0..pair[1]).map(|_| normal(0.1)).collect();
            Dense { weights, biases }
        })
        .collect();
    layers[0].weights[3].fill(0.0);
    layers[0].biases[3] = -0.5;
    let last = layers.last_mut().expect("an output layer");
    last.biases = vec![16.5, 8.5];
    layers
}

fn encode(grid: &Grid, layers: &Layers, measured: &[(ModeId, Prediction)]) -> Vec<u8> {
    let knot = Knot {
        per_ten_thousand: 9_500,
        q16: Factor::ONE.q16(),
    };
    let guard = GuardBand::new([knot]).expect("a guard band");
    ModelFile {
        layers,
        grid,
        profiled: Region::all(grid),
        time_guard: &guard,
        power_guard: Some(&guard),
        provenance: Provenance {
            kind: Kind::Simulated,
            device: "board",
            workload: "random",
            minibatch: None,
            seed: 0,
            modes_used: 5,
            modes_held_out: 0,
            time_error: None,
            power_error: None,
        },
        spreads: Spreads::default(),
        measured,
        tpc_pg_mask: None,
        units: &[],
        reference_mw: 1.0,
        others: &[vec![knot], vec![knot]],
        idle: Idle::NONE,
    }
    .encode()
}

/// A network whose weights lie on the steps of its plan is exported without loss, up to the
/// rounding of activations and biases.
#[test]
fn weights_on_the_steps_of_a_plan_are_exported_without_loss() {
    let grid = grid();
    // Bumps at each third CPU clock.
    let bumpy = |id: usize| 0.1 * f64::from(u8::from((id / 6).is_multiple_of(3)));
    let targets = vec![(0..grid.modes() as usize).map(bumpy).collect::<Vec<f64>>(); 2];
    let axes = GridInputs::new(&grid, &targets);
    assert!(axes.levels.iter().flatten().any(|level| *level != 0));
    let inputs = axes.of_modes();
    for &shape in Shape::ALL {
        for seed in 0..5 {
            let mut layers = network(shape, seed);
            let plan = Plan::new(&layers, &inputs, &axes);
            for (layer, steps) in layers.iter_mut().zip(plan.steps()) {
                for (row, steps) in layer.weights.iter_mut().zip(steps) {
                    for (weight, step) in row.iter_mut().zip(steps) {
                        *weight = (*weight / step).round().clamp(-127.0, 127.0) * step;
                    }
                }
            }
            let bytes = encode(&grid, &plan.layers(&layers), &[]);
            let model = Model::parse(&bytes).expect("a valid model");
            model.sweep(&Region::all(&grid), |id, at| {
                let input = inputs[usize::from(id.0)].map(f64::from);
                let exact = forward(&layers, &input);
                let time = f64::from(model.time(at).0).ln();
                let power = f64::from(model.power(at).expect("known").0).ln();
                // A tenth of a percent, where a prediction's error is some percent.
                let error = (time - exact[0]).abs().max((power - exact[1]).abs());
                assert!(
                    error < 1e-3,
                    "shape {shape}, seed {seed}, mode {id:?}: {error}"
                );
            });
        }
    }
}

/// A file whose measured modes contradict its network names them.
#[test]
fn inspect_names_a_measured_mode_that_contradicts_the_network() {
    let grid = grid();
    let targets = vec![vec![0.0; grid.modes() as usize]; 2];
    let axes = GridInputs::new(&grid, &targets);
    let layers = network(Shape::Wide16, 1);
    let layers = Plan::new(&layers, &axes.of_modes(), &axes).layers(&layers);
    let alone = encode(&grid, &layers, &[]);
    let model = Model::parse(&alone).expect("a valid model");
    let mut known = Vec::new();
    model.sweep(&Region::all(&grid), |mode, at| known.push((mode, at)));
    known.sort_by_key(|(mode, _)| *mode);
    let (sound, mut wrong) = (known[3], known[7]);
    wrong.1.log_power += (2_f32.ln() / layers.output[1].scale) as i32;
    let folder = folder();
    let file = folder.path().join("model.wgt");
    fs::write(&file, encode(&grid, &layers, &[sound, wrong])).expect("room");
    let report = run(folder.path(), "inspect model.wgt --json").json();
    let contradicts = |at: usize| report["measured"][at]["contradicts"].clone();
    let both = [contradicts(0), contradicts(1)];
    assert!(
        both.contains(&true.into()) && both.contains(&false.into()),
        "{both:?}"
    );
    let text = run(folder.path(), "inspect model.wgt").stdout;
    assert_eq!(
        text.matches("contradicts the network: measured").count(),
        1,
        "{text}"
    );
    assert!(text.contains("2 modes as measured"), "{text}");
}
