//! The memory of a network: provided by the caller or on the stack.

use super::parts::{WorkspaceTooSmall, workspace_pairs};
use super::sweep::Network;
#[cfg(feature = "large-shapes")]
use super::sweep::row_values;
use crate::grid::{MAX_AXIS_VALUES, ModeId};
use crate::lanes::Pair;
use crate::model::Model;
use crate::prediction::Prediction;
use crate::region::Region;
use crate::shape::Shape;

/// Memory for the tables of a [`Network`], `PAIRS` × 4 bytes.
///
/// [`Model::sweep`] and [`Front::from_model`](crate::Front::from_model) take their memory from the stack. A target
/// with a small stack provides this instead; [`workspace_pairs`] computes the size.
///
/// ```
/// use wattgate_runtime::{Confidence, Front, Model, Query};
/// use wattgate_runtime::network::{Workspace, workspace_pairs};
/// use wattgate_runtime::shape::Shape;
///
/// # let file = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/tx1-image5000.wgt"));
/// // A TX1 has 4 numbers of cores, 17 CPU clocks and 5 memory clocks.
/// const PAIRS: usize = workspace_pairs(Shape::Wide32, 4 + 17 + 5);
/// let (mut workspace, mut front) = (Workspace::<PAIRS>::new(), Front::<128>::new());
///
/// let model = Model::parse(file).unwrap();
/// let mut network = workspace.network(&model).unwrap();
/// front.rebuild(&mut network, &model.profiled(), Confidence::P95);
/// assert!(front.select(&Query::default()).is_ok());
///
/// let mut smaller = Workspace::<{ PAIRS - 1 }>::new();
/// assert_eq!(smaller.network(&model).unwrap_err().needed, PAIRS);
/// ```
#[derive(Clone, Debug)]
#[repr(align(32))]
pub struct Workspace<const PAIRS: usize>([Pair; PAIRS]);

impl<const PAIRS: usize> Workspace<PAIRS> {
    /// Creates a zeroed workspace; as a `static` it takes no flash.
    pub const fn new() -> Self {
        Self([Pair::new(0, 0); PAIRS])
    }

    /// Builds the model's network with its tables in this memory.
    pub fn network<'a>(
        &'a mut self,
        model: &'a Model<'_>,
    ) -> Result<Network<'a>, WorkspaceTooSmall> {
        let Self(memory) = self;
        Network::new(model, memory)
    }
}

impl<const PAIRS: usize> Default for Workspace<PAIRS> {
    fn default() -> Self {
        Self::new()
    }
}

/// Pairs for every shape without `large-shapes`, on any grid.
const USUAL: usize = workspace_pairs(Shape::Wide32, MAX_AXIS_VALUES);

/// Enough for any model.
#[cfg(feature = "large-shapes")]
const LARGEST: usize = workspace_pairs(Shape::PowerTrain, MAX_AXIS_VALUES);

/// Runs `f` with the network of a model, with its tables on the stack. Separate functions ensure
/// that only the largest shape uses the largest stack frame.
pub(crate) fn with_network(model: &Model<'_>, f: impl FnOnce(Network<'_>)) {
    #[inline(never)]
    fn with<const PAIRS: usize>(model: &Model<'_>, f: impl FnOnce(Network<'_>)) {
        if let Ok(network) = Workspace::<PAIRS>::new().network(model) {
            f(network);
        }
    }
    #[cfg(feature = "large-shapes")]
    if workspace_pairs(model.shape(), row_values(model.grid())) > USUAL {
        return with::<LARGEST>(model, f);
    }
    with::<USUAL>(model, f);
}

impl Model<'_> {
    /// Predicts every mode of a region once, in an unspecified order. A region of another grid has
    /// no modes.
    pub fn sweep(&self, region: &Region, visit: impl FnMut(ModeId, Prediction)) {
        with_network(self, |mut network| network.sweep(region, visit));
    }
}

#[cfg(all(test, not(feature = "large-shapes")))]
mod tests {
    use super::*;

    #[test]
    fn every_shape_finds_room_on_the_stack() {
        for shape in Shape::ALL {
            assert!(workspace_pairs(*shape, MAX_AXIS_VALUES) <= USUAL, "{shape}");
        }
        assert!(size_of::<Workspace<USUAL>>() <= 6_400);
    }
}
