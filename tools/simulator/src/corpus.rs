//! Writes profiled modes as a corpus: the common CSV format, with the kind of the board, simulated or recorded, in every
//! row.

use std::fmt::Write;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use thiserror::Error;

use crate::profile::Profile;
use crate::storage::{Epoch, Storage};
use crate::unit::Unit;
use crate::workload::{Workload, WorkloadError};
use wattgate_board_tables::Board;

/// Selection of the modes to profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modes {
    /// The modes that PowerTrain profiled.
    Papers,
    /// The ten modes that Characterizing's regression was fitted to: `a` to `j` of [`CHARACTERIZING_MODES`].
    Characterizing,
    /// Every mode of the board.
    All,
    /// This number of modes, drawn at random from all modes of the board.
    Random(usize),
    /// One mode: online cores, and CPU, GPU and memory clock in kHz.
    One([u32; 4]),
}

/// The board of Characterizing's modes.
const CHARACTERIZED: &str = "xavier-agx";

/// The modes of Characterizing's Table 3 by their labels: online cores, and CPU, GPU and memory clock in
/// MHz.
pub const CHARACTERIZING_MODES: [(&str, [u32; 4]); 14] = [
    ("a", [4, 1200, 670, 1333]),
    ("b", [8, 1200, 670, 1333]),
    ("c", [8, 1200, 900, 1333]),
    ("d", [8, 1200, 900, 1600]),
    ("e", [8, 2100, 900, 1600]),
    ("f", [2, 2100, 900, 1600]),
    ("g", [8, 2265, 1377, 2133]),
    ("h", [8, 2265, 1377, 1066]),
    ("i", [8, 2265, 1377, 1333]),
    ("j", [8, 2265, 1377, 1600]),
    ("k", [4, 1036, 420, 2133]),
    ("l", [8, 1036, 420, 2133]),
    ("m", [8, 2265, 420, 2133]),
    ("n", [8, 2265, 900, 2133]),
];

/// The mode of a board whose clocks are nearest to those of [`CHARACTERIZING_MODES`].
pub fn nearest(board: &Board, [cores, mhz @ ..]: [u32; 4]) -> [u32; 4] {
    let nearest = |axis: &[u32], mhz: u32| {
        let by = |khz: &&u32| khz.abs_diff(1000 * mhz);
        *axis.iter().min_by_key(by).expect("a table")
    };
    [
        cores,
        nearest(&board.cpu_khz, mhz[0]),
        nearest(&board.gpu_khz, mhz[1]),
        nearest(&board.emc_khz, mhz[2]),
    ]
}

/// How a workload is fed: what its loader and storage do, apart from the power mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Feeding {
    /// Samples in a minibatch.
    pub minibatch: u32,
    /// Loader workers.
    pub workers: u32,
    /// Storage of the data set, and the epoch; `None` if the data set is in the page cache.
    pub storage: Option<(Storage, Epoch)>,
}

impl Feeding {
    /// Returns the workload as it runs on a board with this feeding. Refuses a minibatch for which the board
    /// has too little memory.
    pub fn apply(&self, workload: &Workload, board: &Board) -> Result<Workload, WorkloadError> {
        let workload = workload.clone().with_minibatch(self.minibatch)?;
        let workload = workload.with_workers(self.workers)?;
        workload.fits(board)?;
        match self.storage {
            Some((storage, epoch)) => workload.stored_on(&storage, epoch, board),
            None => Ok(workload),
        }
    }
}

/// Why modes cannot be selected.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ModesError {
    /// No paper profiled this board.
    #[error("no paper profiled `{board}`; take all or random:N modes")]
    NoPaper { board: String },
    /// The number of modes is zero, or more than the board has.
    #[error("cannot profile {asked} modes: `{board}` has {available}; ask for 1 to {available}")]
    OutOfRange {
        board: String,
        asked: usize,
        available: usize,
    },
    /// The mode is not one of the board.
    #[error("{} is not a mode of `{board}`, whose clocks in kHz `--modes all` lists", mode.map(|value| value.to_string()).join(","))]
    NotOfBoard { board: String, mode: [u32; 4] },
}

