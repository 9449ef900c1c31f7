//! Quantisation: from floating-point weights to the integers of a model file.
//!
//! A ReLU network keeps its function if a neuron's weights and bias are scaled by a positive factor
//! and the next layer's weights for that neuron by its inverse. A [`Plan`] uses this freedom to
//! choose the scale of each activation, so that every column of the next layer spans the range of
//! an i8 in at least one row. It is made once from a trained network; quantisation-aware training
//! follows, with weights rounded to the plan's steps.

use wattgate_runtime::format::SCALE_RANGE;
use wattgate_runtime::network::{ROW_LIMIT, ROW_SCALE_ONE};
use wattgate_runtime::shape::{BIAS_LIMIT, CURVES, FEATURES, INPUTS, LEVELLED};

use crate::export::inputs::{GridInputs, Inputs};
use crate::export::wgt::{FirstRow, HiddenRow, Layers, OutputRow};

/// Factor by which weights may grow in the training that follows a plan.
const HEADROOM: f64 = 1.05;

/// Largest absolute weight: −128 is not used, so that the range is symmetric.
const WEIGHT_LIMIT: f64 = 127.0;

/// Planned maximum of a table row of the first layer; the rest is headroom.
const ROW_TARGET: f64 = 0.85 * ROW_LIMIT as f64;

/// Planned maximum of a later activation; the rest is headroom.
const ACTIVATION_TARGET: f64 = 0.85 * i16::MAX as f64;

/// Minimum number of levels of an activation.
const LEAST_LEVELS: f64 = 255.0;

/// Smallest scale of an output: that of a time with a spread in a file.
const LEAST_SCALE: f64 = 1.0 / (1 << 21) as f64;

/// A fully connected layer in floating point.
#[derive(Clone, Debug, PartialEq)]
pub struct Dense {
    /// Weights, one row per neuron.
    pub weights: Vec<Vec<f64>>,
    /// Biases, one per neuron.
    pub biases: Vec<f64>,
}

impl Dense {
    /// The number of inputs.
    pub fn inputs(&self) -> usize {
        self.weights.first().map_or(0, Vec::len)
    }

    fn apply(&self, inputs: &[f64]) -> Vec<f64> {
        let sum = |(row, bias): (&Vec<f64>, &f64)| {
            bias + row.iter().zip(inputs).map(|(w, x)| w * x).sum::<f64>()
        };
        self.weights.iter().zip(&self.biases).map(sum).collect()
    }

    /// The largest absolute weight of each input, with each row divided by its entry of `scales`.
    fn columns(&self, scales: &[f64]) -> Vec<f64> {
        let largest = |input: usize| {
            let column = self
                .weights
                .iter()
                .zip(scales)
                .map(|(row, scale)| row[input].abs() / scale);
            column.fold(0.0, f64::max)
        };
        (0..self.inputs()).map(largest).collect()
    }
}

/// Evaluates a network with ReLU hidden layers and linear outputs.
pub fn forward(layers: &[Dense], inputs: &[f64]) -> Vec<f64> {
    let mut x = inputs.to_vec();
    for (at, layer) in layers.iter().enumerate() {
        x = layer.apply(&x);
        if at + 1 < layers.len() {
            x.iter_mut().for_each(|x| *x = x.max(0.0));
        }
    }
    x
}

/// The quantisation steps of a network's weights and activations.
#[derive(Clone, Debug)]
pub struct Plan {
    first: Vec<FirstNeuron>,
    hidden: Vec<Vec<HiddenNeuron>>,
    /// Step of each output's sum, in ln units.
    outputs: Vec<f64>,
    /// Levels of the CPU clocks, then of the GPU clocks.
    levels: Vec<i8>,
}

#[derive(Clone, Copy, Debug)]
struct FirstNeuron {
    /// Step of a weight.
    step: f64,
    scale: u16,
}

impl FirstNeuron {
    /// Step of the activation.
    fn activation(&self) -> f64 {
        self.step * f64::from(ROW_SCALE_ONE) / f64::from(self.scale)
    }
}

#[derive(Clone, Copy, Debug)]
struct HiddenNeuron {
    /// Step of the sum before the shift.
    sum: f64,
    shift: u8,
}

impl HiddenNeuron {
    /// Step of the activation.
    fn activation(&self) -> f64 {
        self.sum * f64::from(self.shift).exp2()
    }
}

