//! What a call asks of the board, without the clocks: operations, bytes, and for convolutions and products
//! of matrices the tiles into which libraries cut them (NVIDIA, *Matrix Multiplication Background User's
//! Guide*: tile and wave quantisation).

use wattgate_kernels::{Call, Matrices, Operation};

/// Edges of the tiles that are counted.
const TILES: [f64; 3] = [128.0, 64.0, 32.0];

/// Thread blocks of an elementwise kernel have this many outputs.
const ELEMENTWISE_OUTPUTS: f64 = 1_024.0;

/// What a call asks of the board, without the clocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// Floating-point operations.
    pub flop: f64,
    /// Bytes of inputs, weights and output.
    pub bytes: f64,
    /// Operations, counting tiles that are not full as full.
    pub tiled_flop: f64,
    /// Number of inputs that are joined: each is a launch of its own.
    pub launches: f64,
    /// The inputs of a model that depend on the call alone.
    pub(super) inputs: Vec<f32>,
}

impl Demand {
    /// Of a call.
    pub fn of(call: &Call) -> Self {
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
        let mut tiled_flop = flop;
        if let Some(of) = call.matrices() {
            inputs.extend([of.number, of.rows, of.inner, of.columns].map(ln));
            for (at, edge) in TILES.into_iter().enumerate() {
                let filled = filled(&of, edge);
                inputs.extend([ln(tiles(&of, edge)), filled as f32]);
                let full = flop / filled;
                tiled_flop = if at == 0 { full } else { tiled_flop.min(full) };
            }
        } else {
            inputs.push(ln((output / 4.0 / ELEMENTWISE_OUTPUTS).ceil()));
        }
        let launches = match call.operation() {
            Operation::Cat { inputs, .. } => f64::from(inputs),
            _ => 1.0,
        };
        Self {
            flop,
            bytes,
            tiled_flop,
            launches,
            inputs,
        }
    }
}

/// Number of square tiles with an edge that cover the outputs of products.
fn tiles(of: &Matrices, edge: f64) -> f64 {
    of.number * (of.rows / edge).ceil() * (of.columns / edge).ceil()
}

/// The part of these tiles that is used.
fn filled(of: &Matrices, edge: f64) -> f64 {
    of.number * of.rows * of.columns / (tiles(of, edge) * edge * edge)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(rows: u32, columns: u32) -> Call {
        let operation = Operation::MatMul {
            batch: 1,
            rows,
            inner: 100,
            columns,
        };
        Call::new(operation).expect("valid")
    }

    #[test]
    fn a_tile_that_is_not_full_counts_as_full() {
        let [full, over] = [128, 129].map(|rows| Demand::of(&product(rows, 128)));
        assert_eq!(full.tiled_flop, full.flop);
        // Five rows of tiles of 32 in place of four.
        assert!((over.tiled_flop / full.flop - 5.0 / 4.0).abs() < 1e-9);
    }
}