impl Modes {
    /// Selects modes of a board, in ascending order of their knobs.
    pub fn select(self, board: &Board, seed: u64) -> Result<Vec<[u32; 4]>, ModesError> {
        let number = match self {
            Self::All => return Ok(board.all_modes()),
            Self::Random(number) => number,
            Self::One(mode) => {
                let mut axes = board.axes().into_iter().zip(mode);
                return match axes.all(|(axis, knob)| axis.contains(&knob)) {
                    true => Ok(vec![mode]),
                    false => Err(ModesError::NotOfBoard {
                        board: board.name.clone(),
                        mode,
                    }),
                };
            }
            Self::Characterizing if board.name == CHARACTERIZED => {
                let ten = CHARACTERIZING_MODES[..10].iter();
                let mut modes: Vec<_> = ten.map(|(_, mode)| nearest(board, *mode)).collect();
                modes.sort_unstable();
                return Ok(modes);
            }
            Self::Characterizing => {
                return Err(ModesError::NoPaper {
                    board: board.name.clone(),
                });
            }
            Self::Papers => match board.papers.as_ref().map(|papers| papers.random) {
                Some(Some(number)) => number,
                Some(None) => return Ok(board.papers_modes()),
                None => {
                    return Err(ModesError::NoPaper {
                        board: board.name.clone(),
                    });
                }
            },
        };
        let mut modes = board.all_modes();
        if !(1..=modes.len()).contains(&number) {
            return Err(ModesError::OutOfRange {
                board: board.name.clone(),
                asked: number,
                available: modes.len(),
            });
        }
        modes.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        modes.truncate(number);
        modes.sort_unstable();
        Ok(modes)
    }
}

/// The columns of every corpus.
const CORPUS_COLUMNS: &str = "device,workload,cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw,kind,minibatch,unit,tpc_pg_mask";

/// The columns that tell how a workload is fed and where the time of a step goes. `fetch_ms` is the wait
/// for the loader; `epoch` is 0 for the first one and 1 for later ones.
const FED_COLUMNS: &str = "fetch_ms,compute_ms,workers,storage,epoch";

/// The id of a unit, and the mask of its TPCs: a profiled board has as many as any preset leaves.
fn state(board: &Board, unit: &Unit) -> String {
    let mask = board.ungated().tpc_pg_mask.map(|mask| mask.to_string());
    format!("{},{}", unit.id(), mask.unwrap_or_default())
}

/// Formats profiles of one workload, fed in several ways, as the CSV text of a corpus with the columns
/// `fetch_ms,compute_ms,workers,storage,epoch`.
pub fn fed_csv(
    board: &Board,
    unit: &Unit,
    workload: &str,
    runs: &[(Feeding, Vec<Profile>)],
) -> String {
    let (state, kind) = (state(board, unit), board.figures());
    let mut text = format!("{CORPUS_COLUMNS},{FED_COLUMNS}\n");
    for (feeding, profiles) in runs {
        let storage = feeding.storage.map_or("", |(storage, _)| storage.name);
        let epoch = feeding.storage.map_or(Epoch::Later, |(_, epoch)| epoch);
        for profile in profiles {
            let [cores, cpu, gpu, emc] = profile.knobs;
            writeln!(
                text,
                "{},{workload},{cores},{cpu},{gpu},{emc},{:.4},{:.1},{kind},{},{state},{:.4},{:.4},{},{storage},{}",
                board.name,
                profile.time_ms,
                profile.power_mw,
                feeding.minibatch,
                profile.fetch_ms,
                profile.compute_ms,
                feeding.workers,
                epoch.number(),
            )
            .expect("a string takes all text");
        }
    }
    text
}

/// Adds the powers of the idle board in some modes to the CSV text of a corpus of one feeding: a column, and a row for each.
pub fn with_idle(
    corpus: &str,
    board: &Board,
    unit: &Unit,
    workload: &Workload,
    idle: &[([u32; 4], f64)],
) -> String {
    let mut lines = corpus.lines();
    let header = lines.next().unwrap_or_default();
    let mut text = format!("{header},idle_mw\n");
    for line in lines {
        writeln!(text, "{line},").expect("a string takes all text");
    }
    let (state, kind) = (state(board, unit), board.figures());
    for ([cores, cpu, gpu, emc], power_mw) in idle {
        writeln!(
            text,
            "{},{},{cores},{cpu},{gpu},{emc},,,{kind},{},{state},{power_mw:.1}",
            board.name, workload.name, workload.minibatch
        )
        .expect("a string takes all text");
    }
    text
}

/// Formats profiles as the CSV text of a corpus.
pub fn csv(board: &Board, unit: &Unit, workload: &Workload, profiles: &[Profile]) -> String {
    let (state, kind) = (state(board, unit), board.figures());
    let mut text = format!("{CORPUS_COLUMNS}\n");
    for profile in profiles {
        let [cores, cpu, gpu, emc] = profile.knobs;
        writeln!(
            text,
            "{},{},{cores},{cpu},{gpu},{emc},{:.4},{:.1},{kind},{},{state}",
            board.name, workload.name, profile.time_ms, profile.power_mw, workload.minibatch
        )
        .expect("a string takes all text");
    }
    text
}
