//! A benchmark case: a model file of one shape on one grid.
//!
//! Models of the shipped shape use the layers of `weights/orin-agx-64-resnet18.wgt` on every grid:
//! the features are relative to the ends of an axis, so the layers fit any grid. Models of other
//! shapes are not trained; their layers are random.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use wattgate_board_tables::Board;
use wattgate_runtime::format::{Body, Header};
use wattgate_runtime::grid::Grid;
use wattgate_runtime::idle::Idle;
use wattgate_runtime::network::{ROW_LIMIT, ROW_SCALE_ONE};
use wattgate_runtime::shape::{CURVES, FEATURES, LEVELLED, Shape, Widths};
use wattgate_runtime::{Model, Region};

use crate::wgt::{FirstRow, HiddenRow, Layers, ModelFile, OutputRow, Spreads};

/// The grid of a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoardGrid {
    /// The board's name in the simulator.
    pub board: &'static str,
    /// Number of modes of the grid.
    pub modes: u32,
}

/// All grids, in ascending order of size.
pub const GRIDS: [BoardGrid; 3] = [
    BoardGrid {
        board: "orin-nano-8",
        modes: 1_800,
    },
    ORIN_AGX,
    BoardGrid {
        board: "xavier-agx",
        modes: 29_232,
    },
];

/// The grid that the shipped model was trained on.
pub const ORIN_AGX: BoardGrid = BoardGrid {
    board: "orin-agx-64",
    modes: 18_096,
};

/// The shape of the shipped model.
pub const SHIPPED_SHAPE: Shape = Shape::Wide32;

static SHIPPED: &[u8] = include_bytes!("../../../weights/orin-agx-64-resnet18.wgt");

/// A file with spreads is valid if the scales of its time and power are at least this (`weights/FORMAT.md`).
const LEAST_SCALE: f64 = 1.0 / (1 << 21) as f64;

const SEED: u64 = 1;

/// A model on a grid.
#[derive(Debug)]
pub struct Case {
    /// The grid.
    pub grid: Grid,
    /// The layer widths.
    pub shape: Shape,
    /// The bytes of the `.wgt` file.
    pub file: Vec<u8>,
    /// The layers of the file before encoding.
    pub layers: Layers,
    /// The least spread that the file allows, in units of `Model::spread_resolution`.
    pub least_spread: u16,
}

impl Case {
    /// Creates the model of a shape on a grid.
    pub fn new(grid: BoardGrid, shape: Shape) -> Self {
        let axes = Board::named(grid.board).expect("a known board").axes();
        let [cores, cpu, gpu, emc] = &axes;
        let on = Grid::new([cores, cpu, gpu, emc]).expect("a board's tables form a grid");
        let layers = if shape == SHIPPED_SHAPE {
            shipped_layers(&on)
        } else {
            random_layers(&on, shape, &mut ChaCha8Rng::seed_from_u64(SEED))
        };
        let shipped = Model::parse(SHIPPED).expect("a test reads the shipped files");
        let mut provenance = shipped
            .provenance()
            .expect("a test reads the shipped files");
        provenance.device = grid.board;
        let least_spread = shipped_body().least_spread;
        let file = ModelFile {
            layers: &layers,
            grid: &on,
            profiled: Region::all(&on),
            time_guard: shipped.time_guard(),
            power_guard: shipped.power_guard(),
            spreads: Spreads {
                least: least_spread,
                time: shipped_body().time_spread,
            },
            measured: &[],
            provenance,
            tpc_pg_mask: None,
            units: &[],
            reference_mw: 1.0,
            others: &shipped
                .fleet()
                .expect("a test reads the shipped files")
                .others()
                .each_ref()
                .map(|band| band.knots().to_vec()),
            idle: Idle::NONE,
        }
        .encode();
        Self {
            grid: on,
            shape,
            file,
            layers,
            least_spread,
        }
    }

    /// Parses and verifies the model.
    pub fn model(&self) -> Model<'_> {
        Model::parse(&self.file).expect("the writer's files are valid")
    }

    /// The origin of the weights: `shipped` or `random`.
    pub fn weights(&self) -> &'static str {
        if self.shape == SHIPPED_SHAPE {
            "shipped"
        } else {
            "random"
        }
    }
}

fn shipped_body() -> Body<'static> {
    let (_, body) = Header::parse(SHIPPED).expect("a test reads the shipped files");
    postcard::from_bytes(body).expect("a test reads the shipped files")
}

