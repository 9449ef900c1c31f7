//! Dynamics: recorded power over time, beside the loads that the simulator plays.
//!
//! Modules from the bottom to the top:
//!
//! | question | module |
//! |---|---|
//! | what a board's sensor showed over time | [`trace`]: [`Trace`], [`Run`] |
//! | how the power of a phase varies | [`statistics`] |
//! | how a change of the power looks, and the time constant of the sensor | [`edges`] |
//! | what the sensor of a simulated board shows under a load | [`simulated`] |
//! | both beside each other | [`comparison`]: [`Comparison`] |
//!
//! Recorded and simulated runs have the same type, and go through the same functions.

pub mod comparison;
pub mod edges;
pub mod simulated;
pub mod statistics;
pub mod trace;

pub use comparison::Comparison;
pub use trace::{Run, Trace};

/// The middle value; the mean of the two middle ones of an even number. NaN without values.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = |at: usize| values.get(at).copied().unwrap_or(f64::NAN);
    f64::midpoint(
        middle(values.len().saturating_sub(1) / 2),
        middle(values.len() / 2),
    )
}
