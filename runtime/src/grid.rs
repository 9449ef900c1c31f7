//! Power modes and the grid of all modes of a board.
//!
//! A grid is four sorted axes: online cores, CPU, GPU and EMC (memory) clock. A
//! model file carries its own axes, so any board works. Each mode has a dense
//! id; ids run over the EMC clock first, then GPU, CPU and cores.
//!
//! ```
//! use wattgate_runtime::{Kilohertz, ModeId};
//! use wattgate_runtime::grid::{Axis, Grid};
//!
//! let grid = Grid::new([&[1, 2, 4], &[102_000, 204_000], &[460_800], &[800_000, 1_600_000]])?;
//! assert_eq!(grid.modes(), 12);
//! let mode = grid.mode(ModeId(5)).unwrap();
//! assert_eq!((mode.cores, mode.cpu), (2, Kilohertz(102_000)));
//! assert_eq!(mode.emc, Kilohertz(1_600_000));
//! assert_eq!(grid.id(mode), Some(ModeId(5)));
//! assert_eq!(grid.axis(Axis::Cores), [1, 2, 4]);
//! # Ok::<(), wattgate_runtime::grid::GridError>(())
//! ```

use core::{error, fmt};

use serde::{Deserialize, Serialize};

use crate::crc::Crc32;
use crate::list::List;
use crate::quantities::Kilohertz;

/// Maximum total number of values on the four axes of a grid. The largest known board, the AGX
/// Xavier, has 60.
pub const MAX_AXIS_VALUES: usize = 80;

/// Maximum number of modes of a grid: ids are 16 bits wide.
pub const MAX_MODES: u32 = 65_535;

/// The knobs of a power mode, in the order of the axes in a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Axis {
    /// Online CPU cores.
    Cores,
    /// CPU clock, kHz.
    Cpu,
    /// GPU clock, kHz.
    Gpu,
    /// Memory clock, kHz.
    Emc,
}

impl Axis {
    /// All axes in the order of a grid.
    pub const ALL: [Self; 4] = [Self::Cores, Self::Cpu, Self::Gpu, Self::Emc];
}

/// One power mode of a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PowerMode {
    /// Online CPU cores.
    pub cores: u32,
    /// CPU clock.
    pub cpu: Kilohertz,
    /// GPU clock.
    pub gpu: Kilohertz,
    /// Memory clock.
    pub emc: Kilohertz,
}

impl PowerMode {
    /// The knobs in the order of the axes.
    pub const fn knobs(self) -> [u32; 4] {
        [self.cores, self.cpu.0, self.gpu.0, self.emc.0]
    }

    /// The inverse of [`PowerMode::knobs`].
    pub const fn from_knobs([cores, cpu, gpu, emc]: [u32; 4]) -> Self {
        Self {
            cores,
            cpu: Kilohertz(cpu),
            gpu: Kilohertz(gpu),
            emc: Kilohertz(emc),
        }
    }
}

impl fmt::Display for PowerMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} core{}, CPU {}, GPU {}, EMC {}",
            self.cores,
            if self.cores == 1 { "" } else { "s" },
            self.cpu,
            self.gpu,
            self.emc
        )
    }
}

/// The index of a mode in its grid, 0 … modes − 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModeId(pub u16);

impl ModeId {
    /// The id of no mode of any grid: the mode of fewest cores and lowest clocks that a board can be set
    /// to, which the grid of a model may lack.
    pub const LEAST: Self = Self(u16::MAX);
}

/// Why four axes do not form a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GridError {
    /// The lengths of the axes do not add up to the number of values.
    LengthsDisagree,
    /// An axis has no value.
    EmptyAxis,
    /// An axis is not strictly ascending, or starts at zero.
    NotAscending,
    /// The axes hold more than [`MAX_AXIS_VALUES`] values together.
    TooManyValues,
    /// The product of the axis lengths exceeds [`MAX_MODES`].
    TooManyModes,
}

impl fmt::Display for GridError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LengthsDisagree => write!(f, "the grid's axis lengths do not add up"),
            Self::EmptyAxis => write!(f, "an axis of the grid is empty"),
            Self::NotAscending => write!(f, "an axis of the grid is not ascending from above zero"),
            Self::TooManyValues => write!(
                f,
                "the axes of the grid hold more than {MAX_AXIS_VALUES} values"
            ),
            Self::TooManyModes => write!(f, "the grid has more than {MAX_MODES} modes"),
        }
    }
}

