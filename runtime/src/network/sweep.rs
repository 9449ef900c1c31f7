//! The sweep: predicts every mode of a region, as [`network`](crate::network) describes.

use core::mem;
use core::slice::{ChunksExact, ChunksExactMut};

use super::dense::{Dense, HEAD, activate, add_rows, write_neurons};
use super::output::{OutputLayer, Outputs, output_pairs};
use super::parts::{Parts, WorkspaceTooSmall, workspace_pairs};
use super::rows::{AxisInputs, TOGETHER, write_rows};
use crate::grid::{Axis, Grid, ModeId};
use crate::guard::{SpreadScale, Widening};
use crate::lanes::{BATCH, LANES, Native, Pair, Tile, VECTORS};
use crate::measured::Measured;
use crate::model::Model;
use crate::prediction::Prediction;
use crate::region::Region;
use crate::shape::{OUTPUTS, Widths};

/// The axes whose table rows are stored. The rows of the GPU's axis are recomputed for each batch:
/// that costs little time and saves much memory.
const ROW_AXES: [Axis; 3] = [Axis::Cores, Axis::Cpu, Axis::Emc];

pub fn row_values(grid: &Grid) -> usize {
    ROW_AXES.iter().map(|axis| grid.axis(*axis).len()).sum()
}

/// A model's network, ready to predict.
#[derive(Debug)]
pub struct Network<'a> {
    model: &'a Model<'a>,
    /// Tiles of a batch, vector after vector: the part of layer 1 from GPU and memory clocks.
    tiles: &'a mut [Tile],
    /// Scratch: the rows of GPU clocks while tiles are written, then the sum of the rows of CPU
    /// clock and cores.
    sums: &'a mut [Pair],
    /// The activations of the hidden layers, if there are several.
    neurons: &'a mut [Tile],
    /// The table rows of [`ROW_AXES`], axis after axis.
    rows: &'a [Pair],
    /// The neurons of all layers after the first, in [`Dense`] format.
    layers: &'a [Pair],
}

/// Neighbouring modes with their predictions.
pub(crate) struct Batch<'a> {
    /// The id of a mode is `outer` plus its entry of `inner`.
    outer: u16,
    inner: [u16; BATCH],
    /// Number of valid modes; the places beyond are ignored.
    len: usize,
    spread_scale: SpreadScale,
    measured: Measured<'a>,
    /// Number of modes with one CPU clock and number of cores.
    span: u16,
    /// [`bit_of`] the `outer` of each measured mode with a clock of the tiles.
    outers: u32,
    has_measured: bool,
    outputs: [Outputs; VECTORS],
}

impl Batch<'_> {
    /// For each vector, the logarithms of its modes' times and of their powers with a margin, by the
    /// network.
    #[inline(always)]
    pub fn counts(&self, margin: Widening) -> impl Iterator<Item = [[i32; LANES]; 2]> {
        self.outputs.iter().map(move |[times, powers, spreads]| {
            let mut counts = *powers;
            for (power, sum) in counts.iter_mut().zip(spreads) {
                *power = margin.widen(*power, self.spread_scale.spread(*sum));
            }
            [*times, counts]
        })
    }

    /// The mode at a place, and its measurement if the file has one, else its prediction; `None` beyond
    /// the last one.
    #[inline(always)]
    pub fn mode(&self, place: usize) -> Option<(ModeId, Prediction)> {
        let (mode, at) = self.predicted(place)?;
        match self.has_measured() {
            true => Some((mode, self.measured.get(mode).unwrap_or(at))),
            false => Some((mode, at)),
        }
    }

    /// Whether the file may have a measurement of one of the modes. If not, it has none.
    #[inline(always)]
    pub fn has_measured(&self) -> bool {
        self.has_measured
    }

    /// Goes on to the modes of another CPU clock or number of cores.
    #[inline(always)]
    fn move_to(&mut self, outer: u16) {
        self.outer = outer;
        self.has_measured = self.outers & bit_of(outer) > 0 && self.knows_some();
    }

    /// Notes where the measured modes with a clock of the tiles are.
    #[inline(never)]
    fn find_outers(&mut self) {
        let ends = (self.inner.first(), self.inner.get(self.len.wrapping_sub(1)));
        if let (Some(first), Some(last)) = ends {
            let (inner, span) = (first..=last, self.span.max(1));
            self.outers = self.measured.iter().fold(0, |outers, (mode, _)| {
                let at = mode.0 % span;
                match inner.contains(&&at) {
                    true => outers | bit_of(mode.0 - at),
                    false => outers,
                }
            });
        }
    }

    /// Whether a measured mode has this CPU clock and number of cores.
    #[inline(never)]
    fn knows_some(&self) -> bool {
        let mut modes = self.measured.iter();
        modes.any(|(mode, _)| mode.0.wrapping_sub(self.outer) < self.span)
    }

    #[inline(always)]
    fn predicted(&self, place: usize) -> Option<(ModeId, Prediction)> {
        let [times, powers, spreads] = self.outputs.get(place / LANES)?;
        let at = Prediction {
            log_time: *times.get(place % LANES)?,
            log_power: *powers.get(place % LANES)?,
            spread: self.spread_scale.spread(*spreads.get(place % LANES)?),
        };
        let inner = self.inner.get(place).filter(|_| place < self.len)?;
        Some((ModeId(self.outer + inner), at))
    }
}

