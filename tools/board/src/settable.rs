//! Which modes of a model's grid a board can be set to, given its tables and the knobs that do not obey.
//!
//! A clock of the grid that the board's table lacks stands for the next lower one of the table, which
//! draws less: tables differ between releases of L4T, which have some clocks in common. Of several that
//! stand for the same clock, the lowest one does.
//!
//! If the board lacks the knob of an axis, nobody knows its value. The modes then have the highest value of
//! the grid, which draws most: the board draws no more than predicted, but may take more time.
//!
//! If a knob does not obey, the axis keeps the values that the knob can have. If none of them is in the grid,
//! the axis keeps the next higher one of the grid.

use thiserror::Error;
use wattgate_runtime::PowerMode;
use wattgate_runtime::grid::{Axis, Grid};

use crate::board::Board;

/// Why no mode of a grid can be set.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum SettableError {
    /// The board has none of the grid's values on this axis.
    #[error("the board has no {} of the model's grid", name(*axis))]
    NothingInCommon { axis: Axis },
}

/// The name of an axis in messages.
pub(crate) fn name(axis: Axis) -> &'static str {
    match axis {
        Axis::Cores => "number of cores",
        Axis::Cpu => "CPU clock",
        Axis::Gpu => "GPU clock",
        Axis::Emc => "memory clock",
    }
}

/// The unit of measure of an axis, after a value.
pub(crate) fn unit(axis: Axis) -> &'static str {
    match axis {
        Axis::Cores => "",
        Axis::Cpu | Axis::Gpu | Axis::Emc => " kHz",
    }
}

/// A value of a grid's axis, and the one that the board is set to for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stand {
    /// The value of the grid.
    pub grid: u32,
    /// The value of the board.
    pub board: u32,
}

/// The values of an axis that the board can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Each of these values can be set; ascending.
    Values(Vec<Stand>),
    /// The knob is missing, see [`Board::missing`]. The clock is assumed to be at this value, the
    /// highest of the grid.
    Free(u32),
}

impl Reach {
    /// The value that the board is set to for one of the grid.
    fn board(&self, value: u32) -> Option<u32> {
        match self {
            Self::Values(values) => {
                let at = values.binary_search_by_key(&value, |it| it.grid).ok()?;
                values.get(at).map(|it| it.board)
            }
            Self::Free(highest) => (value == *highest).then_some(value),
        }
    }

    /// What an actuator with this table leaves of the values, given its floor and what it is to be asked for.
    fn bounded(self, table: &[u32], floor: u32, ask: impl Fn(u32) -> Option<u32>) -> Self {
        match self {
            Self::Values(values) => Self::Values(bounded(&values, table, floor, ask)),
            free @ Self::Free(_) => free,
        }
    }
}

/// The modes of a grid that can be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settable {
    reach: [Reach; 4],
    /// For each number of cores, the values of the CPU's axis that its clusters can have.
    cpu: Vec<(u32, Reach)>,
}

impl Settable {
    /// Whether the board can be set to the mode. Does not allocate.
    pub fn can_set(&self, mode: &PowerMode) -> bool {
        self.on_board(mode).is_some()
    }

    /// The mode that the board is set to for one of the grid; `None` if it cannot be set.
    pub fn on_board(&self, mode: &PowerMode) -> Option<PowerMode> {
        let [cores, cpu, gpu, emc] = mode.knobs();
        let [of_cores, of_cpu, of_gpu, of_emc] = &self.reach;
        let clusters = self.cpu.iter().find(|(count, _)| *count == cores);
        Some(PowerMode::from_knobs([
            of_cores.board(cores)?,
            clusters.map_or(of_cpu, |(_, reach)| reach).board(cpu)?,
            of_gpu.board(gpu)?,
            of_emc.board(emc)?,
        ]))
    }

    /// The values of an axis that the board can have.
    pub fn reach(&self, axis: Axis) -> &Reach {
        &self.reach[axis as usize]
    }
}

