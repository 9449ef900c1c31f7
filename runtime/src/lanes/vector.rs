//! The vector of modes: its types and operations.

use nalgebra::Vector2;

/// Number of modes in a vector: the most for which the sums of two outputs fit in registers.
pub const LANES: usize = if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
    8
} else {
    2
};

/// Number of vectors in a batch. A batch is the same on every target, and so is the order in which
/// modes are visited.
pub const VECTORS: usize = BATCH / LANES;

/// Number of modes in a batch.
pub const BATCH: usize = 8;

/// The activations or weights of two neighbouring neurons.
pub type Pair = Vector2<i16>;

/// Stores an i32 in a pair.
pub fn pair_of(value: i32) -> Pair {
    Pair::new(value as i16, (value >> 16) as i16)
}

/// The inverse of [`pair_of`].
pub fn value_of(pair: Pair) -> i32 {
    let [[low, high]] = pair.data.0;
    i32::from(high) << 16 | i32::from(low.cast_unsigned())
}

/// A pair of neurons for each mode.
pub type Tile = [Pair; LANES];

/// The operations of the innermost loops. Callers must keep every sum in range, as the bounds of
/// [`network`](crate::network) do.
pub trait Vector: Copy {
    /// One sum per mode.
    type Sums: Copy;

    /// Loads the pairs of a tile.
    fn load(tile: &Tile) -> Self;

    /// The inverse of [`Vector::load`].
    fn store(self) -> Tile;

    /// The same pair for every mode.
    fn splat(pair: Pair) -> Self;

    /// Adds neuron by neuron.
    fn add(self, other: Self) -> Self;

    /// The positive parts, max(0, self).
    fn relu(self) -> Self;

    /// The same sum for every mode.
    fn splat_sum(sum: i32) -> Self::Sums;

    /// sums + self · weights, where · adds the two products of a pair.
    fn add_products(self, weights: Self, sums: Self::Sums) -> Self::Sums;

    /// The activations of two neurons: each sum shifted right and clamped to 0 … 2^15 − 1.
    fn activations(sums: [Self::Sums; 2], shifts: [u32; 2]) -> Self;

    /// Stores the sums, mode by mode.
    fn store_sums(sums: Self::Sums) -> [i32; LANES];
}
