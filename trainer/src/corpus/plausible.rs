//! What is probably not meant as a corpus has it, though it may be right: times of another unit, and clocks or powers
//! that the board does not have. What cannot be right is a defect.
//!
//! Seconds of steps longer than one second look like the ms of a quicker workload, and no product of time with clock or power tells
//! them apart: a step may be of any size, and nobody has published a least one. `check` and `fit` print the fastest and the slowest
//! step with their units instead (`show::spans`).

use std::fmt;

use wattgate_board_tables::Board;
use wattgate_runtime::grid::Axis;

use super::clocks::{board_with, lacks, tables};
use super::{AXIS_COLUMNS, Corpus, NOT_SHOWN};

/// Steps shorter than this are rare, in ms: the inference of LeNet, a network of two convolutions, takes 0.5 ms on a Jetson.
const SHORT_MS: f32 = 1.0;

/// Steps longer than this are rare, in ms; only a job as a whole takes longer.
const LONG_MS: f32 = 60_000.0;

/// Values that a message lists.
const LISTED: usize = 3;

/// Something that is probably not meant so.
#[derive(Clone, Debug, PartialEq)]
pub enum Remark {
    /// All times are so short that they are probably in seconds.
    Short { ms: [f32; 2] },
    /// All times are so long that they are probably in microseconds.
    Long { ms: [f32; 2] },
    /// The board's over-current protection does not allow such a power.
    Power {
        most_mw: f32,
        allowed_mw: f32,
        device: String,
    },
    /// Nobody knows the number of cores.
    Cores,
    /// Values that the board does not have.
    NotOfBoard {
        column: &'static str,
        values: Vec<u32>,
        /// The board's value nearest to the first of them.
        nearest: u32,
        device: String,
        /// A board that has all values of the corpus.
        other: Option<&'static str>,
    },
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { ms: [least, most] } => write!(
                f,
                "time_ms has {least} to {most}: are these seconds? Multiply them by 1000; if they are ms, nothing is wrong"
            ),
            Self::Long { ms: [least, most] } => write!(
                f,
                "time_ms has {least} to {most}: are these microseconds? Divide them by 1000; if each is a job that takes \
                 more than a minute, nothing is wrong"
            ),
            Self::Power {
                most_mw,
                allowed_mw,
                device,
            } => write!(
                f,
                "power_mw has up to {most_mw:.0}, but the over-current protection of {device} acts at {allowed_mw:.0}: is \
                 this the unit, and the board?"
            ),
            Self::Cores => write!(
                f,
                "cores is blank in every row, and the model says {NOT_SHOWN}: wattgated would set that number; write the \
                 number of cores that were online"
            ),
            Self::NotOfBoard {
                column,
                values,
                nearest,
                device,
                other,
            } => {
                let listed: Vec<String> = values.iter().take(LISTED).map(u32::to_string).collect();
                write!(f, "{column} has {}", listed.join(", "))?;
                if values.len() > LISTED {
                    write!(f, " and {} more", values.len() - LISTED)?;
                }
                write!(f, ", which {device} does not have; ")?;
                match other {
                    Some(other) => {
                        write!(f, "{other} has all values of this file: is it that board?")
                    }
                    None => write!(f, "the nearest to {} is {nearest}", values[0]),
                }
            }
        }
    }
}

/// What is probably not meant as a corpus has it.
pub fn remarks(corpus: &Corpus) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let ends = |values: &mut dyn Iterator<Item = f32>| {
        values.fold(None, |ends: Option<[f32; 2]>, value| {
            let [least, most] = ends.unwrap_or([value; 2]);
            Some([least.min(value), most.max(value)])
        })
    };
    let modes = || corpus.modes.iter();
    match ends(&mut modes().flat_map(|mode| mode.times.iter().copied())) {
        Some(ms) if ms[1] < SHORT_MS => remarks.push(Remark::Short { ms }),
        Some(ms) if ms[0] > LONG_MS => remarks.push(Remark::Long { ms }),
        _ => {}
    }
    if !corpus.has_cores {
        remarks.push(Remark::Cores);
    }
    let device = &corpus.device;
    let powers = ends(&mut modes().flat_map(|mode| mode.powers.iter().copied()));
    if let (Some([_, most_mw]), Some(allowed_mw)) = (powers, allowed_mw(device))
        && most_mw > allowed_mw
    {
        let device = device.clone();
        remarks.push(Remark::Power {
            most_mw,
            allowed_mw,
            device,
        });
    }
    let Some(tables) = tables(device) else {
        return remarks;
    };
    let axes = Axis::ALL.map(|axis| corpus.grid.axis(axis));
    for ((column, table), axis) in AXIS_COLUMNS.into_iter().zip(&tables).zip(axes) {
        let values = lacks(table, axis);
        let distance = |known: &u32| known.abs_diff(values.first().copied().unwrap_or(*known));
        let nearest = table.iter().copied().min_by_key(distance);
        if let (Some(nearest), false) = (nearest, values.is_empty()) {
            remarks.push(Remark::NotOfBoard {
                column,
                values,
                nearest,
                device: device.clone(),
                other: board_with(axes, device),
            });
        }
    }
    remarks
}

/// The power in mW at which the over-current protection of a board acts. If it acts on the sum of the currents of several
/// rails, this multiplies the sum by the highest of their voltages, which gives an upper bound.
fn allowed_mw(device: &str) -> Option<f32> {
    let board = Board::described(device).ok()?;
    let of_total = board.rails.iter().filter(|rail| rail.total);
    let of_total: Vec<f64> = of_total.map(|rail| rail.millivolts).collect();
    let allowed_ma = match of_total.len() {
        // The limit is that of the first channel.
        1 => board.over_current.crit_ma,
        _ => board.over_current.sum_crit_ma,
    };
    let millivolts = of_total.into_iter().fold(0.0, f64::max);
    allowed_ma.map(|allowed_ma| (allowed_ma * millivolts / 1e3) as f32)
}
