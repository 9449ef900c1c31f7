//! Regions: boxes of the grid to which a choice is constrained.
//!
//! Every constraint narrows the range of one axis, so a constrained sweep visits fewer modes
//! instead of filtering all of them. A model starts with the region in which it was profiled. A
//! prediction outside of it is an extrapolation, and a limit must not depend on one.
//!
//! A region belongs to one grid, which it names by [`Grid::hash`]. A constraint or a sweep with
//! another grid is refused.
//!
//! ```
//! use wattgate_runtime::{Kilohertz, Region};
//! use wattgate_runtime::grid::Grid;
//! use wattgate_runtime::region::ConstraintError;
//!
//! let grid = Grid::new([&[1, 2, 4], &[102_000, 204_000], &[460_800], &[800_000, 1_600_000]])?;
//! let region = Region::all(&grid).with_min_cores(&grid, 2)?.with_emc(&grid, Kilohertz(800_000))?;
//! assert_eq!(region.modes(), 4);
//! let too_many = Region::all(&grid).with_min_cores(&grid, 5);
//! assert_eq!(too_many, Err(ConstraintError::TooFewCores { most: 4 }));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use core::{error, fmt, ops::RangeInclusive};

use serde::{Deserialize, Serialize};

use crate::grid::{Axis, Grid};
use crate::quantities::Kilohertz;

/// An inclusive range of indices on each axis of one grid.
///
/// The serialised form holds the indices only, as in a file. A deserialised region belongs to no
/// grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// [`Grid::hash`] of the grid that the indices belong to; `None` for a deserialised region.
    #[serde(skip)]
    grid: Option<u32>,
    first: [u8; 4],
    last: [u8; 4],
}

/// Why a constraint leaves no mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConstraintError {
    /// The constraint asks for more cores than any mode of the region has.
    TooFewCores {
        /// The maximum number of cores in the region.
        most: u32,
    },
    /// No mode of the region has this memory clock.
    NoSuchEmc,
    /// The region belongs to another grid.
    OtherGrid,
}

impl fmt::Display for ConstraintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFewCores { most } => write!(
                f,
                "no mode on offer has more than {most} cores; ask for {most} or fewer"
            ),
            Self::NoSuchEmc => write!(
                f,
                "no mode on offer has this memory clock; ask for one of the model's grid"
            ),
            Self::OtherGrid => write!(f, "the region belongs to the grid of another board"),
        }
    }
}

impl error::Error for ConstraintError {}

impl Region {
    /// A region to be filled.
    pub(crate) const NONE: Self = Self {
        grid: None,
        first: [0; 4],
        last: [0; 4],
    };

    /// The whole grid.
    pub fn all(grid: &Grid) -> Self {
        let last = Axis::ALL.map(|axis| index(grid.axis(axis).len().saturating_sub(1)));
        Self {
            grid: Some(grid.hash()),
            first: [0; 4],
            last,
        }
    }

    /// The smallest region that holds every one of `modes`, given by their knobs; `None` without
    /// modes or if a knob is not on its axis.
    pub fn spanning(grid: &Grid, modes: impl IntoIterator<Item = [u32; 4]>) -> Option<Self> {
        let mut bounds = None;
        for knobs in modes {
            let mut at = [0; 4];
            for ((at, knob), axis) in at.iter_mut().zip(knobs).zip(Axis::ALL) {
                *at = index(grid.axis(axis).binary_search(&knob).ok()?);
            }
            let region = bounds.get_or_insert_with(|| Self {
                grid: Some(grid.hash()),
                first: at,
                last: at,
            });
            for ((first, last), at) in region.first.iter_mut().zip(&mut region.last).zip(at) {
                *first = at.min(*first);
                *last = at.max(*last);
            }
        }
        bounds
    }

    /// Decodes a region as stored in a file: the first index of each axis, then the last indices.
    /// `grid` is the hash of the file's grid.
    pub(crate) fn of_bytes(grid: u32, [a, b, c, d, last @ ..]: [u8; 8]) -> Self {
        Self {
            grid: Some(grid),
            first: [a, b, c, d],
            last,
        }
    }

    /// Whether the region belongs to the grid with this [`Grid::hash`].
    pub(crate) fn is_of(&self, grid: u32) -> bool {
        self.grid == Some(grid)
    }

    /// Whether every index lies on its axis and no range is empty.
    pub fn is_within(&self, grid: &Grid) -> bool {
        Axis::ALL.into_iter().all(|axis| {
            let range = self.range(axis);
            !range.is_empty() && *range.end() < grid.axis(axis).len()
        })
    }

    /// Restricts the region to modes with at least `cores` online cores.
    pub fn with_min_cores(mut self, grid: &Grid, cores: u32) -> Result<Self, ConstraintError> {
        self.check(grid)?;
        let on_offer = self.values(grid, Axis::Cores);
        let below = on_offer.partition_point(|&n| n < cores);
        if below == on_offer.len() {
            return Err(ConstraintError::TooFewCores {
                most: on_offer.last().copied().unwrap_or(0),
            });
        }
        let [first, ..] = &mut self.first;
        *first = first.saturating_add(index(below));
        Ok(self)
    }

    /// Restricts the region to modes with exactly this memory clock.
    pub fn with_emc(mut self, grid: &Grid, emc: Kilohertz) -> Result<Self, ConstraintError> {
        self.check(grid)?;
        let at = self
            .values(grid, Axis::Emc)
            .binary_search(&emc.0)
            .map_err(|_| ConstraintError::NoSuchEmc)?;
        let ([.., first], [.., last]) = (&mut self.first, &mut self.last);
        *first = first.saturating_add(index(at));
        *last = *first;
        Ok(self)
    }

    fn check(&self, grid: &Grid) -> Result<(), ConstraintError> {
        let ours = self.is_of(grid.hash());
        ours.then_some(()).ok_or(ConstraintError::OtherGrid)
    }

    /// The range of indices on an axis.
    pub fn range(&self, axis: Axis) -> RangeInclusive<usize> {
        let at = |ends: &[u8; 4]| ends.get(axis as usize).map_or(0, |&i| usize::from(i));
        at(&self.first)..=at(&self.last)
    }

    /// The number of modes inside.
    pub fn modes(&self) -> usize {
        Axis::ALL
            .map(|axis| self.range(axis).count())
            .iter()
            .product()
    }

    /// The values of an axis inside the region. `grid` is the region's grid.
    pub fn values<'a>(&self, grid: &'a Grid, axis: Axis) -> &'a [u32] {
        let range = self.range(axis);
        let range = *range.start()..range.end().saturating_add(1);
        grid.axis(axis).get(range).unwrap_or(&[])
    }
}

/// An axis holds at most `MAX_AXIS_VALUES` values, so an index fits.
fn index(at: usize) -> u8 {
    u8::try_from(at).unwrap_or(u8::MAX)
}
