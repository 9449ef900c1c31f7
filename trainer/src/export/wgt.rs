//! The writer of `.wgt` model files, the counterpart of the runtime's reader.
//!
//! `weights/FORMAT.md` specifies the layout. The writer validates nothing: callers read the file
//! back through the runtime.

use wattgate_runtime::fleet::{LEVEL_RESOLUTION, TILT_RESOLUTION, UnitId};
use wattgate_runtime::format::{
    Body, Crc32, FEATURE_MAP, HEADER_LEN, MAGIC, MEASURED_LEN, Provenance, VERSION,
};
use wattgate_runtime::grid::Grid;
use wattgate_runtime::guard::{GuardBand, Knot, TimeSpread};
use wattgate_runtime::idle::Idle;
use wattgate_runtime::model::Prediction;
use wattgate_runtime::quantities::Factor;
use wattgate_runtime::shape::{CURVES, INPUTS, Widths};
use wattgate_runtime::{ModeId, Region};

/// One unit of the first layer.
#[derive(Clone, Debug, PartialEq)]
pub struct FirstRow {
    /// Weights of the features, in the order of the axes, then of the levels of CPU and GPU clocks.
    pub weights: [i8; INPUTS],
    /// Row units per 256 weight units.
    pub scale: u16,
    /// Bias in row units.
    pub bias: i16,
}

/// One unit of a later hidden layer.
#[derive(Clone, Debug, PartialEq)]
pub struct HiddenRow {
    /// Weights of the previous layer's units.
    pub weights: Vec<i8>,
    /// Bias in units of the sum.
    pub bias: i32,
    /// Right shift of the sum, in bits.
    pub shift: u8,
}

/// One output.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputRow {
    /// Weights of the last hidden layer's units.
    pub weights: Vec<i8>,
    /// Bias in units of the sum.
    pub bias: i32,
    /// ln units per unit of the sum.
    pub scale: f32,
}

/// A quantised network.
#[derive(Clone, Debug, PartialEq)]
pub struct Layers {
    /// Rows of the first hidden layer.
    pub first: Vec<FirstRow>,
    /// Levels of the CPU clocks, then of the GPU clocks, −127 … 127.
    pub levels: Vec<i8>,
    /// Rows of up to two further hidden layers.
    pub hidden: Vec<Vec<HiddenRow>>,
    /// Rows of the outputs: log time, log power if the model has one, then the power's spread if it
    /// has one.
    pub output: Vec<OutputRow>,
}

impl Layers {
    /// The widths of the hidden layers.
    pub fn widths(&self) -> Widths {
        let hidden = self.hidden.iter().map(Vec::len);
        let mut widths = [0; 3];
        for (width, len) in widths
            .iter_mut()
            .zip([self.first.len()].into_iter().chain(hidden))
        {
            *width = len as u16;
        }
        Widths(widths)
    }

    /// The levels, then the weights of those of each axis.
    fn level_bytes(&self) -> Vec<u8> {
        let weights = (CURVES..INPUTS).flat_map(|input| {
            let of_unit = move |row: &FirstRow| row.weights[input];
            self.first.iter().map(of_unit)
        });
        let all = self.levels.iter().copied().chain(weights);
        all.map(i8::cast_unsigned).collect()
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let weights = |bytes: &mut Vec<u8>, weights: &[i8]| {
            bytes.extend(weights.iter().map(|weight| weight.cast_unsigned()));
        };
        for row in &self.first {
            weights(&mut bytes, &row.weights[..CURVES]);
            bytes.extend(row.scale.to_le_bytes());
            bytes.extend(row.bias.to_le_bytes());
        }
        for row in self.hidden.iter().flatten() {
            weights(&mut bytes, &row.weights);
            bytes.extend(row.bias.to_le_bytes());
            bytes.push(row.shift);
        }
        for row in &self.output {
            weights(&mut bytes, &row.weights);
            bytes.extend(row.bias.to_le_bytes());
            bytes.extend(row.scale.to_le_bytes());
        }
        bytes
    }
}

/// What a file states of the standard deviations, beside the network's third output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spreads {
    /// The least spread of the power, in units of the third output.
    pub least: u16,
    /// The spread of the time.
    pub time: TimeSpread,
}

