//! The guard band: the margin that turns a prediction into a bound.
//!
//! A guard band states a margin for each confidence, which the trainer has estimated from the
//! measured modes. In a model without spreads a margin is a ratio, the same for all modes. A model
//! with spreads predicts a standard deviation of ln power for each mode, and one of ln time that
//! rises with it ([`TimeSpread`]); a margin is a number of these deviations: narrow where modes were
//! profiled, wide where they were not. (In files before version 3 the margin of the time is a ratio.)
//! [`Margins`] are the margins of one confidence. A confidence beyond the
//! data is refused: a margin without data is a guess.
//!
//! ```
//! use wattgate_runtime::Confidence;
//! use wattgate_runtime::guard::{GuardBand, GuardError, Knot};
//!
//! let knot = |per_ten_thousand, q16| Knot { per_ten_thousand, q16 };
//! let band = GuardBand::new([knot(5_000, 65_536), knot(9_000, 70_000), knot(9_500, 72_000)])?;
//! assert_eq!(band.margin(Confidence::P95), Ok(72_000));
//! let between = Confidence::new(9_250).unwrap();
//! assert_eq!(band.margin(between), Ok(71_000));
//! let beyond = Confidence::new(9_900).unwrap();
//! let too_high = GuardError::ConfidenceTooHigh { highest: Confidence::P95 };
//! assert_eq!(band.margin(beyond), Err(too_high));
//! # Ok::<(), GuardError>(())
//! ```

use core::{error, fmt};

use heapless::Vec;
use serde::{Deserialize, Serialize};

use crate::quantities::{Confidence, Factor};

/// Maximum number of knots of a guard band.
pub const MAX_KNOTS: usize = 8;

/// One unchecked point of a guard band, as stored in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Knot {
    /// Confidence in units of 1/10,000.
    pub per_ten_thousand: u16,
    /// The margin that is not exceeded with that confidence, in units of 1/65,536: a ratio of
    /// measured to predicted value, at least 1, or a number of standard deviations, at most
    /// [`MOST_DEVIATIONS`].
    pub q16: u32,
}

/// The largest margin in standard deviations.
pub const MOST_DEVIATIONS: u32 = 16;

/// What the margins of a guard band are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Margin {
    Ratio,
    Deviations,
}

impl Margin {
    /// The least and the largest margin, in units of 1/65,536.
    const fn range(self) -> (u32, u32) {
        match self {
            Self::Ratio => (Factor::ONE.q16(), u32::MAX),
            Self::Deviations => (0, MOST_DEVIATIONS << 16),
        }
    }
}

/// Margins by ascending confidence, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardBand(pub(crate) Vec<Knot, MAX_KNOTS>);

/// Why a guard band gives no margin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GuardError {
    /// Knots are missing, too many or not ascending, or a confidence or margin is out of range.
    BadKnots,
    /// The held-out modes are too few for this confidence.
    ConfidenceTooHigh {
        /// The highest confidence that the model supports.
        highest: Confidence,
    },
}

impl fmt::Display for GuardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadKnots => write!(
                f,
                "the guard band's knots are not ascending or out of range"
            ),
            Self::ConfidenceTooHigh { highest } => {
                write!(
                    f,
                    "the model's data supports no confidence above {highest}; ask for less, or train on more modes"
                )
            }
        }
    }
}

impl error::Error for GuardError {}

impl GuardBand {
    /// Creates a guard band from 1 … [`MAX_KNOTS`] knots, with strictly ascending confidences and
    /// with ratios that are at least one and do not fall.
    pub fn new(knots: impl IntoIterator<Item = Knot>) -> Result<Self, GuardError> {
        Self::with(Margin::Ratio, knots)
    }

    /// The same, with standard deviations in place of ratios.
    pub fn of_deviations(knots: impl IntoIterator<Item = Knot>) -> Result<Self, GuardError> {
        Self::with(Margin::Deviations, knots)
    }

    fn with(margin: Margin, knots: impl IntoIterator<Item = Knot>) -> Result<Self, GuardError> {
        let mut band = Self::none();
        for knot in knots {
            band.0.push(knot).map_err(|_| GuardError::BadKnots)?;
        }
        let is_sound = band.is_sound(margin);
        is_sound.then_some(band).ok_or(GuardError::BadKnots)
    }

    /// Creates a band without knots, to be filled and verified.
    pub(crate) const fn none() -> Self {
        Self(Vec::new())
    }

    #[inline(never)]
    pub(crate) fn is_sound(&self, margin: Margin) -> bool {
        // Start below every valid confidence, and at the least margin.
        let (mut q16, most) = margin.range();
        let mut confidence = 0;
        for knot in &self.0 {
            let known = Confidence::new(knot.per_ten_thousand).is_some();
            let is_margin = (q16..=most).contains(&knot.q16);
            if !known || knot.per_ten_thousand <= confidence || !is_margin {
                return false;
            }
            (confidence, q16) = (knot.per_ten_thousand, knot.q16);
        }
        confidence > 0
    }

    /// The margin for a confidence in units of 1/65,536, interpolated between knots and rounded up.
    /// Interpolation errs on the safe side where the quantile function is convex. Below the first
    /// knot it is the first knot's margin.
    #[inline(never)]
    pub fn margin(&self, confidence: Confidence) -> Result<u32, GuardError> {
        let wanted = confidence.per_ten_thousand();
        let mut below: Option<&Knot> = None;
        for knot in &self.0 {
            if knot.per_ten_thousand >= wanted {
                return Ok(below.map_or(knot.q16, |below| interpolate(below, knot, wanted)));
            }
            below = Some(knot);
        }
        let highest = below.and_then(|knot| Confidence::new(knot.per_ten_thousand));
        Err(highest.map_or(GuardError::BadKnots, |highest| {
            GuardError::ConfidenceTooHigh { highest }
        }))
    }

