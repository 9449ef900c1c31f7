//! Numbers of the page, rounded so that the page stays small.

/// Rounds to a number of decimal places.
pub fn round(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}
