//! The memory of a network's tables: its size and its parts.

use core::{error, fmt};

use super::dense::HEAD;
use super::output::output_pairs;
use super::rows::TOGETHER;
use crate::lanes::{LANES, VECTORS};
use crate::shape::{Shape, Widths};

/// The pairs that a [`Workspace`](crate::network::Workspace) needs for a shape, given the total number of
/// values on the axes of cores, CPU clocks and memory clocks.
pub const fn workspace_pairs(shape: Shape, values: usize) -> usize {
    let parts = Parts::new(shape.widths(), values);
    (parts.tiles + parts.neurons) * LANES + parts.sums + parts.rows + parts.layers
}

/// How a workspace is divided: tiles, then pairs.
pub struct Parts {
    pub tiles: usize,
    pub neurons: usize,
    pub sums: usize,
    pub rows: usize,
    pub layers: usize,
}

impl Parts {
    pub const fn new(widths: Widths, values: usize) -> Self {
        let Widths([first, second, third]) = widths;
        let [a, b, c] = [first as usize / 2, second as usize / 2, third as usize / 2];
        let last = if third > 0 {
            third
        } else if second > 0 {
            second
        } else {
            first
        };
        Self {
            tiles: VECTORS * a,
            // One hidden layer needs no memory for its activations.
            neurons: if b > 0 { a + b + c } else { 0 },
            sums: a * TOGETHER,
            rows: a * values,
            layers: b * (HEAD + 2 * a) + c * (HEAD + 2 * b) + output_pairs(last as usize),
        }
    }
}

/// A [`Workspace`](crate::network::Workspace) is too small for a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkspaceTooSmall {
    /// The pairs that the model needs.
    pub needed: usize,
}

impl fmt::Display for WorkspaceTooSmall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the model's tables need {} pairs", self.needed)
    }
}

impl error::Error for WorkspaceTooSmall {}
