//! Physical quantities as integers, so that all targets agree exactly.
//!
//! Every quantity that a caller sees is a whole number of the unit in its name.
//! Conversions to a power or a time that is shown round up. A network's logarithm becomes an integer
//! first, which is a model's rounding and lies within its guard band.
//!
//! ```
//! use wattgate_runtime::{Confidence, Milliwatts};
//!
//! let limit = Milliwatts(5_000);
//! assert_eq!(limit.to_string(), "5000 mW");
//! assert_eq!(Confidence::new(9_500), Some(Confidence::P95));
//! assert_eq!(Confidence::new(10_000), None, "certainty is not on offer");
//! ```

use core::fmt;

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident, $symbol:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!("{} ", $symbol), self.0)
            }
        }
    };
}

unit!(
    /// A clock frequency in kHz, the unit of cpufreq; range 1 … 4,294,967,295.
    Kilohertz,
    "kHz"
);
unit!(
    /// A power in mW, saturating at 4.29 MW.
    Milliwatts,
    "mW"
);
unit!(
    /// A time in µs, saturating at 4,294,967,295 µs (71.5 minutes).
    Microseconds,
    "µs"
);

/// A time in ms, as a point in time or a duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Milliseconds(pub u64);

impl Milliseconds {
    /// The time since `earlier`; 0 if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

/// The probability with which a measured value stays within its guard band,
/// in units of 1/10,000; range 5,000 … 9,999 (50 % … 99.99 %).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Confidence(u16);

impl Confidence {
    /// 50 %: the prediction without margin, as often too low as too high.
    pub const P50: Self = Self(5_000);
    /// 95 %, the default of every command.
    pub const P95: Self = Self(9_500);

    /// Creates a confidence; `None` outside 5,000 … 9,999.
    pub const fn new(per_ten_thousand: u16) -> Option<Self> {
        if per_ten_thousand >= 5_000 && per_ten_thousand < 10_000 {
            Some(Self(per_ten_thousand))
        } else {
            None
        }
    }

    /// The confidence in units of 1/10,000.
    pub const fn per_ten_thousand(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 100, self.0 % 100);
        match (rest, rest % 10) {
            (0, _) => write!(f, "{whole} %"),
            (_, 0) => write!(f, "{whole}.{} %", rest / 10),
            _ => write!(f, "{whole}.{rest:02} %"),
        }
    }
}

/// A ratio ≥ 1 in units of 1/65,536 (Q16), by which a prediction is multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Factor(u32);

impl Factor {
    /// No margin.
    pub const ONE: Self = Self(1 << 16);

    /// Creates a factor; `None` below one.
    pub const fn from_q16(q16: u32) -> Option<Self> {
        if q16 >= Self::ONE.0 {
            Some(Self(q16))
        } else {
            None
        }
    }

    /// In units of 1/65,536.
    pub const fn q16(self) -> u32 {
        self.0
    }

    /// `value` × factor, rounded up, saturating.
    pub const fn widen(self, value: u32) -> u32 {
        scale_up(value, self.0)
    }
}

/// `value` × `q16` / 65,536, rounded up, saturating.
const fn scale_up(value: u32, q16: u32) -> u32 {
    let product = value as u64 * q16 as u64 + 0xFFFF;
    let whole = product >> 16;
    if whole > u32::MAX as u64 {
        u32::MAX
    } else {
        whole as u32
    }
}
