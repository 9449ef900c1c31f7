//! `powertrain-nn`: PowerTrain's network from scratch (Prashanthi et al., Future
//! Generation Computer Systems 2024; details as in the authors' scripts).
//!
//! Standardised knobs → 256 → 128 → 64 → 1 with ReLU, dropout of 0.4 and 0.3 after the first two
//! layers, Adam at 0.001, mean square error, batches of 32, 100 epochs. A tenth of the modes is
//! the validation set; the epoch with the lowest validation error provides the weights. The
//! authors train on the rows of about 40 minibatches per mode, so here each mode's median is
//! repeated 40 times (5 times above 100 modes). Targets are scaled to a median of 100.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor, TensorData};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use wattgate_runtime::Grid;

use super::{Method, MethodError, Predicted, Trained};
use crate::corpus::modes::Known;
use crate::corpus::modes::all_modes;
use crate::learn::predictions::{Predictions, Target};
use crate::learn::standard::Standard;
use crate::train::Task;

/// Layer sizes: inputs, hidden layers, output.
const SIZES: [usize; 5] = [4, 256, 128, 64, 1];

/// Dropout rate of each hidden layer.
const DROPOUT: [f64; 3] = [0.4, 0.3, 0.0];

const RATE: f64 = 1e-3;
const BATCH: usize = 32;
const EPOCHS: usize = 100;

/// Median of the scaled targets.
const TARGET_MEDIAN: f64 = 100.0;

/// The method `powertrain-nn`.
pub struct PowertrainNn;

impl Method for PowertrainNn {
    fn name(&self) -> &'static str {
        "powertrain-nn"
    }

    fn train(&self, task: &Task<'_>) -> Result<Box<dyn Trained>, MethodError> {
        predict_each(task, |target| {
            let training = Training::of(task.used, target)?;
            Some(training.run(None, Loss::Square, task.seed))
        })
    }
}

/// Trains one network per known target and predicts the whole grid.
pub fn predict_each(
    task: &Task<'_>,
    network: impl Fn(Target) -> Option<Recipe> + Sync,
) -> Result<Box<dyn Trained>, MethodError> {
    let grid = &task.corpus.grid;
    let predict = |target| network(target).map(|recipe| recipe.predict(grid));
    let (time, power) = rayon::join(|| predict(Target::Time), || predict(Target::Power));
    let time = time.expect("every mode that is used has a time");
    Ok(Box::new(Predicted(Predictions {
        time,
        power,
        spread: None,
    })))
}

/// The loss function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Mean square error.
    Square,
    /// Mean absolute percentage error.
    Percentage,
}

/// A training set: knobs and one target.
pub struct Training {
    modes: Vec<([u32; 4], f64)>,
}

/// A trained network with the scaling of its inputs and output.
#[derive(Clone, Debug)]
pub struct Recipe {
    network: RecipeNetwork,
    inputs: [Standard; 4],
    /// The target value at an output of one.
    unit: f64,
}

impl Training {
    /// The modes with a measured target; `None` if there are none.
    pub fn of(modes: &[Known], target: Target) -> Option<Self> {
        let modes: Vec<([u32; 4], f64)> = modes
            .iter()
            .filter_map(|mode| Some((mode.knobs, target.measured(mode)?)))
            .collect();
        (!modes.is_empty()).then_some(Self { modes })
    }

    /// Trains from scratch, or fine-tunes a reference network with a fresh last layer.
    pub fn run(&self, reference: Option<&Recipe>, loss: Loss, seed: u64) -> Recipe {
        let device = Device::flex().autodiff();
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let inputs = std::array::from_fn(|i| {
            Standard::of(self.modes.iter().map(move |(knobs, _)| f64::from(knobs[i])))
        });
        let mut sorted: Vec<f64> = self.modes.iter().map(|&(_, value)| value).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let unit = sorted[sorted.len() / 2] / TARGET_MEDIAN;
        let mut recipe = Recipe {
            network: RecipeNetwork::new(&mut random, &device),
            inputs,
            unit,
        };
        if let Some(reference) = reference {
            let last = recipe.network.layers.pop().expect("an output layer");
            recipe.network = reference.network.clone();
            recipe.network.layers.pop();
            recipe.network.layers.push(last);
        }

        let mut order: Vec<usize> = (0..self.modes.len()).collect();
        order.shuffle(&mut random);
        let (validation, training) = order.split_at((order.len() / 10).max(1));
        let repeats = if self.modes.len() <= 100 { 40 } else { 5 };
        let mut rows: Vec<usize> = training.repeat(repeats);
        let (x, y) = self.rows(validation, &recipe, &device);
        let mut adam = AdamConfig::new().with_epsilon(1e-7).init();
        let mut best = (f64::INFINITY, recipe.network.clone());
        let mut network = recipe.network.clone();
        for _ in 0..EPOCHS {
            rows.shuffle(&mut random);
            for batch in rows.chunks(BATCH) {
                let (x, y) = self.rows(batch, &recipe, &device);
                let kept = RecipeNetwork::kept(batch.len(), &mut random, &device);
                let cost = loss.of(network.forward(x, Some(&kept)), y);
                let gradients = GradientsParams::from_grads(cost.backward(), &network);
                network = adam.step(RATE, network, gradients);
            }
            let cost: f64 = loss
                .of(network.forward(x.clone(), None), y.clone())
                .into_scalar();
            if cost < best.0 {
                best = (cost, network.clone());
            }
        }
        recipe.network = best.1;
        recipe
    }

