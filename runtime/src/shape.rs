//! The layer shapes that a model may have, listed in one place.
//!
//! A shape is the widths of the hidden layers. It becomes supported by a line in the table
//! at the end of this file; the reader, the sweep and the error messages follow from it.

use core::fmt;

use crate::format::Model;
use crate::grid::ModeId;
use crate::network::{Hidden, Network, Output, Prediction};
use crate::region::Region;

/// Widths of up to three hidden layers as they stand in a file; 0 = no such layer.
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

macro_rules! shapes {
    ($($(#[$doc:meta])* $name:ident = $network:ty;)*) => {
        /// A supported layer shape.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Shape {
            $($(#[$doc])* $name,)*
        }

        impl Shape {
            /// Every supported shape.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The shape with these widths.
            pub fn from_widths(widths: Widths) -> Option<Self> {
                Self::ALL.iter().copied().find(|shape| shape.widths() == widths)
            }

            /// The widths of the hidden layers.
            pub const fn widths(self) -> Widths {
                match self {
                    $(Self::$name => <$network>::WIDTHS,)*
                }
            }
        }

        /// Runs the network that the model's shape names over a region.
        pub(crate) fn sweep(
            model: &Model<'_>,
            region: &Region,
            visit: impl FnMut(ModeId, Prediction),
        ) {
            match model.shape() {
                $(Shape::$name => <$network>::sweep_once(model, region, visit),)*
            }
        }
    };
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.widths().fmt(f)
    }
}

shapes! {
    /// One layer of 16, for the smallest targets.
    Wide16 = Network<Output<16>, 16>;
    /// One layer of 32, the trainer's default: as exact as 16-16 at a quarter of its
    /// multiplications.
    Wide32 = Network<Output<32>, 32>;
    /// Two layers of 8.
    Deep8x8 = Network<Hidden<8, 8, Output<8>>, 8>;
    /// Two layers of 16.
    Deep16x16 = Network<Hidden<16, 16, Output<16>>, 16>;
    /// PowerTrain's layers, for comparisons on a workstation.
    PowerTrain = Network<Hidden<256, 128, Hidden<128, 64, Output<64>>>, 256>;
}