impl<'a> Network<'a> {
    #[inline(never)]
    pub(super) fn new(
        model: &'a Model<'_>,
        memory: &'a mut [Pair],
    ) -> Result<Self, WorkspaceTooSmall> {
        let values = row_values(model.grid());
        let needed = workspace_pairs(model.shape(), values);
        let parts = Parts::new(model.shape().widths(), values);
        let build = |mut memory| {
            // Unused places of a batch take part in additions, and must not overflow.
            let tiles = take(&mut memory, parts.tiles * LANES)?;
            tiles.fill(Pair::zeros());
            let (tiles, _) = tiles.as_chunks_mut();
            let (neurons, _) = take(&mut memory, parts.neurons * LANES)?.as_chunks_mut();
            let sums = take(&mut memory, parts.sums)?;
            let rows = take(&mut memory, parts.rows)?;
            let layers = take(&mut memory, parts.layers)?;
            write_tables(rows, model);
            write_layers(layers, model);
            Some(Self {
                model,
                tiles,
                sums,
                neurons,
                rows,
                layers,
            })
        };
        build(memory).ok_or(WorkspaceTooSmall { needed })
    }

    /// The model.
    pub fn model(&self) -> &'a Model<'a> {
        self.model
    }

    /// Visits every mode of a region once, in an unspecified order. A region of another grid than
    /// the model's has no modes.
    pub fn sweep(&mut self, region: &Region, mut visit: impl FnMut(ModeId, Prediction)) {
        self.batches(region, |batch| {
            for place in 0..BATCH {
                if let Some((mode, at)) = batch.mode(place) {
                    visit(mode, at);
                }
            }
        });
    }

