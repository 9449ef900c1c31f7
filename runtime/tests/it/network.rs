//! The network computes what the specification says. Here the specification is implemented without
//! tables.

use crate::common;
use nalgebra::DMatrix;
use proptest::prelude::*;
use wattgate_runtime::grid::{Axis, Grid, GridError};
use wattgate_runtime::model::Prediction;
use wattgate_runtime::network::{AxisFeatures, Workspace, workspace_pairs};
use wattgate_runtime::shape::{CURVES, Shape};
use wattgate_runtime::{ModeId, Model, PowerMode, Region};

#[cfg(feature = "large-shapes")]
use wattgate_runtime::shape::INPUTS;

use crate::common::wgt::{FirstRow, Layers};

/// `weights/FORMAT.md`, section "What the integers mean": each layer multiplies a matrix of weights
/// by a matrix with one column for each mode.
fn predictions(grid: &Grid, layers: &Layers, measured: &[common::MeasuredMode]) -> Vec<Swept> {
    let modes: Vec<PowerMode> = (0..grid.modes() as u16)
        .map(|id| grid.mode(ModeId(id)).expect("in range"))
        .collect();
    let mut neurons = DMatrix::from_fn(layers.first.len(), modes.len(), |neuron, mode| {
        first_layer(grid, layers, &layers.first[neuron], modes[mode])
    });
    for layer in &layers.hidden {
        let rows = layer.iter().map(|row| (&row.weights[..], row.bias));
        neurons = product(rows, &neurons);
        for (mut neuron, row) in neurons.row_iter_mut().zip(layer) {
            neuron.apply(|sum| *sum = (*sum >> row.shift).clamp(0, 32_767));
        }
    }
    let rows = layers.output.iter().map(|row| (&row.weights[..], row.bias));
    // A model without power has one row, and one without spreads has two.
    let outputs = product(rows, &neurons).resize_vertically(3, 0);
    let outputs = outputs.column_iter().enumerate();
    let spread = |sum: i64| match layers.output.get(2) {
        Some(row) => spread(sum, row.scale),
        None => 0,
    };
    let mut all: Vec<Swept> = outputs
        .map(|(id, output)| (ModeId(id as u16), output[0], output[1], spread(output[2])))
        .collect();
    for &(mode, at) in measured {
        all[usize::from(mode.0)] = numbers(mode, at);
    }
    all
}

/// With the largest shift up to 31 that leaves a unit below 2⁻¹⁴, and the least spread of these files.
fn spread(sum: i64, scale: f32) -> i64 {
    let unit = |shift: &i32| f64::from(scale) * f64::from(*shift).exp2();
    let shift = (0..32).rfind(|shift| unit(shift) < (-14_f64).exp2());
    (sum >> shift.unwrap_or(0)).clamp(200, 32_767)
}

/// A mode, its log time, log power and spread.
type Swept = (ModeId, i64, i64, i64);

/// weights × neurons + biases
fn product<'a>(
    rows: impl Iterator<Item = (&'a [i8], i32)>,
    neurons: &DMatrix<i64>,
) -> DMatrix<i64> {
    let (weights, biases): (Vec<&[i8]>, Vec<i32>) = rows.unzip();
    let weights = DMatrix::from_fn(weights.len(), neurons.nrows(), |row, column| {
        i64::from(weights[row][column])
    });
    let mut sums = weights * neurons;
    for (mut sum, bias) in sums.row_iter_mut().zip(biases) {
        sum.add_scalar_mut(i64::from(bias));
    }
    sums
}

/// The first layer: the sum of one table entry for each axis, rectified.
fn first_layer(grid: &Grid, layers: &Layers, row: &FirstRow, mode: PowerMode) -> i64 {
    let (of_curves, of_levels) = row.weights.split_at(CURVES);
    let (cpu, gpu) = layers.levels.split_at(grid.axis(Axis::Cpu).len());
    let axes = mode.knobs().into_iter().zip(Axis::ALL);
    let entries = axes
        .zip(of_curves.chunks(3))
        .map(|((knob, axis), weights)| {
            let values = grid.axis(axis);
            let features = AxisFeatures::new(values[0], values[values.len() - 1]).at(knob);
            let products = weights.iter().zip(features).map(|(&w, x)| f32::from(w) * x);
            let sum = products.reduce(|a, b| a + b).expect("three features");
            let at = values
                .iter()
                .position(|value| *value == knob)
                .expect("on the axis");
            let sum = sum
                + match axis {
                    Axis::Cpu => f32::from(of_levels[0]) * (f32::from(cpu[at]) / 128.0),
                    Axis::Gpu => f32::from(of_levels[1]) * (f32::from(gpu[at]) / 128.0),
                    _ => 0.0,
                };
            let bias = if axis == Axis::Cores {
                f32::from(row.bias)
            } else {
                0.0
            };
            let entry = (sum * (f32::from(row.scale) / 256.0) + bias).round_ties_even();
            entry.clamp(-8192.0, 8191.0) as i64
        });
    entries.sum::<i64>().max(0)
}