impl Plan {
    /// Plans a network; `inputs` determine the ranges of its activations.
    pub fn new(layers: &[Dense], inputs: &[Inputs], axes: &GridInputs) -> Self {
        let peaks = activation_peaks(layers, inputs);
        let wishes = |at: usize, reach: &[f64], target: f64| -> Vec<f64> {
            wished_activations(&layers[at + 1], &peaks[at], reach, target)
        };
        let reach = table_reach(&layers[0], axes);
        let first_wishes = wishes(0, &reach, ROW_TARGET);
        let first = layers[0]
            .weights
            .iter()
            .zip(&first_wishes)
            .map(|(row, wish)| {
                let step = weight_step(row.iter().copied());
                let scale = (step * f64::from(ROW_SCALE_ONE) / wish).round();
                FirstNeuron {
                    step,
                    scale: scale.clamp(1.0, f64::from(u16::MAX)) as u16,
                }
            });
        let first: Vec<FirstNeuron> = first.collect();
        let mut activations: Vec<f64> = first.iter().map(FirstNeuron::activation).collect();

        let mut hidden = Vec::new();
        for at in 1..layers.len() - 1 {
            let layer_wishes = wishes(at, &peaks[at], ACTIVATION_TARGET);
            let rows = layers[at].weights.iter().zip(&layer_wishes).zip(&peaks[at]);
            let layer: Vec<HiddenNeuron> = rows
                .map(|((row, wish), peak)| {
                    let sum = weight_step(
                        row.iter()
                            .zip(&activations)
                            .map(|(w, activation)| w * activation),
                    );
                    let wished = (wish / sum).log2().round();
                    let needed = (peak / (ACTIVATION_TARGET * sum)).log2().ceil();
                    HiddenNeuron {
                        sum,
                        shift: wished.max(needed).clamp(0.0, 31.0) as u8,
                    }
                })
                .collect();
            activations = layer.iter().map(HiddenNeuron::activation).collect();
            hidden.push(layer);
        }

        let last = &layers[layers.len() - 1];
        let output = |row: &Vec<f64>| {
            let step = weight_step(
                row.iter()
                    .zip(&activations)
                    .map(|(w, activation)| w * activation),
            );
            // The file stores the scale as f32; plan with the stored value.
            let scale = step.clamp(LEAST_SCALE, f64::from(SCALE_RANGE[1])) as f32;
            f64::from(scale)
        };
        Self {
            first,
            hidden,
            outputs: last.weights.iter().map(output).collect(),
            levels: axes.levels.concat(),
        }
    }

    /// The steps of the weights by layer, row and input.
    pub fn steps(&self) -> Vec<Vec<Vec<f64>>> {
        let first = self
            .first
            .iter()
            .map(|neuron| vec![neuron.step; INPUTS])
            .collect();
        let mut steps = vec![first];
        let mut activations: Vec<f64> = self.first.iter().map(FirstNeuron::activation).collect();
        let row = |sum: f64, activations: &[f64]| {
            activations
                .iter()
                .map(|activation| sum / activation)
                .collect()
        };
        for layer in &self.hidden {
            steps.push(
                layer
                    .iter()
                    .map(|neuron| row(neuron.sum, &activations))
                    .collect(),
            );
            activations = layer.iter().map(HiddenNeuron::activation).collect();
        }
        steps.push(
            self.outputs
                .iter()
                .map(|&scale| row(scale, &activations))
                .collect(),
        );
        steps
    }

