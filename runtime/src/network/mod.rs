//! The network: per-axis features, integer layers; log time, log power and the power's spread out.
//!
//! **Layer 1 is a sum of table rows.** Every input depends on one axis only: three features of the knob,
//! and for each clock of CPU and GPU a level that the file states, since clocks do not lie on a smooth curve. So the product
//! of the first layer's weights with a mode's features is a sum of four rows, one for each axis
//! value. The rows are computed once; the largest board has 60.
//!
//! **The rest is integer arithmetic.** Rows are i16, weights i8, sums i32. Integer sums do not
//! depend on the order of their terms, so every target and every compiler gives the same bits, with
//! or without a floating-point unit. Sums cannot overflow: an entry of a row lies within −8,192 …
//! 8,191, so four add up to an i16; at most 256 inputs of at most 32,767 × 127 and a bias within
//! ±2³⁰ stay below 2³¹.
//!
//! The outputs are the logarithms of time and power, in units that the file states, and the standard
//! deviation of the latter, shifted to 15 bits. Modes are compared by these integers; only the
//! points of a front are converted.
//!
//! # The sweep
//!
//! A vector holds modes that differ only in their GPU and memory clocks. A *tile* holds, for each
//! of these modes, the sum of its two table rows. Adding the sum of the rows of CPU clock and cores
//! gives layer 1. So the loops run over tiles, CPU clocks and cores, and layer 1 costs one addition
//! per unit.

mod dense;
mod output;
mod parts;
mod rows;
mod sweep;
mod workspace;

pub use parts::{WorkspaceTooSmall, workspace_pairs};
pub use rows::{AxisFeatures, LEVEL_ONE, ROW_LIMIT, ROW_SCALE_ONE};
pub use sweep::Network;
pub use workspace::Workspace;

pub(crate) use sweep::Batch;
pub(crate) use workspace::with_network;
