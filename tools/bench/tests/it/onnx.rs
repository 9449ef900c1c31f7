//! The exported network, read back and evaluated in f32, predicts what the runtime predicts.

use onnx_rs::ast::{Graph, OpType};
use wattgate_bench::case::{Case, GRIDS};
use wattgate_bench::onnx::{self, MOST_DISAGREEMENT};
use wattgate_runtime::shape::{INPUTS, Shape};

/// Evaluates the nodes in the order of the file, for rows of inputs.
fn evaluate(graph: &Graph<'_>, features: &[f32]) -> Vec<f32> {
    let initializer = |name: &str| {
        let tensor = graph.get_initializer(name).expect("weights or biases");
        tensor.as_f32().expect("32-bit floats").into_owned()
    };
    let mut name = graph.input[0].name;
    let (mut values, mut columns) = (features.to_vec(), INPUTS);
    for node in &graph.node {
        assert_eq!(node.input[0], name, "the nodes form a chain");
        if node.op_type == OpType::Relu {
            values.iter_mut().for_each(|value| *value = value.max(0.0));
        } else {
            assert_eq!(node.op_type, OpType::Gemm);
            let [weights, biases] = [1, 2].map(|input| initializer(node.input[input]));
            let of_row = |row: &[f32]| -> Vec<f32> {
                let neurons = weights.chunks_exact(columns).zip(&biases);
                let dot =
                    |weights: &[f32]| weights.iter().zip(row).map(|(a, b)| a * b).sum::<f32>();
                neurons.map(|(weights, bias)| dot(weights) + bias).collect()
            };
            values = values.chunks_exact(columns).flat_map(of_row).collect();
            columns = biases.len();
        }
        name = node.output[0];
    }
    assert_eq!(name, graph.output[0].name);
    values
}

#[test]
fn the_exported_network_predicts_what_the_runtime_predicts_with_every_shape() {
    for shape in Shape::ALL {
        let case = Case::new(GRIDS[0], *shape);
        let file = onnx::file(&case);
        let network = onnx_rs::parse(&file).expect("an ONNX file");
        let graph = network.graph.as_ref().expect("a graph");
        let mut logs = evaluate(graph, &onnx::features(&case));
        let percent = onnx::disagreement(&case, &logs);
        assert!(percent <= MOST_DISAGREEMENT, "{shape}: {percent} %");
        // An output that is wrong for one mode is seen.
        logs[1] *= 1.1;
        assert!(
            onnx::disagreement(&case, &logs) > MOST_DISAGREEMENT,
            "{shape}"
        );
    }
}
