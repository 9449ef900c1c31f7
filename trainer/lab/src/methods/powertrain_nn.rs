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
use burn::optim::{
    AdaptiveMomentumState, GradientsParams, LearningRate, ModuleOptimizer, Optimizer,
};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor, TensorCreationOptions, TensorData};
use indicatif::ProgressBar;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use wattgate_runtime::grid::Grid;

use super::{Method, MethodError, Predicted, Trained};
use wattgate_trainer::fit::Standard;
use wattgate_trainer::fit::Task;
use wattgate_trainer::read::Known;
use wattgate_trainer::read::all_modes;
use wattgate_trainer::score::{Predictions, Target};

/// Layer sizes: inputs, hidden layers, output.
const SIZES: [usize; 5] = [4, 256, 128, 64, 1];

/// Dropout rate of each hidden layer.
const DROPOUT: [f64; 3] = [0.4, 0.3, 0.0];

const POWERTRAIN_RATE: f64 = 1e-3;

const POWERTRAIN_BATCH: usize = 32;
const POWERTRAIN_EPOCHS: usize = 100;

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
            let training = Training::from_modes(task.used, target)?;
            Some(training.run(None, Loss::Square, task.seed, task.progress))
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
        time_spread: None,
    })))
}

/// Of this many modes, those that decide which epoch provides the weights.
fn validated(modes: usize) -> usize {
    (modes / 10).max(1)
}

/// How often an epoch has each training mode.
fn repeats(modes: usize) -> usize {
    if modes <= 100 { 40 } else { 5 }
}

/// Steps of Adam for the time and the power of this many modes.
pub fn recipe_progress(modes: usize) -> u64 {
    let rows = (modes - validated(modes)) * repeats(modes);
    (2 * POWERTRAIN_EPOCHS * rows.div_ceil(POWERTRAIN_BATCH)) as u64
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
    scale: f64,
}

impl Training {
    /// The modes with a measured target; `None` if there are none.
    pub fn from_modes(modes: &[Known], target: Target) -> Option<Self> {
        let modes: Vec<([u32; 4], f64)> = modes
            .iter()
            .filter_map(|mode| Some((mode.knobs, target.measured(mode)?)))
            .collect();
        (!modes.is_empty()).then_some(Self { modes })
    }

    /// Trains from scratch, or fine-tunes a reference network with a fresh last layer.
    pub fn run(
        &self,
        reference: Option<&Recipe>,
        loss: Loss,
        seed: u64,
        progress: &ProgressBar,
    ) -> Recipe {
        let single = TensorCreationOptions::from(&Device::flex().autodiff());
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        self.run_with(reference, loss, &single, &mut random, progress)
    }

    /// `options` have the device, and the precision of all numbers. Advances `progress` by one for each step of Adam.
    fn run_with(
        &self,
        reference: Option<&Recipe>,
        loss: Loss,
        options: &TensorCreationOptions,
        random: &mut impl Rng,
        progress: &ProgressBar,
    ) -> Recipe {
        let mut recipe = self.start(reference, options, random);
        let mut order: Vec<usize> = (0..self.modes.len()).collect();
        shuffle(&mut order, random);
        let (validation, training) = order.split_at(validated(order.len()));
        let mut rows: Vec<usize> = training.repeat(repeats(order.len()));
        let (x, y) = self.rows(validation, &recipe, options);
        let mut adam = ModuleOptimizer::from(Adam);
        let mut best = (f64::INFINITY, recipe.network.clone());
        let mut network = recipe.network.clone();
        for _ in 0..POWERTRAIN_EPOCHS {
            shuffle(&mut rows, random);
            for batch in rows.chunks(POWERTRAIN_BATCH) {
                let batch = self.rows(batch, &recipe, options);
                network = step(network, &mut adam, batch, loss, options, random);
                progress.inc(1);
            }
            let cost: f64 = loss
                .compute(network.forward(x.clone(), None), y.clone())
                .into_scalar();
            if cost < best.0 {
                best = (cost, network.clone());
            }
        }
        recipe.network = best.1;
        recipe
    }