/// The values of a grid's axis for which a board has one, given its table.
fn stands(grid: &[u32], table: &[u32]) -> Vec<Stand> {
    let mut stands: Vec<Stand> = Vec::new();
    for &value in grid {
        let Some(&board) = table.iter().rev().find(|&&khz| khz <= value) else {
            continue;
        };
        if stands.last().is_none_or(|last| last.board != board) {
            let grid = value;
            stands.push(Stand { grid, board });
        }
    }
    stands
}

/// The values from a floor on that an actuator takes: `ask` gives what to ask it for, if it takes the value. If it
/// takes none, the first value from the floor on, whose prediction bounds the power. If the whole grid is below
/// the floor, the grid's highest value, with the board's clock at the floor.
fn bounded(
    values: &[Stand],
    table: &[u32],
    floor: u32,
    ask: impl Fn(u32) -> Option<u32>,
) -> Vec<Stand> {
    let above = values.partition_point(|it| it.board < floor);
    let there = values.iter().skip(above).filter_map(|it| {
        let board = ask(it.board)?;
        Some(Stand { board, ..*it })
    });
    let there: Vec<Stand> = there.collect();
    match (&there[..], values.get(above), values.last()) {
        ([_, ..], ..) => there,
        (_, Some(next), _) => vec![*next],
        (_, None, Some(last)) => {
            let there = table.iter().find(|&&khz| khz >= floor).or(table.last());
            vec![Stand {
                board: there.copied().unwrap_or(last.board),
                ..*last
            }]
        }
        (_, None, None) => Vec::new(),
    }
}

impl Board {
    /// The modes of a grid that the board can be set to.
    pub fn settable(&self, grid: &Grid) -> Result<Settable, SettableError> {
        let knobs = &self.knobs;
        let obedience = &self.obedience;
        let khz = |value: Option<i64>, kilo: u32| {
            let khz = value.map(|value| value / i64::from(kilo));
            khz.map_or(0, |khz| u32::try_from(khz).unwrap_or(u32::MAX))
        };
        let counts = knobs.counts(obedience);
        let tables = [self.cpu_khz(), self.gpu_khz(), self.emc_khz()];
        let reach = |axis: Axis, table: &[u32]| {
            let of_grid = grid.axis(axis);
            let Some(&highest) = of_grid.last().filter(|_| table.is_empty()) else {
                let stands = match axis {
                    Axis::Cores => of_grid
                        .iter()
                        .filter(|value| table.contains(value))
                        .map(|&value| Stand {
                            grid: value,
                            board: value,
                        })
                        .collect(),
                    _ => stands(of_grid, table),
                };
                // Two releases of L4T have clocks in common, two kinds of boards need not.
                return match stands.iter().any(|it| it.grid == it.board) {
                    true => Ok(Reach::Values(stands)),
                    false => Err(SettableError::NothingInCommon { axis }),
                };
            };
            Ok(Reach::Free(highest))
        };
        let clock = |reach: Reach, actuator: usize| {
            let (table, kilo) = knobs.table(actuator);
            let floor = khz(obedience.floor(actuator), kilo);
            let ask = |khz| {
                let asked = obedience.ask(actuator, i64::from(khz) * i64::from(kilo))?;
                u32::try_from(asked / i64::from(kilo)).ok()
            };
            reach.bounded(table, floor, ask)
        };
        let all: Vec<u32> = match knobs.cpus.cores.is_empty() {
            true => Vec::new(),
            false => counts.collect(),
        };
        let [of_cpu, of_gpu, of_emc] = tables;
        let cores = reach(Axis::Cores, &all)?;
        let cpu = reach(Axis::Cpu, of_cpu)?;
        let clusters = all.iter().map(|&count| {
            let floor = knobs.cpu_floor(count, obedience);
            let ask = |khz| knobs.ask_cpu(count, khz, obedience);
            (count, cpu.clone().bounded(of_cpu, floor, ask))
        });
        Ok(Settable {
            cpu: clusters.collect(),
            reach: [
                cores,
                cpu,
                clock(reach(Axis::Gpu, of_gpu)?, knobs.gpu_actuator()),
                clock(reach(Axis::Emc, of_emc)?, knobs.memory_actuator()),
            ],
        })
    }
}
