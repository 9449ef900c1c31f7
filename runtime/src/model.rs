//! A verified model: a parsed file, ready for predictions.
//!
//! A [`Model`] is always valid. Its methods cannot fail, except [provenance](Model::provenance),
//! which is decoded on demand. Its layers stay where the file lies, for instance in flash.
//!
//! ```
//! use wattgate_runtime::Model;
//! use wattgate_runtime::grid::Axis;
//!
//! # let file = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/tx1-image5000.wgt"));
//! let model = Model::parse(file)?;
//! assert_eq!(model.provenance()?.device, "tx1");
//! assert_eq!(model.grid().axis(Axis::Cores), [1, 2, 3, 4]);
//! assert!(model.has_power());
//! # Ok::<(), wattgate_runtime::FormatError>(())
//! ```

use crate::exponential::exponential;
use crate::fleet::Fleet;
use crate::format::{Fields, FormatError, Header, Provenance, SCALE_RANGE};
use crate::grid::{Axes, Axis, Grid, ModeId};
use crate::guard::{
    GuardBand, GuardError, MOST_DEVIATIONS, MOST_SPREAD, Margin, Margins, SpreadScale, TimeSpread,
    Widening, rounded_up,
};
use crate::idle::Idle;
use crate::measured::Measured;
pub use crate::prediction::Prediction;
use crate::quantities::{Confidence, Factor, Microseconds, Milliwatts};
use crate::region::Region;
use crate::shape::{BIAS_LIMIT, LEVELLED, Layer, OUTPUTS, Shape, Widths};

/// Biased exponent of 2⁻¹⁵, the least unit of a spread. A spread is 1 ln unit or more before it
/// saturates.
const SPREAD_EXPONENT: u32 = 127 - 15;

/// The fields that are decoded on demand.
struct LastFields<'a> {
    provenance: Provenance<'a>,
    tpc_pg_mask: Option<u32>,
    fleet: Fleet<'a>,
    idle: Idle,
}

/// In a model with spreads: the smallest scale of the power, and the largest scale of the spread.
/// [`MOST_DEVIATIONS`] times the largest spread is then at most 2²⁹ units of the power, so every sum
/// fits an i32.
const SPREAD_SCALES: [f32; 2] = [1.0 / (1 << 24) as f32, 1.0 / (1 << 14) as f32];

const _: () = assert!(MOST_DEVIATIONS * 2 * (1 << 24) <= 1 << 29);

/// In a model with a spread of the time: the smallest scale of the time. A spread is at most 2 ln units,
/// that of the time five times as much with the largest slope, and [`MOST_DEVIATIONS`] of it less than
/// 2²⁹ units of the time.
const TIME_SCALE: f32 = 1.0 / (1 << 21) as f32;

const _: () = assert!(MOST_DEVIATIONS as u64 * 2 * 5 * (1 << 21) <= 1 << 29);

/// A verified model: the typed view of a file.
#[derive(Clone, Debug)]
pub struct Model<'a> {
    header: Header,
    grid: Grid,
    profiled: Region,
    layers: &'a [u8],
    levels: &'a [u8],
    scales: [f32; OUTPUTS],
    time_guard: GuardBand,
    power_guard: GuardBand,
    spread_scale: SpreadScale,
    time_spread: TimeSpread,
    pub(crate) measured: Measured<'a>,
    provenance: &'a [u8],
}

