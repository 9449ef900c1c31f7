//! The reader of `.wgt` model files: header → verify → typed view.
//!
//! The layout is specified in `weights/FORMAT.md`. A file is refused with a named reason
//! before anything of it can be used; a [`Model`] that exists is valid, and nothing that it
//! offers can fail but its [provenance](Model::provenance), which is decoded when it is asked
//! for. Its layers stay where the file lies, for instance in flash.
//!
//! ```
//! use wattgate_runtime::{FormatError, Model};
//!
//! assert_eq!(Model::parse(b"hello").unwrap_err(), FormatError::TooShort);
//! assert_eq!(Model::parse(&[0; 64]).unwrap_err(), FormatError::WrongMagic);
//! ```

use core::{error, fmt};

use heapless::Vec;
use serde::{Deserialize, Serialize};

use crate::crc::Crc32;
use crate::exponential::exponential;
use crate::grid::{Axes, Grid, GridError, ModeId};
use crate::guard::{GuardBand, Knot, MAX_KNOTS};
use crate::network::{BIAS_LIMIT, Prediction};
use crate::region::Region;
use crate::shape::{Layer, Shape, Widths};
use crate::sweep::with_network;
use crate::units::{Microseconds, Milliwatts};

/// The first bytes of every model file.
pub const MAGIC: [u8; 4] = *b"wgt\x1a";

/// The format version that this crate reads.
pub const VERSION: u16 = 1;

/// The number that stands for [`AxisFeatures`](crate::AxisFeatures) in a header.
pub const FEATURE_MAP: u8 = 1;

/// The length of the header in bytes.
pub const HEADER_LEN: usize = 28;

/// The scale of an output row lies in this range: ln units for one step of the integer.
pub const SCALE_RANGE: [f32; 2] = [1e-9, 1.0];

/// Why a file is no usable model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatError {
    /// Shorter than a header.
    TooShort,
    /// Not a model file.
    WrongMagic,
    /// Written in another version of the format.
    UnsupportedVersion {
        /// The version in the file.
        found: u16,
    },
    /// Shorter than the header says.
    Truncated,
    /// Longer than the header says.
    TrailingBytes,
    /// The checksum does not match: bytes were changed.
    Checksum,
    /// A header field has no meaning in this version.
    BadHeader,
    /// The layers have a shape that this reader was not built for.
    UnsupportedShape {
        /// The widths of the hidden layers in the file.
        widths: Widths,
    },
    /// The body does not decode.
    BadBody,
    /// The axes form no grid.
    BadGrid(GridError),
    /// The grid's hash differs from the header's.
    GridMismatch,
    /// The profiled region does not lie within the grid.
    BadRegion,
    /// The layers' length does not follow from their shape.
    LayersLength,
    /// A shift above 31, a bias beyond ±2³⁰ or a weight of −128.
    BadLayer,
    /// An output scale that is not finite or out of range.
    BadScale,
    /// A guard band's knots are missing, not ascending or out of range.
    BadGuardBand,
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort => write!(f, "shorter than a model file's header"),
            Self::WrongMagic => write!(f, "not a wattgate model file"),
            Self::UnsupportedVersion { found } => write!(
                f,
                "written in format version {found}; this reader knows version {VERSION}"
            ),
            Self::Truncated => write!(f, "truncated: shorter than its header says"),
            Self::TrailingBytes => write!(f, "longer than its header says"),
            Self::Checksum => write!(f, "damaged: the checksum does not match"),
            Self::BadHeader => write!(f, "a header field has no meaning in this version"),
            Self::UnsupportedShape { widths } => {
                write!(f, "layer shape {widths} is not supported; supported:")?;
                let mut separator = ' ';
                for shape in Shape::ALL {
                    write!(f, "{separator}{shape}")?;
                    separator = ',';
                }
                Ok(())
            }
            Self::BadBody => write!(f, "the body does not decode"),
            Self::BadGrid(why) => why.fmt(f),
            Self::GridMismatch => write!(f, "the grid is not the one that the header names"),
            Self::BadRegion => write!(f, "the profiled region does not lie within the grid"),
            Self::LayersLength => write!(f, "the layers' length does not follow from their shape"),
            Self::BadLayer => write!(f, "a weight, bias or shift of a layer is out of range"),
            Self::BadScale => write!(f, "an output scale is not finite or out of range"),
            Self::BadGuardBand => write!(f, "the guard band's knots are not usable"),
        }
    }
}

impl error::Error for FormatError {}

/// The fields of a header whose file length and checksum were verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// 1 = time, 2 = time and power.
    pub outputs: u8,
    /// The layer shape.
    pub shape: Shape,
    /// [`Grid::hash`] of the axes.
    pub grid_hash: u32,
}

impl Header {
    /// To be filled.
    const NONE: Self = Self {
        outputs: 0,
        shape: Shape::Wide16,
        grid_hash: 0,
    };

