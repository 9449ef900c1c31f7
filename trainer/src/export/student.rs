//! The student: a small network distilled from the teacher on the whole grid.
//!
//! It is trained twice: first in floating point, then quantisation-aware, with its weights rounded
//! to the steps of the [`Plan`]. Gradients pass the rounding unchanged (straight-through
//! estimator, Bengio et al. 2013, arXiv 1308.3432). The export differs from the second training's
//! network by the rounding of activations alone.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor, TensorData};
use indicatif::ProgressBar;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use wattgate_runtime::grid::Grid;
use wattgate_runtime::shape::{INPUTS, Shape};

use crate::export::inputs::{GridInputs, Inputs};
use crate::export::quantise::{Dense, Plan, forward};
use crate::export::wgt::Layers;
use crate::learn::standard::Standard;

/// Steps of Adam in each of the two trainings.
const ADAM_STEPS: usize = 3_000;

/// Initial learning rate of the first training, with cosine decay to zero.
const STUDENT_RATE: f64 = 1e-2;

/// Initial learning rate of the second training, which starts near its optimum.
const ROUNDED_RATE: f64 = 3e-3;

/// Maximum number of modes in a batch; larger grids are shuffled into several.
const STUDENT_BATCH: usize = 4_096;

/// Progress steps of one student.
pub const STUDENT_PROGRESS: u64 = 2 * ADAM_STEPS as u64;

/// A trained student.
#[derive(Clone, Debug)]
pub struct Student {
    /// Predictions of the first training's network by output and mode id, in ln units.
    pub log_predictions: Vec<Vec<f64>>,
    /// The quantised network.
    pub layers: Layers,
}

/// Trains a student on `targets` by output and mode id: ln µs, then ln mW if power is known.
/// Advances `progress` by [`STUDENT_PROGRESS`].
pub fn distil(
    grid: &Grid,
    shape: Shape,
    targets: &[Vec<f64>],
    random: &mut ChaCha8Rng,
    progress: &ProgressBar,
) -> Student {
    let device = Device::flex().autodiff();
    let axes = GridInputs::new(grid, targets);
    let data = Data::new(&axes, targets);
    let widths = shape.widths().0.map(usize::from);
    let hidden = widths.into_iter().filter(|&width| width > 0);
    let sizes: Vec<usize> = [INPUTS]
        .into_iter()
        .chain(hidden)
        .chain([targets.len()])
        .collect();

    let network = Network::new(&sizes, random, &device);
    let network = train(
        network,
        &data,
        None,
        STUDENT_RATE,
        random,
        progress,
        &device,
    );
    let exact = data.in_logs(network.to_dense());
    let plan = Plan::new(&exact, &data.inputs, &axes);
    let steps = data.in_standard_targets(plan.steps());
    let steps: Vec<Tensor<2>> = steps.iter().map(|rows| by_input(rows, &device)).collect();
    let network = train(
        network,
        &data,
        Some(&steps),
        ROUNDED_RATE,
        random,
        progress,
        &device,
    );
    Student {
        log_predictions: data.predictions(&exact),
        layers: plan.layers(&data.in_logs(network.to_dense())),
    }
}

/// The training data. Targets are standardised, because the initial network's outputs have a
/// standard deviation near one.
struct Data {
    /// Features of every mode, by mode id.
    inputs: Vec<Inputs>,
    /// Standardised targets, mode after mode.
    targets: Vec<f32>,
    /// Mean and standard deviation of each output.
    outputs: Vec<Standard>,
}

impl Data {
    fn new(axes: &GridInputs, targets: &[Vec<f64>]) -> Self {
        let inputs = axes.of_modes();
        let standard = |target: &Vec<f64>| Standard::from_values(target.iter().copied());
        let outputs: Vec<Standard> = targets.iter().map(standard).collect();
        let of_mode = |id: usize| {
            let pairs = targets.iter().zip(&outputs);
            pairs.map(move |(target, to)| to.apply(target[id]) as f32)
        };
        let targets = (0..inputs.len()).flat_map(of_mode).collect();
        Self {
            targets,
            inputs,
            outputs,
        }
    }

    /// Folds the standardisation of the targets into the last layer.
    fn in_logs(&self, mut layers: Vec<Dense>) -> Vec<Dense> {
        let last = layers.last_mut().expect("an output layer");
        let rows = last.weights.iter_mut().zip(&mut last.biases);
        for ((row, bias), Standard { mean, sd }) in rows.zip(&self.outputs) {
            row.iter_mut().for_each(|weight| *weight *= sd);
            *bias = *bias * sd + mean;
        }
        layers
    }

    /// Converts quantisation steps from ln units to standardised targets.
    fn in_standard_targets(&self, mut steps: Vec<Vec<Vec<f64>>>) -> Vec<Vec<Vec<f64>>> {
        let last = steps.last_mut().expect("an output layer");
        for (row, Standard { sd, .. }) in last.iter_mut().zip(&self.outputs) {
            row.iter_mut().for_each(|step| *step /= sd);
        }
        steps
    }

    fn predictions(&self, layers: &[Dense]) -> Vec<Vec<f64>> {
        let mut predictions = vec![Vec::with_capacity(self.inputs.len()); self.outputs.len()];
        for input in &self.inputs {
            let outputs = forward(layers, &input.map(f64::from));
            for (list, output) in predictions.iter_mut().zip(outputs) {
                list.push(output);
            }
        }
        predictions
    }