/// A grid of 16 modes.
fn small_grid() -> Grid {
    Grid::new([&[1, 2], &[100, 200], &[300, 600], &[500, 800]]).expect("a grid")
}

fn numbers(mode: ModeId, at: Prediction) -> Swept {
    let [time, power, spread] = [at.log_time, at.log_power, at.spread].map(i64::from);
    (mode, time, power, spread)
}

fn swept(model: &Model<'_>, region: &Region) -> Vec<Swept> {
    let mut modes = Vec::new();
    model.sweep(region, |mode, at| modes.push(numbers(mode, at)));
    modes.sort_unstable();
    modes
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_sweep_computes_what_the_specification_says(
        grid in common::grids(),
        shape in common::small_shapes(),
        outputs in 1..=3_usize,
        seed in any::<u64>(),
    ) {
        let mut random = common::Random(seed);
        let layers = common::random_layers(&grid, shape, outputs, &mut random);
        let measured = common::random_measured(&grid, outputs, &mut random);
        let bytes = common::encode(&grid, &layers, &measured, "random");
        let model = Model::parse(&bytes).expect("a model");
        let all = Region::all(&grid);
        prop_assert_eq!(swept(&model, &all), predictions(&grid, &layers, &measured));
        prop_assert!(model.measured().eq(measured));
        let network = model.without_measured();
        prop_assert_eq!(swept(&network, &all), predictions(&grid, &layers, &[]));
    }

    /// The sweep of a region equals the whole sweep, filtered.
    #[test]
    fn the_sweep_of_a_region_is_a_part_of_the_whole_sweep(
        grid in common::grids(),
        picks in proptest::collection::vec(any::<proptest::sample::Index>(), 1..4),
        seed in any::<u64>(),
    ) {
        let bytes = common::random_model(&grid, Shape::Wide16, 3, seed);
        let model = Model::parse(&bytes).expect("a model");
        let corners = picks.iter().map(|pick| {
            let id = pick.index(grid.modes() as usize) as u16;
            grid.mode(ModeId(id)).expect("in range").knobs()
        });
        let corners: Vec<[u32; 4]> = corners.collect();
        let region = Region::spanning(&grid, corners.iter().copied()).expect("on the axes");
        let inside = |(id, ..): &Swept| {
            let knobs = grid.mode(*id).expect("in range").knobs();
            (0..4).all(|axis| {
                let (least, most) = corners.iter().fold((u32::MAX, 0), |(least, most), corner| {
                    (least.min(corner[axis]), most.max(corner[axis]))
                });
                (least..=most).contains(&knobs[axis])
            })
        };
        let whole = swept(&model, &Region::all(&grid));
        let expected: Vec<_> = whole.into_iter().filter(inside).collect();
        prop_assert_eq!(region.modes(), expected.len());
        prop_assert_eq!(swept(&model, &region), expected);
    }

    #[test]
    fn ids_and_modes_convert_into_each_other(grid in common::grids()) {
        for id in 0..grid.modes() as u16 {
            let mode = grid.mode(ModeId(id)).expect("in range");
            prop_assert_eq!(grid.id(mode), Some(ModeId(id)));
        }
        prop_assert_eq!(grid.mode(ModeId(grid.modes() as u16)), None);
        let [mut cores, cpu, gpu, emc] = grid.mode(ModeId(0)).expect("in range").knobs();
        cores += 1_000;
        prop_assert_eq!(grid.id(PowerMode::from_knobs([cores, cpu, gpu, emc])), None);
    }

    #[test]
    fn features_rise_from_minus_one_to_one(
        axis in proptest::collection::btree_set(1..5_000_000_u32, 2..20),
    ) {
        let axis: Vec<u32> = axis.into_iter().collect();
        let (first, last) = (axis[0], axis[axis.len() - 1]);
        let scale = AxisFeatures::new(first, last);
        let all: Vec<_> = axis.iter().map(|&value| scale.at(value)).collect();
        prop_assert_eq!(all[0], [-1.0; 3]);
        prop_assert_eq!(all[all.len() - 1], [1.0; 3]);
        for pair in all.windows(2) {
            prop_assert!(pair[0].iter().zip(&pair[1]).all(|(a, b)| a <= b));
        }
    }
}

