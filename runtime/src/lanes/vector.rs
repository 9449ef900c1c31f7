//! What a vector of modes is, and what it can do.

use nalgebra::Vector2;

/// The modes in a vector: as many as the sums of two outputs find registers for.
pub const LANES: usize = if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
    8
} else {
    2
};

/// The vectors of a batch of modes. A batch is the same on every target, and with it the order
/// in which modes are visited.
pub const VECTORS: usize = BATCH / LANES;

/// The modes of a batch.
pub const BATCH: usize = 8;

/// The activations or weights of two neighbouring units.
pub type Pair = Vector2<i16>;

/// An i32 in the place of a pair.
pub fn pair_of(value: i32) -> Pair {
    Pair::new(value as i16, (value >> 16) as i16)
}

/// The inverse of [`pair_of`].
pub fn value_of(pair: Pair) -> i32 {
    let [[low, high]] = pair.data.0;
    i32::from(high) << 16 | i32::from(low.cast_unsigned())
}

/// A pair of units for each mode.
pub type Tile = [Pair; LANES];

/// The operations of the innermost loops. No sum may leave the range of its type: the
/// bounds of [`network`](crate::network) see to that.
pub trait Vector: Copy {
    /// A sum for each mode.
    type Sums: Copy;

    /// The pairs of a tile.
    fn load(tile: &Tile) -> Self;

    /// The inverse of [`Vector::load`].
    fn store(self) -> Tile;

    /// The same pair for every mode.
    fn splat(pair: Pair) -> Self;

    /// The sums, unit by unit.
    fn add(self, other: Self) -> Self;

    /// The positive parts, max(0, self).
    fn relu(self) -> Self;

    /// The same sum for every mode.
    fn splat_sum(sum: i32) -> Self::Sums;

    /// sums + self · weights, where · adds the two products of a pair.
    fn add_products(self, weights: Self, sums: Self::Sums) -> Self::Sums;

    /// The activations of two units: each sum shifted to the right, within 0 … 2^15 − 1.
    fn activations(sums: [Self::Sums; 2], shifts: [u32; 2]) -> Self;

    /// The sums, mode by mode.
    fn store_sums(sums: Self::Sums) -> [i32; LANES];
}
