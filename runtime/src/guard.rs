//! The guard band: the margin that turns a prediction into a bound.
//!
//! For time and for power, a model states ratios of measured to predicted value. An unmeasured mode
//! exceeds a ratio with at most a stated probability, which the trainer has estimated from the
//! measured modes. A query multiplies its predictions by the ratio of its confidence. A confidence
//! beyond the data is refused: a margin without data is a guess.
//!
//! ```
//! use wattgate_runtime::{Confidence, Factor, GuardBand, GuardError, Knot};
//!
//! let knot = |per_ten_thousand, q16| Knot { per_ten_thousand, q16 };
//! let band = GuardBand::new([knot(5_000, 65_536), knot(9_000, 70_000), knot(9_500, 72_000)])?;
//! assert_eq!(band.factor(Confidence::P95), Ok(Factor::from_q16(72_000).unwrap()));
//! let between = Confidence::new(9_250).unwrap();
//! assert_eq!(band.factor(between), Ok(Factor::from_q16(71_000).unwrap()));
//! let beyond = Confidence::new(9_900).unwrap();
//! let too_high = GuardError::ConfidenceTooHigh { highest: Confidence::P95 };
//! assert_eq!(band.factor(beyond), Err(too_high));
//! # Ok::<(), GuardError>(())
//! ```

use core::{error, fmt};

use heapless::Vec;
use serde::{Deserialize, Serialize};

use crate::units::{Confidence, Factor};

/// Maximum number of knots of a guard band.
pub const MAX_KNOTS: usize = 8;

/// One unchecked point of a guard band, as stored in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Knot {
    /// Confidence in units of 1/10,000.
    pub per_ten_thousand: u16,
    /// The ratio of measured to predicted value that is not exceeded with that confidence, in units
    /// of 1/65,536.
    pub q16: u32,
}

/// Ratios by ascending confidence, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardBand(pub(crate) Vec<Knot, MAX_KNOTS>);

/// Why a guard band gives no ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GuardError {
    /// Knots are missing, too many or not ascending, or a confidence or ratio is out of range.
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
                write!(f, "the model's data supports no confidence above {highest}")
            }
        }
    }
}

impl error::Error for GuardError {}

impl GuardBand {
    /// Creates a guard band from 1 … [`MAX_KNOTS`] knots, with strictly ascending confidences and
    /// with ratios that are at least one and do not fall.
    pub fn new(knots: impl IntoIterator<Item = Knot>) -> Result<Self, GuardError> {
        let mut band = Self::none();
        for knot in knots {
            band.0.push(knot).map_err(|_| GuardError::BadKnots)?;
        }
        band.is_sound().then_some(band).ok_or(GuardError::BadKnots)
    }

    /// Creates a band without knots, to be filled and verified.
    pub(crate) const fn none() -> Self {
        Self(Vec::new())
    }

    #[inline(never)]
    pub(crate) fn is_sound(&self) -> bool {
        // Start below every valid confidence, and at the least ratio.
        let (mut confidence, mut q16) = (0, Factor::ONE.q16());
        for knot in &self.0 {
            let known = Confidence::new(knot.per_ten_thousand).is_some();
            if !known || knot.per_ten_thousand <= confidence || knot.q16 < q16 {
                return false;
            }
            (confidence, q16) = (knot.per_ten_thousand, knot.q16);
        }
        confidence > 0
    }

    /// Copies the knots of another band.
    pub(crate) fn copy(&mut self, other: &Self) {
        let Self(knots) = self;
        knots.clear();
        // Both have the same capacity.
        let _ = knots.extend_from_slice(&other.0);
    }

    /// The ratio for a confidence, interpolated between knots and rounded up. Interpolation errs on
    /// the safe side where the quantile function is convex. Below the first knot it is the first
    /// knot's ratio.
    pub fn factor(&self, confidence: Confidence) -> Result<Factor, GuardError> {
        let wanted = confidence.per_ten_thousand();
        let mut below: Option<&Knot> = None;
        for knot in &self.0 {
            if knot.per_ten_thousand >= wanted {
                let q16 = below.map_or(knot.q16, |below| interpolate(below, knot, wanted));
                return Factor::from_q16(q16).ok_or(GuardError::BadKnots);
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