    /// An untrained network with the scaling of its inputs and output. With a reference, all layers but
    /// the last are the reference's.
    fn start(
        &self,
        reference: Option<&Recipe>,
        options: &TensorCreationOptions,
        random: &mut impl Rng,
    ) -> Recipe {
        let inputs = std::array::from_fn(|i| {
            Standard::from_values(self.modes.iter().map(move |(knobs, _)| f64::from(knobs[i])))
        });
        let mut sorted: Vec<f64> = self.modes.iter().map(|&(_, value)| value).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let scale = sorted[sorted.len() / 2] / TARGET_MEDIAN;
        let mut recipe = Recipe {
            network: RecipeNetwork::new(options, random),
            inputs,
            scale,
        };
        if let Some(reference) = reference {
            let last = recipe.network.layers.pop().expect("an output layer");
            recipe.network = reference.network.clone();
            recipe.network.layers.pop();
            recipe.network.layers.push(last);
        }
        recipe
    }

    /// Scaled inputs and targets of some modes.
    fn rows(
        &self,
        modes: &[usize],
        recipe: &Recipe,
        options: &TensorCreationOptions,
    ) -> (Tensor<2>, Tensor<2>) {
        let chosen = || modes.iter().map(|&at| &self.modes[at]);
        let x = recipe.inputs(chosen().map(|&(knobs, _)| knobs), options);
        let y: Vec<f64> = chosen().map(|(_, value)| value / recipe.scale).collect();
        let y = TensorData::new(y, [modes.len(), 1]);
        (x, Tensor::from_data(y, options.clone()))
    }
}

/// Keras's Adam. burn's Adam adds ε after the correction for bias, and computes the correction in 32 bits.
/// After a whole training, the outputs of the two differ by up to 0.2 %.
#[derive(Clone)]
struct Adam;

impl Optimizer for Adam {
    type State<const D: usize> = AdaptiveMomentumState<D>;

    fn step<const D: usize>(
        &self,
        rate: LearningRate,
        tensor: Tensor<D>,
        gradient: Tensor<D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<D>, Option<Self::State<D>>) {
        const BETA: [f64; 2] = [0.9, 0.999];
        const EPSILON: f64 = 1e-7;
        let mut state = state.unwrap_or_else(|| {
            let zeros = gradient.zeros_like();
            AdaptiveMomentumState::new(0, zeros.clone(), zeros)
        });
        state.time += 1;
        let square = gradient.clone().square();
        state.moment_1 = state.moment_1 * BETA[0] + gradient * (1.0 - BETA[0]);
        state.moment_2 = state.moment_2 * BETA[1] + square * (1.0 - BETA[1]);
        let [bias, bias_of_square] = BETA.map(|beta| 1.0 - beta.powi(state.time as i32));
        let rate = rate * bias_of_square.sqrt() / bias;
        let change = state.moment_1.clone() * rate / (state.moment_2.clone().sqrt() + EPSILON);
        (tensor - change, Some(state))
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &Device) -> Self::State<D> {
        state.to_device(device)
    }
}

/// Trains on the inputs and targets of one batch.
fn step(
    network: RecipeNetwork,
    adam: &mut ModuleOptimizer,
    (x, y): (Tensor<2>, Tensor<2>),
    loss: Loss,
    options: &TensorCreationOptions,
    random: &mut impl Rng,
) -> RecipeNetwork {
    let [rows, _] = x.dims();
    let kept = RecipeNetwork::kept(rows, options, random);
    let cost = loss.compute(network.forward(x, Some(&kept)), y);
    let gradients = GradientsParams::from_grads(cost.backward(), &network);
    adam.step(POWERTRAIN_RATE, network, gradients)
}

