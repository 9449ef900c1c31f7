//! What a model says of one mode.

/// What a model knows of one mode: logarithms as integers in the file's units. They can be
/// compared as they are; [`Model::time`](crate::Model::time) and [`Model::power`](crate::Model::power) convert
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prediction {
    /// Logarithm of the time.
    pub log_time: i32,
    /// Logarithm of the power; 0 for a model without power.
    pub log_power: i32,
    /// Standard deviation of the log power, 0 … 32,767; 0 for a model without spreads.
    pub spread: i32,
}
