//! What a model predicts for one mode.

/// The logarithms of time and power that a model predicts for one mode, as integers in units of its file. A larger
/// integer is a larger time or power; [`Model::time`](crate::Model::time) and [`Model::power`](crate::Model::power)
/// convert them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prediction {
    /// Logarithm of the time.
    pub log_time: i32,
    /// Logarithm of the power; 0 for a model without power.
    pub log_power: i32,
    /// Standard deviation of ln power, 0 … 32,767, in units of
    /// [`Model::spread_resolution`](crate::Model::spread_resolution). A model that states no deviations has 0.
    pub spread: i32,
}