    /// The knots by ascending confidence.
    pub fn knots(&self) -> &[Knot] {
        &self.0
    }
}

fn interpolate(below: &Knot, above: &Knot, wanted: u16) -> u32 {
    // The usual confidences are knots and need no division.
    if wanted == above.per_ten_thousand {
        return above.q16;
    }
    // rise · part / width in 32 bits: knots are less than 10⁴ apart.
    let width = u32::from(
        above
            .per_ten_thousand
            .saturating_sub(below.per_ten_thousand),
    )
    .max(1);
    let part = u32::from(wanted.saturating_sub(below.per_ten_thousand));
    let rise = above.q16.saturating_sub(below.q16);
    let risen = rise / width * part + (rise % width * part).div_ceil(width);
    below.q16.saturating_add(risen)
}

/// The margins of one confidence: what a prediction counts for a limit or a deadline. They come from
/// [`Model::margins`](crate::Model::margins).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Margins {
    pub(crate) time: Factor,
    pub(crate) power: Factor,
    pub(crate) time_spread: Widening,
    pub(crate) power_spread: Widening,
    /// What every log time is increased by: its spread where that of the power is 0.
    pub(crate) time_offset: i32,
}

impl Margins {
    /// No margins.
    pub(crate) const NONE: Self = Self {
        time: Factor::ONE,
        power: Factor::ONE,
        time_spread: Widening::NONE,
        power_spread: Widening::NONE,
        time_offset: 0,
    };
}

/// What a unit of the power's spread adds to a logarithm: multiplier / 2^shift. All integers, so
/// that modes compare alike on every target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Widening {
    /// At most 2¹⁶.
    multiplier: u32,
    shift: u32,
}

impl Widening {
    pub const NONE: Self = Self {
        multiplier: 0,
        shift: 0,
    };

    /// The widening by a number of units of the logarithm for each unit of spread, 0 … 2¹⁶, rounded
    /// up.
    #[inline(never)]
    pub fn new(steps: f32) -> Self {
        // steps · 2^shift lies within 2¹⁵ … 2¹⁶, if a shift below 32 gets it there.
        let shift = (127 + 15_u32).saturating_sub(steps.to_bits() >> 23).min(31);
        let scaled = steps * f32::from_bits((127 + shift) << 23);
        Self {
            multiplier: rounded_up(scaled).min(1 << 16),
            shift,
        }
    }

    /// The logarithm with its margin. A spread is below 2¹⁵, so no product overflows;
    /// [`Model`](crate::Model) verifies that no sum does.
    #[inline(always)]
    pub fn widen(self, log: i32, spread: i32) -> i32 {
        let product = spread.cast_unsigned().wrapping_mul(self.multiplier);
        log.wrapping_add((product >> (self.shift & 31)).cast_signed())
    }
}

impl Widening {
    /// The logarithm without its margin.
    pub fn narrow(self, widened: i32, spread: i32) -> i32 {
        widened.wrapping_sub(self.widen(0, spread))
    }
}

/// The least integer that is at least this value, 0 … 2³⁰.
pub(crate) fn rounded_up(value: f32) -> u32 {
    let whole = value as u32;
    whole + u32::from(whole as f32 != value)
}

/// The standard deviation of ln time of a mode: base + slope × that of ln power. One teacher predicts
/// both from the same modes, so both grow with the distance to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeSpread {
    /// In units of a spread, 0 … 32,767.
    pub base: u16,
    /// In units of 1/4,096, at most 4.
    pub slope: u16,
}

impl TimeSpread {
    /// Units of a slope.
    pub const SLOPE_ONE: f32 = 4_096.0;

    /// The largest slope in units.
    pub const MOST_SLOPE: u16 = 4 * 4_096;

    /// The spread of the time in units of a spread of the power, from that of the power.
    pub fn for_power_spread(self, spread: i32) -> f32 {
        f32::from(self.base) + f32::from(self.slope) / Self::SLOPE_ONE * spread as f32
    }
}

/// The largest spread in units: 15 bits.
pub(crate) const MOST_SPREAD: u16 = 0x7FFF;

/// How the sum of the third output becomes a spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpreadScale {
    pub shift: u32,
    pub least: u16,
}

impl SpreadScale {
    /// Of a model without spreads.
    pub const NONE: Self = Self { shift: 0, least: 0 };

    #[inline(always)]
    pub fn spread(self, sum: i32) -> i32 {
        (sum >> (self.shift & 31))
            .max(i32::from(self.least))
            .min(i32::from(MOST_SPREAD))
    }
}

#[cfg(test)]
mod tests {
    use super::Widening;

    #[test]
    fn a_widening_is_rounded_up_by_less_than_its_resolution() {
        for steps in [
            0.0_f32, 1e-7, 0.01, 0.999, 1.0, 1.5, 77.25, 4_321.0, 65_536.0,
        ] {
            let widening = Widening::new(steps);
            for spread in [0, 1, 500, 32_767] {
                let exact = f64::from(steps) * f64::from(spread);
                let found = f64::from(widening.widen(-7, spread) + 7);
                // The multiplier has 15 bits or more, and the shift rounds down.
                let resolution =
                    1.0 + exact / 32_768.0 + f64::from(spread) / f64::from(1_u32 << 31);
                assert!(found > exact - 1.0, "{steps} · {spread}: {found}");
                assert!(found <= exact + resolution, "{steps} · {spread}: {found}");
            }
        }
    }
}