    #[inline(always)]
    pub(crate) fn batches(&mut self, region: &Region, mut visit: impl FnMut(&Batch<'_>)) {
        let Some(layers) = Layers::new(self.model.shape().widths(), self.layers) else {
            return;
        };
        // The indices of a foreign region may lie beyond the axes.
        if !self.model.has_region(region) {
            return;
        }
        let pairs = self.tiles.len() / VECTORS;
        let [cores, cpu, emc] = self.rows_of(region);
        let mut clocks = Clocks::new(self.model, region, emc);
        let spread_scale = self.model.spread_scale();
        let measured = self.model.measured;
        let [_, _, gpu, emc] = Axis::ALL.map(|axis| self.model.grid().axis(axis).len());
        let span = (gpu * emc) as u16;
        while let Some((inner, len)) = self.next_tiles(&mut clocks) {
            let Self {
                tiles,
                sums,
                neurons,
                ..
            } = self;
            let mut batch = Batch {
                outer: 0,
                inner,
                len,
                spread_scale,
                measured,
                span,
                outers: 0,
                has_measured: false,
                outputs: [[[0; LANES]; OUTPUTS]; VECTORS],
            };
            batch.find_outers();
            for index in coarse_first(cpu.len()) {
                let Some((cpu, cpu_row)) = cpu.row(index) else {
                    break;
                };
                // The id after the last row may overflow, and is not used.
                batch.move_to(cpu + cores.first);
                let mut rows = chunks(cores.rows, pairs);
                while let Some(row) = rows.next() {
                    // Two rows share the loaded values, if the registers suffice.
                    if VECTORS == 1
                        && layers.hidden.is_empty()
                        && let Some(next) = rows.next()
                    {
                        let rows = [row, next];
                        for outputs in layers.output.of_rows::<Native>(tiles, cpu_row, rows) {
                            batch.outputs = [outputs; VECTORS];
                            visit(&batch);
                            batch.move_to(batch.outer.wrapping_add(cores.stride));
                        }
                        continue;
                    }
                    let (sum, _) = sums.split_at_mut_checked(pairs).unwrap_or_default();
                    add_rows::<Native>(sum, row, cpu_row);
                    layers.forward(tiles, sum, neurons, &mut batch.outputs);
                    visit(&batch);
                    batch.move_to(batch.outer.wrapping_add(cores.stride));
                }
            }
        }
    }

    /// The stored rows inside a region, for each axis of [`ROW_AXES`].
    fn rows_of(&self, region: &Region) -> [Rows<'a>; 3] {
        let pairs = self.tiles.len() / VECTORS;
        let [cores, cpu, gpu, emc] = Axis::ALL.map(|axis| self.model.grid().axis(axis).len());
        let (cores_rows, rows) = split(self.rows, cores * pairs);
        let (cpu_rows, emc_rows) = split(rows, cpu * pairs);
        [
            (Axis::Cores, cores_rows, cpu * gpu * emc),
            (Axis::Cpu, cpu_rows, gpu * emc),
            (Axis::Emc, emc_rows, 1),
        ]
        .map(|(axis, rows, stride)| {
            let range = region.range(axis);
            let (rows, _) = split(rows, (range.end() + 1) * pairs);
            let (_, rows) = split(rows, range.start() * pairs);
            Rows {
                rows,
                pairs,
                first: (range.start() * stride) as u16,
                stride: stride as u16,
            }
        })
    }

    /// Writes the tiles of the next batch. Returns the id offsets of its modes and their number;
    /// `None` after the last batch.
    #[inline(never)]
    fn next_tiles(&mut self, clocks: &mut Clocks<'_>) -> Option<([u16; BATCH], usize)> {
        let pairs = self.tiles.len() / VECTORS;
        let (mut ids, mut len) = ([0; BATCH], 0);
        let mut window = 0..0;
        for (place, id) in ids.iter_mut().enumerate() {
            let Some((gpu, emc)) = clocks.next() else {
                break;
            };
            if !window.contains(&gpu) {
                write_rows(self.sums, clocks.neurons, &clocks.gpu_inputs, gpu);
                window = gpu..gpu + TOGETHER;
            }
            let row = chunks(self.sums, pairs).nth(gpu - window.start)?;
            let (emc, emc_row) = clocks.emc_rows.row(emc)?;
            (*id, len) = (gpu as u16 * clocks.stride + emc, place + 1);
            let tile = chunks_mut(self.tiles, pairs).nth(place / LANES)?;
            for (modes, (pair, emc)) in tile.iter_mut().zip(row.iter().zip(emc_row)) {
                if let Some(mode) = modes.get_mut(place % LANES) {
                    *mode = pair + emc;
                }
            }
        }
        (len > 0).then_some((ids, len))
    }
}

/// Iterates over the pairs of GPU and memory clocks in a region.
struct Clocks<'a> {
    /// The next indices: of the GPU clock in the grid, and of the memory clock in the region.
    gpu: usize,
    emc: usize,
    last_gpu: usize,
    /// Id stride of a GPU clock.
    stride: u16,
    gpu_inputs: AxisInputs<'a>,
    /// The neurons of the first layer, as in the file.
    neurons: &'a [u8],
    emc_rows: Rows<'a>,
}

impl<'a> Clocks<'a> {
    fn new(model: &'a Model<'a>, region: &Region, emc_rows: Rows<'a>) -> Self {
        let grid = model.grid();
        let gpu = region.range(Axis::Gpu);
        let [(_, neurons), ..] = model.layers();
        Self {
            neurons,
            gpu: *gpu.start(),
            emc: 0,
            last_gpu: *gpu.end(),
            stride: grid.axis(Axis::Emc).len() as u16,
            gpu_inputs: AxisInputs::of_model(model, Axis::Gpu),
            emc_rows,
        }
    }

    fn next(&mut self) -> Option<(usize, usize)> {
        if self.emc == self.emc_rows.len() {
            (self.gpu, self.emc) = (self.gpu + 1, 0);
        }
        self.emc += 1;
        (self.gpu <= self.last_gpu).then_some((self.gpu, self.emc - 1))
    }
}

/// One of 32 bits for an id offset: few others have the same, so most batches need no search.
#[inline(always)]
fn bit_of(outer: u16) -> u32 {
    // Knuth's multiplicative hash: 2¹⁶ over the golden ratio.
    1 << (outer.wrapping_mul(40_503) >> 11)
}

/// The numbers 0 … count − 1 in bit-reversed order (van der Corput): distant ones first. A front
/// that starts with modes from everywhere rejects most later ones at once.
fn coarse_first(count: usize) -> impl Iterator<Item = usize> {
    let bits = count.next_power_of_two().trailing_zeros();
    let reversed = move |index: u32| index.reverse_bits().unbounded_shr(u32::BITS - bits) as usize;
    (0..1 << bits)
        .map(reversed)
        .filter(move |index| *index < count)
}

