//! Models made of random numbers, written by the trainer's writer.

use proptest::prelude::*;
use wattgate_runtime::{
    FEATURES, Grid, GuardBand, Kind, Knot, Provenance, ROW_LIMIT, Region, Shape, Widths,
};

#[path = "../../../trainer/src/wgt.rs"]
pub mod wgt;
use wgt::{FirstRow, HiddenRow, Layers, ModelFile, OutputRow};

/// A small generator for weights: a failing case is reproduced from its seed.
pub struct Random(pub u64);

impl Random {
    /// SplitMix64 (Steele, Lea and Flood 2014).
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in −most … most.
    pub fn within(&mut self, most: i64) -> i64 {
        (self.next() % (2 * most as u64 + 1)) as i64 - most
    }

    fn weight(&mut self) -> i8 {
        self.within(127) as i8
    }
}

/// Layers of a shape with random weights over the full range of each field.
pub fn layers(shape: Shape, outputs: usize, random: &mut Random) -> Layers {
    let Widths([first, later @ ..]) = shape.widths();
    let first_rows = (0..first).map(|_| FirstRow {
        weights: std::array::from_fn(|_| random.weight()),
        // The sum of three features reaches the row limit at most.
        scale: (random.next() % (256 * ROW_LIMIT as u64 / (FEATURES as u64 * 127))) as u16,
        bias: random.within(i64::from(ROW_LIMIT) / 2) as i16,
    });
    let first_rows = first_rows.collect();
    let mut inputs = first;
    let mut hidden = Vec::new();
    for width in later.into_iter().filter(|&width| width > 0) {
        let row = |random: &mut Random| HiddenRow {
            weights: (0..inputs).map(|_| random.weight()).collect(),
            bias: random.within(1 << 18) as i32,
            shift: 6 + (random.next() % 4) as u8,
        };
        hidden.push((0..width).map(|_| row(random)).collect());
        inputs = width;
    }
    let output = (0..outputs).map(|_| OutputRow {
        weights: (0..inputs).map(|_| random.weight()).collect(),
        // ln of some seconds in µs, or of some watts in mW.
        bias: 14_000_000 + random.within(4_000_000) as i32,
        scale: 1e-6 / f32::from(1 + inputs / 16),
    });
    let output = output.collect();
    Layers {
        first: first_rows,
        hidden,
        output,
    }
}

pub fn guard(median: u32) -> GuardBand {
    let knot = |per_ten_thousand, q16| Knot { per_ten_thousand, q16 };
    GuardBand::new([knot(5_000, median), knot(9_500, median + 4_000), knot(9_900, median + 9_000)])
        .expect("ascending")
}

/// The bytes of a model of random layers on a grid.
pub fn model_bytes(grid: &Grid, shape: Shape, has_power: bool, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let layers = layers(shape, 1 + usize::from(has_power), &mut random);
    let power_guard = guard(66_000);
    ModelFile {
        layers: &layers,
        grid,
        profiled: Region::all(grid),
        time_guard: &guard(65_536),
        power_guard: has_power.then_some(&power_guard),
        provenance: Provenance {
            kind: Kind::Simulated,
            device: "board",
            workload: "random-weights",
            minibatch: Some(16),
            seed,
            modes_used: 50,
            modes_held_out: 0,
            time_error: Some(123),
            power_error: has_power.then_some(456),
        },
    }
    .encode()
}

/// Grids of 1 … some hundred modes, with axes of length one among them.
pub fn grids() -> impl Strategy<Value = Grid> {
    let axis = |most: u32, length: usize| {
        proptest::collection::btree_set(1..most, 1..length)
            .prop_map(|values| values.into_iter().collect::<Vec<u32>>())
    };
    (axis(17, 5), axis(3_000_000, 8), axis(1_500_000, 7), axis(4_000_000, 5)).prop_map(
        |(cores, cpu, gpu, emc)| Grid::new([&cores, &cpu, &gpu, &emc]).expect("sorted and short"),
    )
}

pub fn small_shapes() -> impl Strategy<Value = Shape> {
    proptest::sample::select(vec![Shape::Wide16, Shape::Wide32, Shape::Deep8x8, Shape::Deep16x16])
}