/// The contents of a model file.
#[derive(Clone, Debug)]
pub struct ModelFile<'a> {
    /// The quantised network.
    pub layers: &'a Layers,
    /// The grid of the board's modes.
    pub grid: &'a Grid,
    /// The smallest region that contains all training modes.
    pub profiled: Region,
    /// Guard band of the time.
    pub time_guard: &'a GuardBand,
    /// Guard band of the power, of deviations if the network has three outputs; present if and only
    /// if it has more than one.
    pub power_guard: Option<&'a GuardBand>,
    /// The spreads, 0 without a third output.
    pub spreads: Spreads,
    /// The measured modes, by ascending id.
    pub measured: &'a [(ModeId, Prediction)],
    /// Provenance of the model.
    pub provenance: Provenance<'a>,
    /// The TPCs of the GPU that were gated on the board, if known.
    pub tpc_pg_mask: Option<u32>,
    /// At most [`MOST_UNITS`](wattgate_runtime::fleet::MOST_UNITS) units that were profiled: levels of time and power, tilt of the
    /// power.
    pub units: &'a [(UnitId, [f64; 3])],
    /// The power in mW at which a unit's tilt changes nothing.
    pub reference_mw: f64,
    /// By how much the guarded time and power of other units exceed, for each knot of the guard bands.
    pub others: &'a [Vec<Knot>; 2],
    /// What the board draws while the workload waits; [`Idle::NONE`] if that is not known.
    pub idle: Idle,
}

impl ModelFile<'_> {
    /// Encodes the file.
    pub fn encode(&self) -> Vec<u8> {
        let layers = self.layers.to_bytes();
        let levels = self.layers.level_bytes();
        let measured: Vec<u8> = self.measured.iter().flat_map(measured_bytes).collect();
        let knots = |guard: &GuardBand| guard.knots().iter().copied().collect();
        let units = unit_bytes(self.units);
        let [others_time, others_power] = self.others.each_ref().map(|band| {
            let above = |knot: &Knot| knot.q16 - Factor::ONE.q16();
            band.iter().map(above).collect()
        });
        let body = Body {
            axes: self.grid.axes().clone(),
            profiled: self.profiled,
            layers: &layers,
            levels: &levels,
            time_guard: knots(self.time_guard),
            power_guard: self.power_guard.map(knots).unwrap_or_default(),
            least_spread: self.spreads.least,
            time_spread: self.spreads.time,
            measured: &measured,
            provenance: self.provenance,
            tpc_pg_mask: self.tpc_pg_mask,
            units: &units,
            reference_power: (self.reference_mw.round() as u32).max(1),
            others_time,
            others_power,
            idle: (self.idle.base.0, self.idle.share),
        };
        // All other fields together fit 2048 bytes: the runtime's capacities bound them.
        let names = self.provenance.device.len() + self.provenance.workload.len();
        let mut buffer = vec![0; layers.len() + levels.len() + names + 2048];
        let body = postcard::to_slice(&body, &mut buffer).expect("the buffer holds every body");

        let mut bytes = Vec::with_capacity(HEADER_LEN + body.len());
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.push(self.layers.output.len() as u8);
        bytes.push(FEATURE_MAP);
        for width in self.layers.widths().0 {
            bytes.extend(width.to_le_bytes());
        }
        bytes.extend([0, 0]);
        bytes.extend(self.grid.hash().to_le_bytes());
        bytes.extend((body.len() as u32).to_le_bytes());
        let checksum = Crc32::new().update(&bytes).update(body).finish();
        bytes.extend(checksum.to_le_bytes());
        bytes.extend_from_slice(body);
        bytes
    }
}

/// Units, by ascending id.
fn unit_bytes(units: &[(UnitId, [f64; 3])]) -> Vec<u8> {
    let mut sorted = units.to_vec();
    sorted.sort_by_key(|(id, _)| *id);
    let bytes = |(id, [time, power, tilt]): (UnitId, [f64; 3])| -> Vec<u8> {
        // Rounded up: rather too much power or time.
        let level =
            |value: f64| ((value / f64::from(LEVEL_RESOLUTION)).ceil() as i16).to_le_bytes();
        let tilt = (tilt / f64::from(TILT_RESOLUTION)).round() as i8;
        [
            &id.0.to_le_bytes()[..],
            &level(time),
            &level(power),
            &tilt.to_le_bytes(),
        ]
        .concat()
    };
    sorted.into_iter().flat_map(bytes).collect()
}

fn measured_bytes((mode, at): &(ModeId, Prediction)) -> [u8; MEASURED_LEN] {
    let [m0, m1] = mode.0.to_le_bytes();
    let [t0, t1, t2, t3] = at.log_time.to_le_bytes();
    let [p0, p1, p2, p3] = at.log_power.to_le_bytes();
    let [s0, s1] = (at.spread as u16).to_le_bytes();
    [m0, m1, t0, t1, t2, t3, p0, p1, p2, p3, s0, s1]
}