impl error::Error for GridError {}

/// All modes of a board: the product of four strictly ascending axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid(pub(crate) Axes);

/// The unchecked axes as stored in a file: four lengths, then all values, axis after axis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axes {
    /// The number of values of each axis.
    pub lengths: [u8; 4],
    /// The values of all axes, axis after axis.
    pub values: List<u32, MAX_AXIS_VALUES>,
}

impl Grid {
    /// Creates a grid from its axes in the order of [`Axis::ALL`].
    pub fn new(axes: [&[u32]; 4]) -> Result<Self, GridError> {
        let mut lengths = [0; 4];
        let mut values = List::new();
        for (length, axis) in lengths.iter_mut().zip(axes) {
            *length = u8::try_from(axis.len()).map_err(|_| GridError::TooManyValues)?;
            for value in axis {
                values.push(*value).map_err(|_| GridError::TooManyValues)?;
            }
        }
        Self::try_from(Axes { lengths, values })
    }

    /// The values of one axis, strictly ascending.
    pub fn axis(&self, axis: Axis) -> &[u32] {
        self.0.axis(axis)
    }

    /// The number of modes, 1 … [`MAX_MODES`].
    pub fn modes(&self) -> u32 {
        self.0.lengths.iter().map(|&n| u32::from(n)).product()
    }

    /// The mode with this id; `None` from [`Grid::modes`] on.
    pub fn mode(&self, ModeId(id): ModeId) -> Option<PowerMode> {
        let mut rest = usize::from(id);
        let mut knobs = [0; 4];
        for (knob, axis) in knobs.iter_mut().rev().zip(Axis::ALL.into_iter().rev()) {
            let values = self.axis(axis);
            *knob = *values.get(rest.checked_rem(values.len())?)?;
            rest = rest.checked_div(values.len())?;
        }
        (rest == 0).then_some(PowerMode::from_knobs(knobs))
    }

    /// The id of a mode; `None` if a knob is not on its axis.
    pub fn id(&self, mode: PowerMode) -> Option<ModeId> {
        let mut id = 0;
        for (knob, axis) in mode.knobs().into_iter().zip(Axis::ALL) {
            let values = self.axis(axis);
            id = id * values.len() + values.binary_search(&knob).ok()?;
        }
        u16::try_from(id).ok().map(ModeId)
    }

    /// A CRC-32 over the four lengths (one byte each) and all values (little-endian u32, axis after
    /// axis). It identifies a grid.
    pub fn hash(&self) -> u32 {
        let lengths = Crc32::new().update(&self.0.lengths);
        let all = self
            .0
            .values
            .iter()
            .fold(lengths, |crc, value| crc.update(&value.to_le_bytes()));
        all.finish()
    }

    /// The axes as stored in a file.
    pub fn axes(&self) -> &Axes {
        &self.0
    }
}

impl Axes {
    /// Creates axes without values, to be filled and verified.
    pub(crate) const fn none() -> Self {
        Self {
            lengths: [0; 4],
            values: List::new(),
        }
    }

    #[inline(never)]
    fn axis(&self, axis: Axis) -> &[u32] {
        let mut lengths = self.lengths.iter().map(|&n| usize::from(n));
        let start: usize = lengths.by_ref().take(axis as usize).sum();
        let length = lengths.next().unwrap_or(0);
        self.values
            .get(start..)
            .and_then(|rest| rest.get(..length))
            .unwrap_or(&[])
    }

    /// Checks whether the axes form a grid.
    pub(crate) fn verify(&self) -> Result<(), GridError> {
        let total: usize = self.lengths.iter().map(|&n| usize::from(n)).sum();
        if total != self.values.len() {
            return Err(GridError::LengthsDisagree);
        }
        let mut modes = 1_u32;
        for &axis in &Axis::ALL {
            let values = self.axis(axis);
            if values.is_empty() {
                return Err(GridError::EmptyAxis);
            }
            let mut last = 0;
            for &value in values {
                if value <= last {
                    return Err(GridError::NotAscending);
                }
                last = value;
            }
            modes = modes.saturating_mul(u32::try_from(values.len()).unwrap_or(u32::MAX));
        }
        if modes > MAX_MODES {
            return Err(GridError::TooManyModes);
        }
        Ok(())
    }
}

impl TryFrom<Axes> for Grid {
    type Error = GridError;

    fn try_from(axes: Axes) -> Result<Self, GridError> {
        axes.verify()?;
        Ok(Self(axes))
    }
}
