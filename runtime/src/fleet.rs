//! The units of a board: specimens of one kind differ in what they draw and in how fast they are.
//!
//! A model predicts the mean of the units that were profiled. Its file says how each of them differs from that
//! mean, and by how much any other unit may exceed it. So the guard band is narrow on a unit of the file and
//! wide on all others. [`Front::for_unit`](crate::Front::for_unit) turns a front into that of a unit.
//!
//! ```
//! use wattgate_runtime::{Confidence, Front, Model};
//! use wattgate_runtime::fleet::{Fleet, UnitId};
//!
//! # let file = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/tx1-image5000.wgt"));
//! let model = Model::parse(file)?;
//! let fleet = model.fleet()?;
//! let id = UnitId::of_serial_number("1421521033456");
//! assert!(fleet.units().all(|unit| Some(unit) != id));
//! let unit = fleet.unit(id, Confidence::P95).expect("a confidence that the model supports");
//! assert!(!unit.is_profiled);
//!
//! let mut front = Front::<256>::from_model(&model, &model.profiled(), Confidence::P95);
//! let on_its_unit = front.points()[0].guarded;
//! front.for_unit(&unit);
//! assert!(front.points()[0].guarded > on_its_unit);
//! # Ok::<(), wattgate_runtime::FormatError>(())
//! ```

use core::fmt;

use crate::crc::crc32;
use crate::guard::{GuardBand, GuardError, Knot, Margin};
use crate::quantities::{Confidence, Microseconds, Milliwatts};

/// The largest number of units that a file lists.
pub const MOST_UNITS: usize = 10;

/// The bytes of a unit: id (u32), level of the time (i16), level of the power (i16), tilt of the power (i8).
pub const UNIT_LEN: usize = 9;

/// The resolution of a level, which is a logarithm of a ratio.
pub const LEVEL_RESOLUTION: f32 = 1.0 / 16_384.0;

/// The resolution of a tilt, which is a logarithm of a ratio for each ln of the power.
pub const TILT_RESOLUTION: f32 = 1.0 / 256.0;

/// Units behind [`POWER_SPREAD`].
pub const UNITS_OF_SPREAD: u32 = 13;

/// Standard deviation of ln power between units.
pub const POWER_SPREAD: f32 = 0.079;

/// Standard deviation of ln time between units.
pub const TIME_SPREAD: f32 = 0.032;

/// Standard deviation between units of what ln power gains for each ln of the power.
pub const TILT_SPREAD: f32 = 0.05;

/// By how much the time and the power of another unit may exceed those of one unit, for files that say nothing of units:
/// quantiles of Student's distribution with 12 degrees of freedom, times √2 times the spread between units. A test of the
/// trainer holds them (`trainer/src/learn/fleet.rs`).
const UNSTATED: [[Knot; 6]; 2] = [UNSTATED_TIME, UNSTATED_POWER];

const UNSTATED_TIME: [Knot; 6] = knots([65_536, 68_176, 69_685, 71_041, 72_734, 73_990]);
const UNSTATED_POWER: [Knot; 6] = knots([65_536, 72_247, 76_258, 79_976, 84_764, 88_423]);

const fn knots([a, b, c, d, e, f]: [u32; 6]) -> [Knot; 6] {
    const fn knot(per_ten_thousand: u16, q16: u32) -> Knot {
        Knot {
            per_ten_thousand,
            q16,
        }
    }
    [
        knot(5_000, a),
        knot(8_000, b),
        knot(9_000, c),
        knot(9_500, d),
        knot(9_800, e),
        knot(9_900, f),
    ]
}

/// The id of a unit: the CRC-32 of its serial number. Serial numbers that differ in at most four characters in a
/// row have different ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitId(pub u32);

impl UnitId {
    /// The id for a serial number from the device tree; NULs and spaces at its ends do not count. `None` without two
    /// different characters: a module that was never given a number has zeros, so they name no unit.
    pub fn of_serial_number(serial_number: &str) -> Option<Self> {
        let text = serial_number.trim_matches(|c: char| c == '\0' || c.is_ascii_whitespace());
        let first = text.bytes().next()?;
        let is_number = text.bytes().any(|byte| byte != first);
        is_number.then(|| Self(crc32(text.as_bytes())))
    }

    /// From 8 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let is_id = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = u32::from_str_radix(text, 16).ok();
        id.filter(|_| is_id).map(Self)
    }
}

impl fmt::Display for UnitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// The units that a file was made of, and what it says of others.
#[derive(Clone, Debug)]
pub struct Fleet<'a> {
    units: &'a [[u8; UNIT_LEN]],
    /// The power at which a tilt changes nothing.
    reference: Milliwatts,
    /// By how much the guarded time and power of another unit exceed those of the file's, as ratios.
    others: [GuardBand; 2],
}

/// How a unit differs from what a model predicts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// Whether the model was made of it.
    pub is_profiled: bool,
    /// Level of the time: ln(time of this unit / predicted time).
    pub time: f32,
    /// Level of the power: ln(power of this unit / predicted power), in a mode of the reference power.
    pub power: f32,
    /// In a mode of another predicted power P, tilt · ln(P / reference) adds to the level of the power.
    pub tilt: f32,
    /// The reference power; at least 1 mW.
    pub reference: Milliwatts,
    /// These margins add to ln of the guarded time, and to ln of the guarded power.
    pub margins: [f32; 2],
    /// In a mode of a guarded power P, this times |ln(P / reference)| adds to the margin of the power.
    pub tilt_margin: f32,
}

