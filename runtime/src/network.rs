//! The network: per-axis features, integer layers, log time and log power out.
//!
//! **Layer 1 is a sum of table rows.** Every input feature depends on one axis only, so
//! the product of the first layer's weights with a mode's features is a sum of four
//! rows, one for each axis value. The rows are computed once (60 on the largest board)
//! and each mode costs one addition a unit.
//!
//! **Integers from there on.** Rows are i16, weights i8, sums i32. Integer sums do not
//! depend on the order of their terms, so every target and every compiler gives the
//! same bits, with or without a floating-point unit. The bounds leave no overflow: a row
//! lies within ±8,191, so four add up to at most 32,764; at most 256 inputs of at most
//! 32,767 × 127 and a bias within ±2³⁰ stay below 2³¹.
//!
//! The output is the logarithm of time and power in units that the file states. Modes
//! are compared by these integers; only the points of a front are converted.

use heapless::Vec;
use nalgebra::{SMatrix, SVector};

use crate::format::Model;
use crate::grid::{Axis, Grid, MAX_AXIS_VALUES, ModeId};
use crate::region::Region;
use crate::shape::Widths;

/// Features of each axis: logarithm, inverse and value of the knob.
pub const FEATURES: usize = 3;

/// Inputs of the first layer: [`FEATURES`] for each axis, in the order of the axes.
pub const INPUTS: usize = FEATURES * Axis::ALL.len();

/// A row of the first layer's tables lies within ± this value.
pub const ROW_LIMIT: i16 = 8_191;

/// The bias of a later layer lies within ± this value.
pub const BIAS_LIMIT: i32 = 1 << 30;

/// The units of a first-layer row scale: 1/256 of a row's unit for each weight unit.
pub const ROW_SCALE_ONE: f32 = 256.0;

/// What the network says of one mode: logarithms as integers in the file's units, to be
/// compared as they are and converted by [`Model::time`] and [`Model::power`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prediction {
    /// Logarithm of the time.
    pub log_time: i32,
    /// Logarithm of the power; 0 for a model without power.
    pub log_power: i32,
}

/// The features of one axis value: ln v, −1/v and v, each scaled to −1 … 1 over the axis
/// (from `first` to `last`) and rising with v. Zero on an axis with one value.
pub fn features(value: u32, first: u32, last: u32) -> [f32; FEATURES] {
    if first >= last {
        return [0.0; FEATURES];
    }
    // Ratios to the first value keep every term near one, where f32 is exact enough.
    let ratio = |v: u32| v as f32 / first as f32;
    let (v, top) = (ratio(value), ratio(last));
    let scaled = |part: f32, whole: f32| 2.0 * (part / whole) - 1.0;
    [
        scaled(libm::logf(v), libm::logf(top)),
        scaled(1.0 - 1.0 / v, 1.0 - 1.0 / top),
        scaled(v - 1.0, top - 1.0),
    ]
}

/// A network whose first layer has `H` units and is followed by `L`, with its tables for
/// a grid of at most `ROWS` axis values.
///
/// [`Model::sweep`] chooses it by the file's shape. A target that knows its shape names it
/// here instead, and carries no code for the others.
#[derive(Clone, Debug)]
pub struct Network<L, const H: usize, const ROWS: usize = MAX_AXIS_VALUES> {
    rows: Vec<SVector<i16, H>, ROWS>,
    layers: L,
}

impl<L: Layers<H>, const H: usize, const ROWS: usize> Network<L, H, ROWS> {
    /// The widths of the hidden layers.
    pub const WIDTHS: Widths = {
        let [second, third] = L::WIDTHS;
        Widths([H as u16, second, third])
    };

    /// The model's network; `None` where its shape is another one, or where its grid has
    /// more than `ROWS` axis values.
    pub fn of(model: &Model<'_>) -> Option<Self> {
        if model.shape().widths() != Self::WIDTHS {
            return None;
        }
        let mut cursor = Cursor(model.layers());
        let first = First::<H>::read(&mut cursor)?;
        let layers = L::read(&mut cursor, model.outputs())?;
        let mut rows = Vec::new();
        for axis in Axis::ALL {
            let values = model.grid().axis(axis);
            let (lowest, highest) = (*values.first()?, *values.last()?);
            for &value in values {
                let row = first.row(axis, features(value, lowest, highest));
                rows.push(row).ok()?;
            }
        }
        Some(Self { rows, layers })
    }