    /// Quantises a network of the planned shape.
    pub fn layers(&self, layers: &[Dense]) -> Layers {
        let steps = self.steps();
        let weights = |layer: usize, row: usize| -> Vec<i8> {
            let rounded = layers[layer].weights[row].iter().zip(&steps[layer][row]);
            rounded
                .map(|(w, step)| (w / step).round().clamp(-WEIGHT_LIMIT, WEIGHT_LIMIT) as i8)
                .collect()
        };
        let bias = |layer: usize, row: usize, step: f64, limit: f64| {
            (layers[layer].biases[row] / step)
                .round()
                .clamp(-limit, limit)
        };
        let limit = f64::from(BIAS_LIMIT);
        let first = self.first.iter().enumerate().map(|(row, neuron)| FirstRow {
            weights: weights(0, row).try_into().expect("a weight for each input"),
            scale: neuron.scale,
            bias: bias(0, row, neuron.activation(), f64::from(ROW_LIMIT)) as i16,
        });
        let hidden = self.hidden.iter().enumerate().map(|(at, neurons)| {
            let rows = neurons.iter().enumerate().map(|(row, neuron)| {
                // Half a step, so that the shift rounds to nearest instead of down.
                let half = (f64::from(neuron.shift) - 1.0).exp2().floor();
                let bias = bias(at + 1, row, neuron.sum, limit) + half;
                HiddenRow {
                    weights: weights(at + 1, row),
                    bias: bias.min(limit) as i32,
                    shift: neuron.shift,
                }
            });
            rows.collect()
        });
        let last = layers.len() - 1;
        let output = self
            .outputs
            .iter()
            .enumerate()
            .map(|(row, &scale)| OutputRow {
                weights: weights(last, row),
                bias: bias(last, row, scale, limit) as i32,
                scale: scale as f32,
            });
        Layers {
            first: first.collect(),
            levels: self.levels.clone(),
            hidden: hidden.collect(),
            output: output.collect(),
        }
    }
}

/// The step with which the largest weight fits an i8, with headroom.
fn weight_step(weights: impl Iterator<Item = f64>) -> f64 {
    let largest = weights.map(f64::abs).fold(0.0, f64::max);
    (HEADROOM * largest / WEIGHT_LIMIT).max(1e-12)
}

/// The largest activation of each neuron of each hidden layer over the inputs.
fn activation_peaks(layers: &[Dense], inputs: &[Inputs]) -> Vec<Vec<f64>> {
    let hidden = &layers[..layers.len() - 1];
    let mut peaks: Vec<Vec<f64>> = hidden
        .iter()
        .map(|layer| vec![0.0; layer.biases.len()])
        .collect();
    for input in inputs {
        let mut x: Vec<f64> = input.iter().copied().map(f64::from).collect();
        for (layer, peaks) in hidden.iter().zip(&mut peaks) {
            x = layer.apply(&x);
            for (x, peak) in x.iter_mut().zip(peaks) {
                *x = x.max(0.0);
                *peak = peak.max(*x);
            }
        }
    }
    peaks
}

/// The largest absolute value of each neuron's table rows; the first axis includes the bias.
fn table_reach(first: &Dense, axes: &GridInputs) -> Vec<f64> {
    let neurons = first.weights.iter().zip(&first.biases);
    let reach = |(weights, bias): (&Vec<f64>, &f64)| {
        let (curves, of_levels) = weights.split_at(CURVES);
        let tables = curves.chunks(FEATURES).zip(&axes.features).enumerate();
        let entries = tables.flat_map(|(axis, (weights, values))| {
            let bias = if axis == 0 { *bias } else { 0.0 };
            let levelled = LEVELLED
                .iter()
                .position(|levelled_axis| *levelled_axis as usize == axis);
            values.iter().enumerate().map(move |(value, features)| {
                let products = weights.iter().zip(features);
                let sum: f64 = products.map(|(w, &x)| w * f64::from(x)).sum();
                let level = levelled.map_or(0.0, |place| {
                    of_levels[place] * f64::from(axes.level(place, value))
                });
                (sum + level + bias).abs()
            })
        });
        entries.fold(0.0, f64::max)
    };
    neurons.map(reach).collect()
}

/// The wished step of each activation: inversely proportional to its largest weight in the next
/// layer, with the smallest common factor that keeps every `reach` within `target`.
fn wished_activations(next: &Dense, peaks: &[f64], reach: &[f64], target: f64) -> Vec<f64> {
    // Scale each row by its largest contribution, so that rows become comparable.
    let contribution = |row: &Vec<f64>| {
        let largest = row.iter().zip(peaks).map(|(w, peak)| (w * peak).abs());
        largest.fold(f64::MIN_POSITIVE, f64::max)
    };
    let scales: Vec<f64> = next.weights.iter().map(contribution).collect();
    let columns = next.columns(&scales);
    let needed = columns
        .iter()
        .zip(reach)
        .map(|(column, reach)| column * reach / target);
    let common = needed.fold(0.0, f64::max);
    let wish = |(column, reach): (&f64, &f64)| {
        let finest = (reach / target).max(1e-12);
        let coarsest = (reach / LEAST_LEVELS).max(finest);
        (common / column).clamp(finest, coarsest)
    };
    columns.iter().zip(reach).map(wish).collect()
}
