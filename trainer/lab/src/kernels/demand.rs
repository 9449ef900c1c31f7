//! What a call asks of the board, without the clocks: operations and bytes. For products of matrices, and
//! convolutions as such products, also the tiles into which libraries cut them (NVIDIA, *Matrix Multiplication
//! Background User's Guide*: tile and wave quantisation), and whether they may use the Winograd transform.

use wattgate_kernels::{Call, Matrices, Operation, Window};

/// Rows and columns of the tiles that are counted.
const TILES: [(f64, f64); 5] = [
    (128.0, 128.0),
    (128.0, 64.0),
    (64.0, 128.0),
    (64.0, 64.0),
    (32.0, 32.0),
];

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
        let mut tiled_flop = flop;
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
            inputs.push(f32::from(u8::from(may_be_winograd(call))));
            tiled_flop = f64::INFINITY;
            for tile in TILES {
                let filled = filled(&matrices, tile);
                inputs.extend([ln(tiles(&matrices, tile)), filled as f32]);
                tiled_flop = tiled_flop.min(flop / filled);
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

/// Number of tiles that cover the outputs of products.
fn tiles(matrices: &Matrices, (rows, columns): (f64, f64)) -> f64 {
    matrices.number * (matrices.rows / rows).ceil() * (matrices.columns / columns).ceil()
}

/// The part of these tiles that is used.
fn filled(matrices: &Matrices, tile: (f64, f64)) -> f64 {
    matrices.number * matrices.rows * matrices.columns / (tiles(matrices, tile) * tile.0 * tile.1)
}

/// Whether a library may compute a convolution by the Winograd transform, which needs fewer operations (Lavin
/// and Gray 2016): windows of 3 × 3 that move by one pixel and are not dilated. The few channels of a group would
/// not pay for it.
fn may_be_winograd(call: &Call) -> bool {
    match call.operation() {
        Operation::Conv2d { window, groups, .. } => {
            let Window {
                size,
                stride,
                dilation,
                ..
            } = window;
            (size, stride, dilation, groups) == ([3, 3], [1, 1], [1, 1], 1)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattgate_kernels::Shape;

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
        let [full, over] = [128, 129].map(|rows| Demand::from_call(&product(rows, 128)));
        assert_eq!(full.tiled_flop, full.flop);
        // Five rows of tiles of 32 in place of four.
        assert!((over.tiled_flop / full.flop - 5.0 / 4.0).abs() < 1e-9);
    }

    #[test]
    fn a_tile_may_be_wide_or_tall() {
        let matrices = Matrices {
            number: 3.0,
            rows: 192.0,
            inner: 1.0,
            columns: 64.0,
        };
        assert_eq!(
            [(64.0, 128.0), (128.0, 64.0)].map(|tile| tiles(&matrices, tile)),
            [9.0, 6.0]
        );
        assert_eq!(
            [(64.0, 128.0), (128.0, 64.0)].map(|tile| filled(&matrices, tile)),
            [0.5, 0.75]
        );
    }

    #[test]
    fn a_small_window_that_moves_by_one_pixel_may_be_transformed() {
        let with = |size, stride, groups| {
            let input = Shape {
                batch: 1,
                channels: 32,
                height: 14,
                width: 14,
            };
            let window = Window {
                size: [size; 2],
                stride: [stride; 2],
                padding: [1; 2],
                dilation: [1; 2],
            };
            let operation = Operation::Conv2d {
                input,
                out_channels: 32,
                window,
                groups,
            };
            may_be_winograd(&Call::new(operation).expect("valid"))
        };
        assert!(with(3, 1, 1));
        assert!(!with(5, 1, 1) && !with(3, 2, 1) && !with(3, 1, 32));
        assert!(!may_be_winograd(&product(3, 3)));
    }
}