impl<'a> Model<'a> {
    /// Verifies a whole file. `bytes` is the file and nothing else.
    // Never inlined, so that its stack frame is not live while a caller sweeps.
    #[inline(never)]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, FormatError> {
        let mut model = Self {
            header: Header::NONE,
            grid: Grid(Axes::none()),
            profiled: Region::NONE,
            layers: &[],
            levels: &[],
            scales: [0.0; OUTPUTS],
            time_guard: GuardBand::none(),
            power_guard: GuardBand::none(),
            spread_scale: SpreadScale::NONE,
            time_spread: TimeSpread { base: 0, slope: 0 },
            measured: Measured::NONE,
            provenance: &[],
        };
        model.read(bytes)?;
        Ok(model)
    }

    /// Reads field by field in the order of [`Body`]: a whole `Body` would take its size on the
    /// stack again.
    #[inline(never)]
    fn read(&mut self, bytes: &'a [u8]) -> Result<(), FormatError> {
        let (header, body) = Header::parse(bytes)?;
        let mut body = Fields(body);
        self.header = header;
        body.axes(&mut self.grid.0)?;
        self.profiled = Region::of_bytes(header.grid_hash, body.array()?);
        self.layers = body.bytes()?;
        if header.version > 2 {
            self.levels = body.bytes()?;
        }
        body.knots(&mut self.time_guard)?;
        body.knots(&mut self.power_guard)?;
        if header.version > 1 {
            self.spread_scale.least = body.short()?;
        }
        if header.version > 2 {
            (self.time_spread.base, self.time_spread.slope) = (body.short()?, body.short()?);
            self.measured = Measured::of_bytes(body.bytes()?).ok_or(FormatError::BadMeasured)?;
        }
        self.provenance = body.0;
        self.verify()
    }

    fn verify(&mut self) -> Result<(), FormatError> {
        self.grid.0.verify().map_err(FormatError::BadGrid)?;
        if self.grid.hash() != self.header.grid_hash {
            return Err(FormatError::GridMismatch);
        }
        if !self.profiled.is_within(&self.grid) {
            return Err(FormatError::BadRegion);
        }
        self.verify_layers()?;
        let power_is_sound = match self.header.outputs {
            1 => self.power_guard.knots().is_empty(),
            outputs => self.power_guard.is_sound(match outputs {
                2 => Margin::Ratio,
                _ => Margin::Deviations,
            }),
        };
        let most_spread = if self.has_spread() { MOST_SPREAD } else { 0 };
        let spread_is_sound = self.spread_scale.least <= most_spread;
        let time_margin = match self.has_time_spread() {
            true => Margin::Deviations,
            false => Margin::Ratio,
        };
        let time_is_sound = self.time_guard.is_sound(time_margin) && self.time_spread_is_sound();
        if !time_is_sound || !power_is_sound || !spread_is_sound {
            return Err(FormatError::BadGuardBand);
        }
        let measured = self.measured;
        if !measured.is_sound(self.grid.modes(), self.has_spread()) {
            return Err(FormatError::BadMeasured);
        }
        Ok(())
    }

    fn time_spread_is_sound(&self) -> bool {
        let TimeSpread { base, slope } = self.time_spread;
        match self.has_time_spread() {
            true => base <= MOST_SPREAD && slope <= TimeSpread::MOST_SLOPE,
            false => base | slope == 0,
        }
    }

    /// Checks all rows and stores the scales of the outputs.
    fn verify_layers(&mut self) -> Result<(), FormatError> {
        let layers = self.layers();
        if self.layers.len() != layers.iter().map(|(layer, _)| layer.bytes()).sum() {
            return Err(FormatError::LayersLength);
        }
        let with_levels = match self.header.version {
            1 | 2 => 0,
            _ => self.level_parts().iter().sum(),
        };
        if self.levels.len() != with_levels {
            return Err(FormatError::LayersLength);
        }
        let mut scales = self.scales.iter_mut();
        for (layer, rows) in &layers {
            for row in rows.chunks_exact(layer.row()) {
                let (weights, tail) = row.split_at_checked(layer.inputs).unwrap_or_default();
                if weights.iter().any(|w| w.cast_signed() == i8::MIN) {
                    return Err(FormatError::BadLayer);
                }
                let [b0, b1, b2, b3, tail @ ..] = tail else {
                    return Err(FormatError::LayersLength);
                };
                let bias = i32::from_le_bytes([*b0, *b1, *b2, *b3]);
                let bias_is_sound = (-BIAS_LIMIT..=BIAS_LIMIT).contains(&bias);
                match *tail {
                    [] => {}
                    [0..32] if bias_is_sound => {}
                    [s0, s1, s2, s3] if bias_is_sound => {
                        let found = f32::from_le_bytes([s0, s1, s2, s3]);
                        let [least, most] = SCALE_RANGE;
                        if !(least..=most).contains(&found) {
                            return Err(FormatError::BadScale);
                        }
                        if let Some(scale) = scales.next() {
                            *scale = found;
                        }
                    }
                    _ => return Err(FormatError::BadLayer),
                }
            }
        }
        if self.has_spread() {
            let [time, power, spread] = self.scales;
            let [least, most] = SPREAD_SCALES;
            let least_time = if self.has_time_spread() {
                TIME_SCALE
            } else {
                0.0
            };
            if time < least_time || power < least || spread > most {
                return Err(FormatError::BadScale);
            }
            self.spread_scale.shift = SPREAD_EXPONENT
                .saturating_sub(spread.to_bits() >> 23)
                .min(31);
        }
        Ok(())
    }

    /// All modes of the board.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// The smallest region that holds all modes that the model was trained on. A prediction outside
    /// is an extrapolation.
    pub fn profiled(&self) -> Region {
        self.profiled
    }

    /// Whether a region belongs to this model's grid.
    pub(crate) fn has_region(&self, region: &Region) -> bool {
        region.is_of(self.header.grid_hash)
    }

    /// The layer shape.
    pub fn shape(&self) -> Shape {
        self.header.shape
    }

    /// Whether the model predicts power.
    pub fn has_power(&self) -> bool {
        self.header.outputs > 1
    }

    /// Whether the model predicts a spread of the power for each mode.
    pub fn has_spread(&self) -> bool {
        self.header.outputs > 2
    }

    /// Whether the model states a standard deviation of ln time for each mode.
    pub fn has_time_spread(&self) -> bool {
        self.has_spread() && self.header.version > 2
    }

    /// The lengths of the parts of the levels.
    fn level_parts(&self) -> [usize; 4] {
        let Widths([neurons, _, _]) = self.shape().widths();
        let [cpu, gpu] = LEVELLED.map(|axis| self.grid.axis(axis).len());
        [cpu, gpu, usize::from(neurons), usize::from(neurons)]
    }

    /// The levels of an axis's values and their weights in the neurons of the first layer, as i8; both are
    /// empty if the axis has no levels.
    pub(crate) fn levels(&self, axis: Axis) -> [&'a [u8]; 2] {
        let mut rest = self.levels;
        let [of_cpu, of_gpu, cpu_weights, gpu_weights] = self.level_parts().map(|length| {
            let (part, later) = rest.split_at_checked(length).unwrap_or_default();
            rest = later;
            part
        });
        match axis {
            Axis::Cpu => [of_cpu, cpu_weights],
            Axis::Gpu => [of_gpu, gpu_weights],
            _ => [&[]; 2],
        }
    }

    /// The modes of which the file knows a measurement, with what it knows, by ascending id. A sweep
    /// gives this in place of the network's prediction.
    pub fn measured(&self) -> impl Iterator<Item = (ModeId, Prediction)> + Clone + use<'a> {
        self.measured.iter()
    }

    /// The model with its network alone.
    pub fn without_measured(mut self) -> Self {
        self.measured = Measured::NONE;
        self
    }

    /// The guard band of the time. A margin is a number of standard deviations if the model
    /// [states these for each mode](Self::has_time_spread), else a ratio of two times.
    pub fn time_guard(&self) -> &GuardBand {
        &self.time_guard
    }

    /// The guard band of the power: deviations if the model [has spreads](Self::has_spread), else
    /// ratios; `None` for a model without power.
    pub fn power_guard(&self) -> Option<&GuardBand> {
        self.has_power().then_some(&self.power_guard)
    }

    /// The margins of a confidence.
    #[inline(never)]
    pub fn margins(&self, confidence: Confidence) -> Result<Margins, GuardError> {
        let factor = |guard: &GuardBand| {
            let q16 = guard.margin(confidence)?;
            Factor::from_q16(q16).ok_or(GuardError::BadKnots)
        };
        let mut margins = Margins::NONE;
        let [time, power, _] = self.scales;
        let steps_of = |guard: &GuardBand, scale: f32| {
            let deviations = guard.margin(confidence)? as f32 / 65_536.0;
            Ok(deviations * self.spread_resolution() / scale)
        };
        if self.has_time_spread() {
            let steps = steps_of(&self.time_guard, time)?;
            let slope = f32::from(self.time_spread.slope) / TimeSpread::SLOPE_ONE;
            margins.time_spread = Widening::new(steps * slope);
            let offset = rounded_up(steps * f32::from(self.time_spread.base));
            margins.time_offset = offset.cast_signed();
        } else {
            margins.time = factor(&self.time_guard)?;
        }
        match self.header.outputs {
            1 => {}
            2 => margins.power = factor(&self.power_guard)?,
            _ => {
                margins.power_spread = Widening::new(steps_of(&self.power_guard, power)?);
            }
        }
        Ok(margins)
    }

    /// How the sum of the third output becomes a spread.
    pub(crate) fn spread_scale(&self) -> SpreadScale {
        self.spread_scale
    }

    /// ln units per unit of spread.
    pub fn spread_resolution(&self) -> f32 {
        let [_, _, scale] = self.scales;
        scale * (1_u32 << self.spread_scale.shift) as f32
    }

    /// The TPCs of the GPU that were gated while the board was profiled, one bit each; `None` if
    /// that is not known. Decoded on demand, as the [provenance](Self::provenance) is.
    pub fn tpc_pg_mask(&self) -> Result<Option<u32>, FormatError> {
        Ok(self.last_fields()?.tpc_pg_mask)
    }

    /// The units that the model was made of, and what it says of others. Decoded on demand, as the
    /// [provenance](Self::provenance) is.
    pub fn fleet(&self) -> Result<Fleet<'a>, FormatError> {
        Ok(self.last_fields()?.fleet)
    }

    /// What the board draws while the workload waits; `None` if that is not known. Decoded on demand, as the
    /// [provenance](Self::provenance) is.
    pub fn idle(&self) -> Result<Option<Idle>, FormatError> {
        let idle = self.last_fields()?.idle;
        Ok((idle != Idle::NONE).then_some(idle))
    }

    /// The provenance and what follows.
    fn last_fields(&self) -> Result<LastFields<'a>, FormatError> {
        let mut fields = Fields(self.provenance);
        let provenance = fields.take()?;
        let tpc_pg_mask = match self.header.version {
            1 => None,
            _ => fields.take()?,
        };
        let fleet = match self.header.version {
            1..=3 => Fleet::unstated(),
            _ => {
                let (units, reference) = (fields.bytes()?, fields.number()?);
                let others = [
                    fields.ratios(&self.time_guard)?,
                    fields.ratios(&self.power_guard)?,
                ];
                Fleet::from_fields(units, reference, others).ok_or(FormatError::BadUnits)?
            }
        };
        let idle = match self.header.version {
            1..=4 => Idle::NONE,
            _ => Idle {
                base: Milliwatts(fields.number()?),
                share: fields.short()?,
            },
        };
        fields.finish()?;
        Ok(LastFields {
            provenance,
            tpc_pg_mask,
            fleet,
            idle,
        })
    }

    /// The provenance of the model. It is decoded on demand, so firmware that never calls this does
    /// not link the decoder. Fails with [`FormatError::BadBody`] if it does not decode.
    pub fn provenance(&self) -> Result<Provenance<'a>, FormatError> {
        Ok(self.last_fields()?.provenance)
    }

    /// The predicted time, rounded up. It is monotone in `log_time`.
    pub fn time(&self, prediction: Prediction) -> Microseconds {
        self.microseconds(prediction.log_time)
    }

    /// The time of a logarithm.
    pub(crate) fn microseconds(&self, log_time: i32) -> Microseconds {
        let [scale, _, _] = self.scales;
        Microseconds(exponential(log_time, scale))
    }

    /// The predicted power, rounded up; `None` for a model without power. It is monotone in
    /// `log_power`.
    pub fn power(&self, prediction: Prediction) -> Option<Milliwatts> {
        self.has_power()
            .then(|| self.milliwatts(prediction.log_power))
    }

    /// The power of a logarithm.
    pub(crate) fn milliwatts(&self, log_power: i32) -> Milliwatts {
        let [_, scale, _] = self.scales;
        Milliwatts(exponential(log_power, scale))
    }

    /// The standard deviation of ln power; `None` for a model without spreads.
    pub fn spread(&self, prediction: Prediction) -> Option<f32> {
        self.has_spread()
            .then(|| prediction.spread as f32 * self.spread_resolution())
    }

    /// The standard deviation of ln time; `None` for a model without a spread of it.
    pub fn time_spread(&self, prediction: Prediction) -> Option<f32> {
        self.has_time_spread().then(|| {
            self.time_spread.for_power_spread(prediction.spread) * self.spread_resolution()
        })
    }

    /// The logarithm of the power with the margin of its spread, in units of
    /// [`Prediction::log_power`]. A front compares modes by it.
    pub fn guarded_log_power(&self, prediction: Prediction, margins: &Margins) -> i32 {
        margins
            .power_spread
            .widen(prediction.log_power, prediction.spread)
    }

    /// The logarithm of the time with the margin that differs from mode to mode, in units of
    /// [`Prediction::log_time`]. A front compares modes by it.
    pub fn guarded_log_time(&self, prediction: Prediction, margins: &Margins) -> i32 {
        margins
            .time_spread
            .widen(prediction.log_time, prediction.spread)
    }

    /// The time of such a logarithm, with the margin that is the same for all modes.
    pub(crate) fn guarded_microseconds(&self, log: i32, margins: &Margins) -> Microseconds {
        let time = self.microseconds(log.saturating_add(margins.time_offset));
        Microseconds(margins.time.widen(time.0))
    }

    /// The time that a query compares with its deadline: the prediction with its margin, rounded up.
    pub fn guarded_time(&self, prediction: Prediction, margins: &Margins) -> Microseconds {
        self.guarded_microseconds(self.guarded_log_time(prediction, margins), margins)
    }

    /// The power that counts for a limit: the prediction with its margin, rounded up; `None` for a
    /// model without power.
    pub fn guarded_power(&self, prediction: Prediction, margins: &Margins) -> Option<Milliwatts> {
        self.has_power().then(|| {
            let log = self.guarded_log_power(prediction, margins);
            Milliwatts(margins.power.widen(self.milliwatts(log).0))
        })
    }

    /// The layers with their rows as stored in the file.
    #[inline(never)]
    pub(crate) fn layers(&self) -> [(Layer, &'a [u8]); 4] {
        let mut rest = self.layers;
        self.shape().layers(self.header.outputs).map(|layer| {
            let (rows, later) = rest.split_at_checked(layer.bytes()).unwrap_or_default();
            rest = later;
            (layer, rows)
        })
    }
}
