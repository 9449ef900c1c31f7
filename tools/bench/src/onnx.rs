//! A model's network in ONNX and f32: one batch with the features of all modes, one `Gemm` per
//! layer with `Relu` between. It outputs log time, log power and the spread of the log power.
//!
//! The integers are dequantised, so the outputs equal those of the runtime up to rounding
//! (`weights/FORMAT.md`, "What the integers mean").

use onnx_rs::ast::{
    Attribute, AttributeType, DataType, Dimension, Graph, Model, Node, OpType, OperatorSetId,
    TensorProto, TensorShape, TensorShapeDimension, TensorTypeProto, TypeProto, TypeValue,
    ValueInfo,
};
use wattgate_runtime::grid::Axis;
use wattgate_runtime::network::{AxisFeatures, LEVEL_ONE, ROW_SCALE_ONE};
use wattgate_runtime::shape::INPUTS;
use wattgate_runtime::{ModeId, Region};

use crate::case::Case;

/// Number of outputs of a network: log time, log power and the spread of the log power.
pub const OUTPUTS: usize = 3;

/// A layer in f32: weights and bias of each neuron.
struct Dense(Vec<(Vec<f32>, f32)>);

fn dense_layers(case: &Case) -> Vec<Dense> {
    let scaled = |weights: &[i8], scale: f32| -> Vec<f32> {
        weights
            .iter()
            .map(|weight| f32::from(*weight) * scale)
            .collect()
    };
    let first = case.layers.first.iter().map(|row| {
        let weights = scaled(&row.weights, f32::from(row.scale) / ROW_SCALE_ONE);
        (weights, f32::from(row.bias))
    });
    let hidden = case.layers.hidden.iter().map(|rows| {
        let neurons = rows.iter().map(|row| {
            let scale = 0.5_f32.powi(i32::from(row.shift));
            // The shift rounds down, by a half on average.
            (scaled(&row.weights, scale), row.bias as f32 * scale - 0.5)
        });
        Dense(neurons.collect())
    });
    let output = case
        .layers
        .output
        .iter()
        .map(|row| (scaled(&row.weights, row.scale), row.bias as f32 * row.scale));
    let mut layers = vec![Dense(first.collect())];
    layers.extend(hidden);
    layers.push(Dense(output.collect()));
    layers
}

/// The inputs of every mode in row-major order, one row of `INPUTS` per mode.
pub fn features(case: &Case) -> Vec<f32> {
    let (of_cpu, of_gpu) = case.layers.levels.split_at(case.grid.axis(Axis::Cpu).len());
    let level = |axis: Axis, levels: &[i8], knob: u32| {
        let at = case
            .grid
            .axis(axis)
            .binary_search(&knob)
            .expect("on the axis");
        f32::from(levels[at]) / LEVEL_ONE
    };
    let axes = Axis::ALL.map(|axis| {
        let values = case.grid.axis(axis);
        AxisFeatures::new(values[0], values[values.len() - 1])
    });
    let of_mode = |id: u32| {
        let mode = case
            .grid
            .mode(ModeId(id as u16))
            .expect("a mode of the grid");
        let knobs = mode.knobs();
        let [_, cpu, gpu, _] = knobs;
        let levels = [level(Axis::Cpu, of_cpu, cpu), level(Axis::Gpu, of_gpu, gpu)];
        let curves = (0..Axis::ALL.len()).flat_map(move |axis| axes[axis].at(knobs[axis]));
        curves.chain(levels)
    };
    (0..case.grid.modes()).flat_map(of_mode).collect()
}

