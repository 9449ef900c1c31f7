//! The dimensions of a network, and the list of supported layer shapes.
//!
//! A shape consists of the widths of the hidden layers. Every width is even, because neurons are
//! computed in pairs, and at most 256, so that no sum overflows.

use core::fmt;

use crate::grid::Axis;

/// Number of features per axis: logarithm, inverse and value of the knob.
pub const FEATURES: usize = 3;

/// Number of inputs of the first layer that are curves of a knob: [`FEATURES`] for each axis, in the
/// order of the axes.
pub const CURVES: usize = FEATURES * Axis::ALL.len();

/// The axes of which each value has a level of its own: clocks do not lie on a smooth curve.
pub const LEVELLED: [Axis; 2] = [Axis::Cpu, Axis::Gpu];

/// Number of inputs of the first layer: [`CURVES`], then the levels of [`LEVELLED`].
pub const INPUTS: usize = CURVES + LEVELLED.len();

/// The bias of a later layer lies within ± this value.
pub const BIAS_LIMIT: i32 = 1 << 30;

/// Widths of up to three hidden layers as stored in a file; 0 = no such layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Widths(pub [u16; 3]);

impl fmt::Display for Widths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self([first, rest @ ..]) = self;
        write!(f, "{first}")?;
        rest.iter()
            .filter(|&&width| width != 0)
            .try_for_each(|width| write!(f, "-{width}"))
    }
}

/// A supported layer shape.
///
/// A reader refuses a model of another shape. Without the feature `large-shapes` the largest shape
/// is not supported, so no file can make firmware use more stack than the other shapes need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shape {
    /// One layer of 16, for the smallest targets.
    Wide16,
    /// One layer of 32, the trainer's default: as accurate as 16-16 with a quarter of its
    /// multiplications.
    Wide32,
    /// Two layers of 8.
    Deep8x8,
    /// Two layers of 16.
    Deep16x16,
    /// PowerTrain's layers, for comparisons on a workstation.
    #[cfg(feature = "large-shapes")]
    PowerTrain,
}

impl Shape {
    /// Every supported shape.
    pub const ALL: &[Self] = &[
        Self::Wide16,
        Self::Wide32,
        Self::Deep8x8,
        Self::Deep16x16,
        #[cfg(feature = "large-shapes")]
        Self::PowerTrain,
    ];

    /// Looks up the shape with these widths.
    pub fn from_widths(widths: Widths) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|shape| shape.widths() == widths)
    }

    /// The widths of the hidden layers.
    #[inline(never)]
    pub const fn widths(self) -> Widths {
        Widths(match self {
            Self::Wide16 => [16, 0, 0],
            Self::Wide32 => [32, 0, 0],
            Self::Deep8x8 => [8, 8, 0],
            Self::Deep16x16 => [16, 16, 0],
            #[cfg(feature = "large-shapes")]
            Self::PowerTrain => [256, 128, 64],
        })
    }
}

impl Shape {
    /// All layers of a network with this shape, in the order of a file; absent layers have width 0.
    #[inline(never)]
    pub(crate) fn layers(self, outputs: u8) -> [Layer; 4] {
        let Widths(widths) = self.widths();
        let [first, second, third] = widths.map(usize::from);
        let layer = |width, inputs, tail| Layer {
            width,
            inputs,
            tail,
        };
        let last = widths.into_iter().rfind(|width| *width > 0).unwrap_or(0);
        [
            layer(first, CURVES, FIRST_TAIL),
            layer(second, first, HIDDEN_TAIL),
            layer(third, second, HIDDEN_TAIL),
            layer(usize::from(outputs), usize::from(last), OUTPUT_TAIL),
        ]
    }
}

/// Maximum number of outputs: log time, log power, and the power's spread.
pub(crate) const OUTPUTS: usize = 3;

/// The dimensions of one layer. A file stores one row per neuron: the weights, then the tail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layer {
    /// The number of neurons.
    pub width: usize,
    /// The number of weights per neuron.
    pub inputs: usize,
    /// The number of bytes after the weights.
    tail: usize,
}

impl Layer {
    /// The length of a row in bytes; never 0.
    pub fn row(&self) -> usize {
        (self.inputs + self.tail).max(1)
    }

    /// The length of all rows in bytes.
    pub fn bytes(&self) -> usize {
        self.width * self.row()
    }
}

/// Tail of a first-layer neuron: scale (u16), bias (i16).
pub(crate) const FIRST_TAIL: usize = 4;

/// Tail of a neuron of another hidden layer: bias (i32), shift (u8).
const HIDDEN_TAIL: usize = 5;

/// Tail of an output: bias (i32), scale (f32).
const OUTPUT_TAIL: usize = 8;

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.widths().fmt(f)
    }
}