    /// Builds a model's network and sweeps a region with it. A function of its own for each
    /// shape, so that only the large one needs the stack of the large one.
    #[inline(never)]
    pub(crate) fn sweep_once(
        model: &Model<'_>,
        region: &Region,
        visit: impl FnMut(ModeId, Prediction),
    ) {
        if let Some(network) = Self::of(model) {
            network.sweep(model.grid(), region, visit);
        }
    }

    /// Visits every mode of a region by ascending id. `grid` is the model's.
    pub fn sweep(&self, grid: &Grid, region: &Region, mut visit: impl FnMut(ModeId, Prediction)) {
        let [cores, cpu, gpu, emc] = Axis::ALL.map(|axis| self.rows(grid, region, axis));
        for (core_id, core_row) in cores {
            for (cpu_id, cpu_row) in cpu.clone() {
                let (cpu_id, outer) = (core_id + cpu_id, core_row + cpu_row);
                for (gpu_id, gpu_row) in gpu.clone() {
                    let (gpu_id, outer) = (cpu_id + gpu_id, outer + gpu_row);
                    for (emc_id, emc_row) in emc.clone() {
                        let units = (outer + emc_row).map(|unit| unit.max(0));
                        visit(ModeId(gpu_id + emc_id), self.layers.forward(&units));
                    }
                }
            }
        }
    }

    /// The table rows of an axis inside a region, each with its share of a mode's id.
    fn rows(
        &self,
        grid: &Grid,
        region: &Region,
        axis: Axis,
    ) -> impl Iterator<Item = (u16, &SVector<i16, H>)> + Clone {
        let length = |axis: &Axis| grid.axis(*axis).len();
        let (before, rest) = Axis::ALL.split_at(axis as usize);
        let start: usize = before.iter().map(length).sum();
        let stride: usize = rest.iter().skip(1).map(length).product();
        let range = region.range(axis);
        self.rows
            .iter()
            .skip(start)
            .take(length(&axis))
            .enumerate()
            .take(range.end().saturating_add(1))
            .skip(*range.start())
            .map(move |(index, row)| ((index * stride) as u16, row))
    }
}

/// The layers after the first one.
pub trait Layers<const IN: usize>: Sized {
    /// The widths of the hidden layers among them; 0 = no such layer.
    const WIDTHS: [u16; 2];

    /// Takes the layers from their rows in a file; `None` where the rows end early.
    fn read(cursor: &mut Cursor<'_>, outputs: u8) -> Option<Self>;

    /// The prediction for non-negative activations.
    fn forward(&self, inputs: &SVector<i16, IN>) -> Prediction;
}

/// A hidden layer with the layers after it.
#[derive(Clone, Debug)]
pub struct Hidden<const IN: usize, const OUT: usize, L> {
    /// Column j holds the weights of unit j, so that a unit's weights are contiguous.
    weights: SMatrix<i16, IN, OUT>,
    biases: SVector<i32, OUT>,
    shifts: SVector<u8, OUT>,
    next: L,
}

impl<const IN: usize, const OUT: usize, L: Layers<OUT>> Layers<IN> for Hidden<IN, OUT, L> {
    const WIDTHS: [u16; 2] = {
        let [next, _] = L::WIDTHS;
        [OUT as u16, next]
    };

    fn read(cursor: &mut Cursor<'_>, outputs: u8) -> Option<Self> {
        let mut weights = SMatrix::<i16, IN, OUT>::zeros();
        let mut biases = SVector::<i32, OUT>::zeros();
        let mut shifts = SVector::<u8, OUT>::zeros();
        let units = weights.data.0.iter_mut().zip(biases.iter_mut());
        for ((weights, bias), shift) in units.zip(shifts.iter_mut()) {
            *weights = cursor.weights()?;
            *bias = i32::from_le_bytes(cursor.take()?);
            [*shift] = cursor.take()?;
        }
        let next = L::read(cursor, outputs)?;
        Some(Self {
            weights,
            biases,
            shifts,
            next,
        })
    }

