//! Model files for tests, made by the trainer's writer: the golden files, and random ones.

use std::collections::BTreeSet;

use proptest::prelude::*;
use wattgate_runtime::fleet::UnitId;
use wattgate_runtime::format::{Body, Crc32, HEADER_LEN, Kind, Provenance, SCALE_RANGE};
use wattgate_runtime::grid::{Axes, Grid};
use wattgate_runtime::guard::{GuardBand, Knot, MOST_DEVIATIONS, TimeSpread};
use wattgate_runtime::idle::Idle;
use wattgate_runtime::model::Prediction;
use wattgate_runtime::network::ROW_LIMIT;
use wattgate_runtime::quantities::Factor;
use wattgate_runtime::shape::{BIAS_LIMIT, FEATURES, INPUTS, LEVELLED, Shape, Widths};
use wattgate_runtime::{Milliwatts, ModeId, Region};

#[path = "../../../trainer/src/export/wgt.rs"]
pub mod wgt;
use wgt::{FirstRow, HiddenRow, Layers, ModelFile, OutputRow, Spreads};

/// A random generator for weights.
pub struct Random(pub u64);

impl Random {
    /// SplitMix64 (Steele, Lea and Flood 2014).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in −most … most.
    fn within(&mut self, most: i64) -> i64 {
        (self.next() % (2 * most as u64 + 1)) as i64 - most
    }

    fn weights(&mut self, count: usize) -> Vec<i8> {
        (0..count).map(|_| self.within(127) as i8).collect()
    }
}

/// The number of levels that a file has for a grid.
pub fn level_count(grid: &Grid) -> usize {
    LEVELLED.map(|axis| grid.axis(axis).len()).iter().sum()
}

/// Layers of a shape with random weights over the full range of an i8.
pub fn random_layers(grid: &Grid, shape: Shape, outputs: usize, random: &mut Random) -> Layers {
    let Widths([first, later @ ..]) = shape.widths();
    // The sum of three features and a level reaches the row limit at most.
    let most_scale = 256 * ROW_LIMIT as u64 / ((FEATURES as u64 + 1) * 127);
    let first_row = |random: &mut Random| FirstRow {
        weights: random
            .weights(INPUTS)
            .try_into()
            .expect("a weight for each input"),
        scale: (random.next() % most_scale) as u16,
        bias: random.within(i64::from(ROW_LIMIT) / 2) as i16,
    };
    let first_rows = (0..first).map(|_| first_row(random)).collect();
    let mut inputs = usize::from(first);
    let mut hidden = Vec::new();
    for width in later.into_iter().filter(|&width| width > 0) {
        let row = |random: &mut Random| HiddenRow {
            weights: random.weights(inputs),
            bias: random.within(1 << 18) as i32,
            shift: 6 + (random.next() % 4) as u8,
        };
        hidden.push((0..width).map(|_| row(random)).collect());
        inputs = usize::from(width);
    }
    let scale = if inputs > 16 { 5e-7 } else { 1e-6 };
    let output = (0..outputs).map(|row| match row {
        // Spreads below zero, within their range, and beyond it.
        2 => OutputRow {
            weights: random.weights(inputs),
            bias: random.within(1_000_000) as i32,
            scale: scale / (1 + random.next() % 30) as f32,
        },
        // ln of some seconds in µs, or of some watts in mW.
        _ => OutputRow {
            weights: random.weights(inputs),
            bias: 14_000_000 + random.within(4_000_000) as i32,
            scale,
        },
    });
    Layers {
        output: output.collect(),
        first: first_rows,
        levels: random.weights(level_count(grid)),
        hidden,
    }
}

fn guard(median: u32) -> GuardBand {
    let knot = |per_ten_thousand, q16| Knot {
        per_ten_thousand,
        q16,
    };
    let knots = [
        knot(5_000, median),
        knot(9_500, median + 4_000),
        knot(9_900, median + 9_000),
    ];
    GuardBand::new(knots).expect("ascending")
}

/// No deviation, one and a half, and the largest number.
fn deviations() -> GuardBand {
    let knots = [(5_000, 0), (9_500, 3 << 15), (9_900, MOST_DEVIATIONS << 16)];
    GuardBand::of_deviations(knots.map(|(per_ten_thousand, q16)| Knot {
        per_ten_thousand,
        q16,
    }))
    .expect("ascending")
}

/// The spread of the time of the files that have one.
pub const TIME_SPREAD: TimeSpread = TimeSpread {
    base: 150,
    slope: 6_000,
};

/// A measured mode.
pub type MeasuredMode = (ModeId, Prediction);

