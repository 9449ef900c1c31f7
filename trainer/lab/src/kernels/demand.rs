//! What a call asks of the board, without the clocks: operations and bytes, and the sizes of products of matrices, which
//! convolutions are as well. How a library cuts them is for the trees to find.

use wattgate_kernels::{Call, Operation};

/// What a call asks of the board, without the clocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// Floating-point operations.
    pub flop: f64,
    /// Bytes of inputs, weights and output.
    pub bytes: f64,
    /// Number of inputs that are joined: each is a launch of its own.
    pub launches: f64,
    /// The inputs of a model that depend on the call alone.
    pub(super) inputs: Vec<f32>,
}

impl Demand {
    /// Of a call.
    pub fn from_call(call: &Call) -> Self {
        let [input, weights, output] =
            [call.input_bytes(), call.weight_bytes(), call.output_bytes()]
                .map(|bytes| bytes as f64);
        let (flop, bytes) = (call.flop() as f64, input + weights + output);
        let mut inputs: Vec<f32> = call
            .kind()
            .parameters()
            .iter()
            .map(|&parameter| {
                let value = f64::from(call.value(parameter).unwrap_or(0));
                match parameter.may_be_zero() {
                    true => value as f32,
                    false => value.ln() as f32,
                }
            })
            .collect();
        let ln = |value: f64| value.max(1.0).ln() as f32;
        inputs.extend([ln(input), ln(weights), ln(output), ln(flop), ln(bytes)]);
        inputs.push(ln(flop) - ln(bytes));
        if let Some(matrices) = call.matrices() {
            inputs.extend(
                [
                    matrices.number,
                    matrices.rows,
                    matrices.inner,
                    matrices.columns,
                ]
                .map(ln),
            );
        }
        let launches = match call.operation() {
            Operation::Cat { inputs, .. } => f64::from(inputs),
            _ => 1.0,
        };
        Self {
            flop,
            bytes,
            launches,
            inputs,
        }
    }
}
