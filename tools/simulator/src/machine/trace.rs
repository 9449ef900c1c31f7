//! The truth about the power, at every change of it.

/// A stretch of constant power.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// How long it lasts.
    pub seconds: f64,
    /// The module's power.
    pub watts: f64,
    /// The same without the random [`RIPPLE`](super::RIPPLE).
    pub calm_watts: f64,
    /// Minibatches since time zero, at its end.
    pub minibatches: f64,
}
