//! The inputs of kernel models: parameters, work and clocks of each row, as columns.
//!
//! All inputs are logarithms, but for shares. What a call asks of the GPU follows from its parameters:
//! operations, bytes, and for convolutions and products of matrices the tiles into which libraries cut
//! them (NVIDIA, *Matrix Multiplication Background User's Guide*: tile and wave quantisation).

use wattgate_kernels::{Call, Kind, Operation};

use super::roofline::TERMS;

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
    inputs: Vec<f32>,
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
        if let Some(of) = Matrices::of(call) {
            inputs.extend([of.number, of.rows, of.inner, of.columns].map(ln));
            for (at, edge) in TILES.into_iter().enumerate() {
                let tiles = of.tiles(edge);
                inputs.extend([ln(tiles), of.filled(edge) as f32]);
                let full = flop / of.filled(edge);
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

/// Names of a kernel's inputs, in the order of the columns.
pub fn names(kind: Kind) -> Vec<String> {
    let mut names: Vec<String> = kind
        .parameters()
        .iter()
        .map(|parameter| parameter.name().to_owned())
        .collect();
    let mut add = |of: &[&str]| names.extend(of.iter().map(|name| (*name).to_owned()));
    add(&["input bytes", "weight bytes", "output bytes", "flop"]);
    add(&["bytes", "flop per byte"]);
    match kind {
        Kind::Conv2d | Kind::MatMul => {
            add(&["matrices", "matrix rows", "inner length", "matrix columns"]);
            add(&[
                "tiles of 128",
                "filled of 128",
                "tiles of 64",
                "filled of 64",
            ]);
            add(&["tiles of 32", "filled of 32"]);
        }
        _ => add(&["blocks"]),
    }
    add(&["cores", "cpu", "gpu", "emc", "gpu over emc", "cpu over gpu"]);
    add(&["flop over gpu", "bytes over emc", "roofline"]);
    add(&TERMS);
    names
}

/// The products of matrices that a call is.
#[derive(Clone, Copy, Debug)]
struct Matrices {
    number: f64,
    rows: f64,
    inner: f64,
    columns: f64,
}

impl Matrices {
    fn of(call: &Call) -> Option<Self> {
        match call.operation() {
            Operation::Conv2d {
                input,
                out_channels,
                window,
                groups,
            } => {
                let output = call.output();
                Some(Self {
                    number: groups.into(),
                    rows: f64::from(out_channels / groups),
                    inner: f64::from(input.channels / groups) * window.elements() as f64,
                    columns: f64::from(output.batch)
                        * f64::from(output.height)
                        * f64::from(output.width),
                })
            }
            Operation::MatMul {
                batch,
                rows,
                inner,
                columns,
            } => Some(Self {
                number: batch.into(),
                rows: rows.into(),
                inner: inner.into(),
                columns: columns.into(),
            }),
            _ => None,
        }
    }

    /// Number of square tiles with an edge.
    fn tiles(&self, edge: f64) -> f64 {
        self.number * (self.rows / edge).ceil() * (self.columns / edge).ceil()
    }

    /// The part of these tiles that is used.
    fn filled(&self, edge: f64) -> f64 {
        self.number * self.rows * self.columns / (self.tiles(edge) * edge * edge)
    }
}

/// Inputs of some rows, column by column.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    /// One list per input.
    pub columns: Vec<Vec<f32>>,
}

impl Columns {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, Vec::len)
    }

    /// Some of the rows, in the order of `at`.
    pub fn select(&self, at: &[usize]) -> Self {
        let of = |column: &Vec<f32>| at.iter().map(|&row| column[row]).collect();
        Self {
            columns: self.columns.iter().map(of).collect(),
        }
    }
}

/// The inputs of rows, each a demand with the clocks of its mode: cores, CPU, GPU and memory clock in kHz,
/// 0 for a knob that the board does not vary. `shares` are the roofline's logarithm and the share of each of
/// its terms.
pub fn columns<'a>(
    rows: impl ExactSizeIterator<Item = (&'a Demand, [u32; 4])>,
    mut shares: impl FnMut(&Demand, [u32; 4]) -> (f64, [f64; TERMS.len()]),
) -> Columns {
    let count = rows.len();
    let mut columns: Vec<Vec<f32>> = Vec::new();
    let mut row: Vec<f32> = Vec::new();
    for (demand, knobs) in rows {
        row.clear();
        row.extend(&demand.inputs);
        let [cores, cpu, gpu, emc] = knobs.map(|knob| f64::from(knob.max(1)).ln());
        let (ln_time, share) = shares(demand, knobs);
        let more = [
            cores,
            cpu,
            gpu,
            emc,
            gpu - emc,
            cpu - gpu,
            demand.flop.max(1.0).ln() - gpu,
            demand.bytes.ln() - emc,
            ln_time,
        ];
        row.extend(more.map(|value| value as f32));
        row.extend(share.map(|share| share as f32));
        if columns.is_empty() {
            columns = row.iter().map(|_| Vec::with_capacity(count)).collect();
        }
        for (column, value) in columns.iter_mut().zip(&row) {
            column.push(*value);
        }
    }
    Columns { columns }
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
    fn every_column_has_a_name() {
        for kind in Kind::ALL {
            let call = Call::of(kind, |parameter| {
                match kind.parameters().contains(&parameter) {
                    true if parameter.may_be_zero() => Some(0),
                    true if parameter.name().starts_with("dilation") => Some(1),
                    true => Some(4),
                    false => None,
                }
            });
            let demand = Demand::of(&call.expect("valid"));
            let rows = [(&demand, [8, 1, 1, 1])];
            let columns = columns(rows.into_iter(), |_, _| (0.0, [0.0; TERMS.len()]));
            assert_eq!(columns.columns.len(), names(kind).len(), "{kind:?}");
            assert!(
                columns
                    .columns
                    .iter()
                    .flatten()
                    .all(|value| value.is_finite())
            );
        }
    }

    #[test]
    fn a_tile_that_is_not_full_counts_as_full() {
        let [full, over] = [128, 129].map(|rows| Demand::of(&product(rows, 128)));
        assert_eq!(full.tiled_flop, full.flop);
        // Five rows of tiles of 32 in place of four.
        assert!((over.tiled_flop / full.flop - 5.0 / 4.0).abs() < 1e-9);
    }
}