/// The layers of the shipped file, which has one hidden layer, for a grid.
fn shipped_layers(on: &Grid) -> Layers {
    let body = shipped_body();
    let Widths([width, _, _]) = SHIPPED_SHAPE.widths();
    let width = usize::from(width);
    let weights = |bytes: &[u8]| bytes.iter().map(|byte| byte.cast_signed()).collect();
    let (first, output) = body.layers.split_at(width * (CURVES + 4));
    let level_weights = &body.levels[body.levels.len() - LEVELLED.len() * width..];
    let first_row = |(neuron, row): (usize, &[u8])| FirstRow {
        weights: std::array::from_fn(|input| match input.checked_sub(CURVES) {
            None => row[input].cast_signed(),
            Some(axis) => level_weights[axis * width + neuron].cast_signed(),
        }),
        scale: u16::from_le_bytes([row[CURVES], row[CURVES + 1]]),
        bias: i16::from_le_bytes([row[CURVES + 2], row[CURVES + 3]]),
    };
    let output_row = |row: &[u8]| {
        let (from, tail) = row.split_at(width);
        let (bias, scale) = tail.split_at(4);
        OutputRow {
            weights: weights(from),
            bias: i32::from_le_bytes(bias.try_into().expect("four bytes")),
            scale: f32::from_le_bytes(scale.try_into().expect("four bytes")),
        }
    };
    Layers {
        first: first
            .chunks_exact(CURVES + 4)
            .enumerate()
            .map(first_row)
            .collect(),
        levels: stretched(&body, on),
        hidden: Vec::new(),
        output: output.chunks_exact(width + 8).map(output_row).collect(),
    }
}

/// The levels of the shipped file on another grid: those of the clocks at the same part of an axis.
fn stretched(body: &Body<'_>, on: &Grid) -> Vec<i8> {
    let shipped = Grid::try_from(body.axes.clone()).expect("a test reads the shipped files");
    let mut levels = body.levels;
    let mut all = Vec::new();
    for axis in LEVELLED {
        let (of_axis, rest) = levels.split_at(shipped.axis(axis).len());
        let [from, to] = [of_axis.len(), on.axis(axis).len()].map(|values| values.max(2) - 1);
        all.extend((0..=to).map(|value| of_axis[value * from / to].cast_signed()));
        levels = rest;
    }
    all
}

/// Layers with random weights over the full range of an i8. Scales and shifts are chosen so that
/// activations do not saturate.
fn random_layers(on: &Grid, shape: Shape, random: &mut ChaCha8Rng) -> Layers {
    let Widths([first, later @ ..]) = shape.widths();
    let row_limit = i64::from(ROW_LIMIT);
    let most_scale = row_limit * ROW_SCALE_ONE as i64 / ((FEATURES as i64 + 1) * 127) / 2;
    let first_row = |random: &mut ChaCha8Rng| FirstRow {
        weights: std::array::from_fn(|_| weight(random)),
        scale: random.random_range(most_scale / 2..=most_scale) as u16,
        bias: random.random_range(-row_limit / 2..=row_limit / 2) as i16,
    };
    let first: Vec<_> = (0..first).map(|_| first_row(random)).collect();
    let mut most = vec![4 * row_limit; first.len()];
    let mut hidden = Vec::new();
    for width in later.into_iter().filter(|width| *width > 0) {
        let rows = (0..width).map(|_| hidden_row(&most, random));
        let (rows, reached) = rows.unzip();
        hidden.push(rows);
        most = reached;
    }
    // Near e¹⁰ µs and mW, and a spread near 0.1.
    let ranges = [(10.0, 8.0), (10.0, 8.0), (0.1, 0.08)];
    let output = ranges.map(|range| output_row(&most, range, random)).into();
    let levels = LEVELLED.map(|axis| on.axis(axis).len()).iter().sum();
    Layers {
        first,
        levels: (0..levels).map(|_| weight(random)).collect(),
        hidden,
        output,
    }
}

fn weight(random: &mut ChaCha8Rng) -> i8 {
    random.random_range(-127..=127)
}

/// A random neuron for inputs of at most `most`, and the estimated maximum of its activation.
fn hidden_row(most: &[i64], random: &mut ChaCha8Rng) -> (HiddenRow, i64) {
    let weights: Vec<_> = most.iter().map(|_| weight(random)).collect();
    let products = most.iter().zip(&weights);
    let products = products.map(|(most, weight)| most * i64::from(*weight));
    let surely: i64 = products.clone().map(|product| product.max(0)).sum();
    // Products of random signs grow with the root of their number: take two standard deviations.
    let squares: f64 = products.map(|product| (product as f64).powi(2)).sum();
    let sum = surely.min((2.0 * squares.sqrt()) as i64);
    let bias = random.random_range(-sum / 16..=sum / 16);
    let bits = u64::BITS - (sum + bias).cast_unsigned().leading_zeros();
    let shift = bits.saturating_sub(15);
    let row = HiddenRow {
        weights,
        bias: bias as i32,
        shift: shift as u8,
    };
    (row, (sum + bias) >> shift)
}

/// A random output near a value, and within a distance of it.
fn output_row(most: &[i64], (near, within): (f64, f64), random: &mut ChaCha8Rng) -> OutputRow {
    let weights: Vec<_> = most.iter().map(|_| weight(random)).collect();
    let size = |(most, weight): (&i64, &i8)| most * i64::from(*weight).abs();
    let sum: i64 = most.iter().zip(&weights).map(size).sum();
    let scale = (within / sum as f64).max(LEAST_SCALE);
    OutputRow {
        weights,
        bias: (near / scale) as i32,
        scale: scale as f32,
    }
}
