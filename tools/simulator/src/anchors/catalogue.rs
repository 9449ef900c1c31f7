//! Sources of the anchors' boards and workloads.

use wattgate_board_tables::{Board, BoardError};

use crate::workload::{Workload, WorkloadError};

/// A source of boards and workloads.
pub trait Catalogue {
    /// A board that can be simulated.
    fn board(&self, name: &str) -> Result<Board, BoardError>;
    /// A workload.
    fn workload(&self, name: &str) -> Result<Workload, WorkloadError>;
}

/// The boards and workloads that are shipped.
#[derive(Clone, Copy, Debug)]
pub struct Shipped;

impl Catalogue for Shipped {
    fn board(&self, name: &str) -> Result<Board, BoardError> {
        Board::named(name)
    }

    fn workload(&self, name: &str) -> Result<Workload, WorkloadError> {
        Workload::named(name)
    }
}

/// Why anchors cannot be computed.
#[derive(Debug, thiserror::Error)]
pub enum AnchorError {
    #[error(transparent)]
    Board(#[from] BoardError),
    #[error(transparent)]
    Workload(#[from] WorkloadError),
}
