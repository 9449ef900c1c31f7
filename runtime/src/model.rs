//! A verified model: a parsed file, ready for predictions.
//!
//! A [`Model`] is always valid. Its methods cannot fail, except [provenance](Model::provenance),
//! which is decoded on demand. Its layers stay where the file lies, for instance in flash.
//!
//! ```
//! use wattgate_runtime::{Axis, Model};
//!
//! # let file = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/tx1-image5000.wgt"));
//! let model = Model::parse(file)?;
//! assert_eq!(model.provenance()?.device, "tx1");
//! assert_eq!(model.grid().axis(Axis::Cores), [1, 2, 3, 4]);
//! assert!(model.has_power());
//! # Ok::<(), wattgate_runtime::FormatError>(())
//! ```

use crate::exponential::exponential;
use crate::format::{Fields, FormatError, Header, Provenance, SCALE_RANGE};
use crate::grid::{Axes, Grid};
use crate::guard::GuardBand;
use crate::region::Region;
use crate::shape::{BIAS_LIMIT, Layer, Shape};
use crate::units::{Microseconds, Milliwatts};

/// The network's prediction for one mode: logarithms as integers in the file's units. They can be
/// compared as they are; [`Model::time`](Model::time) and [`Model::power`](Model::power) convert
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prediction {
    /// Logarithm of the time.
    pub log_time: i32,
    /// Logarithm of the power; 0 for a model without power.
    pub log_power: i32,
}

/// A verified model: the typed view of a file.
#[derive(Clone, Debug)]
pub struct Model<'a> {
    header: Header,
    grid: Grid,
    profiled: Region,
    layers: &'a [u8],
    scales: [f32; 2],
    time_guard: GuardBand,
    power_guard: GuardBand,
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
            scales: [0.0; 2],
            time_guard: GuardBand::none(),
            power_guard: GuardBand::none(),
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
        self.layers = body.take()?;
        body.knots(&mut self.time_guard)?;
        body.knots(&mut self.power_guard)?;
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
            _ => self.power_guard.is_sound(),
        };
        if !self.time_guard.is_sound() || !power_is_sound {
            return Err(FormatError::BadGuardBand);
        }
        Ok(())
    }

    /// Checks all rows and stores the scales of the outputs.
    fn verify_layers(&mut self) -> Result<(), FormatError> {
        let layers = self.layers();
        if self.layers.len() != layers.iter().map(|(layer, _)| layer.bytes()).sum() {
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

    /// The guard band of the time.
    pub fn time_guard(&self) -> &GuardBand {
        &self.time_guard
    }

    /// The guard band of the power; `None` for a model without power.
    pub fn power_guard(&self) -> Option<&GuardBand> {
        self.has_power().then_some(&self.power_guard)
    }

    /// The guard band of the power; without knots for a model without power.
    pub(crate) fn power_guard_or_none(&self) -> &GuardBand {
        &self.power_guard
    }

    /// The provenance of the model. It is decoded on demand, so firmware that never calls this does
    /// not link the decoder. Fails with [`FormatError::BadBody`] if it does not decode.
    pub fn provenance(&self) -> Result<Provenance<'a>, FormatError> {
        let mut fields = Fields(self.provenance);
        let provenance = fields.take()?;
        match fields {
            Fields([]) => Ok(provenance),
            _ => Err(FormatError::BadBody),
        }
    }

    /// The predicted time, rounded up. It is monotone in `log_time`.
    pub fn time(&self, prediction: Prediction) -> Microseconds {
        let [scale, _] = self.scales;
        Microseconds(exponential(prediction.log_time, scale))
    }

    /// The predicted power, rounded up; `None` for a model without power. It is monotone in
    /// `log_power`.
    pub fn power(&self, prediction: Prediction) -> Option<Milliwatts> {
        let [_, scale] = self.scales;
        self.has_power()
            .then(|| Milliwatts(exponential(prediction.log_power, scale)))
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