    /// Verifies a file without decoding its body, and returns header and body.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), FormatError> {
        let (header, body) = bytes
            .split_first_chunk::<HEADER_LEN>()
            .ok_or(FormatError::TooShort)?;
        #[rustfmt::skip]
        let [
            magic @ .., v0, v1, outputs, map, a0, a1, b0, b1, c0, c1, z0, z1,
            g0, g1, g2, g3, l0, l1, l2, l3, s0, s1, s2, s3,
        ] = *header;
        if magic != MAGIC {
            return Err(FormatError::WrongMagic);
        }
        let found = u16::from_le_bytes([v0, v1]);
        if found != VERSION {
            return Err(FormatError::UnsupportedVersion { found });
        }
        let body_len = u32::from_le_bytes([l0, l1, l2, l3]);
        match u64::from(body_len).cmp(&(body.len() as u64)) {
            core::cmp::Ordering::Greater => return Err(FormatError::Truncated),
            core::cmp::Ordering::Less => return Err(FormatError::TrailingBytes),
            core::cmp::Ordering::Equal => {}
        }
        let [summed @ .., _, _, _, _] = header;
        let checksum = Crc32::new().update(summed).update(body).finish();
        if checksum != u32::from_le_bytes([s0, s1, s2, s3]) {
            return Err(FormatError::Checksum);
        }
        if map != FEATURE_MAP || !(1..=2).contains(&outputs) || [z0, z1] != [0, 0] {
            return Err(FormatError::BadHeader);
        }
        let widths = Widths([[a0, a1], [b0, b1], [c0, c1]].map(u16::from_le_bytes));
        let shape = Shape::from_widths(widths).ok_or(FormatError::UnsupportedShape { widths })?;
        let grid_hash = u32::from_le_bytes([g0, g1, g2, g3]);
        let header = Self {
            outputs,
            shape,
            grid_hash,
        };
        Ok((header, body))
    }
}

/// Whether the data behind a model came from a real board or from a simulated one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Profiled on a real board.
    Measured,
    /// Profiled on a simulated board.
    Simulated,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Measured => "measured",
            Self::Simulated => "simulated",
        })
    }
}

/// Where a model comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance<'a> {
    /// Measured or simulated.
    pub kind: Kind,
    /// The board that was profiled.
    pub device: &'a str,
    /// The workload that ran on it.
    pub workload: &'a str,
    /// Samples in a minibatch, where known.
    pub minibatch: Option<u32>,
    /// The seed that the training started from.
    pub seed: u64,
    /// Modes that the model was trained on.
    pub modes_used: u16,
    /// Modes held out of training.
    pub modes_held_out: u16,
    /// Mean absolute percentage error of the time on the held-out modes, in 0.01 %.
    pub time_error: Option<u16>,
    /// The same of the power.
    pub power_error: Option<u16>,
}

/// The body of a file as postcard encodes it. Not yet checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body<'a> {
    /// The axes of the grid.
    pub axes: Axes,
    /// The smallest region that holds all modes that the model was trained on.
    pub profiled: Region,
    /// The rows of all layers, one after the other.
    #[serde(borrow)]
    pub layers: &'a [u8],
    /// Guard band of the time.
    pub time_guard: Vec<Knot, MAX_KNOTS>,
    /// Guard band of the power; empty for a model without power.
    pub power_guard: Vec<Knot, MAX_KNOTS>,
    /// Where the model comes from.
    pub provenance: Provenance<'a>,
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
    // Never inlined: what this needs on the stack is not to lie there while a caller sweeps.
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

    /// Field by field in the order of [`Body`], which would take its size on the stack again.
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

    /// Walks over all rows and takes the scales of the outputs over.
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

    /// The smallest region that holds all modes that the model was trained on. Outside of
    /// it a prediction is an extrapolation.
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

    /// Without knots for a model without power.
    pub(crate) fn power_guard_or_none(&self) -> &GuardBand {
        &self.power_guard
    }

    /// Where the model comes from. Decoded when it is asked for, so that firmware which never
    /// asks does not carry what reads it; [`FormatError::BadBody`] where it does not decode.
    pub fn provenance(&self) -> Result<Provenance<'a>, FormatError> {
        let mut fields = Fields(self.provenance);
        let provenance = fields.take()?;
        match fields {
            Fields([]) => Ok(provenance),
            _ => Err(FormatError::BadBody),
        }
    }

    /// Predicts every mode of a region, each once, in no order that a caller could use. A region
    /// of another grid has none.
    pub fn sweep(&self, region: &Region, visit: impl FnMut(ModeId, Prediction)) {
        with_network(self, |mut network| network.sweep(region, visit));
    }

    /// The predicted time, rounded up. Rising with `log_time`.
    pub fn time(&self, prediction: Prediction) -> Microseconds {
        let [scale, _] = self.scales;
        Microseconds(exponential(prediction.log_time, scale))
    }

    /// The predicted power, rounded up; `None` for a model without power. Rising with
    /// `log_power`.
    pub fn power(&self, prediction: Prediction) -> Option<Milliwatts> {
        let [_, scale] = self.scales;
        self.has_power()
            .then(|| Milliwatts(exponential(prediction.log_power, scale)))
    }

    /// The layers with their rows as they stand in the file.
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

/// The fields of a body that are still to be read.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<T: Deserialize<'a>>(&mut self) -> Result<T, FormatError> {
        let Self(bytes) = self;
        let (field, rest) = postcard::take_from_bytes(bytes).map_err(|_| FormatError::BadBody)?;
        *bytes = rest;
        Ok(field)
    }

    #[inline(never)]
    fn number(&mut self) -> Result<u32, FormatError> {
        self.take()
    }

    /// Single bytes, which postcard writes as they are.
    fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let (field, rest) = self.0.split_first_chunk().ok_or(FormatError::BadBody)?;
        self.0 = rest;
        Ok(*field)
    }

    fn axes(&mut self, axes: &mut Axes) -> Result<(), FormatError> {
        axes.lengths = self.array()?;
        for _ in 0..self.number()? {
            let value = self.number()?;
            axes.values.push(value).map_err(|_| FormatError::BadBody)?;
        }
        Ok(())
    }

    fn knots(&mut self, band: &mut GuardBand) -> Result<(), FormatError> {
        for _ in 0..self.number()? {
            let confidence = self.number()?;
            let knot = Knot {
                per_ten_thousand: confidence.try_into().map_err(|_| FormatError::BadBody)?,
                q16: self.number()?,
            };
            band.0.push(knot).map_err(|_| FormatError::BadBody)?;
        }
        Ok(())
    }
}