    fn forward(&self, inputs: &SVector<i16, IN>) -> Prediction {
        let mut units = SVector::<i16, OUT>::zeros();
        let rows = self.weights.data.0.iter().zip(&self.biases);
        for ((unit, (weights, bias)), shift) in units.iter_mut().zip(rows).zip(&self.shifts) {
            let sum = (bias + dot(weights, inputs)) >> u32::from(*shift);
            *unit = sum.clamp(0, i32::from(i16::MAX)) as i16;
        }
        self.next.forward(&units)
    }
}

/// The output layer: log time, and log power where the model has it.
#[derive(Clone, Debug)]
pub struct Output<const IN: usize> {
    weights: SMatrix<i16, IN, 2>,
    biases: SVector<i32, 2>,
}

impl<const IN: usize> Layers<IN> for Output<IN> {
    const WIDTHS: [u16; 2] = [0, 0];

    fn read(cursor: &mut Cursor<'_>, outputs: u8) -> Option<Self> {
        let mut weights = SMatrix::<i16, IN, 2>::zeros();
        let mut biases = SVector::<i32, 2>::zeros();
        let units = weights.data.0.iter_mut().zip(biases.iter_mut());
        for (weights, bias) in units.take(usize::from(outputs)) {
            *weights = cursor.weights()?;
            *bias = i32::from_le_bytes(cursor.take()?);
            // The row's scale, which only conversions need.
            let [_, _, _, _] = cursor.take()?;
        }
        Some(Self { weights, biases })
    }

    fn forward(&self, inputs: &SVector<i16, IN>) -> Prediction {
        let [time, power] = &self.weights.data.0;
        let [[time_bias, power_bias]] = self.biases.data.0;
        Prediction {
            log_time: time_bias + dot(time, inputs),
            log_power: power_bias + dot(power, inputs),
        }
    }
}

fn dot<const N: usize>(weights: &[i16; N], inputs: &SVector<i16, N>) -> i32 {
    let [inputs] = &inputs.data.0;
    let products = weights.iter().zip(inputs);
    products
        .map(|(&weight, &input)| i32::from(weight) * i32::from(input))
        .sum()
}

/// The first layer as it stands in a file.
struct First<const H: usize>([Unit; H]);

#[derive(Clone, Copy)]
struct Unit {
    weights: [[i8; FEATURES]; Axis::ALL.len()],
    scale: u16,
    bias: i16,
}

impl<const H: usize> First<H> {
    fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        let nothing = Unit {
            weights: [[0; FEATURES]; Axis::ALL.len()],
            scale: 0,
            bias: 0,
        };
        let mut units = [nothing; H];
        for unit in &mut units {
            for weights in &mut unit.weights {
                *weights = cursor.take()?.map(u8::cast_signed);
            }
            unit.scale = u16::from_le_bytes(cursor.take()?);
            unit.bias = i16::from_le_bytes(cursor.take()?);
        }
        Some(Self(units))
    }

    /// The table row of one axis value. The bias goes with the first axis.
    fn row(&self, axis: Axis, features: [f32; FEATURES]) -> SVector<i16, H> {
        let mut row = SVector::<i16, H>::zeros();
        for (entry, unit) in row.iter_mut().zip(&self.0) {
            let [a, b, c] = features;
            let [wa, wb, wc] = unit
                .weights
                .get(axis as usize)
                .map_or([0.0; FEATURES], |weights| weights.map(f32::from));
            let sum = (wa * a + wb * b + wc * c) * (f32::from(unit.scale) / ROW_SCALE_ONE);
            let bias = if axis == Axis::Cores { unit.bias } else { 0 };
            let limit = f32::from(ROW_LIMIT);
            *entry = libm::roundf(sum + f32::from(bias)).clamp(-limit, limit) as i16;
        }
        row
    }
}

/// Takes the rows of a file's layers one after the other.
#[derive(Debug)]
pub struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn weights<const N: usize>(&mut self) -> Option<[i16; N]> {
        Some(self.take()?.map(|weight| i16::from(weight.cast_signed())))
    }
}
