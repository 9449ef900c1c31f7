//! From the operators of a network to the kernel calls that an engine makes for them.
//!
//! PyTorch launches a kernel for each operator. TensorRT folds a BatchNormalization and the addition and
//! activation after a convolution into the convolution, joins neighbouring elementwise operators, and
//! lets the inputs of a Concat write into its output (NVIDIA, *TensorRT Developer Guide*, "Layer fusion").
//! Operators that only rename a tensor cost nothing.
//!
//! An operator that is none of the eight kernels is counted as the kernel that moves as many bytes, which
//! is marked as a stand-in.

use std::collections::HashMap;

use wattgate_kernels::{Call, Operation, Shape, Window};

use super::graph::Graph;
use super::operator::{NetworkError, Operator};
use super::shapes::window_axes;

/// The software that runs a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// A kernel for each operator.
    PyTorch,
    /// Fused kernels.
    TensorRt,
}

/// A kernel call of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// The name of the first operator.
    pub name: String,
    /// The operators that the call executes, such as `Conv+Relu`.
    pub operators: String,
    /// The call.
    pub call: Call,
    /// Whether the kernel stands in for an operator that is none of the eight.
    pub stands_in: bool,
}

/// Operators that compute nothing: the result is the input, in another shape or as it is.
const FREE: [&str; 7] = [
    "Reshape",
    "Flatten",
    "Squeeze",
    "Unsqueeze",
    "Identity",
    "Dropout",
    "Cast",
];

/// Operators with as many outputs as inputs that TensorRT joins with what is before them.
const ELEMENTWISE: [&str; 14] = [
    "Relu",
    "LeakyRelu",
    "Clip",
    "Sigmoid",
    "Tanh",
    "Elu",
    "HardSwish",
    "HardSigmoid",
    "Mul",
    "Add",
    "Sub",
    "Div",
    "Sum",
    "PRelu",
];

/// The kernel calls of a network, in the order of their launch.
pub fn lower(graph: &Graph, engine: Engine) -> Result<Vec<Layer>, NetworkError> {
    let readers = readers(graph);
    let mut layers: Vec<Layer> = Vec::new();
    // Which layer made a tensor, where TensorRT may still join something to it.
    let mut open: HashMap<&str, usize> = HashMap::new();
    for operator in &graph.operators {
        let kind = &*operator.kind;
        if FREE.contains(&kind) {
            continue;
        }
        if engine == Engine::TensorRt {
            if kind == "Concat" {
                continue;
            }
            if let Some(at) = joins(operator, &layers, &open, &readers) {
                layers[at].operators += &format!("+{kind}");
                note(&mut open, operator, at);
                continue;
            }
        }
        let (operation, stands_in) = operation(operator)?;
        let call = Call::new(operation).map_err(|why| NetworkError::Call {
            node: operator.name.clone(),
            why,
        })?;
        note(&mut open, operator, layers.len());
        layers.push(Layer {
            name: operator.name.clone(),
            operators: kind.to_owned(),
            call,
            stands_in,
        });
    }
    match layers.is_empty() {
        true => Err(NetworkError::Empty),
        false => Ok(layers),
    }
}

/// How many operators read each tensor.
fn readers(graph: &Graph) -> HashMap<&str, usize> {
    let mut readers = HashMap::new();
    for name in graph.operators.iter().flat_map(|operator| &operator.reads) {
        *readers.entry(&**name).or_insert(0) += 1;
    }
    readers
}

fn note<'a>(open: &mut HashMap<&'a str, usize>, operator: &'a Operator, layer: usize) {
    if let Some(written) = operator.writes.first() {
        open.insert(written, layer);
    }
}

/// The layer that TensorRT joins an operator to: the last one that makes an input which nothing else
/// reads. A BatchNormalization is folded into a convolution only.
fn joins(
    operator: &Operator,
    layers: &[Layer],
    open: &HashMap<&str, usize>,
    readers: &HashMap<&str, usize>,
) -> Option<usize> {
    let kind = &*operator.kind;
    let is_norm = kind == "BatchNormalization";
    if !is_norm && !ELEMENTWISE.contains(&kind) {
        return None;
    }
    let of_input = |name: &String| {
        let at = *open.get(&**name)?;
        (readers.get(&**name) == Some(&1)).then_some(at)
    };
    let at = operator.reads.iter().filter_map(of_input).max()?;
    let before = &layers[at];
    let of_convolution = matches!(before.call.operation(), Operation::Conv2d { .. });
    let of_product = matches!(before.call.operation(), Operation::MatMul { .. });
    let is_elementwise = before.operators.split('+').all(|operator_type| {
        ELEMENTWISE.contains(&operator_type) || operator_type == "BatchNormalization"
    });
    let fits = of_convolution || (!is_norm && (of_product || is_elementwise));
    // What is joined has the same number of outputs.
    let same = before.call.output().elements() == elements(operator.outputs.first()?);
    (fits && same).then_some(at)
}

