//! Writes profiled modes as a corpus: the common CSV format, with the kind `simulated` in every
//! row.

use std::fmt::Write;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use thiserror::Error;

use crate::profile::Profile;
use crate::workload::Workload;
use wattgate_board_tables::Board;

/// Selection of the modes to profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modes {
    /// The modes that the papers profiled.
    Papers,
    /// Every mode of the board.
    All,
    /// This number of modes, drawn at random from all modes of the board.
    Random(usize),
}

/// Why modes cannot be selected.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ModesError {
    /// No paper profiled this board.
    #[error("no paper profiled `{board}`; take all or random:N modes")]
    NoPaper { board: String },
    /// The number of modes is zero, or more than the board has.
    #[error("cannot profile {asked} modes: `{board}` has {available}")]
    OutOfRange {
        board: String,
        asked: usize,
        available: usize,
    },
}

impl Modes {
    /// Selects modes of a board, in ascending order of their knobs.
    pub fn of(self, board: &Board, seed: u64) -> Result<Vec<[u32; 4]>, ModesError> {
        let number = match self {
            Self::All => return Ok(board.all_modes()),
            Self::Random(number) => number,
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

/// Formats profiles as the CSV text of a corpus.
pub fn csv(board: &Board, workload: &Workload, profiles: &[Profile]) -> String {
    let mut text = String::from(
        "device,workload,cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw,kind,minibatch\n",
    );
    for profile in profiles {
        let [cores, cpu, gpu, emc] = profile.knobs;
        writeln!(
            text,
            "{},{},{cores},{cpu},{gpu},{emc},{:.4},{:.1},simulated,{}",
            board.name, workload.name, profile.time_ms, profile.power_mw, workload.minibatch
        )
        .expect("a string takes all text");
    }
    text
}
