//! A published figure beside the simulated one, and the bound that holds between them.

use serde::Serialize;

/// A published figure and the simulated one.
#[derive(Clone, Debug, Serialize)]
pub struct Anchor {
    /// The measured quantity.
    pub what: String,
    /// Source of the published figure.
    pub source: &'static str,
    /// Unit of both figures.
    pub unit: &'static str,
    /// Published figure.
    pub published: f64,
    /// Simulated figure.
    pub simulated: f64,
    /// The bound that must hold.
    pub bound: Bound,
    /// Whether constants were chosen to match the figure. The others test the constants.
    pub fitted: bool,
}

/// Bound of an anchor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The error is at most this many percent, or percentage points for an effect.
    Percent(f64),
    /// Both figures have the same sign.
    Sign,
    /// No bound: the anchor is only shown.
    None,
}

impl Anchor {
    /// Error of the simulated figure, in percent of the published one. For an effect, which is a
    /// percentage itself, the error is in percentage points.
    pub fn error(&self) -> f64 {
        match self.unit {
            "%" => self.simulated - self.published,
            _ => 100.0 * (self.simulated / self.published - 1.0),
        }
    }

    /// Whether the bound holds.
    pub fn held(&self) -> bool {
        match self.bound {
            Bound::Percent(most) => self.error().abs() <= most,
            Bound::Sign => self.simulated.signum() == self.published.signum(),
            Bound::None => true,
        }
    }
}