    /// The inputs and targets of some modes.
    fn batch(&self, ids: &[usize], device: &Device) -> (Tensor<2>, Tensor<2>) {
        let outputs = self.outputs.len();
        let mut inputs = Vec::with_capacity(ids.len() * INPUTS);
        let mut targets = Vec::with_capacity(ids.len() * outputs);
        for &id in ids {
            inputs.extend_from_slice(&self.inputs[id]);
            targets.extend_from_slice(&self.targets[id * outputs..][..outputs]);
        }
        let tensor = |values: Vec<f32>, columns| {
            Tensor::from_data(TensorData::new(values, [ids.len(), columns]), device)
        };
        (tensor(inputs, INPUTS), tensor(targets, outputs))
    }
}

/// Minimises the mean square error in ln units with Adam. With `steps`, weights are rounded in the
/// forward pass.
fn train(
    mut network: Network,
    data: &Data,
    steps: Option<&[Tensor<2>]>,
    rate: f64,
    random: &mut ChaCha8Rng,
    progress: &ProgressBar,
    device: &Device,
) -> Network {
    let sds: Vec<f32> = data.outputs.iter().map(|output| output.sd as f32).collect();
    let sds: Tensor<2> = Tensor::from_data(TensorData::new(sds, [1, data.outputs.len()]), device);
    let mut ids: Vec<usize> = (0..data.inputs.len()).collect();
    let mut batch = data.batch(&ids[..ids.len().min(STUDENT_BATCH)], device);
    let mut visited = ids.len();
    let mut adam = AdamConfig::new()
        .with_beta_2(0.99)
        .with_epsilon(1e-8)
        .init();
    for step in 0..ADAM_STEPS {
        if ids.len() > STUDENT_BATCH {
            if visited + STUDENT_BATCH > ids.len() {
                ids.shuffle(random);
                visited = 0;
            }
            batch = data.batch(&ids[visited..visited + STUDENT_BATCH], device);
            visited += STUDENT_BATCH;
        }
        let (inputs, targets) = &batch;
        let error = (network.forward(inputs.clone(), steps) - targets.clone()) * sds.clone();
        let loss = error.clone().mul(error).mean();
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        let angle = std::f64::consts::PI * step as f64 / ADAM_STEPS as f64;
        network = adam.step(rate * 0.5 * (1.0 + angle.cos()), network, gradients);
        progress.inc(1);
    }
    network
}

#[derive(Module, Debug)]
struct Network {
    layers: Vec<Linear>,
}

impl Network {
    /// Initialises weights with the variance 1/inputs. He's is twice that, but assumes independent
    /// inputs; these rise together along an axis.
    fn new(sizes: &[usize], random: &mut ChaCha8Rng, device: &Device) -> Self {
        let layer = |pair: &[usize]| {
            let [inputs, outputs] = [pair[0], pair[1]];
            let scale = (inputs as f64).sqrt().recip();
            let mut row = || {
                let normal = |_| -> f64 { StandardNormal.sample(random) };
                (0..inputs).map(normal).map(|n: f64| n * scale).collect()
            };
            let rows: Vec<Vec<f64>> = (0..outputs).map(|_| row()).collect();
            Linear {
                weight: Param::from_tensor(by_input(&rows, device)),
                bias: Some(Param::from_tensor(Tensor::zeros([outputs], device))),
            }
        };
        Self {
            layers: sizes.windows(2).map(layer).collect(),
        }
    }

    fn to_dense(&self) -> Vec<Dense> {
        let dense = |layer: &Linear| {
            let weight = layer.weight.val();
            let [inputs, outputs] = weight.dims();
            let flat: Vec<f32> = weight.into_data().try_to_vec().expect("f32 on this device");
            let row = |o: usize| {
                (0..inputs)
                    .map(|i| f64::from(flat[i * outputs + o]))
                    .collect()
            };
            let biases: Vec<f32> = bias(layer)
                .into_data()
                .try_to_vec()
                .expect("f32 on this device");
            Dense {
                weights: (0..outputs).map(row).collect(),
                biases: biases.into_iter().map(f64::from).collect(),
            }
        };
        self.layers.iter().map(dense).collect()
    }

    /// Evaluates the network; `steps` holds the rounding steps of each layer's weights.
    fn forward(&self, inputs: Tensor<2>, steps: Option<&[Tensor<2>]>) -> Tensor<2> {
        let mut x = inputs;
        for (at, layer) in self.layers.iter().enumerate() {
            let weight = match steps {
                Some(steps) => rounded(layer.weight.val(), &steps[at]),
                None => layer.weight.val(),
            };
            x = x.matmul(weight) + bias(layer).unsqueeze();
            if at + 1 < self.layers.len() {
                x = relu(x);
            }
        }
        x
    }
}

fn bias(layer: &Linear) -> Tensor<1> {
    layer.bias.as_ref().expect("every layer has a bias").val()
}

/// Converts rows, one per output, to a tensor of shape [inputs, outputs].
fn by_input(rows: &[Vec<f64>], device: &Device) -> Tensor<2> {
    let inputs = rows[0].len();
    let flat = (0..inputs).flat_map(|input| rows.iter().map(move |row| row[input] as f32));
    let data = TensorData::new(flat.collect::<Vec<f32>>(), [inputs, rows.len()]);
    Tensor::from_data(data, device)
}

/// Rounds to the nearest multiple of the step that an i8 can hold; the gradient passes unchanged.
fn rounded(weight: Tensor<2>, step: &Tensor<2>) -> Tensor<2> {
    let exact = weight.clone().detach();
    let nearest = (exact.clone() / step.clone()).round().clamp(-127.0, 127.0) * step.clone();
    weight + (nearest - exact)
}
