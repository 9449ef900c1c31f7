//! The format of `.wgt` model files: header, body, and the errors of a refused file.
//!
//! `weights/FORMAT.md` specifies the layout. [`Model::parse`](crate::Model::parse) checks the whole
//! file first and refuses an invalid one with a named error.
//!
//! ```
//! use wattgate_runtime::{FormatError, Model};
//!
//! assert_eq!(Model::parse(b"hello").unwrap_err(), FormatError::TooShort);
//! assert_eq!(Model::parse(&[0; 64]).unwrap_err(), FormatError::WrongMagic);
//! ```

use core::{error, fmt};

use serde::{Deserialize, Serialize};

pub use crate::crc::{Crc32, crc32};
use crate::grid::{Axes, GridError};
use crate::guard::{GuardBand, Knot, MAX_KNOTS, TimeSpread};
pub use crate::list::List;
pub use crate::measured::{LOG_LIMIT, MEASURED_LEN, MOST_MEASURED};
use crate::quantities::Factor;
use crate::region::Region;
use crate::shape::{Shape, Widths};

/// The first bytes of every model file.
pub const MAGIC: [u8; 4] = *b"wgt\x1a";

/// The format version that the trainer writes. This crate also reads [`OLDEST_VERSION`] and those
/// between.
pub const VERSION: u16 = 5;

/// The oldest format version that this crate reads: without spreads and TPC masks. Version 2 has no
/// levels, no spread of the time and no measured modes, version 3 has no units, version 4 no idle power.
pub const OLDEST_VERSION: u16 = 1;

/// The code of the inputs in a header: [`AxisFeatures`](crate::network::AxisFeatures), then levels. The older
/// versions have 1: no levels.
pub const FEATURE_MAP: u8 = 2;

/// The length of the header in bytes.
pub const HEADER_LEN: usize = 28;

/// Range of an output row's scale: ln units per integer step.
pub const SCALE_RANGE: [f32; 2] = [1e-9, 1.0];

/// Why a file was refused.
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
    /// This build does not support the layer shape.
    UnsupportedShape {
        /// The widths of the hidden layers in the file.
        widths: Widths,
    },
    /// The body does not decode.
    BadBody,
    /// The axes do not form a valid grid.
    BadGrid(GridError),
    /// The grid's hash differs from the header's.
    GridMismatch,
    /// The profiled region does not lie within the grid.
    BadRegion,
    /// The length of the layers does not match their shape.
    LayersLength,
    /// A shift above 31, a bias beyond ±2³⁰ or a weight of −128.
    BadLayer,
    /// An output scale that is not finite or out of range.
    BadScale,
    /// A guard band's knots are missing, not ascending or out of range, or a spread is.
    BadGuardBand,
    /// The measured modes are too many, do not ascend or are not of the grid, or a value of theirs is
    /// out of range.
    BadMeasured,
    /// The units are too many or do not ascend, or a ratio of other units is below one or falls.
    BadUnits,
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort => write!(f, "shorter than a model file's header"),
            Self::WrongMagic => write!(f, "not a wattgate model file"),
            Self::UnsupportedVersion { found } => write!(
                f,
                "written in format version {found}; this reader knows versions {OLDEST_VERSION} … {VERSION}"
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
            Self::BadMeasured => write!(f, "the measured modes are not usable"),
            Self::BadUnits => write!(f, "what it says of units of the board is not usable"),
        }
    }
}

impl error::Error for FormatError {}

/// The fields of a header. File length and checksum were verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header {
    /// The format version.
    pub version: u16,
    /// 1 = time, 2 = time and power, 3 = time, power and the power's spread.
    pub outputs: u8,
    /// The layer shape.
    pub shape: Shape,
    /// [`Grid::hash`](crate::grid::Grid::hash) of the axes.
    pub grid_hash: u32,
}

impl Header {
    /// A header to be filled.
    pub(crate) const NONE: Self = Self {
        version: VERSION,
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
        let version = u16::from_le_bytes([v0, v1]);
        let (most_outputs, features) = match version {
            1 => (2, 1),
            2 => (3, 1),
            3..=VERSION => (3, FEATURE_MAP),
            found => return Err(FormatError::UnsupportedVersion { found }),
        };
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
        if map != features || !(1..=most_outputs).contains(&outputs) || [z0, z1] != [0, 0] {
            return Err(FormatError::BadHeader);
        }
        let widths = Widths([[a0, a1], [b0, b1], [c0, c1]].map(u16::from_le_bytes));
        let shape = Shape::from_widths(widths).ok_or(FormatError::UnsupportedShape { widths })?;
        let grid_hash = u32::from_le_bytes([g0, g1, g2, g3]);
        let header = Self {
            version,
            outputs,
            shape,
            grid_hash,
        };
        Ok((header, body))
    }
}

/// On what kind of board measurements were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Profiled on a real board.
    #[default]
    Measured,
    /// Profiled on a simulated board.
    Simulated,
    /// Profiled on a board that plays back what a real one did.
    Recorded,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Measured => "measured",
            Self::Simulated => "simulated",
            Self::Recorded => "recorded",
        })
    }
}

