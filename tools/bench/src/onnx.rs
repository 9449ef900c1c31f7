//! Exports a model's network to ONNX in f32: one batch with the features of all modes, one `Gemm`
//! per layer with `Relu` between. It outputs log time, log power and the spread of the log power.
//!
//! The integers are dequantised, so the outputs equal those of the runtime up to rounding
//! (`weights/FORMAT.md`, "What the integers mean").

use tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    TensorShapeProto, TypeProto, ValueInfoProto, attribute_proto, tensor_proto, tensor_shape_proto,
    type_proto,
};
use wattgate_runtime::{Axis, AxisFeatures, INPUTS, ModeId, ROW_SCALE_ONE};

use wattgate_bench::case::Case;

/// Number of outputs of a network: log time, log power and the spread of the log power.
pub const OUTPUTS: usize = 3;

/// A layer in f32: weights and bias of each unit.
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
        let units = rows.iter().map(|row| {
            let scale = 0.5_f32.powi(i32::from(row.shift));
            // The shift rounds down, by a half on average.
            (scaled(&row.weights, scale), row.bias as f32 * scale - 0.5)
        });
        Dense(units.collect())
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

/// The features of every mode in row-major order, one row per mode.
pub fn features(case: &Case) -> Vec<f32> {
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
        (0..Axis::ALL.len()).flat_map(move |axis| axes[axis].of(knobs[axis]))
    };
    (0..case.grid.modes()).flat_map(of_mode).collect()
}

/// The network for a batch of all modes of the grid.
pub fn model(case: &Case) -> ModelProto {
    let modes = i64::from(case.grid.modes());
    let layers = dense_layers(case);
    let mut graph = GraphProto {
        name: "wattgate".to_owned(),
        input: vec![matrix("features", modes, INPUTS)],
        output: vec![matrix("logs", modes, OUTPUTS)],
        ..GraphProto::default()
    };
    let mut from = "features".to_owned();
    let last = layers.len() - 1;
    for (index, Dense(units)) in layers.into_iter().enumerate() {
        let name = |what: &str| format!("{what}{index}");
        let (weights, biases): (Vec<_>, Vec<_>) = units.into_iter().unzip();
        let inputs = weights[0].len();
        graph.initializer.extend([
            tensor(name("weights"), &[weights.len(), inputs], weights.concat()),
            tensor(name("biases"), &[biases.len()], biases),
        ]);
        let is_last = index == last;
        let sums = if is_last {
            "logs".to_owned()
        } else {
            name("sums")
        };
        let parameters = vec![from, name("weights"), name("biases")];
        graph.node.push(node("Gemm", parameters, &sums));
        if !is_last {
            graph.node.push(node("Relu", vec![sums], &name("units")));
        }
        from = name("units");
    }
    ModelProto {
        ir_version: 8,
        opset_import: vec![OperatorSetIdProto {
            version: 13,
            ..OperatorSetIdProto::default()
        }],
        graph: Some(graph),
        ..ModelProto::default()
    }
}

fn node(operator: &str, input: Vec<String>, output: &str) -> NodeProto {
    let weights_by_unit = AttributeProto {
        name: "transB".to_owned(),
        r#type: attribute_proto::AttributeType::Int as i32,
        i: 1,
        ..AttributeProto::default()
    };
    NodeProto {
        input,
        output: vec![output.to_owned()],
        name: output.to_owned(),
        op_type: operator.to_owned(),
        attribute: if operator == "Gemm" {
            vec![weights_by_unit]
        } else {
            Vec::new()
        },
        ..NodeProto::default()
    }
}

fn tensor(name: String, dims: &[usize], values: Vec<f32>) -> TensorProto {
    TensorProto {
        name,
        dims: dims.iter().map(|&dim| dim as i64).collect(),
        data_type: tensor_proto::DataType::Float as i32,
        float_data: values,
        ..TensorProto::default()
    }
}

fn matrix(name: &str, rows: i64, columns: usize) -> ValueInfoProto {
    let dimension = |size| tensor_shape_proto::Dimension {
        value: Some(tensor_shape_proto::dimension::Value::DimValue(size)),
        ..tensor_shape_proto::Dimension::default()
    };
    let float = type_proto::Tensor {
        elem_type: tensor_proto::DataType::Float as i32,
        shape: Some(TensorShapeProto {
            dim: vec![dimension(rows), dimension(columns as i64)],
        }),
    };
    ValueInfoProto {
        name: name.to_owned(),
        r#type: Some(TypeProto {
            value: Some(type_proto::Value::TensorType(float)),
            ..TypeProto::default()
        }),
        ..ValueInfoProto::default()
    }
}