/// The table rows of an axis inside a region.
struct Rows<'a> {
    rows: &'a [Pair],
    /// The pairs in a row.
    pairs: usize,
    /// Id offset of the first row, and the id stride from row to row.
    first: u16,
    stride: u16,
}

impl<'a> Rows<'a> {
    fn len(&self) -> usize {
        chunks(self.rows, self.pairs).len()
    }

    /// A row and its id offset.
    fn row(&self, index: usize) -> Option<(u16, &'a [Pair])> {
        let row = chunks(self.rows, self.pairs).nth(index)?;
        Some((self.first + index as u16 * self.stride, row))
    }
}

/// The layers after the first one.
#[derive(Debug)]
struct Layers<'a> {
    /// [`Dense`] neurons of the hidden layers, layer after layer.
    hidden: &'a [Pair],
    widths: [u16; 2],
    output: OutputLayer<'a>,
}

impl<'a> Layers<'a> {
    fn new(widths: Widths, pairs: &'a [Pair]) -> Option<Self> {
        let Widths([first, later @ ..]) = widths;
        let last = later.into_iter().rfind(|&width| width > 0).unwrap_or(first);
        let output = output_pairs(usize::from(last));
        let (hidden, output) = pairs.split_at_checked(pairs.len().checked_sub(output)?)?;
        Some(Self {
            hidden,
            widths: later,
            output: OutputLayer::read(output)?,
        })
    }

    /// The outputs for tiles, each plus the row.
    #[inline(never)]
    fn forward(
        &self,
        tiles: &[Tile],
        row: &[Pair],
        neurons: &mut [Tile],
        outputs: &mut [Outputs; VECTORS],
    ) {
        for (outputs, tile) in outputs.iter_mut().zip(chunks(tiles, row.len())) {
            *outputs = if self.hidden.is_empty() {
                self.output.of_row::<Native>(tile, row)
            } else {
                self.forward_deep(tile, row, neurons)
            };
        }
    }

    #[inline(never)]
    fn forward_deep(&self, tile: &[Tile], row: &[Pair], neurons: &mut [Tile]) -> Outputs {
        let (mut inputs, mut free) = neurons.split_at_mut_checked(tile.len()).unwrap_or_default();
        activate::<Native>(tile, row, inputs);
        let mut hidden = self.hidden;
        for pairs in self.widths.map(|width| usize::from(width / 2)) {
            if pairs == 0 {
                break;
            }
            let dense = HEAD + 2 * inputs.len();
            let (outputs, rest) = free.split_at_mut_checked(pairs).unwrap_or_default();
            let (layer, next) = hidden.split_at_checked(pairs * dense).unwrap_or_default();
            for (output, dense) in outputs.iter_mut().zip(chunks(layer, dense)) {
                if let Some(dense) = Dense::read(dense) {
                    *output = dense.activations::<Native>(inputs);
                }
            }
            (inputs, free, hidden) = (outputs, rest, next);
        }
        self.output.of_neurons::<Native>(inputs)
    }
}

/// Splits at an index; all of it goes to the first part if the index is out of range.
fn split<T>(all: &[T], at: usize) -> (&[T], &[T]) {
    all.split_at_checked(at).unwrap_or((all, &[]))
}

/// Chunks of equal length. `max(1)` tells the compiler that the length is not 0.
fn chunks<T>(all: &[T], length: usize) -> ChunksExact<'_, T> {
    all.chunks_exact(length.max(1))
}

/// [`chunks`], mutable.
fn chunks_mut<T>(all: &mut [T], length: usize) -> ChunksExactMut<'_, T> {
    all.chunks_exact_mut(length.max(1))
}

/// Takes the first `length` pairs off `memory`.
fn take<'a>(memory: &mut &'a mut [Pair], length: usize) -> Option<&'a mut [Pair]> {
    let (taken, rest) = mem::take(memory).split_at_mut_checked(length)?;
    *memory = rest;
    Some(taken)
}

fn write_tables(mut rows: &mut [Pair], model: &Model<'_>) {
    let [(first, neurons), ..] = model.layers();
    for &axis in &ROW_AXES {
        let values = model.grid().axis(axis);
        if let Some(rows) = take(&mut rows, values.len() * first.width / 2) {
            write_rows(rows, neurons, &AxisInputs::of_model(model, axis), 0);
        }
    }
}

fn write_layers(mut pairs: &mut [Pair], model: &Model<'_>) {
    let [_, second, third, output] = model.layers();
    for ((layer, rows), together) in [(second, 2), (third, 2), (output, OUTPUTS)] {
        for rows in rows.chunks((together * layer.row()).max(1)) {
            let neurons = take(&mut pairs, HEAD + together * layer.inputs / 2).unwrap_or_default();
            write_neurons(neurons, rows, &layer, together);
        }
    }
}