    /// Scaled inputs and targets of some modes.
    fn rows(&self, modes: &[usize], recipe: &Recipe, device: &Device) -> (Tensor<2>, Tensor<2>) {
        let chosen = || modes.iter().map(|&at| &self.modes[at]);
        let x = recipe.inputs(chosen().map(|&(knobs, _)| knobs), device);
        let y: Vec<f32> = chosen()
            .map(|(_, value)| (value / recipe.unit) as f32)
            .collect();
        (
            x,
            Tensor::from_data(TensorData::new(y, [modes.len(), 1]), device),
        )
    }
}

impl Loss {
    fn of(self, predicted: Tensor<2>, measured: Tensor<2>) -> Tensor<1> {
        let error = predicted - measured.clone();
        match self {
            Self::Square => error.clone().mul(error).mean(),
            Self::Percentage => (error / measured).abs().mean(),
        }
    }
}

impl Recipe {
    /// Predicts the target in every mode of a grid, indexed by mode id.
    pub fn predict(&self, grid: &Grid) -> Vec<f64> {
        let device = Device::flex();
        let mut values = Vec::new();
        let modes: Vec<[u32; 4]> = all_modes(grid).collect();
        let network = self.network.clone().to_device(&device);
        for chunk in modes.chunks(4_096) {
            let outputs = network.forward(self.inputs(chunk.iter().copied(), &device), None);
            let outputs: Vec<f32> = outputs
                .into_data()
                .try_to_vec()
                .expect("f32 on this device");
            values.extend(outputs.iter().map(|&y| self.unit * f64::from(y)));
        }
        values
    }

    fn inputs(&self, modes: impl Iterator<Item = [u32; 4]>, device: &Device) -> Tensor<2> {
        let x: Vec<f32> = modes
            .flat_map(|knobs| {
                std::array::from_fn::<f32, 4, _>(|i| {
                    self.inputs[i].apply(f64::from(knobs[i])) as f32
                })
            })
            .collect();
        let rows = x.len() / SIZES[0];
        Tensor::from_data(TensorData::new(x, [rows, SIZES[0]]), device)
    }
}

#[derive(Module, Debug)]
struct RecipeNetwork {
    layers: Vec<Linear>,
}

impl RecipeNetwork {
    /// Glorot-uniform weights and zero biases, as in Keras.
    fn new(random: &mut ChaCha8Rng, device: &Device) -> Self {
        let layer = |pair: &[usize]| {
            let [inputs, outputs] = [pair[0], pair[1]];
            let limit = (6.0 / (inputs + outputs) as f64).sqrt();
            let weights: Vec<f32> = (0..inputs * outputs)
                .map(|_| random.random_range(-limit..limit) as f32)
                .collect();
            let weights = TensorData::new(weights, [inputs, outputs]);
            Linear {
                weight: Param::from_tensor(Tensor::from_data(weights, device)),
                bias: Some(Param::from_tensor(Tensor::zeros([outputs], device))),
            }
        };
        Self {
            layers: SIZES.windows(2).map(layer).collect(),
        }
    }

    /// Random dropout masks of a batch, one per hidden layer with dropout: zero, or the reciprocal
    /// of the share that is kept.
    fn kept(rows: usize, random: &mut ChaCha8Rng, device: &Device) -> Vec<Option<Tensor<2>>> {
        let mask = |(&dropped, &width): (&f64, &usize)| {
            (dropped > 0.0).then(|| {
                let scale = (1.0 - dropped).recip() as f32;
                let mask: Vec<f32> = (0..rows * width)
                    .map(|_| {
                        if random.random_bool(dropped) {
                            0.0
                        } else {
                            scale
                        }
                    })
                    .collect();
                Tensor::from_data(TensorData::new(mask, [rows, width]), device)
            })
        };
        DROPOUT.iter().zip(&SIZES[1..]).map(mask).collect()
    }

    fn forward(&self, inputs: Tensor<2>, kept: Option<&[Option<Tensor<2>>]>) -> Tensor<2> {
        let mut x = inputs;
        for (at, layer) in self.layers.iter().enumerate() {
            x = layer.forward(x);
            if at + 1 < self.layers.len() {
                x = relu(x);
            }
            if let Some(Some(mask)) = kept.and_then(|kept| kept.get(at)) {
                x = x * mask.clone();
            }
        }
        x
    }
}