/// Random measured modes, some of them near what random layers predict.
pub fn random_measured(grid: &Grid, outputs: usize, random: &mut Random) -> Vec<MeasuredMode> {
    let modes: BTreeSet<u64> = (0..random.next() % 6)
        .map(|_| random.next() % u64::from(grid.modes()))
        .collect();
    let mut log = |known| match known {
        true => 14_000_000 + random.within(6_000_000) as i32,
        false => 0,
    };
    let at = |id: u64| {
        let at = Prediction {
            log_time: log(true),
            log_power: log(outputs > 1),
            spread: if outputs > 2 { id as i32 % 3_000 } else { 0 },
        };
        (ModeId(id as u16), at)
    };
    modes.into_iter().map(at).collect()
}

/// The idle power of a file.
pub const IDLE: Idle = Idle {
    base: Milliwatts(1_500),
    share: 20_000,
};

/// The units of a file: levels of time and power, tilt of the power.
pub const UNITS: [(UnitId, [f64; 3]); 2] = [
    (UnitId(0x0BAD_CAFE), [-0.01, 0.05, 0.03]),
    (UnitId(0x8FF8_117C), [0.01, -0.05, -0.03]),
];

/// The bytes of a model that was profiled on its whole grid.
pub fn encode(grid: &Grid, layers: &Layers, measured: &[MeasuredMode], workload: &str) -> Vec<u8> {
    let has_spread = layers.output.len() == 3;
    let (time_guard, power_guard) = match has_spread {
        true => (deviations(), deviations()),
        false => (guard(Factor::ONE.q16()), guard(66_000)),
    };
    let has_power = layers.output.len() > 1;
    // Other units: 2 % more for each knot.
    let above = |guard: &GuardBand| -> Vec<Knot> {
        let knots = guard.knots().iter().zip(0..);
        let ratio = |(knot, at): (&Knot, u32)| Knot {
            q16: Factor::ONE.q16() + 1_311 * at,
            ..*knot
        };
        knots.map(ratio).collect()
    };
    let others = [
        above(&time_guard),
        if has_power {
            above(&power_guard)
        } else {
            Vec::new()
        },
    ];
    ModelFile {
        layers,
        grid,
        profiled: Region::all(grid),
        time_guard: &time_guard,
        power_guard: has_power.then_some(&power_guard),
        spreads: match has_spread {
            true => Spreads {
                least: 200,
                time: TIME_SPREAD,
            },
            false => Spreads::default(),
        },
        measured,
        provenance: Provenance {
            kind: Kind::Simulated,
            device: "board",
            workload,
            minibatch: Some(16),
            seed: 1,
            modes_used: 50,
            modes_held_out: 7,
            time_error: Some(123),
            power_error: has_power.then_some(456),
        },
        tpc_pg_mask: Some(0xC0),
        units: &UNITS,
        reference_mw: if has_power { 5_000.0 } else { 1.0 },
        others: &others,
        idle: if has_spread { IDLE } else { Idle::NONE },
    }
    .encode()
}

/// The bytes of a model with random layers.
pub fn random_model(grid: &Grid, shape: Shape, outputs: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let layers = random_layers(grid, shape, outputs, &mut random);
    let measured = random_measured(grid, outputs, &mut random);
    encode(grid, &layers, &measured, "random-weights")
}

/// Grids of up to some hundred modes. Some axes have length one.
pub fn grids() -> impl Strategy<Value = Grid> {
    let axis = |most: u32, length: usize| {
        proptest::collection::btree_set(1..most, 1..length)
            .prop_map(|values| values.into_iter().collect::<Vec<u32>>())
    };
    let axes = (
        axis(17, 5),
        axis(3_000_000, 8),
        axis(1_500_000, 7),
        axis(4_000_000, 5),
    );
    axes.prop_map(|(cores, cpu, gpu, emc)| {
        Grid::new([&cores, &cpu, &gpu, &emc]).expect("sorted and short")
    })
}

pub fn small_shapes() -> impl Strategy<Value = Shape> {
    let small = Shape::ALL
        .iter()
        .copied()
        .filter(|shape| shape.widths().0[0] <= 32);
    proptest::sample::select(small.collect::<Vec<_>>())
}

/// Names and contents of the golden files in `weights/golden`. Their weights follow simple rules.
pub fn golden_models() -> Vec<(&'static str, Vec<u8>)> {
    let grid = Grid::new([
        &[1, 2, 4],
        &[102_000, 710_400, 1_479_000],
        &[76_800, 921_600],
        &[204_000, 1_600_000],
    ])
    .expect("a grid");
    let model = |name, shape, outputs| {
        let layers = ruled_layers(&grid, shape, outputs);
        // The network alone gives the modes 17 and 30 between a quarter and four times of this.
        let measured = [5, 17, 30].map(|id| {
            let at = Prediction {
                log_time: 16_000_000 - 50_000 * i32::from(id),
                log_power: if outputs > 1 {
                    8_000_000 + 30_000 * i32::from(id)
                } else {
                    0
                },
                spread: if outputs > 2 { 100 + i32::from(id) } else { 0 },
            };
            (ModeId(id), at)
        });
        let measured = if outputs == 2 {
            &measured[..0]
        } else {
            &measured
        };
        (name, encode(&grid, &layers, measured, name))
    };
    let mut extreme = ruled_layers(&grid, Shape::Deep16x16, 2);
    make_extreme(&mut extreme);
    let mut subnormal = ruled_layers(&grid, Shape::Wide16, 2);
    subnormal.output[0].scale = f32::MIN_POSITIVE / 4.0;
    vec![
        model("wide-16", Shape::Wide16, 2),
        model("wide-16-time-only", Shape::Wide16, 1),
        model("deep-8x8", Shape::Deep8x8, 2),
        model("deep-16x16", Shape::Deep16x16, 2),
        model("wide-32-spread", Shape::Wide32, 3),
        model("deep-8x8-spread", Shape::Deep8x8, 3),
        ("extreme", encode(&grid, &extreme, &[], "extreme")),
        (
            "subnormal-scale",
            encode(&grid, &subnormal, &[], "subnormal"),
        ),
        (
            "too-many-modes",
            too_many_modes(&model("", Shape::Wide16, 2).1),
        ),
    ]
}

