//! A measured corpus: the modes of one workload on one board, with time and power.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use thiserror::Error;
use wattgate_board_tables::{self as tables, Board, BoardError};
use wattgate_simulated_board::pipeline::Clocks;

use super::FITTED_MODES;
use super::memory;
use crate::files::corpus::{ReadError, read};

/// Minimum number of modes: those that are fitted, and some that are scored.
pub const LEAST_MODES: usize = FITTED_MODES + 5;

/// Time of the fastest mode after scaling, in s. The physics knows the time of a minibatch; a corpus may have that of a whole
/// job of unknown size.
pub const FASTEST_S: f64 = 0.25;

/// Why a corpus cannot be compared.
#[derive(Debug, Error)]
pub enum CorpusError {
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The board that `--board` or the corpus names.
    #[error("{}: {why}; --board names the board", path.display())]
    Board { path: PathBuf, why: BoardError },
    #[error("{}: {found} modes with time and power, expected at least {LEAST_MODES}: {FITTED_MODES} are fitted, and the others are scored", path.display())]
    TooFew { path: PathBuf, found: usize },
}

/// A measured mode.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    /// The knobs as the corpus states them; 0 where it does not.
    pub knobs: [u32; 4],
    /// The clocks that the board has in this mode.
    pub clocks: Clocks,
    /// Time in s, scaled so that the fastest mode takes [`FASTEST_S`].
    pub time_s: f64,
    pub power_w: f64,
}

/// A corpus.
#[derive(Clone, Debug)]
pub struct Corpus {
    /// The name of its file, without the ending.
    pub name: String,
    pub board: Board,
    pub modes: Vec<Mode>,
    /// Knobs that the corpus does not state.
    pub hidden: [bool; 4],
}

impl Corpus {
    /// Reads a corpus. The column `device` names the board unless `board` does. Repeats of a mode become their median.
    pub fn read(path: &Path, board: Option<&str>) -> Result<Self, CorpusError> {
        let corpus = read(path, None)?;
        // Times in ms and powers in mW of each mode.
        let mut measured: BTreeMap<[u32; 4], Vec<[f64; 2]>> = BTreeMap::new();
        for row in &corpus.rows {
            let repeats = measured.entry(row.knobs.map(Option::unwrap_or_default));
            repeats.or_default().push([row.time_ms, row.power_mw]);
        }
        let hidden = corpus.rows[0].knobs.map(|knob| knob.is_none());
        let stated: Vec<[u32; 4]> = measured.keys().copied().collect();
        let board = match board {
            Some(name) => Board::named(name),
            None => fitting_table(&corpus.device, &stated),
        };
        let board = board.map_err(|why| CorpusError::Board {
            path: path.to_owned(),
            why,
        })?;
        if measured.len() < LEAST_MODES {
            return Err(CorpusError::TooFew {
                path: path.to_owned(),
                found: measured.len(),
            });
        }
        let axes = board.axes();
        let mut modes = Vec::new();
        for (knobs, repeats) in measured {
            let [time_ms, power_mw] = [0, 1].map(|at| median(repeats.iter().map(|row| row[at])));
            let [cores, cpu, gpu, mut emc] = knobs;
            if emc == 0 {
                emc = memory::asked(&board.soc, cpu, gpu).unwrap_or(0);
            }
            let asked = [cores, cpu, gpu, emc];
            let driven = std::array::from_fn(|at| driven(&axes[at], asked[at]));
            modes.push(Mode {
                knobs,
                clocks: Clocks::from_knobs(&board, driven),
                time_s: time_ms,
                power_w: power_mw / 1e3,
            });
        }
        let fastest = modes
            .iter()
            .map(|mode| mode.time_s)
            .fold(f64::INFINITY, f64::min);
        for mode in &mut modes {
            mode.time_s *= FASTEST_S / fastest;
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Ok(Self {
            name: name.into_owned(),
            board,
            modes,
            hidden,
        })
    }
}

/// The median of at least one value.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => sorted[half],
        _ => (sorted[half - 1] + sorted[half]) / 2.0,
    }
}

/// The value that a board drives for one that was asked for: the next one of its table, as its drivers round up. An unstated
/// knob is at its highest value.
fn driven(axis: &[u32], asked: u32) -> u32 {
    let highest = *axis.last().expect("a table");
    if asked == 0 {
        return highest;
    }
    let at = axis.partition_point(|&value| value < asked);
    axis.get(at).copied().unwrap_or(highest)
}

/// The board of this name, or that with the same physics whose table of another JetPack has more of the clocks.
fn fitting_table(name: &str, stated: &[[u32; 4]]) -> Result<Board, BoardError> {
    let board = Board::named(name)?;
    let alike = tables::names().into_iter().filter_map(|other| {
        let other = Board::named(other).ok()?;
        (other.like.as_deref() == Some(name)).then_some(other)
    });
    let lacking = |board: &Board| {
        let axes = board.axes();
        let lacks =
            |knobs: &&[u32; 4]| (0..4).any(|at| knobs[at] != 0 && !axes[at].contains(&knobs[at]));
        stated.iter().filter(lacks).count()
    };
    let boards = std::iter::once(board).chain(alike);
    Ok(boards.min_by_key(lacking).expect("one at least"))
}