/// The provenance of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance<'a> {
    /// Measured, simulated or recorded.
    pub kind: Kind,
    /// The board that was profiled.
    pub device: &'a str,
    /// The workload that ran on it.
    pub workload: &'a str,
    /// Samples in a minibatch, if known.
    pub minibatch: Option<u32>,
    /// The seed of the training.
    pub seed: u64,
    /// Number of modes that the model was trained on.
    pub modes_used: u16,
    /// Number of modes held out of training. It tells on which modes the errors were measured: if it
    /// is 0, the errors are the expected ones over all modes.
    pub modes_held_out: u16,
    /// Mean absolute percentage error of the time, in 0.01 %: on the held-out modes, or without any
    /// as expected over all modes, by cross-validation. `None` if it is not known.
    pub time_error: Option<u16>,
    /// As `time_error`, of the power.
    pub power_error: Option<u16>,
}

/// The unchecked body of a file, as postcard encodes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body<'a> {
    /// The axes of the grid.
    pub axes: Axes,
    /// The smallest region that holds all modes that the model was trained on.
    pub profiled: Region,
    /// The rows of all layers, layer after layer.
    #[serde(borrow)]
    pub layers: &'a [u8],
    /// As i8: the levels of the CPU clocks, then of the GPU clocks, then the weights of the former, then
    /// of the latter, one for each neuron of the first layer. Absent before version 3.
    #[serde(borrow)]
    pub levels: &'a [u8],
    /// Guard band of the time.
    pub time_guard: List<Knot, MAX_KNOTS>,
    /// Guard band of the power; empty for a model without power.
    pub power_guard: List<Knot, MAX_KNOTS>,
    /// The least spread, 0 … 32,767: no mode is known better than a measurement is. 0 for a model
    /// without spreads; absent in version 1.
    pub least_spread: u16,
    /// The spread of the time. Absent before version 3.
    pub time_spread: TimeSpread,
    /// The measured modes, [`MEASURED_LEN`] bytes each. Absent before
    /// version 3.
    #[serde(borrow)]
    pub measured: &'a [u8],
    /// Where the model comes from.
    pub provenance: Provenance<'a>,
    /// The TPCs of the GPU that were gated while the board was profiled, one bit each, if known.
    /// Absent in version 1.
    pub tpc_pg_mask: Option<u32>,
    /// The units that were profiled, [`UNIT_LEN`](crate::fleet::UNIT_LEN) bytes each. This and what follows is absent
    /// before version 4.
    #[serde(borrow)]
    pub units: &'a [u8],
    /// The power in mW at which a unit's tilt changes nothing; 1 for a model without power.
    pub reference_power: u32,
    /// What other units may add to a guarded time: ratio − 1 in units of 1/65,536, one for each knot of the
    /// guard band of the time.
    pub others_time: List<u32, MAX_KNOTS>,
    /// The same of the power.
    pub others_power: List<u32, MAX_KNOTS>,
    /// Idle power in mW, and the share of the power under load that adds to it, in units of 1/65,536; both 0 if it is not
    /// known. Absent before version 5.
    pub idle: (u32, u16),
}

/// The fields of a body that are not read yet.
pub(crate) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    pub fn take<T: Deserialize<'a>>(&mut self) -> Result<T, FormatError> {
        let Self(bytes) = self;
        let (field, rest) = postcard::take_from_bytes(bytes).map_err(|_| FormatError::BadBody)?;
        *bytes = rest;
        Ok(field)
    }

    #[inline(never)]
    pub fn number(&mut self) -> Result<u32, FormatError> {
        self.take()
    }

    /// Reads a sequence of bytes.
    #[inline(never)]
    pub fn bytes(&mut self) -> Result<&'a [u8], FormatError> {
        let length = self.number()? as usize;
        let (field, rest) = self
            .0
            .split_at_checked(length)
            .ok_or(FormatError::BadBody)?;
        self.0 = rest;
        Ok(field)
    }

    /// Reads a number of 16 bits.
    pub fn short(&mut self) -> Result<u16, FormatError> {
        u16::try_from(self.number()?).map_err(|_| FormatError::BadBody)
    }

    /// Reads single bytes, which postcard does not encode.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let (field, rest) = self.0.split_first_chunk().ok_or(FormatError::BadBody)?;
        self.0 = rest;
        Ok(*field)
    }

    pub fn axes(&mut self, axes: &mut Axes) -> Result<(), FormatError> {
        axes.lengths = self.array()?;
        for _ in 0..self.number()? {
            let value = self.number()?;
            axes.values.push(value).map_err(|_| FormatError::BadBody)?;
        }
        Ok(())
    }

    /// Whether all fields were read.
    pub fn finish(self) -> Result<(), FormatError> {
        match self {
            Self([]) => Ok(()),
            _ => Err(FormatError::BadBody),
        }
    }

    /// Reads ratios − 1 in units of 1/65,536 for the confidences of a band.
    pub fn ratios(&mut self, confidences: &GuardBand) -> Result<GuardBand, FormatError> {
        let mut ratios = GuardBand::none();
        if self.number()? as usize != confidences.knots().len() {
            return Err(FormatError::BadUnits);
        }
        for knot in confidences.knots() {
            let q16 = Factor::ONE.q16().saturating_add(self.number()?);
            let ratio = Knot { q16, ..*knot };
            ratios.0.push(ratio).map_err(|_| FormatError::BadUnits)?;
        }
        Ok(ratios)
    }

    pub fn knots(&mut self, band: &mut GuardBand) -> Result<(), FormatError> {
        for _ in 0..self.number()? {
            let knot = Knot {
                per_ten_thousand: self.short()?,
                q16: self.number()?,
            };
            band.0.push(knot).map_err(|_| FormatError::BadBody)?;
        }
        Ok(())
    }
}