/// Sets each value to an end of its range.
fn make_extreme(layers: &mut Layers) {
    let maximise = |weights: &mut Vec<i8>| {
        weights
            .iter_mut()
            .for_each(|weight| *weight = 127 * weight.signum());
    };
    for (row, sign) in layers.first.iter_mut().zip([1, -1].into_iter().cycle()) {
        row.weights = row.weights.map(|weight| 127 * sign * weight.signum());
        (row.scale, row.bias) = (u16::MAX, i16::from(sign) * ROW_LIMIT);
    }
    for (row, sign) in layers
        .hidden
        .iter_mut()
        .flatten()
        .zip([1, -1].into_iter().cycle())
    {
        maximise(&mut row.weights);
        (row.bias, row.shift) = (sign * BIAS_LIMIT, if sign > 0 { 0 } else { 31 });
    }
    for (row, scale) in layers.output.iter_mut().zip(SCALE_RANGE) {
        maximise(&mut row.weights);
        (row.bias, row.scale) = (-BIAS_LIMIT, scale);
    }
}

/// Replaces the grid of a file by one of 16 × 16 × 16 × 16 modes, one more than a `ModeId` can
/// name.
fn too_many_modes(file: &[u8]) -> Vec<u8> {
    let (header, body) = file.split_at(HEADER_LEN);
    let mut body: Body<'_> = postcard::from_bytes(body).expect("a body");
    let knobs = 1..=16;
    let levels = [0; 32];
    body.levels = &levels;
    body.axes = Axes {
        lengths: [16; 4],
        values: (0..4).flat_map(|_| knobs.clone()).collect(),
    };
    let mut bytes = header.to_vec();
    bytes.resize(2 * file.len(), 0);
    let body = postcard::to_slice(&body, &mut bytes[HEADER_LEN..])
        .expect("room")
        .len();
    bytes.truncate(HEADER_LEN + body);
    sealed(bytes)
}

/// Sets the length of the body and the checksum in the header of a changed file.
pub fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let body = (bytes.len() - HEADER_LEN) as u32;
    bytes[20..24].copy_from_slice(&body.to_le_bytes());
    let checksum = Crc32::new()
        .update(&bytes[..HEADER_LEN - 4])
        .update(&bytes[HEADER_LEN..]);
    bytes[HEADER_LEN - 4..HEADER_LEN].copy_from_slice(&checksum.finish().to_le_bytes());
    bytes
}

/// Weights that count through −127 … 127 in steps of 37, from row 0 of layer 1 on.
fn ruled_layers(grid: &Grid, shape: Shape, outputs: usize) -> Layers {
    let mut count = 0_i32;
    let mut weights = |n: usize| -> Vec<i8> {
        let next = |_| {
            count += 1;
            ((37 * count).rem_euclid(255) - 127) as i8
        };
        (0..n).map(next).collect()
    };
    let Widths([first, later @ ..]) = shape.widths();
    let first_row = |row: u16| FirstRow {
        weights: weights(INPUTS).try_into().expect("a weight for each input"),
        scale: 1_000 + 100 * row,
        bias: 2_000 - 300 * row as i16,
    };
    let first_rows = (0..first).map(first_row).collect();
    let mut inputs = usize::from(first);
    let mut hidden = Vec::new();
    for width in later.into_iter().filter(|&width| width > 0) {
        let row = |row: u16| HiddenRow {
            weights: weights(inputs),
            bias: 10_000 * (i32::from(row) - 4),
            shift: 8,
        };
        hidden.push((0..width).map(row).collect());
        inputs = usize::from(width);
    }
    let output = (0..outputs).map(|row| OutputRow {
        weights: weights(inputs),
        bias: [16_000_000, 8_000_000, 400_000][row],
        scale: [1e-6, 1e-6, 1e-7][row],
    });
    Layers {
        output: output.collect(),
        first: first_rows,
        levels: weights(level_count(grid)),
        hidden,
    }
}
