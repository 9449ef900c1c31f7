//! Compares published measurements of real boards with the simulated board.
//!
//! Sources: PowerTrain (Future Generation Computer Systems 2024), Characterizing
//! (SIGMETRICS 2023), and, for rails and idle loads, forum threads and logs of users. The
//! constants of boards and workloads were chosen to match those that are marked as fitted; the others
//! test the choice. A test checks the bounds.

mod anchor;
mod catalogue;
mod collection;
mod feeding;
mod orin;
mod rails;
mod xavier;

pub use anchor::{Anchor, Bound};
pub use catalogue::{AnchorError, Catalogue, Shipped};
use collection::Anchors;

/// All anchors, in the order of their sources.
pub fn anchors(catalogue: &dyn Catalogue) -> Result<Vec<Anchor>, AnchorError> {
    let mut anchors = Anchors {
        catalogue,
        all: Vec::new(),
    };
    orin::maxn(&mut anchors)?;
    orin::grid(&mut anchors)?;
    xavier::times_and_power(&mut anchors)?;
    xavier::effects(&mut anchors)?;
    feeding::workers_and_storage(&mut anchors)?;
    feeding::minibatches(&mut anchors)?;
    feeding::energy(&mut anchors)?;
    rails::rails(&mut anchors)?;
    Ok(anchors.all)
}