/// Orders a list by one random number for each entry.
fn shuffle(rows: &mut [usize], random: &mut impl Rng) {
    rows.sort_by_cached_key(|_| random.next_u64());
}

impl Loss {
    fn compute(self, predicted: Tensor<2>, measured: Tensor<2>) -> Tensor<1> {
        let error = predicted - measured.clone();
        match self {
            Self::Square => error.clone().mul(error).mean(),
            Self::Percentage => (error / measured).abs().mean() * 100.0,
        }
    }
}

impl Recipe {
    /// The same network; a fine-tuning keeps its layers.
    pub fn frozen(&self) -> Self {
        let layers = self.network.layers.iter();
        let layers = layers.map(|layer| layer.clone().set_require_grad(false));
        Self {
            network: RecipeNetwork {
                layers: layers.collect(),
            },
            ..self.clone()
        }
    }

    /// Predicts the target in every mode of a grid, indexed by mode id.
    pub fn predict(&self, grid: &Grid) -> Vec<f64> {
        let device = Device::flex();
        let options = TensorCreationOptions::from(&device);
        let mut values = Vec::new();
        let modes: Vec<[u32; 4]> = all_modes(grid).collect();
        let network = self.network.clone().to_device(&device);
        for chunk in modes.chunks(4_096) {
            let outputs = network.forward(self.inputs(chunk.iter().copied(), &options), None);
            let outputs: Vec<f32> = outputs
                .into_data()
                .try_to_vec()
                .expect("f32 on this device");
            values.extend(outputs.iter().map(|&y| self.scale * f64::from(y)));
        }
        values
    }

    fn inputs(
        &self,
        modes: impl Iterator<Item = [u32; 4]>,
        options: &TensorCreationOptions,
    ) -> Tensor<2> {
        let scaled = |knobs: [u32; 4]| {
            std::array::from_fn::<f64, 4, _>(|i| self.inputs[i].apply(f64::from(knobs[i])))
        };
        let x: Vec<f64> = modes.flat_map(scaled).collect();
        let rows = x.len() / SIZES[0];
        Tensor::from_data(TensorData::new(x, [rows, SIZES[0]]), options.clone())
    }
}

#[derive(Module, Debug)]
struct RecipeNetwork {
    layers: Vec<Linear>,
}

impl RecipeNetwork {
    /// Glorot-uniform weights and zero biases, as in Keras.
    fn new(options: &TensorCreationOptions, random: &mut impl Rng) -> Self {
        let layer = |pair: &[usize]| {
            let [inputs, outputs] = [pair[0], pair[1]];
            let limit = (6.0 / (inputs + outputs) as f64).sqrt();
            let weights: Vec<f64> = (0..inputs * outputs)
                .map(|_| random.random_range(-limit..limit))
                .collect();
            let weights = TensorData::new(weights, [inputs, outputs]);
            Linear {
                weight: Param::from_tensor(Tensor::from_data(weights, options.clone())),
                bias: Some(Param::from_tensor(Tensor::zeros(
                    [outputs],
                    options.clone(),
                ))),
            }
        };
        Self {
            layers: SIZES.windows(2).map(layer).collect(),
        }
    }