#[cfg(feature = "large-shapes")]
#[test]
fn the_large_shape_computes_what_the_specification_says() {
    let grid = Grid::new([&[1, 2], &[100, 200, 400], &[300, 600], &[500, 800]]).expect("a grid");
    let layers = common::random_layers(&grid, Shape::PowerTrain, 3, &mut common::Random(5));
    let bytes = common::encode(&grid, &layers, &[], "random");
    let model = Model::parse(&bytes).expect("a model");
    let found = swept(&model, &Region::all(&grid));
    assert_eq!(found, predictions(&grid, &layers, &[]));
}

/// Weights, inputs and biases are at the ends of their ranges.
#[cfg(feature = "large-shapes")]
#[test]
fn the_largest_sums_do_not_overflow() {
    let grid = small_grid();
    for sign in [1, -1] {
        let mut layers = common::random_layers(&grid, Shape::PowerTrain, 3, &mut common::Random(5));
        for row in &mut layers.first {
            row.weights = [127; INPUTS];
            (row.scale, row.bias) = (u16::MAX, 8191);
        }
        for row in layers.hidden.iter_mut().flatten() {
            row.weights.fill(127 * sign);
            (row.bias, row.shift) = (i32::from(sign) << 30, 0);
        }
        for row in &mut layers.output {
            row.weights.fill(127 * sign);
            row.bias = i32::from(sign) << 30;
        }
        let bytes = common::encode(&grid, &layers, &[], "extreme");
        let model = Model::parse(&bytes).expect("a model");
        let found = swept(&model, &Region::all(&grid));
        assert_eq!(found, predictions(&grid, &layers, &[]));
    }
}

/// A workspace of the stated size suffices. One pair less does not.
#[test]
fn a_workspace_that_is_too_small_is_refused() {
    let grid = small_grid();
    let bytes = common::random_model(&grid, Shape::Deep8x8, 3, 1);
    let model = Model::parse(&bytes).expect("a model");
    // Two values on each of three axes: the GPU's needs no pairs.
    const NEEDED: usize = workspace_pairs(Shape::Deep8x8, 6);
    let mut enough = Workspace::<NEEDED>::new();
    let mut modes = Vec::new();
    let mut network = enough.network(&model).expect("enough");
    network.sweep(&Region::all(&grid), |mode, at| {
        modes.push(numbers(mode, at));
    });
    modes.sort_unstable();
    assert_eq!(modes, swept(&model, &Region::all(&grid)));
    let mut less = Workspace::<{ NEEDED - 1 }>::new();
    let refused = less.network(&model).expect_err("too small");
    assert_eq!(refused.needed, NEEDED);
}

/// Indices of the other grid would be beyond the axes, and its ids beyond a u16.
#[test]
fn a_region_of_another_grid_has_no_mode() {
    let axis = |n: u32| (1..=n).collect::<Vec<u32>>();
    let small = small_grid();
    let bytes = common::random_model(&small, Shape::Wide16, 3, 1);
    let model = Model::parse(&bytes).expect("a model");
    let large = Grid::new([&axis(15), &axis(17), &axis(15), &axis(17)]).expect("a grid");
    let others = Grid::new([&[1, 2], &[100, 200], &[300, 601], &[500, 800]]).expect("a grid");
    for other in [large, others] {
        assert_eq!(swept(&model, &Region::all(&other)), []);
        let knobs = other.mode(ModeId(3)).map(PowerMode::knobs);
        let mode = Region::spanning(&other, knobs).expect("on the axes");
        assert_eq!(swept(&model, &mode), []);
    }
    let equal = small_grid();
    assert_eq!(swept(&model, &Region::all(&equal)).len(), 16);
}

#[test]
fn the_sweep_of_the_largest_grid_covers_all_modes() {
    let axis = |n: u32| (1..=n).collect::<Vec<u32>>();
    let too_many_values = Grid::new([&[1], &axis(3), &axis(85), &axis(40)]);
    assert_eq!(too_many_values, Err(GridError::TooManyValues));
    let too_many_modes = Grid::new([&axis(16), &axis(16), &axis(16), &axis(16)]);
    assert_eq!(too_many_modes, Err(GridError::TooManyModes));
    let grid = Grid::new([&axis(15), &axis(17), &axis(15), &axis(17)]).expect("a grid");
    assert_eq!(grid.modes(), 65_025);
    let bytes = common::random_model(&grid, Shape::Wide16, 3, 1);
    let model = Model::parse(&bytes).expect("a model");
    let ids = swept(&model, &Region::all(&grid));
    let ids = ids.iter().map(|(id, ..)| u32::from(id.0));
    assert!(ids.eq(0..grid.modes()));
}