/// The bytes of an ONNX file with the network for a batch of all modes of the grid.
pub fn file(case: &Case) -> Vec<u8> {
    let modes = i64::from(case.grid.modes());
    let layers = dense_layers(case);
    let names: Vec<_> = (0..layers.len())
        .map(|layer| ["weights", "biases", "sums", "units"].map(|what| format!("{what}{layer}")))
        .collect();
    let mut graph = Graph {
        name: "wattgate",
        input: vec![matrix("features", modes, INPUTS)],
        output: vec![matrix("logs", modes, OUTPUTS)],
        ..Graph::default()
    };
    let mut from = "features";
    let last = layers.len() - 1;
    for (index, Dense(neurons)) in layers.into_iter().enumerate() {
        let [weights_name, biases_name, sums, neurons_name] = names[index].each_ref();
        let (weights, biases): (Vec<_>, Vec<_>) = neurons.into_iter().unzip();
        let [rows, columns] = [weights.len(), weights[0].len()].map(|dim| dim as i64);
        graph.initializer.extend([
            TensorProto::from_f32(weights_name, vec![rows, columns], weights.concat()),
            TensorProto::from_f32(biases_name, vec![rows], biases),
        ]);
        let sums = if index == last { "logs" } else { sums };
        graph.node.push(Node {
            attribute: vec![weights_by_neuron()],
            ..node(OpType::Gemm, vec![from, weights_name, biases_name], sums)
        });
        if index != last {
            graph
                .node
                .push(node(OpType::Relu, vec![sums], neurons_name));
        }
        from = neurons_name;
    }
    onnx_rs::encode(&Model {
        ir_version: 8,
        opset_import: vec![OperatorSetId {
            domain: "",
            version: 13,
        }],
        graph: Some(graph),
        ..Model::default()
    })
}

fn weights_by_neuron() -> Attribute<'static> {
    Attribute {
        name: "transB",
        r#type: AttributeType::Int,
        i: 1,
        ..Attribute::default()
    }
}

fn node<'a>(op_type: OpType<'a>, input: Vec<&'a str>, output: &'a str) -> Node<'a> {
    Node {
        input,
        output: vec![output],
        name: output,
        op_type,
        ..Node::default()
    }
}

fn matrix(name: &str, rows: i64, columns: usize) -> ValueInfo<'_> {
    let dim = [rows, columns as i64].map(|size| TensorShapeDimension {
        value: Dimension::Value(size),
        denotation: "",
    });
    let float = TensorTypeProto {
        elem_type: DataType::Float,
        shape: Some(TensorShape { dim: dim.into() }),
    };
    ValueInfo {
        name,
        r#type: Some(TypeProto {
            value: Some(TypeValue::Tensor(float)),
            denotation: "",
        }),
        ..ValueInfo::default()
    }
}

/// Maximum disagreement of an engine that is due to the runtime's rounding, in percent of the range
/// of an output.
pub const MOST_DISAGREEMENT: f64 = 1.0;

/// Maximum difference between an engine's outputs and the runtime's, in percent of their range.
///
/// # Panics
///
/// Panics if `logs` has not `OUTPUTS` values for each mode.
pub fn disagreement(case: &Case, logs: &[f32]) -> f64 {
    let modes = case.grid.modes() as usize;
    assert_eq!(logs.len(), OUTPUTS * modes, "outputs of {modes} modes");
    let mut raw = vec![[0; OUTPUTS]; modes];
    let model = case.model();
    model.sweep(&Region::all(&case.grid), |ModeId(id), at| {
        raw[usize::from(id)] = [at.log_time, at.log_power, at.spread];
    });
    let [time, power] = [0, 1].map(|output: usize| f64::from(case.layers.output[output].scale));
    let resolution = f64::from(model.spread_resolution());
    // The runtime limits a spread to this range.
    let spreads =
        [case.least_spread, i16::MAX.cast_unsigned()].map(|it| f64::from(it) * resolution);
    let of_output = |(output, scale): (usize, f64)| {
        let is_spread = output == OUTPUTS - 1;
        let ours = raw.iter().map(|raw| f64::from(raw[output]) * scale);
        // A spread starts at zero.
        let start = if is_spread {
            (0.0, 0.0)
        } else {
            (f64::MAX, f64::MIN)
        };
        let (least, most) = ours
            .clone()
            .fold(start, |(least, most), log| (log.min(least), log.max(most)));
        let theirs = logs
            .chunks_exact(OUTPUTS)
            .map(|logs| f64::from(logs[output]))
            .map(|log| {
                if is_spread {
                    log.clamp(spreads[0], spreads[1])
                } else {
                    log
                }
            });
        let apart = ours.zip(theirs).map(|(ours, theirs)| (ours - theirs).abs());
        100.0 * apart.fold(0.0, f64::max) / (most - least)
    };
    let outputs = [time, power, resolution]
        .into_iter()
        .enumerate()
        .map(of_output);
    // A value that is not a number disagrees.
    outputs.fold(0.0, |most, percent| {
        if percent.is_nan() {
            f64::INFINITY
        } else {
            most.max(percent)
        }
    })
}