/// The kernel of an operator, and whether it only stands in for it.
fn operation(operator: &Operator) -> Result<(Operation, bool), NetworkError> {
    let refused = |why| NetworkError::Shapes {
        node: operator.name.clone(),
        kind: operator.kind.clone(),
        shapes: format!("{:?}", operator.inputs),
        why,
    };
    let output = operator.outputs.first();
    let output = image(output.ok_or(refused("it has no output"))?);
    let input = image(operator.inputs.first().ok_or(refused("it has no input"))?);
    let (input, output) = input
        .zip(output)
        .ok_or(refused("a size is below 1 or too large"))?;
    Ok(match &*operator.kind {
        "Conv" => {
            let weights = &operator.inputs[1];
            let (input, window) = sliding(operator, input, output, &weights[2..])
                .ok_or(refused("expected an image of one or two dimensions"))?;
            let groups = u32::try_from(operator.number("group", 1)).unwrap_or(0);
            let operation = Operation::Conv2d {
                input,
                out_channels: output.channels,
                window,
                groups: groups.max(1),
            };
            (operation, false)
        }
        kind @ ("MaxPool" | "AveragePool" | "LpPool") => {
            let size = operator.numbers("kernel_shape").unwrap_or(&[]);
            let (input, window) = sliding(operator, input, output, size)
                .ok_or(refused("expected an image of one or two dimensions"))?;
            (Operation::MaxPool2d { input, window }, kind != "MaxPool")
        }
        kind @ ("GlobalAveragePool" | "GlobalMaxPool" | "ReduceMean" | "ReduceMax"
        | "ReduceSum") => {
            let out = [output.height, output.width];
            // A reduction of other axes moves as many bytes.
            let out = [out[0].min(input.height), out[1].min(input.width)];
            (
                Operation::AdaptiveAvgPool2d { input, out },
                kind != "GlobalAveragePool",
            )
        }
        "BatchNormalization" => (Operation::BatchNorm2d(input), false),
        "Relu" => (Operation::Relu(input), false),
        "Gemm" | "MatMul" => (
            product(operator).ok_or(refused("expected matrices"))?,
            false,
        ),
        // Two tensors are read, or one and a constant that stays in the cache. PyTorch has the same kernel
        // for all of these.
        "Add" | "Sum" | "Sub" | "Mul" | "Div" => {
            let read = operator.constant.iter().filter(|constant| !**constant);
            match read.count() {
                0 | 1 => (Operation::Relu(output), false),
                2 => (Operation::Add(output), false),
                _ => (Operation::Add(output), true),
            }
        }
        "Concat" => {
            let inputs = operator.inputs.len() as u32;
            (
                Operation::Cat { output, inputs },
                operator.number("axis", 1) != 1,
            )
        }
        // These read their input twice: for a sum and for the result.
        "Softmax" | "LogSoftmax" | "LRN" | "InstanceNormalization" | "LayerNormalization" => {
            (Operation::BatchNorm2d(input), true)
        }
        // One input is read, one output written.
        _ => (Operation::Relu(output), true),
    })
}

/// The input and the window of a convolution or a pooling. The kernels pad both sides alike and round
/// down; where the operator does not, the padding counts as part of the image.
fn sliding(
    operator: &Operator,
    input: Shape,
    output: Shape,
    size: &[i64],
) -> Option<(Shape, Window)> {
    let image: &[i64] = operator.inputs.first()?.get(2..)?;
    let mut axes = window_axes(operator, image, size)?;
    if axes.len() == 1 {
        // One dimension is an image of one row.
        axes.insert(0, [1, 1, 0, 0, 1]);
    }
    let axes: [[i64; 5]; 2] = axes.try_into().ok()?;
    let number = |n: i64| u32::try_from(n).ok();
    let mut window = Window {
        size: [0; 2],
        stride: [0; 2],
        padding: [0; 2],
        dilation: [0; 2],
    };
    let mut sizes = [input.height, input.width];
    for (at, [size, stride, before, after, dilation]) in axes.into_iter().enumerate() {
        let outputs = i64::from([output.height, output.width][at]);
        let spans = dilation * (size - 1) + 1;
        let reached = (i64::from(sizes[at]) + 2 * before - spans).checked_div(stride)? + 1;
        if before == after && reached == outputs {
            window.padding[at] = number(before)?;
        } else {
            sizes[at] = number((outputs - 1) * stride + spans)?;
        }
        window.size[at] = number(size)?;
        window.stride[at] = number(stride)?;
        window.dilation[at] = number(dilation)?;
    }
    let input = Shape {
        height: sizes[0],
        width: sizes[1],
        ..input
    };
    Some((input, window))
}

fn product(operator: &Operator) -> Option<Operation> {
    let [a, b, ..] = &operator.inputs[..] else {
        return None;
    };
    let [outer @ .., columns] = &operator.outputs.first()?[..] else {
        return None;
    };
    let inner = match operator.number("transA", 0) {
        0 => a.last()?,
        _ => a.first()?,
    };
    // With one right matrix for all, the left ones are one with many rows.
    let (rows, batch) = match b.len() {
        0..=2 => (outer.iter().product(), 1),
        _ => {
            let (rows, batches) = outer.split_last()?;
            (*rows, batches.iter().product())
        }
    };
    let number = |n: i64| u32::try_from(n).ok();
    Some(Operation::MatMul {
        batch: number(batch)?,
        rows: number(rows)?,
        inner: number(*inner)?,
        columns: number(*columns)?,
    })
}

fn elements(shape: &[i64]) -> u64 {
    shape
        .iter()
        .map(|n| u64::try_from(*n).unwrap_or(0))
        .product()
}

/// A tensor as images: missing dimensions are 1, further ones count as width.
fn image(shape: &[i64]) -> Option<Shape> {
    let size = |at: usize| shape.get(at).copied().unwrap_or(1);
    let (height, width) = match shape.len() {
        0..=3 => (1, size(2)),
        _ => (size(2), shape[3..].iter().product()),
    };
    let number = |n: i64| u32::try_from(n).ok().filter(|n| *n > 0);
    Some(Shape {
        batch: number(size(0))?,
        channels: number(size(1))?,
        height: number(height)?,
        width: number(width)?,
    })
}