    /// Random dropout masks of a batch, one per hidden layer with dropout: zero, or the reciprocal
    /// of the share that is kept.
    fn kept(
        rows: usize,
        options: &TensorCreationOptions,
        random: &mut impl Rng,
    ) -> Vec<Option<Tensor<2>>> {
        let mask = |(&dropped, &width): (&f64, &usize)| {
            (dropped > 0.0).then(|| {
                let of_kept = (1.0 - dropped).recip();
                let mut entry = |_| {
                    if random.random_bool(dropped) {
                        0.0
                    } else {
                        of_kept
                    }
                };
                let mask: Vec<f64> = (0..rows * width).map(&mut entry).collect();
                let mask = TensorData::new(mask, [rows, width]);
                Tensor::from_data(mask, options.clone())
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use burn::tensor::DType;
    use rand::rand_core::TryRng;

    use super::*;

    /// The generator of `tools/keras-peer.py` (Steele, Lea and Flood 2014).
    struct SplitMix64(u64);

    impl TryRng for SplitMix64 {
        type Error = Infallible;

        fn try_next_u32(&mut self) -> Result<u32, Infallible> {
            Ok(self.try_next_u64()? as u32)
        }

        fn try_next_u64(&mut self) -> Result<u64, Infallible> {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            Ok(z ^ (z >> 31))
        }

        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
            for chunk in bytes.chunks_mut(8) {
                let drawn = self.try_next_u64()?.to_le_bytes();
                chunk.copy_from_slice(&drawn[..chunk.len()]);
            }
            Ok(())
        }
    }

    /// The numbers of the lines of `keras.csv` that start with a word.
    fn keras(word: &str) -> Vec<Vec<f64>> {
        let lines = include_str!("keras.csv").lines();
        let lines = lines.filter_map(|line| line.strip_prefix(word)?.strip_prefix(','));
        let numbers = |line: &str| -> Vec<f64> {
            let all = line.split(',').map(str::parse);
            all.map(|number| number.expect("a number")).collect()
        };
        lines.map(numbers).collect()
    }

    /// 64 bits, since a training amplifies rounding.
    fn double() -> TensorCreationOptions {
        TensorCreationOptions::from((&Device::flex().autodiff(), DType::F64))
    }

    fn training() -> Training {
        let mode = |row: Vec<f64>| {
            let knobs = std::array::from_fn(|at| row[at] as u32);
            (knobs, row[4])
        };
        Training {
            modes: keras("mode").into_iter().map(mode).collect(),
        }
    }

    /// The outputs of a network for all modes, beside those of Keras.
    fn assert_like_keras(word: &str, training: &Training, recipe: &Recipe) {
        let knobs = training.modes.iter().map(|(knobs, _)| *knobs);
        let outputs = recipe
            .network
            .forward(recipe.inputs(knobs, &double()), None);
        let outputs: Vec<f64> = outputs.into_data().try_to_vec().expect("f64");
        let expected = keras(word).remove(0);
        assert_eq!(outputs.len(), expected.len());
        let size = expected.iter().map(|value| value.abs()).sum::<f64>() / expected.len() as f64;
        for (found, expected) in outputs.into_iter().zip(expected) {
            let difference = (found - expected).abs();
            assert!(
                difference < 1e-4 * size,
                "{word}: {found}, {expected} in Keras"
            );
        }
    }

    #[test]
    fn a_forward_pass_and_a_step_of_adam_are_those_of_keras() {
        let training = training();
        let mut random = SplitMix64(1);
        let mut recipe = training.start(None, &double(), &mut random);
        assert_like_keras("start", &training, &recipe);
        let all: Vec<usize> = (0..training.modes.len()).collect();
        let batch = training.rows(&all, &recipe, &double());
        let mut adam = ModuleOptimizer::from(Adam);
        recipe.network = step(
            recipe.network,
            &mut adam,
            batch,
            Loss::Square,
            &double(),
            &mut random,
        );
        assert_like_keras("step", &training, &recipe);
    }

    #[test]
    fn whole_trainings_are_those_of_keras() {
        let training = training();
        let hidden = ProgressBar::hidden();
        let whole = training.run_with(None, Loss::Square, &double(), &mut SplitMix64(2), &hidden);
        assert_like_keras("square", &training, &whole);
        let transfer = training.run_with(
            Some(&whole),
            Loss::Square,
            &double(),
            &mut SplitMix64(3),
            &hidden,
        );
        assert_like_keras("transfer", &training, &transfer);
        let percentage = training.run_with(
            None,
            Loss::Percentage,
            &double(),
            &mut SplitMix64(4),
            &hidden,
        );
        assert_like_keras("percentage", &training, &percentage);
    }
}