impl<'a> Fleet<'a> {
    /// What is known of the units of a file that says nothing of them.
    pub(crate) fn unstated() -> Self {
        let band = |knots: [Knot; 6]| GuardBand(knots.into_iter().collect());
        Self {
            units: &[],
            reference: Milliwatts(1),
            others: UNSTATED.map(band),
        }
    }

    /// From the fields of a file; `None` if a value is out of range. The ratios follow the knots of the guard bands.
    pub(crate) fn from_fields(
        units: &'a [u8],
        reference: u32,
        others: [GuardBand; 2],
    ) -> Option<Self> {
        let (units, rest) = units.as_chunks();
        let fleet = Self {
            units,
            reference: Milliwatts(reference),
            others,
        };
        let is_sound = |band: &GuardBand| band.knots().is_empty() || band.is_sound(Margin::Ratio);
        let ascends = fleet.units().is_sorted_by(|a, b| a < b);
        let counts = rest.is_empty() && units.len() <= MOST_UNITS && reference > 0;
        (counts && ascends && fleet.others.iter().all(is_sound)).then_some(fleet)
    }

    /// The ids of the units that were profiled, ascending.
    pub fn units(&self) -> impl Iterator<Item = UnitId> + Clone + use<'a> {
        self.units.iter().map(|unit| decoded(unit).0)
    }

    /// By how much the guarded time, or power, of any other unit may exceed those of the file's units, as ratios. Empty for
    /// the power of a model without power.
    pub fn others(&self) -> &[GuardBand; 2] {
        &self.others
    }

    /// How a unit differs from the predictions, with a confidence. A unit without an id, as one whose serial number
    /// cannot be read, is another one.
    pub fn unit(&self, id: Option<UnitId>, confidence: Confidence) -> Result<Unit, GuardError> {
        let mut units = self.units.iter().map(decoded);
        let known = units.find(|(found, _)| Some(*found) == id);
        let unit = Unit {
            is_profiled: known.is_some(),
            time: 0.0,
            power: 0.0,
            tilt: 0.0,
            reference: self.reference,
            margins: [0.0; 2],
            tilt_margin: 0.0,
        };
        if let Some((_, [time, power, tilt])) = known {
            return Ok(Unit {
                time,
                power,
                tilt,
                ..unit
            });
        }
        let margin = |band: &GuardBand| match band.knots() {
            [] => Ok(0.0),
            _ => Ok(libm::logf(band.margin(confidence)? as f32 / 65_536.0)),
        };
        let [time, power] = &self.others;
        Ok(Unit {
            margins: [margin(time)?, margin(power)?],
            ..unit
        })
    }
}

fn decoded(bytes: &[u8; UNIT_LEN]) -> (UnitId, [f32; 3]) {
    let [i0, i1, i2, i3, t0, t1, p0, p1, tilt] = *bytes;
    let level = |bytes| f32::from(i16::from_le_bytes(bytes)) * LEVEL_RESOLUTION;
    let tilt = f32::from(tilt.cast_signed()) * TILT_RESOLUTION;
    let id = UnitId(u32::from_le_bytes([i0, i1, i2, i3]));
    (id, [level([t0, t1]), level([p0, p1]), tilt])
}

impl Unit {
    /// The predicted power on this unit.
    pub fn power(&self, predicted: Milliwatts) -> Milliwatts {
        Milliwatts(self.scaled_power(predicted, 0.0, 0.0))
    }

    /// The guarded power on this unit.
    pub fn guarded_power(&self, guarded: Milliwatts) -> Milliwatts {
        let [_, margin] = self.margins;
        Milliwatts(self.scaled_power(guarded, margin, self.tilt_margin))
    }

    /// The margin of the power, as a ratio − 1 in units of 1/65,536.
    pub(crate) fn margin_q16(&self) -> u32 {
        let [_, margin] = self.margins;
        ratio_q16(margin).saturating_sub(1 << 16)
    }

    fn scaled_power(&self, power: Milliwatts, margin: f32, tilt_margin: f32) -> u32 {
        let mut log = self.power + margin;
        if (self.tilt != 0.0 || tilt_margin != 0.0) && power.0 > 0 {
            let above = libm::logf(power.0 as f32 / self.reference.0 as f32);
            log += self.tilt * above + tilt_margin * libm::fabsf(above);
        }
        scaled(power.0, log)
    }

    /// The predicted time on this unit.
    pub fn time(&self, predicted: Microseconds) -> Microseconds {
        Microseconds(scaled(predicted.0, self.time))
    }

    /// The guarded time on this unit.
    pub fn guarded_time(&self, guarded: Microseconds) -> Microseconds {
        let [margin, _] = self.margins;
        Microseconds(scaled(guarded.0, self.time + margin))
    }
}

/// A value times e^log, rounded up. A logarithm of 0 changes nothing.
fn scaled(value: u32, log: f32) -> u32 {
    let product = u64::from(value) * u64::from(ratio_q16(log)) + 0xFFFF;
    u32::try_from(product >> 16).unwrap_or(u32::MAX)
}

/// e^log in units of 1/65,536, rounded up. What is no number counts as the largest.
fn ratio_q16(log: f32) -> u32 {
    let log = if log < -8.0 { -8.0 } else { log.min(8.0) };
    libm::ceilf(libm::expf(log) * 65_536.0) as u32
}
